/* Matrices whose entries lie in segments, of begin[k] to begin[k + 1] (run/arrays/segments.py), and lists of entries. */

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

/* The places of a column in the order of its numbers, which are below `extent`; those of equal numbers stay in the order
   of `before`. `start` has room for extent + 1 numbers. */
void spfgen_counted_TYPE(int64_t count, int64_t extent, const TYPE_t *restrict column, const TYPE_t *restrict before,
                         TYPE_t *restrict start, TYPE_t *restrict order) {
    memset(start, 0, (size_t)(extent + 1) * sizeof(TYPE_t));
    for (int64_t p = 0; p < count; p++) {
        start[column[p] + 1]++;
    }
    for (int64_t k = 0; k < extent; k++) {
        start[k + 1] += start[k];
    }
    for (int64_t p = 0; p < count; p++) {
        const TYPE_t place = before[p];
        order[start[column[place]]++] = place;
    }
}
