/* The number of bits that are set in a word. */
static inline int64_t spfgen_bits(uint64_t word) {
#if defined(__GNUC__)
    return __builtin_popcountll(word);
#else
    word -= word >> 1 & UINT64_C(0x5555555555555555);
    word = (word & UINT64_C(0x3333333333333333)) + (word >> 2 & UINT64_C(0x3333333333333333));
    word = (word + (word >> 4)) & UINT64_C(0x0F0F0F0F0F0F0F0F);
    return (int64_t)(word * UINT64_C(0x0101010101010101) >> 56);
#endif
}

/* The position of a key whose bit is set; `first` counts the bits before each word. */
static inline int64_t spfgen_bitmap_position(const uint64_t *words, const int64_t *first, int64_t key) {
    const uint64_t below = (UINT64_C(1) << (key & 63)) - 1;
    return first[key >> 6] + spfgen_bits(words[key >> 6] & below);
}
