/* The first position p in [low, high) with array[base + p] >= key, or high; the array rises there. */
static inline int64_t spfgen_search_TYPE(const TYPE_t *array, int64_t base, int64_t low, int64_t high, int64_t key) {
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (array[base + middle] < key) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}
