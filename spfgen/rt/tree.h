/* The coordinate of each row at each of its entries; false where there is no memory. */
static bool spfgen_appended_ungroup(spfgen_appended *entries) {
    const int common = (int)entries->grouped - 1;
    const size_t bytes = spfgen_appended_bytes(entries);
    char *const column = (char *)malloc((size_t)(entries->count > 0 ? entries->count : 1) * bytes);
    const char *const rows = (const char *)entries->at[common];
    int64_t q = 0;
    for (int64_t g = 0; column && g < entries->groups; g++) {
        for (; q < entries->ends[g]; q++) {
            memcpy(column + (size_t)q * bytes, rows + (size_t)g * bytes, bytes);
        }
    }
    if (column) {
        free(entries->at[common]);
        entries->at[common] = (int64_t *)(void *)column;
        entries->grouped = 0;
    }
    return column != NULL;
}
/* A layout that is a tree: each level has the coordinates of its positions, and where those of each position before it
   begin; the first level may have that for all coordinates instead. */
typedef struct spfgen_tree {
    int rank, levels;
    const int *order; /* the coordinate of each field, the first one foremost */
    const int *end;   /* up to which field each level goes */
    const bool *begins, *wide; /* whether a level has begins; whether arrays are of int64_t: begins and keys in turn */
    int64_t rows;     /* the extent of the first field, where the first level has begins */
} spfgen_tree;

/* Memory for `used` bytes that a list has, as an array of the result: the memory itself where it comes from malloc. */
static void *spfgen_taken(const spfgen_allocator *memory, void **from, size_t used) {
    const size_t bytes = used > 0 ? used : 1;
    if (memory && memory->allocate) {
        void *const copy = memory->allocate(memory->context, bytes);
        if (copy && used > 0) {
            memcpy(copy, *from, used);
        }
        return copy;
    }
    void *const own = realloc(*from, bytes);
    *from = own ? NULL : *from;
    return own;
}
/* A column of so many coordinates in the type of an array. */
static void *spfgen_tree_column(spfgen_appended *entries, int k, int64_t count, bool wide, const spfgen_allocator *memory) {
    if (wide != (entries->narrow != 0)) {
        void *column = entries->at[k];
        void *const own = spfgen_taken(memory, &column, (size_t)count * spfgen_appended_bytes(entries));
        entries->at[k] = (int64_t *)column;
        return own;
    }
    int64_t *const own = (int64_t *)spfgen_result(memory, count, sizeof(int64_t));
    for (int64_t q = 0; own && q < count; q++) {
        own[q] = spfgen_appended_at(entries, k, q);
    }
    return own;
}
static inline void spfgen_tree_set(void *array, bool wide, int64_t place, int64_t value) {
    if (wide) {
        ((int64_t *)array)[place] = value;
    } else {
        ((int32_t *)array)[place] = (int32_t)value;
    }
}
/* The first field in which an entry differs from the one before; -1 where it does not come behind it. */
static inline int spfgen_tree_step(const spfgen_appended *entries, const spfgen_tree *tree, int64_t q) {
    for (int f = 0; f < tree->rank; f++) {
        const int64_t own = spfgen_appended_at(entries, tree->order[f], q);
        const int64_t before = spfgen_appended_at(entries, tree->order[f], q - 1);
        if (own != before) {
            return own > before ? f : -1;
        }
    }
    return -1;
}
/* The same of two columns of narrow coordinates, for all entries: how many begin a new one of the first; -1 where one
   does not come behind the one before. */
