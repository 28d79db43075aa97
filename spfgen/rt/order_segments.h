/* Sort at most LANES keys, the values with them: the place of each is the number of smaller ones. The loops have a fixed
   length and no branch depends on the data, so that several keys are compared at once; LANES keys can be read.
   1 when two keys are equal: they stay in the order in which they come. */
#define SPFGEN_ORDER_FEW(LANES) \
    static int spfgen_order_##LANES##_PLACE_KEY_VALUE(const KEY *restrict from, const VALUE *restrict of, int count, \
                                    KEY *restrict key, VALUE *restrict value) { \
        KEY own[LANES], place[LANES] = {0}; \
        int twice = 0; \
        memcpy(own, from, sizeof own); \
        for (int r = 0; r < count; r++) { \
            const KEY other = from[r]; \
            for (int p = 0; p < LANES; p++) { \
                place[p] = (KEY)(place[p] + ((other < own[p]) | ((other == own[p]) & (r < p)))); \
            } \
        } \
        for (int p = 0; p < count; p++) { \
            key[place[p]] = from[p]; \
            value[place[p]] = of[p]; \
        } \
        for (int p = 1; p < count; p++) { \
            twice |= key[p - 1] == key[p]; \
        } \
        return twice; \
    }
SPFGEN_ORDER_FEW(8)
SPFGEN_ORDER_FEW(16)
SPFGEN_ORDER_FEW(32)
#undef SPFGEN_ORDER_FEW

/* Sort one segment by its keys, the values with them, to another place. `from` can be read up to 32 keys; `word` has
   room for the segment. 1 when two keys are equal: they stay in the order in which they come. */
static int spfgen_order_segment_PLACE_KEY_VALUE(const KEY *restrict from, const VALUE *restrict of, int64_t count, KEY *restrict key,
                                VALUE *restrict value, uint64_t *restrict word) {
    if (count <= 1) {
        if (count == 1) {
            *key = *from;
            *value = *of;
        }
        return 0;
    }
    if (count == 2) {
        const int first = from[1] < from[0];
        key[0] = from[first];
        key[1] = from[!first];
        value[0] = of[first];
        value[1] = of[!first];
        return from[0] == from[1];
    }
    if (count <= 8) {
        return spfgen_order_8_PLACE_KEY_VALUE(from, of, (int)count, key, value);
    }
    if (count <= 16) {
        return spfgen_order_16_PLACE_KEY_VALUE(from, of, (int)count, key, value);
    }
    if (count <= 32) {
        return spfgen_order_32_PLACE_KEY_VALUE(from, of, (int)count, key, value);
    }
    int places = 1, bits = 1, twice = 0;
    while ((count - 1) >> places) {
        places++;
    }
    KEY highest = from[0], lowest = from[0]; /* which may be below 0 */
    for (int64_t p = 1; p < count; p++) {
        highest = from[p] > highest ? from[p] : highest;
        lowest = from[p] < lowest ? from[p] : lowest;
    }
    while (bits < 63 && ((uint64_t)highest - (uint64_t)lowest) >> bits) {
        bits++;
    }
    for (int64_t p = 0; p < count; p++) {
        word[p] = ((uint64_t)from[p] - (uint64_t)lowest) << places | (uint64_t)p;
    }
    if (bits + places > 64) { /* rare: extents and rows beyond all that there is memory for, but for one of them */
        for (int64_t p = 0; p < count; p++) {
            int64_t q = p;
            for (; q > 0 && key[q - 1] > from[p]; q--) {
                key[q] = key[q - 1];
                value[q] = value[q - 1];
            }
            key[q] = from[p];
            value[q] = of[p];
            twice |= q > 0 && key[q - 1] == key[q];
        }
        return twice;
    }
    spfgen_sort_words(word, count, bits + places);
    for (int64_t p = 0; p < count; p++) {
        key[p] = (KEY)((word[p] >> places) + (uint64_t)lowest);
        value[p] = of[word[p] & ((UINT64_C(1) << places) - 1)];
        twice |= p > 0 && key[p - 1] == key[p];
    }
    return twice;
}

/* Sort every segment in place; they end at stop[]. For each thread `key_copy` has room for `widest` + 32 elements,
   `value_copy` and `word` for `widest` of them. 1 when two keys of a segment are equal. */
static int spfgen_order_segments_PLACE_KEY_VALUE(int64_t groups, const PLACE *restrict stop, KEY *restrict key, VALUE *restrict value,
                          int64_t widest, KEY *restrict key_copy, VALUE *restrict value_copy, uint64_t *restrict word,
                          int parts) {
    int twice = 0;
#pragma omp parallel for schedule(static, 1) num_threads(parts) reduction(| : twice)
    for (int part = 0; part < parts; part++) {
        KEY *own_key = key_copy + part * (widest + 32);
        VALUE *own_value = value_copy + part * widest;
        memset(own_key, 0, 32 * sizeof *own_key);
        const int64_t end = groups / parts * (part + 1) + groups % parts * (part + 1) / parts;
        for (int64_t g = groups / parts * part + groups % parts * part / parts; g < end; g++) {
            const int64_t first = g ? stop[g - 1] : 0, count = stop[g] - first;
            int64_t q = 1;
            while (q < count && key[first + q - 1] < key[first + q]) {
                q++;
            }
            if (q < count) {
                memcpy(own_key, key + first, (size_t)count * sizeof *key);
                memcpy(own_value, value + first, (size_t)count * sizeof *value);
                twice |= spfgen_order_segment_PLACE_KEY_VALUE(own_key, own_value, count, key + first, value + first, word + part * widest);
            }
        }
    }
    return twice;
}

