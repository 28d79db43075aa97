/* Whether `count` segments, from begins[0], begins[1], ... on, are about as long as their neighbours: two differ by `most`
   of their sum, on the average of 32. Of few segments a processor remembers the lengths. */
static inline bool spfgen_predictable_TYPE(const TYPE_t *begins, int64_t count, double most) {
    if (count < TUNED_PREDICTED_SEGMENTS) {
        return true;
    }
    const int64_t step = (count - 2) / 32;
    double different = 0.0;
    int seen = 0;
    for (int k = 0; k < 32; k++) {
        const TYPE_t *const at = begins + k * step;
        const double length = (double)at[1] - (double)at[0], other = (double)at[2] - (double)at[1];
        if (length + other > 0.0) {
            different += (length < other ? other - length : length - other) / (length + other);
            seen++;
        }
    }
    return different <= seen * most;
}
