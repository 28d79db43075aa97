/* Builds the filter of the table of [low, high) in `filter`, whatever it holds: the shift is
   spfgen_hash_shift(high - low), and there are spfgen_hash_filter_words(high - low) words or more. */
static inline void spfgen_hash_filter_build_TYPE(uint64_t *filter, int shift, const TYPE_t *array, int64_t base, int64_t low,
                                                 int64_t high) {
    const int64_t last = (int64_t)(UINT64_MAX >> shift) / 8;
    for (int64_t w = 0; w <= last; w++) {
        filter[w] = 0;
    }
    for (int64_t p = low; p < high; p++) {
        const uint64_t bit = spfgen_hash_bit(shift, array[base + p]);
        filter[bit >> 6] |= UINT64_C(1) << (bit & 63);
    }
}
