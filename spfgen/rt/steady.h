/* Whether `count` segments, which begin at begins[0], begins[1], ..., are mostly about as long as their neighbours: 32 of
   them say so. Of few segments a processor remembers the lengths. */
static inline bool spfgen_steady_TYPE(const TYPE_t *begins, int64_t count) {
    if (count < 256) {
        return true;
    }
    const int64_t step = (count - 2) / 32;
    int64_t all = 0, apart = 0;
    for (int k = 0; k < 32; k++) {
        const TYPE_t *const at = begins + k * step;
        const int64_t length = (int64_t)at[1] - at[0];
        const int64_t other = (int64_t)at[2] - at[1];
        all += length;
        apart += length < other ? other - length : length - other;
    }
    return 10 * apart <= 3 * all;
}
