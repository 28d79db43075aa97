/* Whether of most of `count` segments, which end at ends[0], ends[1], ... one behind the other, the next seven are as
   long, and none is longer than 8: 32 of them say so. */
static inline bool spfgen_even_TYPE(const TYPE_t *ends, int64_t count) {
    if (count < 256) {
        return false;
    }
    const int64_t step = (count - 8) / 32;
    int even = 0;
    for (int k = 0; k < 32; k++) {
        const TYPE_t *const at = ends + k * step;
        const int64_t length = (int64_t)at[1] - at[0];
        even += length > 0 && length <= 8 && (int64_t)at[8] - at[0] == 8 * length;
    }
    return even >= 16;
}