/* The same with memory of its own; -1 where there is none. */
static int spfgen_ordered_PLACE_KEY_VALUE(int64_t groups, const PLACE *restrict stop, KEY *restrict key,
                                          VALUE *restrict value, int64_t widest, int parts) {
    KEY *const keys = (KEY *)malloc((size_t)parts * (size_t)(widest + 32) * sizeof(KEY));
    VALUE *const values = (VALUE *)malloc((size_t)parts * (size_t)(widest + 1) * sizeof(VALUE));
    uint64_t *const word = (uint64_t *)malloc((size_t)parts * (size_t)(widest + 1) * sizeof(uint64_t));
    int twice = -1;
    if (keys && values && word) {
        twice = spfgen_order_segments_PLACE_KEY_VALUE(groups, stop, key, value, widest, keys, values, word, parts);
    }
    free(keys);
    free(values);
    free(word);
    return twice;
}

/* Bring the entries of each bucket of groups to their groups, in the order in which they come, and sort each group if
   `sorts`. Bucket b ends at stop[b] and holds the groups g with g * factor >> 32 == b; `begin` becomes where each group
   begins. For each thread `next` has room for the groups of a bucket, `key_copy` for its entries and 32 more,
   `value_copy` for its entries, `word` too (where groups are sorted). 1 when two keys of a group are equal. */
static int spfgen_finish_buckets_PLACE_KEY_VALUE(int64_t groups, int64_t buckets, uint64_t factor, const PLACE *restrict stop,
                          const int32_t *restrict group_of, KEY *restrict key, VALUE *restrict value,
                          PLACE *restrict begin, int64_t most_groups, int64_t most_entries, PLACE *restrict next,
                          KEY *restrict key_copy, VALUE *restrict value_copy, uint64_t *restrict word, int sorts,
                          int parts) {
    int twice = 0;
    (void)parts;
#pragma omp parallel for schedule(dynamic, 1) num_threads(parts) reduction(| : twice)
    for (int64_t bucket = 0; bucket < buckets; bucket++) {
        const int part = spfgen_thread();
        PLACE *own = next + part * most_groups;
        KEY *own_key = key_copy + part * (most_entries + 32);
        VALUE *own_value = value_copy + part * most_entries;
        const int64_t first = bucket ? stop[bucket - 1] : 0, end = stop[bucket];
        const int64_t low = (int64_t)((((uint64_t)bucket << 32) + factor - 1) / factor);
        int64_t high = (int64_t)(((((uint64_t)bucket + 1) << 32) + factor - 1) / factor);
        high = bucket + 1 == buckets || high > groups ? groups : high;
        for (int64_t g = 0; g < high - low; g++) {
            own[g] = 0;
        }
        for (int64_t q = first; q < end; q++) {
            own[group_of[q] - low]++;
        }
        PLACE total = (PLACE)first;
        for (int64_t g = 0; g < high - low; g++) {
            const PLACE count = own[g];
            begin[low + g] = total;
            own[g] = (PLACE)(total - first);
            total += count;
        }
        for (int64_t q = first; q < end; q++) {
            const int64_t place = own[group_of[q] - low]++;
            own_key[place] = key[q];
            own_value[place] = value[q];
        }
        if (!sorts) {
            memcpy(key + first, own_key, (size_t)(end - first) * sizeof *key);
            memcpy(value + first, own_value, (size_t)(end - first) * sizeof *value);
            continue;
        }
        memset(own_key + (end - first), 0, 32 * sizeof *own_key);
        for (int64_t g = 0; g < high - low; g++) {
            const int64_t here = begin[low + g] - first;
            twice |= spfgen_order_segment_PLACE_KEY_VALUE(own_key + here, own_value + here, own[g] - here, key + first + here,
                                          value + first + here, word + part * most_entries);
        }
    }
    return twice;
}

/* The same with memory of its own, of which a bucket has at most so many entries; -1 where there is none. */
static int spfgen_bucketed_PLACE_KEY_VALUE(int64_t groups, int64_t buckets, uint64_t factor, const PLACE *restrict stop,
                                           const int32_t *restrict group_of, KEY *restrict key, VALUE *restrict value,
                                           PLACE *restrict begin, int64_t most, int sorts, int parts) {
    const int64_t most_groups = 2 + (int64_t)((UINT64_C(1) << 32) / factor);
    PLACE *const next = (PLACE *)malloc((size_t)parts * (size_t)most_groups * sizeof(PLACE));
    KEY *const keys = (KEY *)malloc((size_t)parts * (size_t)(most + 32) * sizeof(KEY));
    VALUE *const values = (VALUE *)malloc((size_t)parts * (size_t)(most + 1) * sizeof(VALUE));
    uint64_t *const word = (uint64_t *)malloc((size_t)parts * (size_t)(most + 1) * sizeof(uint64_t));
    int twice = -1;
    if (next && keys && values && word) {
        twice = spfgen_finish_buckets_PLACE_KEY_VALUE(groups, buckets, factor, stop, group_of, key, value, begin,
                                                      most_groups, most, next, keys, values, word, sorts, parts);
    }
    free(next);
    free(keys);
    free(values);
    free(word);
    return twice;
}