static int64_t spfgen_tree_pairs(int64_t count, const int32_t *restrict row, const int32_t *restrict key, int threads) {
    int64_t heads = 0, falls = 0;
    (void)threads;
    #pragma omp parallel for num_threads(threads) reduction(+ : heads, falls)
    for (int64_t first = 1; first < count; first += 65536) {
        const int64_t last = first + 65536 < count ? first + 65536 : count;
        int32_t own = 0, wrong = 0; /* so that several are compared at once */
        for (int64_t q = first; q < last; q++) {
            own += row[q] != row[q - 1];
            wrong += (row[q] < row[q - 1]) | ((row[q] == row[q - 1]) & (key[q] <= key[q - 1]));
        }
        heads += own;
        falls += wrong;
    }
    return falls ? -1 : heads;
}
/* How many positions each level has; false where the entries do not come in order, each once. */
static bool spfgen_tree_totals(const spfgen_appended *entries, const spfgen_tree *tree, int64_t *totals, int threads) {
    int64_t heads[SPFGEN_APPENDED_RANK] = {0};
    const int64_t count = entries->count;
    if (entries->grouped) {
        for (int64_t g = 1; g < entries->groups; g++) {
            if (spfgen_appended_at(entries, tree->order[0], g) <= spfgen_appended_at(entries, tree->order[0], g - 1)) {
                return false;
            }
        }
        heads[0] = entries->groups > 0 ? entries->groups - 1 : 0;
    } else if (tree->rank == 2 && entries->narrow) {
        const int32_t *const row = (const int32_t *)(const void *)entries->at[tree->order[0]];
        const int32_t *const key = (const int32_t *)(const void *)entries->at[tree->order[1]];
        for (int64_t q = 1; q < 64 && q < count; q++) { /* most of what is not in order shows it at once */
            if (spfgen_tree_step(entries, tree, q) < 0) {
                return false;
            }
        }
        heads[0] = spfgen_tree_pairs(count, row, key, threads);
        if (heads[0] < 0) {
            return false;
        }
    } else {
        for (int64_t q = 1; q < count; q++) {
            const int step = spfgen_tree_step(entries, tree, q);
            if (step < 0) {
                return false;
            }
            heads[step]++;
        }
    }
    for (int level = 0; level < tree->levels; level++) {
        int64_t total = count > 0;
        for (int f = 0; f < tree->end[level]; f++) {
            total += heads[f];
        }
        totals[level] = level + 1 < tree->levels ? total : count;
    }
    return true;
}
/* Where the entries of each coordinate of the first field begin: rows + 1 numbers. */
static void spfgen_tree_rows(const spfgen_appended *entries, int k, int64_t rows, void *begin, bool wide) {
    int64_t next = 0;
    const int64_t count = entries->grouped ? entries->groups : entries->count;
    for (int64_t q = 0; q < count; q++) {
        const int64_t row = spfgen_appended_at(entries, k, q);
        for (; next <= row; next++) {
            spfgen_tree_set(begin, wide, next, entries->grouped ? (q > 0 ? entries->ends[q - 1] : 0) : q);
        }
    }
    for (; next <= rows; next++) {
        spfgen_tree_set(begin, wide, next, entries->count);
    }
}
/* Sort the keys of a row, with their values; false where one stands twice. */
static bool spfgen_tree_sort(int32_t *key, char *value, int64_t count, size_t size, uint64_t *word, char *spare) {
    for (int64_t q = 0; q < count; q++) {
        word[q] = (uint64_t)(uint32_t)key[q] << 32 | (uint64_t)q;
    }
    spfgen_sort_words(word, count, 63);
    memcpy(spare, value, (size_t)count * size);
    bool once = true;
    for (int64_t q = 0; q < count; q++) {
        key[q] = (int32_t)(word[q] >> 32);
        once &= q == 0 || key[q] != key[q - 1];
        memcpy(value + (size_t)q * size, spare + (size_t)(uint32_t)word[q] * size, size);
    }
    return once;
}
static inline void spfgen_tree_scatter(const int32_t *restrict row, const int32_t *restrict column, const char *restrict from,
                                       size_t size, int64_t first, int64_t last, uint32_t *restrict next,
                                       int32_t *restrict key, char *restrict value) {
    for (int64_t q = first; q < last; q++) {
        const uint32_t place = next[row[q]]++;
        key[place] = column[q];
        memcpy(value + (size_t)place * size, from + (size_t)q * size, size);
    }
}
/* Entries in any order become rows: their number in each row is counted, then each goes to its place, then rows that are
   not in order are sorted. -1 where one stands twice, or this is not for them; all is given back then. */
