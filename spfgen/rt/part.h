/* Where part `part` of `parts` equal parts of [low, high) begins. */
static inline int64_t spfgen_part(int64_t low, int64_t high, int part, int parts) {
    const int64_t length = high > low ? high - low : 0;
    return low + length / parts * part + length % parts * part / parts;
}
