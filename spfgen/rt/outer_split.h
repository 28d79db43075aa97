/* The same, but a part may begin within an iteration that is long: at *at in [array[i], array[i + 1]]. */
static inline int64_t spfgen_outer_split_TYPE(const TYPE_t *array, int64_t low, int64_t high, int64_t position,
                                              int part, int parts, int64_t *at) {
    int64_t i = spfgen_outer_TYPE(array, low, high, position, part, parts);
    *at = array[i];
    if (part > 0 && part < parts && i > low && *at > position) {
        const int64_t before = array[i - 1];
        if (*at - before > ((int64_t)array[high] - (int64_t)array[low]) / parts / 8) {
            i--;
            *at = position;
        }
    }
    return i;
}