static int spfgen_tree_buckets(spfgen_appended *entries, const spfgen_tree *tree, size_t size, int threads,
                               const spfgen_allocator *memory, void **arrays) {
    const int64_t count = entries->count, rows = tree->rows;
    if (!entries->narrow || tree->wide[1] || count > INT32_MAX || rows > 4 * count + 65536) {
        return -1;
    }
    const int most = rows > 0 && 4 * count / rows < threads ? (int)(4 * count / rows) : threads;
    const int parts = most > 1 ? most : 1;
    const int32_t *const row = (const int32_t *)(const void *)entries->at[tree->order[0]];
    const int32_t *const column = (const int32_t *)(const void *)entries->at[tree->order[1]];
    uint32_t *const next = (uint32_t *)calloc((size_t)rows * (size_t)parts + 1, sizeof(uint32_t));
    void *const begin = next ? spfgen_result(memory, rows + 1, tree->wide[0] ? 8 : 4) : NULL;
    int32_t *const key = begin ? (int32_t *)spfgen_result(memory, count, 4) : NULL;
    char *const value = key ? (char *)spfgen_result(memory, count, size) : NULL;
    arrays[0] = begin;
    arrays[1] = key;
    arrays[2] = value;
    if (!value) {
        free(next);
        return SPFGEN_ERROR_MEMORY;
    }
    #pragma omp parallel for schedule(static, 1) num_threads(parts)
    for (int part = 0; part < parts; part++) {
        uint32_t *const own = next + (size_t)part * (size_t)rows;
        const int64_t last = count / parts * (part + 1) + count % parts * (part + 1) / parts;
        for (int64_t q = count / parts * part + count % parts * part / parts; q < last; q++) {
            own[row[q]]++;
        }
    }
    uint32_t total = 0, widest = 0;
    for (int64_t r = 0; r < rows; r++) {
        const uint32_t first = total;
        spfgen_tree_set(begin, tree->wide[0], r, first);
        for (int part = 0; part < parts; part++) {
            uint32_t *const own = next + (size_t)part * (size_t)rows + r;
            const uint32_t here = *own;
            *own = total;
            total += here;
        }
        widest = total - first > widest ? total - first : widest;
    }
    spfgen_tree_set(begin, tree->wide[0], rows, total);
    #pragma omp parallel for schedule(static, 1) num_threads(parts)
    for (int part = 0; part < parts; part++) {
        uint32_t *const own = next + (size_t)part * (size_t)rows;
        const int64_t first = count / parts * part + count % parts * part / parts;
        const int64_t last = count / parts * (part + 1) + count % parts * (part + 1) / parts;
        const char *const from = (const char *)entries->values;
        if (size == 8) {
            spfgen_tree_scatter(row, column, from, 8, first, last, own, key, value);
        } else if (size == 4) {
            spfgen_tree_scatter(row, column, from, 4, first, last, own, key, value);
        } else {
            spfgen_tree_scatter(row, column, from, size, first, last, own, key, value);
        }
    }
    /* The last part has moved its starts to the ends of the rows. */
    const uint32_t *const end = next + (size_t)(parts - 1) * (size_t)rows;
    const size_t room = (size_t)widest * (sizeof(uint64_t) + size) + 8;
    int64_t twice = 0, failed = 0;
    #pragma omp parallel num_threads(threads) reduction(+ : twice, failed)
    {
        char *spare = NULL;
        #pragma omp for schedule(dynamic, 256)
        for (int64_t r = 0; r < rows; r++) {
            const int64_t first = r > 0 ? end[r - 1] : 0, last = end[r];
            int64_t falls = 0;
            for (int64_t p = first + 1; p < last; p++) {
                falls += key[p] <= key[p - 1];
            }
            if (falls && !twice && !failed) {
                spare = spare ? spare : (char *)malloc(room);
                failed += spare == NULL;
                if (spare) {
                    char *const values = spare + (size_t)widest * sizeof(uint64_t);
                    uint64_t *const words = (uint64_t *)(void *)spare;
                    twice += !spfgen_tree_sort(key + first, value + (size_t)first * size, last - first, size, words, values);
                }
            }
        }
        free(spare);
    }
    free(next);
    if (twice && !failed) {
        for (int k = 0; k < 3; k++) {
            spfgen_allocator_release(memory, arrays[k]);
            arrays[k] = NULL;
        }
        return -1;
    }
    return failed ? SPFGEN_ERROR_MEMORY : SPFGEN_OK;
}
/* Entries become the arrays of a tree, begins and keys of each level, then the values, of `size` bytes; `totals`: how many
   positions each level has. Columns that an array needs as they are become the array. -1 where the entries are not in
   order, or one stands twice, and all is left as it was, but one by one. */
