/* Whether the bit of the key is set, for a key in [0, n). */
static inline int spfgen_bitmap_has(const uint64_t *words, int64_t key) {
    return (int)(words[key >> 6] >> (key & 63) & 1);
}
