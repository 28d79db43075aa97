/* Keys of entries: their order, sorting them, counting ranks. A key is up to 64 bits; see layout/keys.py. */
/* 2 when the keys ascend strictly, 1 when equal ones stand side by side, 0 when they are out of order. */
static int spfgen_keys_order(int64_t count, const uint64_t *restrict key, int threads) {
    int64_t falls = 0, stays = 0;
    (void)threads;
#pragma omp parallel for num_threads(threads) reduction(+ : falls, stays)
    for (int64_t q = 1; q < count; q++) {
        falls += key[q] < key[q - 1];
        stays += key[q] == key[q - 1];
    }
    return falls ? 0 : stays ? 1 : 2;
}

/* Sort the keys, equal ones in the order in which they come; `from` tells where each was before.
   The keys have `bits` bits, the first `lead` of which choose a bucket; a word holds the others and the place:
   bits - lead + the bits of a place are at most 64. `word` has room for a word for each key,
   `start` for threads * 2^lead + 1 numbers. */
static void spfgen_keys_sort(int64_t count, int bits, int lead, uint64_t *restrict key, uint32_t *restrict from,
                      uint64_t *restrict word, int64_t *restrict start, int threads) {
    const int64_t buckets = INT64_C(1) << lead;
    const int rest = bits - lead;
    int places = 1;
    while ((count - 1) >> places) {
        places++;
    }
    const uint64_t low = rest < 64 ? (UINT64_C(1) << rest) - 1 : UINT64_MAX;
#pragma omp parallel for schedule(static, 1) num_threads(threads)
    for (int part = 0; part < threads; part++) {
        int64_t *own = start + part * buckets;
        memset(own, 0, (size_t)buckets * sizeof *own);
        const int64_t end = count / threads * (part + 1) + count % threads * (part + 1) / threads;
        for (int64_t q = count / threads * part + count % threads * part / threads; q < end; q++) {
            own[lead ? key[q] >> rest : 0]++;
        }
    }
    int64_t total = 0;
    for (int64_t b = 0; b < buckets; b++) {
        for (int part = 0; part < threads; part++) {
            const int64_t here = start[part * buckets + b];
            start[part * buckets + b] = total;
            total += here;
        }
    }
#pragma omp parallel for schedule(static, 1) num_threads(threads)
    for (int part = 0; part < threads; part++) {
        int64_t *own = start + part * buckets;
        const int64_t end = count / threads * (part + 1) + count % threads * (part + 1) / threads;
        for (int64_t q = count / threads * part + count % threads * part / threads; q < end; q++) {
            word[own[lead ? key[q] >> rest : 0]++] = (key[q] & low) << places | (uint64_t)q;
        }
    }
    /* The last part has moved its starts to the ends of the buckets. */
    const int64_t *stop = start + (threads - 1) * buckets;
#pragma omp parallel for schedule(dynamic, 4) num_threads(threads)
    for (int64_t b = 0; b < buckets; b++) {
        const int64_t first = b ? stop[b - 1] : 0;
        spfgen_sort_words(word + first, stop[b] - first, rest + places);
        const uint64_t head = lead ? (uint64_t)b << rest : 0;
        for (int64_t q = first; q < stop[b]; q++) {
            key[q] = head | word[q] >> places;
            from[q] = (uint32_t)(word[q] & ((UINT64_C(1) << places) - 1));
        }
    }
}

/* Where each of some parts of the sorted keys begins: all keys with equal bits from `align` up are in one part. */
static void spfgen_keys_parts(int64_t count, const uint64_t *restrict key, int align, int parts, int64_t *restrict start) {
    start[0] = 0;
    for (int part = 1; part < parts; part++) {
        int64_t q = count / parts * part + count % parts * part / parts;
        q = q < start[part - 1] ? start[part - 1] : q;
        while (q > 0 && q < count && key[q] >> align == key[q - 1] >> align) {
            q++;
        }
        start[part] = q;
    }
    start[parts] = count;
}

/* How many different values the bits from `cut` up have in each part. */
static void spfgen_keys_count(const uint64_t *restrict key, int cut, int parts, const int64_t *restrict start,
                       int64_t *restrict found) {
#pragma omp parallel for schedule(static, 1) num_threads(parts)
    for (int part = 0; part < parts; part++) {
        int64_t total = start[part] == 0 && start[part + 1] > 0;
        for (int64_t q = start[part] ? start[part] : 1; q < start[part + 1]; q++) {
            total += key[q] >> cut != key[q - 1] >> cut;
        }
        found[part] = total;
    }
}

/* The most different values of the bits from `cut` up among keys with equal bits from `group` up. */
static int64_t spfgen_keys_widest(const uint64_t *restrict key, int cut, int group, int parts,
                           const int64_t *restrict start) {
    int64_t widest = 0;
#pragma omp parallel for schedule(static, 1) num_threads(parts) reduction(max : widest)
    for (int part = 0; part < parts; part++) {
        int64_t width = 0;
        for (int64_t q = start[part]; q < start[part + 1]; q++) {
            if (q == start[part] || key[q] >> group != key[q - 1] >> group) {
                width = 1;
            } else {
                width += key[q] >> cut != key[q - 1] >> cut;
            }
            widest = width > widest ? width : widest;
        }
    }
    return widest;
}