static int spfgen_tree_made(spfgen_appended *entries, const spfgen_tree *tree, size_t size, int threads,
                            const spfgen_allocator *memory, int64_t *totals, void **arrays) {
    const int last = tree->levels - 1;
    const bool in_rows = entries->grouped == tree->order[0] + 1 && (last > 0 || tree->begins[0]);
    if (entries->grouped && !in_rows && !spfgen_appended_ungroup(entries)) {
        return SPFGEN_ERROR_MEMORY;
    }
    bool fits = true; /* what is narrow in the arrays is so in the entries */
    for (int a = 0, level = 0; level <= last; level++) {
        a += tree->begins[level];
        for (int f = level ? tree->end[level - 1] : tree->begins[0]; f < tree->end[level]; f++) {
            fits &= entries->narrow || tree->wide[a];
            a++;
        }
    }
    if (!fits || !spfgen_tree_totals(entries, tree, totals, threads)) {
        if (entries->grouped && !spfgen_appended_ungroup(entries)) {
            return SPFGEN_ERROR_MEMORY;
        }
        totals[0] = entries->count;
        const bool is_rows = fits && tree->rank == 2 && last == 0 && tree->begins[0];
        return is_rows ? spfgen_tree_buckets(entries, tree, size, threads, memory, arrays) : -1;
    }
    const int64_t count = entries->count;
    int a = 0, first_of[SPFGEN_APPENDED_RANK];
    for (int level = 0; level <= last; level++) {
        first_of[level] = a;
        if (tree->begins[level]) {
            if (!tree->wide[a] && totals[level] > INT32_MAX) {
                return SPFGEN_ERROR_INDEX;
            }
            const int64_t places = level ? totals[level - 1] : tree->rows;
            arrays[a] = spfgen_result(memory, places + 1, tree->wide[a] ? sizeof(int64_t) : sizeof(int32_t));
            if (!arrays[a]) {
                return SPFGEN_ERROR_MEMORY;
            }
            a++;
        }
        if (level < last && !entries->grouped) {
            for (int f = level ? tree->end[level - 1] : tree->begins[0]; f < tree->end[level]; f++, a++) {
                arrays[a] = spfgen_result(memory, totals[level], tree->wide[a] ? sizeof(int64_t) : sizeof(int32_t));
                if (!arrays[a]) {
                    return SPFGEN_ERROR_MEMORY;
                }
            }
        } else {
            a += tree->end[level] - (level ? tree->end[level - 1] : tree->begins[0]);
        }
    }
    if (tree->begins[0]) {
        spfgen_tree_rows(entries, tree->order[0], tree->rows, arrays[0], tree->wide[0]);
    }
    if (entries->grouped && last > 0) { /* the rows are listed */
        for (int64_t g = 0; g <= entries->groups; g++) {
            spfgen_tree_set(arrays[first_of[1]], tree->wide[first_of[1]], g, g > 0 ? entries->ends[g - 1] : 0);
        }
        arrays[0] = spfgen_tree_column(entries, tree->order[0], entries->groups, tree->wide[0], memory);
        if (!arrays[0]) {
            return SPFGEN_ERROR_MEMORY;
        }
    } else if (last > 0) {
        int64_t at[SPFGEN_APPENDED_RANK] = {0}; /* how many positions each level has up to here */
        for (int64_t q = 0; q < count; q++) {
            const int step = q > 0 ? spfgen_tree_step(entries, tree, q) : 0;
            for (int level = 0; level <= last; level++) {
                if (q > 0 && step >= tree->end[level]) {
                    continue;
                }
                int k = first_of[level];
                if (level > 0 && (q == 0 || step < tree->end[level - 1])) { /* the position before is new */
                    spfgen_tree_set(arrays[k], tree->wide[k], at[level - 1] - 1, at[level]);
                }
                k += tree->begins[level];
                for (int f = level ? tree->end[level - 1] : tree->begins[0]; level < last && f < tree->end[level]; f++, k++) {
                    spfgen_tree_set(arrays[k], tree->wide[k], at[level], spfgen_appended_at(entries, tree->order[f], q));
                }
                at[level]++;
            }
        }
        for (int level = 1; level <= last; level++) {
            spfgen_tree_set(arrays[first_of[level]], tree->wide[first_of[level]], totals[level - 1], totals[level]);
        }
    }
    a = first_of[last] + tree->begins[last];
    for (int f = last ? tree->end[last - 1] : tree->begins[0]; f < tree->rank; f++, a++) {
        arrays[a] = spfgen_tree_column(entries, tree->order[f], count, tree->wide[a], memory);
        if (!arrays[a]) {
            return SPFGEN_ERROR_MEMORY;
        }
    }
    arrays[a] = spfgen_taken(memory, &entries->values, (size_t)count * size);
    return arrays[a] ? SPFGEN_OK : SPFGEN_ERROR_MEMORY;
}
