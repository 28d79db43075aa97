/* Makes all words zero that have the bit of an array[base + p] with p in [low, high). */
static inline void spfgen_bitmap_clear_TYPE(uint64_t *words, const TYPE_t *array, int64_t base, int64_t low, int64_t high) {
    for (int64_t p = low; p < high; p++) {
        words[array[base + p] >> 6] = 0;
    }
}
