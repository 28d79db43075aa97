/* The remainder of a / n rounded down, for n > 0: never negative. */
static inline int64_t spfgen_floor_mod(int64_t a, int64_t n) {
    const int64_t r = a % n;
    return r < 0 ? r + n : r;
}
