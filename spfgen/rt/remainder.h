/* The remainder of a / n rounded down; 0 where n is not positive. */
static inline int64_t spfgen_remainder(int64_t a, int64_t n) {
    const int64_t r = n > 0 ? a % n : 0;
    return r < 0 ? r + n : r;
}
