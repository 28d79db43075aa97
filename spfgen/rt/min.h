static inline int64_t spfgen_min(int64_t a, int64_t b) {
    return a < b ? a : b;
}
