/* a / n rounded down; 0 where n is not positive: what is stored nowhere is not divided. */
static inline int64_t spfgen_quotient(int64_t a, int64_t n) {
    return n > 0 ? a / n - (a % n < 0) : 0;
}
