static inline int64_t spfgen_max(int64_t a, int64_t b) {
    return a > b ? a : b;
}
