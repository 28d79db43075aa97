/* The first position p in [from, high) with array[base + p] <= key, or high; the array falls there, and from <= high.
   Looks at `from` first and then in doubling steps: quick when the position is near. */
static inline int64_t spfgen_gallop_down_TYPE(const TYPE_t *array, int64_t base, int64_t from, int64_t high, int64_t key) {
    int64_t step = 1;
    while (step <= high - from && array[base + from + (step - 1)] > key) {
        from += step;
        step *= 2;
    }
    high = step <= high - from ? from + (step - 1) : high;
    while (from < high) {
        const int64_t middle = from + (high - from) / 2;
        if (array[base + middle] > key) {
            from = middle + 1;
        } else {
            high = middle;
        }
    }
    return from;
}
