/* Which bit of a word, which is not zero, is the lowest that is set. */
static inline int spfgen_lowest(uint64_t word) {
#ifdef __GNUC__
    return __builtin_ctzll(word);
#else
    int bit = 0;
    for (; !(word & 1); word >>= 1) {
        bit++;
    }
    return bit;
#endif
}

/* The entries of one row, or of whatever has all coordinates but one in common: each key once, in the order in which they
   came first. `place` has for each key, or for each slot of a hash table (`shift` is not 0 then), where it stands, plus
   one. All zero before spfgen_row_start. */
typedef struct spfgen_row {
    int64_t count, room, slots;
    int64_t *keys;
    char *values;
    uint64_t *words, *spare;
    uint64_t *map;
    int32_t *place;
    int shift;
    int failed;
    int64_t bytes;           /* that it takes */
    spfgen_appended *counted; /* where they are counted */
} spfgen_row;

/* So many bytes more; false where there would be too many. */
static bool spfgen_row_count(spfgen_row *row, int64_t bytes) {
    const bool may = spfgen_appended_count(row->counted, bytes) >= 0;
    row->bytes += may ? bytes : 0;
    return may;
}

/* For keys below `extent`; a table where there would be too many of them. */
static bool spfgen_row_start(spfgen_row *row, spfgen_appended *entries, int64_t extent, bool hashed) {
    if (!row->place && !row->failed) {
        row->counted = entries->whole ? entries->whole : entries;
        row->shift = hashed ? 58 : 0;
        row->slots = hashed ? 64 : extent > 0 ? extent : 1;
        if (spfgen_row_count(row, 4 * row->slots)) {
            row->place = (int32_t *)calloc((size_t)row->slots, sizeof(int32_t));
        }
        row->failed = !row->place;
    }
    return !row->failed;
}

static void spfgen_rows_free(spfgen_row *rows, int64_t count) {
    for (int64_t k = 0; k < count; k++) {
        if (rows[k].counted) {
            spfgen_appended_count(rows[k].counted, -rows[k].bytes);
        }
        free(rows[k].keys);
        free(rows[k].values);
        free(rows[k].words);
        free(rows[k].spare);
        free(rows[k].map);
        free(rows[k].place);
    }
}

static inline int64_t spfgen_row_slot(const spfgen_row *row, int64_t key) {
    if (!row->shift) {
        return key;
    }
    int64_t s = (int64_t)(((uint64_t)key * UINT64_C(0x9E3779B97F4A7C15)) >> row->shift);
    while (row->place[s] && row->keys[row->place[s] - 1] != key) {
        s = (s + 1) & (row->slots - 1);
    }
    return s;
}

/* Room for twice as many. */
static bool spfgen_row_grow(spfgen_row *row, size_t size) {
    const int64_t room = row->room ? 2 * row->room : 32;
    const bool may = room < INT32_MAX && spfgen_row_count(row, (room - row->room) * (int64_t)(24 + size));
    int64_t *const keys = may ? (int64_t *)realloc(row->keys, (size_t)room * sizeof(int64_t)) : NULL;
    row->keys = keys ? keys : row->keys;
    char *const values = keys ? (char *)realloc(row->values, (size_t)room * size) : NULL;
    row->values = values ? values : row->values;
    uint64_t *const words = values ? (uint64_t *)realloc(row->words, (size_t)room * sizeof(uint64_t)) : NULL;
    row->words = words ? words : row->words;
    uint64_t *const spare = words ? (uint64_t *)realloc(row->spare, (size_t)room * sizeof(uint64_t)) : NULL;
    row->spare = spare ? spare : row->spare;
    bool done = spare != NULL;
    if (done && row->shift && 2 * room > row->slots) {
        const bool more = spfgen_row_count(row, 4 * row->slots);
        int32_t *const place = more ? (int32_t *)calloc((size_t)(2 * row->slots), sizeof(int32_t)) : NULL;
        done = place != NULL;
        if (done) {
            free(row->place);
            row->place = place;
            row->slots *= 2;
            row->shift--;
            for (int64_t q = 0; q < row->count; q++) {
                place[spfgen_row_slot(row, row->keys[q])] = (int32_t)(q + 1);
            }
        }
    }
    row->room = done ? room : row->room;
    row->failed |= !done;
    return done;
}

/* Where the value of a key stands: behind all others when it is new; -1 where there is no memory for it. */
static inline int64_t spfgen_row_place(spfgen_row *row, int64_t key, size_t size) {
    int64_t s = spfgen_row_slot(row, key);
    if (row->place[s]) {
        return row->place[s] - 1;
    }
    if (row->count == row->room) {
        if (row->failed || !spfgen_row_grow(row, size)) {
            return -1;
        }
        s = spfgen_row_slot(row, key);
    }
    const int64_t place = row->count++;
    row->keys[place] = key;
    row->place[s] = (int32_t)row->count;
    return place;
}

