/* A bitmap over keys in [0, n): one bit for each. All words are zero between two uses. */
/* The number of words of a bitmap for keys in [0, n). */
static inline int64_t spfgen_bitmap_words(int64_t n) {
    return n / 64 + (n % 64 > 0);
}
