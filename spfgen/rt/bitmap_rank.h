/* Sets the bit of array[base + p] for each p in [low, high), and first[w] to the first position whose bit is in word w,
   where there is one; the array rises strictly there, its keys lie in [0, n), and `first` has as many places as there
   are words: they need no value before, and no reset. */
static inline void spfgen_bitmap_rank_TYPE(uint64_t *words, int64_t *first, const TYPE_t *array, int64_t base, int64_t low,
                                           int64_t high) {
    for (int64_t p = high - 1; p >= low; p--) {
        words[array[base + p] >> 6] |= UINT64_C(1) << (array[base + p] & 63);
        first[array[base + p] >> 6] = p;
    }
}
