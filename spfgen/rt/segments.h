/* Matrices whose entries lie in segments, of begin[k] to begin[k + 1] (run/arrays/segments.py). */

/* The segments at some places, one behind the other where `target` says. */
void spfgen_segments_taken_TYPE(int64_t count, const int64_t *restrict place, const TYPE_t *restrict begin,
                                const int64_t *restrict target, const TYPE_t *restrict column,
                                TYPE_t *restrict own_column, int64_t bytes, const char *restrict value,
                                char *restrict own_value) {
    for (int64_t k = 0; k < count; k++) {
        const int64_t first = begin[place[k]], length = begin[place[k] + 1] - first;
        for (int64_t p = 0; p < length; p++) {
            own_column[target[k] + p] = column[first + p];
        }
        if (bytes == 8) {
            for (int64_t p = 0; p < length; p++) {
                memcpy(own_value + 8 * (target[k] + p), value + 8 * (first + p), 8);
            }
        } else {
            memcpy(own_value + bytes * target[k], value + bytes * first, (size_t)(bytes * length));
        }
    }
}

/* One element of so many bytes. */
static inline void spfgen_segments_put_TYPE(char *restrict target, const char *restrict source, int64_t bytes) {
    switch (bytes) {
    case 8:
        memcpy(target, source, 8);
        break;
    case 4:
        memcpy(target, source, 4);
        break;
    default:
        memcpy(target, source, (size_t)bytes);
    }
}

/* What two matrices have in their segments, whose columns rise: what both have, and what `only_a` and `only_b` ask for.
   The values of each, or its fill where it has none, are put side by side. The arrays have room for one more than all
   entries of both. */
int64_t spfgen_segments_merged_TYPE(int64_t count, const TYPE_t *restrict begin_a, const TYPE_t *restrict column_a,
                                    const char *restrict value_a, int64_t bytes_a, const char *restrict fill_a,
                                    const TYPE_t *restrict begin_b, const TYPE_t *restrict column_b,
                                    const char *restrict value_b, int64_t bytes_b, const char *restrict fill_b,
                                    int only_a, int only_b, TYPE_t *restrict begin, TYPE_t *restrict column,
                                    char *restrict own_a, char *restrict own_b) {
    int64_t n = 0;
    begin[0] = 0;
    for (int64_t k = 0; k < count; k++) {
        int64_t p = begin_a[k], q = begin_b[k];
        const int64_t end_a = begin_a[k + 1], end_b = begin_b[k + 1];
        while (p < end_a && q < end_b) {
            const TYPE_t x = column_a[p], y = column_b[q];
            const char *from_a = x <= y ? value_a + bytes_a * p : fill_a;
            const char *from_b = y <= x ? value_b + bytes_b * q : fill_b;
            column[n] = x < y ? x : y;
            spfgen_segments_put_TYPE(own_a + bytes_a * n, from_a, bytes_a);
            spfgen_segments_put_TYPE(own_b + bytes_b * n, from_b, bytes_b);
            n += (x == y) | ((x < y) & only_a) | ((x > y) & only_b);
            p += x <= y;
            q += y <= x;
        }
        for (; only_a && p < end_a; p++, n++) {
            column[n] = column_a[p];
            spfgen_segments_put_TYPE(own_a + bytes_a * n, value_a + bytes_a * p, bytes_a);
            spfgen_segments_put_TYPE(own_b + bytes_b * n, fill_b, bytes_b);
        }
        for (; only_b && q < end_b; q++, n++) {
            column[n] = column_b[q];
            spfgen_segments_put_TYPE(own_a + bytes_a * n, fill_a, bytes_a);
            spfgen_segments_put_TYPE(own_b + bytes_b * n, value_b + bytes_b * q, bytes_b);
        }
        begin[k + 1] = (TYPE_t)n;
    }
    return n;
}
