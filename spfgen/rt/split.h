/* The same, but a part may begin within an iteration that is long: at *at in [array[i], array[i + 1]]. */
static inline int64_t spfgen_split_TYPE(const TYPE_t *array, int64_t low, int64_t high, int64_t each, int part,
                                        int parts, int64_t *at) {
    int64_t i = spfgen_partition_TYPE(array, low, high, each, part, parts);
    *at = array[i];
    if (part > 0 && part < parts && i > low) {
        const int64_t before = array[i - 1];
        const int64_t total = (int64_t)array[high] - (int64_t)array[low] + (high - low) * each;
        const int64_t wanted = total / parts * part + total % parts * part / parts;
        const int64_t inside = wanted - (before - (int64_t)array[low] + (i - 1 - low) * each);
        if (*at - before > total / parts / 8 && inside < *at - before) {
            i--;
            *at = before + inside;
        }
    }
    return i;
}
