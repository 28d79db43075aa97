/* Whether one of `length` values is one of the `number` in `few`. */
static inline int spfgen_any_TYPE(const TYPE_t *array, int length, const TYPE_t *few, int number) {
    TYPE_t any = 0;
    for (int p = 0; p < length; p++) {
        for (int key = 0; key < number; key++) {
            any |= array[p] == few[key];
        }
    }
    return any != 0;
}

/* Whether the bit of one of 16 values is set. */
static inline int spfgen_any_bit_TYPE(const uint64_t *words, const TYPE_t *array) {
    uint64_t any = 0;
    for (int p = 0; p < 16; p++) {
        any |= words[array[p] >> 6] >> (array[p] & 63);
    }
    return (int)(any & 1);
}

/* Collects in `hits` positions p from *from on, below `to`, whose bit of array[p] is set: some thirty of them (there is
   room for 48), or all that are left. *from becomes the position to go on with, the result is their number. The bits
   are those of the `number` values in `keys`: eight and fewer are quicker to compare, in blocks of 128. */
static inline int spfgen_collect_TYPE(const uint64_t *words, const TYPE_t *keys, int64_t number, const TYPE_t *array,
                                      int64_t *from, int64_t to, int64_t *hits) {
    TYPE_t few[8] = {0};
    for (int key = 0; key < 8 && number > 0; key++) {
        few[key] = keys[key < number ? key : number - 1];
    }
    int count = 0;
    int64_t p = *from;
    while (p < to && count < 32) {
        if (number <= 2) {
            while (to - p >= 128 && !spfgen_any_TYPE(array + p, 128, few, 2)) {
                p += 128;
            }
        } else if (number <= 8) {
            while (to - p >= 128 && !spfgen_any_TYPE(array + p, 128, few, 8)) {
                p += 128;
            }
        }
        const int64_t end = number > 8 || to - p < 128 ? to : p + 128;
        while (p < end && count < 32) {
            const int64_t stop = end - p < 16 ? end : p + 16;
            if (stop - p < 16 || spfgen_any_bit_TYPE(words, array + p)) {
                for (int64_t q = p; q < stop; q++) {
                    hits[count] = q;
                    count += (int)(words[array[q] >> 6] >> (array[q] & 63) & 1);
                }
            }
            p = stop;
        }
    }
    *from = p;
    return count;
}
