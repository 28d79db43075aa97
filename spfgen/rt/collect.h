/* Adds to `hits` the positions p in [from, to) whose bit of array[p] is set, to - from <= 16; `count` is how many there
   are already, the result how many there are then. Sixteen places behind the last are overwritten. The bits are those
   of the `number` values in `keys`: a single one is quicker to compare. */
static inline int spfgen_collect_TYPE(const uint64_t *words, const TYPE_t *keys, int64_t number, const TYPE_t *array,
                                      int64_t from, int64_t to, int64_t *hits, int count) {
    if (to - from == 16) {
        uint64_t any = 0;
        if (number == 1) {
            TYPE_t same = 0;
            for (int p = 0; p < 16; p++) {
                same |= array[from + p] == keys[0];
            }
            any = (uint64_t)same;
        } else {
            for (int p = 0; p < 16; p++) {
                any |= words[array[from + p] >> 6] >> (array[from + p] & 63);
            }
        }
        if (!(any & 1)) {
            return count;
        }
    }
    for (int64_t p = from; p < to; p++) {
        hits[count] = p;
        count += (int)(words[array[p] >> 6] >> (array[p] & 63) & 1);
    }
    return count;
}
