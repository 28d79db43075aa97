/* Whether an index array of `count` numbers leads far apart: in most of eight stretches of twice `window` numbers, of
   which up to 32 are looked at, the least and the largest differ by more than `window`. */
static inline bool spfgen_spread_TYPE(const TYPE_t *array, int64_t count, int64_t window) {
    window = window > 2 ? window : 2;
    if (count < 2 * window) {
        return false;
    }
    int far = 0;
    for (int k = 0; k < 8; k++) {
        const TYPE_t *at = array + (count - 2 * window) / 7 * k;
        int64_t least = at[0], largest = at[0];
        for (int64_t n = 0; n < 2 * window; n += 1 + window / 16) {
            least = at[n] < least ? at[n] : least;
            largest = at[n] > largest ? at[n] : largest;
        }
        far += largest - least > window;
    }
    return far >= 4;
}
