/* Bit j says whether the bit of array[from + j] is set in the bitmap, for from <= from + j < to; to - from <= 64, and
   these keys lie in [0, n). */
static inline uint64_t spfgen_hits_TYPE(const uint64_t *words, const TYPE_t *array, int64_t from, int64_t to) {
    uint64_t hits = 0;
    for (int64_t j = 0; j < to - from; j++) {
        hits |= (words[array[from + j] >> 6] >> (array[from + j] & 63) & 1) << j;
    }
    return hits;
}
