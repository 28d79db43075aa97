/* Entries of two tensors side by side, which lie in the order of their coordinates (run/arrays/ordered.py): in segments
   of begin[k] to begin[k + 1], or in one of all entries. No branch asks which one comes first: nobody could foresee it. */

/* One operand: its arrays, of which `column[d]` has the coordinates in dimension d, and what it is elsewhere. */
typedef struct {
    const TYPE_t *begin, *const *column;
    const void *value, *fill;
} spfgen_side_TYPE;

/* The coordinates of an entry as one number. */
static inline SPFGEN_INLINE int64_t spfgen_key_TYPE(const TYPE_t *const *column, const int64_t *extent, int rank,
                                                    int64_t place) {
    int64_t key = column[0][place];
    for (int d = 1; d < rank; d++) {
        key = key * extent[d] + column[d][place];
    }
    return key;
}

/* What both have, and what `only_a` and `only_b` ask for. The arrays have room for one more than all entries of both. */
static inline SPFGEN_INLINE int64_t spfgen_sides_TYPE(int64_t count, int rank, const int64_t *extent, int64_t only_a,
                                                      int64_t only_b, spfgen_side_TYPE a, spfgen_side_TYPE b,
                                                      TYPE_t *restrict begin, TYPE_t *const *own, uint64_t *restrict own_a,
                                                      uint64_t *restrict own_b) {
    const uint64_t *restrict value_a = (const uint64_t *)a.value, *restrict value_b = (const uint64_t *)b.value;
    const uint64_t fill_a = *(const uint64_t *)a.fill, fill_b = *(const uint64_t *)b.fill;
    const TYPE_t *column_a[32], *column_b[32];
    TYPE_t *column[32];
    for (int d = 0; d < rank; d++) {
        column_a[d] = a.column[d];
        column_b[d] = b.column[d];
        column[d] = own[d];
    }
    int64_t n = 0;
    begin[0] = 0;
    for (int64_t k = 0; k < count; k++) {
        int64_t p = a.begin[k], q = b.begin[k];
        const int64_t end_a = a.begin[k + 1], end_b = b.begin[k + 1];
        while (p < end_a && q < end_b) {
            const int64_t x = spfgen_key_TYPE(column_a, extent, rank, p);
            const int64_t y = spfgen_key_TYPE(column_b, extent, rank, q);
            const int64_t has_a = x <= y, has_b = y <= x;
            const uint64_t from_a = (uint64_t)-has_a, from_b = (uint64_t)-has_b;
            for (int d = 0; d < rank; d++) {
                const TYPE_t is_a = (TYPE_t)-has_a;
                column[d][n] = (column_a[d][p] & is_a) | (column_b[d][q] & ~is_a);
            }
            own_a[n] = (uint64_t)((value_a[p] & from_a) | (fill_a & ~from_a));
            own_b[n] = (uint64_t)((value_b[q] & from_b) | (fill_b & ~from_b));
            n += (has_a & has_b) | (only_a & (has_b ^ 1)) | (only_b & (has_a ^ 1));
            p += has_a;
            q += has_b;
        }
        for (; only_a && p < end_a; p++, n++) {
            for (int d = 0; d < rank; d++) {
                column[d][n] = column_a[d][p];
            }
            own_a[n] = value_a[p];
            own_b[n] = fill_b;
        }
        for (; only_b && q < end_b; q++, n++) {
            for (int d = 0; d < rank; d++) {
                column[d][n] = column_b[d][q];
            }
            own_a[n] = fill_a;
            own_b[n] = value_b[q];
        }
        begin[k + 1] = (TYPE_t)n;
    }
    return n;
}

/* The same for numbers in one array: segments, columns of each, whether to take what only the first or the second has,
   the arrays of both, those of the result, the extents of the columns. */
int64_t spfgen_merged_TYPE(const int64_t *words) {
    const int64_t count = words[0], only_a = words[2], only_b = words[3];
    const int rank = (int)words[1];
    const int64_t *const at_a = words + 4, *const at_b = at_a + 3 + rank, *const own = at_b + 3 + rank;
    const TYPE_t *columns_a[32], *columns_b[32];
    TYPE_t *columns[32];
    for (int d = 0; d < rank; d++) {
        columns_a[d] = (const TYPE_t *)(intptr_t)at_a[3 + d];
        columns_b[d] = (const TYPE_t *)(intptr_t)at_b[3 + d];
        columns[d] = (TYPE_t *)(intptr_t)own[3 + d];
    }
    const spfgen_side_TYPE a = {(const TYPE_t *)(intptr_t)at_a[0], columns_a, (const void *)(intptr_t)at_a[1],
                                (const void *)(intptr_t)at_a[2]};
    const spfgen_side_TYPE b = {(const TYPE_t *)(intptr_t)at_b[0], columns_b, (const void *)(intptr_t)at_b[1],
                                (const void *)(intptr_t)at_b[2]};
    TYPE_t *const begin = (TYPE_t *)(intptr_t)own[0];
    uint64_t *const own_a = (uint64_t *)(intptr_t)own[1], *const own_b = (uint64_t *)(intptr_t)own[2];
    const int64_t *const extent = own + 3 + rank;
    if (rank == 1) {
        return spfgen_sides_TYPE(count, 1, extent, only_a, only_b, a, b, begin, columns, own_a, own_b);
    }
    if (rank == 2) {
        return spfgen_sides_TYPE(count, 2, extent, only_a, only_b, a, b, begin, columns, own_a, own_b);
    }
    return spfgen_sides_TYPE(count, rank, extent, only_a, only_b, a, b, begin, columns, own_a, own_b);
}