/* Sort words that all differ, of which neighbours often rise already: runs are merged. The result is in either array. */
static uint64_t *spfgen_row_sort(uint64_t *word, uint64_t *spare, int64_t count) {
    for (;;) {
        int64_t first = 0, runs = 0;
        while (first < count) {
            int64_t middle = first + 1;
            while (middle < count && word[middle - 1] < word[middle]) {
                middle++;
            }
            int64_t end = middle < count ? middle + 1 : middle;
            while (end < count && word[end - 1] < word[end]) {
                end++;
            }
            int64_t a = first, b = middle, to = first;
            while (a < middle && b < end) {
                const uint64_t x = word[a], y = word[b];
                spare[to++] = x < y ? x : y;
                a += x < y;
                b += x >= y;
            }
            memcpy(spare + to, word + a, (size_t)(middle - a) * sizeof *word);
            to += middle - a;
            memcpy(spare + to, word + b, (size_t)(end - b) * sizeof *word);
            first = end;
            runs++;
        }
        uint64_t *const other = word;
        word = spare;
        spare = other;
        if (runs <= 1) {
            return word;
        }
    }
}

/* Keys that are close together are marked in a map and read off it. */
static inline bool spfgen_row_mark(spfgen_row *row, int64_t *low, int64_t *high) {
    const int64_t count = row->count;
    if (row->shift || count < TUNED_ROW_SORTED) {
        return false;
    }
    int64_t least = row->keys[0], most = row->keys[0];
    for (int64_t q = 1; q < count; q++) {
        const int64_t key = row->keys[q];
        least = key < least ? key : least;
        most = key > most ? key : most;
    }
    if ((most - least) / 64 > TUNED_ROW_WORDS * count) {
        return false;
    }
    if (!row->map) {
        const int64_t words = row->slots / 64 + 1;
        if (spfgen_row_count(row, 8 * words)) {
            row->map = (uint64_t *)calloc((size_t)words, sizeof(uint64_t));
        }
        if (!row->map) {
            return false;
        }
    }
    for (int64_t q = 0; q < count; q++) {
        row->map[row->keys[q] / 64] |= UINT64_C(1) << row->keys[q] % 64;
    }
    *low = least / 64;
    *high = most / 64;
    return true;
}

/* The entries of the row, by rising keys (`ordered`, else as they came), behind those that are there, with the coordinates that they have in common: `axis`
   is that of the keys. The row is empty then. */
static inline void spfgen_row_end(spfgen_row *row, spfgen_appended *entries, const int64_t *common, int axis, int rank,
                                  int64_t extent, size_t size, bool ordered) {
    const int64_t count = row->count, first = entries->count;
    entries->failed |= row->failed;
    bool rises = true;
    for (int64_t q = 1; ordered && q < count; q++) {
        rises &= row->keys[q - 1] < row->keys[q];
    }
    int bits = 1, top = 1;
    while (bits < 63 && count >> bits) {
        bits++;
    }
    while (top < 63 && extent >> top) {
        top++;
    }
    if (count > 0 && !entries->failed
        && (first + count <= entries->capacity || spfgen_appended_grow(entries, count, rank, size))
        && (!entries->grouped || spfgen_appended_group(entries, common[0], first + count))) {
        const bool narrow = entries->narrow != 0;
        int64_t *const keys = entries->at[axis] + (narrow ? 0 : first);
        int32_t *const narrow_keys = (int32_t *)(void *)entries->at[axis] + (narrow ? first : 0);
        char *const values = (char *)entries->values + (size_t)first * size;
        int64_t low = 0, high = 0;
        if (rises || bits + top > 64) {
            for (int64_t q = 0; q < count; q++) {
                if (narrow) {
                    narrow_keys[q] = (int32_t)row->keys[q];
                } else {
                    keys[q] = row->keys[q];
                }
            }
            memcpy(values, row->values, (size_t)count * size);
        } else if (spfgen_row_mark(row, &low, &high)) {
            int64_t q = 0;
            for (int64_t w = low; w <= high; w++) {
                uint64_t word = row->map[w];
                row->map[w] = 0;
                for (; word; word &= word - 1, q++) {
                    const int64_t key = 64 * w + spfgen_lowest(word);
                    if (narrow) {
                        narrow_keys[q] = (int32_t)key;
                    } else {
                        keys[q] = key;
                    }
                    memcpy(values + (size_t)q * size, row->values + (size_t)(row->place[key] - 1) * size, size);
                }
            }
        } else {
            for (int64_t q = 0; q < count; q++) {
                row->words[q] = (uint64_t)row->keys[q] << bits | (uint64_t)q;
            }
            const uint64_t *const words = spfgen_row_sort(row->words, row->spare, count);
            for (int64_t q = 0; q < count; q++) {
                const uint64_t place = words[q] & ((UINT64_C(1) << bits) - 1);
                if (narrow) {
                    narrow_keys[q] = (int32_t)(words[q] >> bits);
                } else {
                    keys[q] = (int64_t)(words[q] >> bits);
                }
                memcpy(values + (size_t)q * size, row->values + place * size, size);
            }
        }
        for (int k = 0, other = 0; k < rank; k++) {
            if (k != axis) {
                const int64_t value = common[other++];
                if (k + 1 == entries->grouped) {
                    continue; /* it is that of the group */
                }
                if (narrow) {
                    int32_t *const column = (int32_t *)(void *)entries->at[k] + first;
                    for (int64_t q = 0; q < count; q++) {
                        column[q] = (int32_t)value;
                    }
                } else {
                    int64_t *const column = entries->at[k] + first;
                    for (int64_t q = 0; q < count; q++) {
                        column[q] = value;
                    }
                }
            }
        }
        entries->count = first + count;
    }
    if (!row->shift) {
        for (int64_t q = 0; q < count; q++) {
            row->place[row->keys[q]] = 0;
        }
    } else if (count > 0) {
        memset(row->place, 0, (size_t)row->slots * sizeof(int32_t));
    }
    row->count = 0;
}
