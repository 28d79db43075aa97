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
/* Entries that come row by row become the arrays of a layout that stores them so: where rows begin (`wide`: as int64_t),
   the other coordinate, which is narrow, and the values of `size` bytes. -1 where the rows are not in order. */
static int spfgen_append(spfgen_entries *entries, int common, int64_t rows, size_t size, bool wide,
                         const spfgen_allocator *memory, void **begin, void **keys, void **values) {
    const int32_t *const row = (const int32_t *)(const void *)entries->at[common];
    for (int64_t g = 1; g < entries->groups; g++) {
        if (row[g] <= row[g - 1]) {
            return -1;
        }
    }
    if (!wide && entries->count > INT32_MAX) {
        return SPFGEN_ERROR_INDEX;
    }
    *begin = spfgen_result(memory, rows + 1, wide ? sizeof(int64_t) : sizeof(int32_t));
    void *column = entries->at[1 - common];
    *keys = *begin ? spfgen_taken(memory, &column, (size_t)entries->count * sizeof(int32_t)) : NULL;
    entries->at[1 - common] = (int64_t *)column;
    *values = *keys ? spfgen_taken(memory, &entries->values, (size_t)entries->count * size) : NULL;
    if (!*values) {
        return SPFGEN_ERROR_MEMORY;
    }
    int32_t *const narrow_begin = (int32_t *)*begin;
    int64_t *const wide_begin = (int64_t *)*begin;
    int64_t next = 0, done = 0;
    for (int64_t g = 0; g <= entries->groups; g++) {
        const int64_t until = g < entries->groups ? row[g] : rows;
        for (; next <= until; next++) {
            if (wide) {
                wide_begin[next] = done;
            } else {
                narrow_begin[next] = (int32_t)done;
            }
        }
        done = g < entries->groups ? entries->ends[g] : done;
    }
    return SPFGEN_OK;
}
/* The coordinate of each row at each of its entries; false where there is no memory. */
static bool spfgen_entries_ungroup(spfgen_entries *entries) {
    const int common = (int)entries->grouped - 1;
    const size_t bytes = spfgen_entries_bytes(entries);
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
