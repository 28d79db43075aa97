/* a / n rounded down, for n > 0. */
static inline int64_t spfgen_floor_div(int64_t a, int64_t n) {
    return a / n - (a % n < 0);
}
