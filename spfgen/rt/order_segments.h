/* Sort one segment by its keys, the values with them. 1 when two keys are equal. */
static int spfgen_order_segment(KEY *restrict key, VALUE *restrict value, int64_t count, uint64_t *restrict word,
                                VALUE *restrict copy) {
    int64_t q = 1;
    while (q < count && key[q - 1] < key[q]) {
        q++;
    }
    if (q >= count) {
        return 0;
    }
    int twice = 0;
    if (count <= 16) {
        /* The place of each is the number of smaller ones; no branch depends on the data. */
        KEY own[16];
        VALUE moved[16];
        int64_t sum = 0;
        for (int64_t p = 0; p < count; p++) {
            own[p] = key[p];
            moved[p] = value[p];
        }
        for (int64_t p = 0; p < count; p++) {
            int64_t place = 0;
            for (int64_t r = 0; r < count; r++) {
                place += own[r] < own[p];
            }
            key[place] = own[p];
            value[place] = moved[p];
            sum += place;
        }
        return sum != count * (count - 1) / 2;
    }
    if (count <= 48) {
        for (; q < count; q++) {
            const KEY own = key[q];
            const VALUE moved = value[q];
            int64_t hole = q;
            while (hole > 0 && key[hole - 1] > own) {
                key[hole] = key[hole - 1];
                value[hole] = value[hole - 1];
                hole--;
            }
            key[hole] = own;
            value[hole] = moved;
            twice |= hole > 0 && key[hole - 1] == own;
        }
        return twice;
    }
    int places = 1, bits = 1;
    while ((count - 1) >> places) {
        places++;
    }
    KEY highest = 0;
    for (int64_t p = 0; p < count; p++) {
        highest = key[p] > highest ? key[p] : highest;
        word[p] = (uint64_t)key[p] << places | (uint64_t)p;
        copy[p] = value[p];
    }
    while (bits < 63 && (int64_t)highest >> bits) {
        bits++;
    }
    spfgen_sort_words(word, count, bits + places);
    for (int64_t p = 0; p < count; p++) {
        key[p] = (KEY)(word[p] >> places);
        value[p] = copy[word[p] & ((UINT64_C(1) << places) - 1)];
        twice |= p > 0 && key[p - 1] == key[p];
    }
    return twice;
}

/* Sort every segment, which end at stop[]; `word` and `copy` have room for `widest` elements for each thread.
   1 when two keys of a segment are equal. */
int spfgen_order_segments(int64_t groups, const PLACE *restrict stop, KEY *restrict key, VALUE *restrict value,
                          uint64_t *restrict word, VALUE *restrict copy, int64_t widest, int parts) {
    int twice = 0;
#pragma omp parallel for schedule(static, 1) num_threads(parts) reduction(| : twice)
    for (int part = 0; part < parts; part++) {
        const int64_t end = groups / parts * (part + 1) + groups % parts * (part + 1) / parts;
        for (int64_t g = groups / parts * part + groups % parts * part / parts; g < end; g++) {
            const int64_t first = g ? stop[g - 1] : 0;
            twice |= spfgen_order_segment(key + first, value + first, stop[g] - first, word + part * widest,
                                          copy + part * widest);
        }
    }
    return twice;
}
