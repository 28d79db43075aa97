/* The first i of [low, high] with array[i] >= position, where part `part` of `parts` begins; the first and the last
   part begin and end with the range. */
static inline int64_t spfgen_outer_TYPE(const TYPE_t *array, int64_t low, int64_t high, int64_t position, int part,
                                        int parts) {
    if (part <= 0) {
        return low;
    }
    if (part >= parts) {
        return high;
    }
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if ((int64_t)array[middle] < position) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}
