/* Sets the bit of array[base + p] for each p in [low, high); these keys lie in [0, n). */
static inline void spfgen_bitmap_set_TYPE(uint64_t *words, const TYPE_t *array, int64_t base, int64_t low, int64_t high) {
    for (int64_t p = low; p < high; p++) {
        words[array[base + p] >> 6] |= UINT64_C(1) << (array[base + p] & 63);
    }
}
