/* Where part `part` of `parts` begins, where array[i + 1] - array[i] + each adds up to about the same in each. The parts
   cover [low, high) without overlap whatever the array holds: for a larger part the search never ends further left. */
static inline int64_t spfgen_partition_TYPE(const TYPE_t *array, int64_t low, int64_t high, int64_t each,
                                             int part, int parts) {
    if (part <= 0 || part >= parts || low >= high) {
        return part >= parts && low < high ? high : low;
    }
    const int64_t total = (int64_t)array[high] - (int64_t)array[low] + (high - low) * each;
    const int64_t wanted = total / parts * part + total % parts * part / parts;
    const int64_t first = low;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if ((int64_t)array[middle] - (int64_t)array[first] + (middle - first) * each < wanted) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}
