/* Whether the bit of any array[p] with p in [from, to) is set; these keys lie in the bitmap. */
static inline int spfgen_any_hit_TYPE(const uint64_t *words, const TYPE_t *array, int64_t from, int64_t to) {
    uint64_t any = 0;
    if (to - from == 16) {
        for (int p = 0; p < 16; p++) {
            any |= words[array[from + p] >> 6] >> (array[from + p] & 63);
        }
    } else {
        for (int64_t p = from; p < to; p++) {
            any |= words[array[p] >> 6] >> (array[p] & 63);
        }
    }
    return (int)(any & 1);
}
