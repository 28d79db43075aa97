/* The number of the lowest bit that is set in a word, which is not zero. */
static inline int64_t spfgen_lowest(uint64_t word) {
#if defined(__GNUC__)
    return __builtin_ctzll(word);
#else
    int64_t number = 0;
    while ((word >> number & 1) == 0) {
        number++;
    }
    return number;
#endif
}
