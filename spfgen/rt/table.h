/* Packing by a table: what a layout with one key does with entries, as numbers, which layout/table.py writes. Entries are
   taken block by block, and of each block column by column: a column (a slot) holds a number for each entry.

   The table: ranks of what follows (coordinates, made slots, checks, fields, levels), the extents of the coordinates, then
     made slot   divisor, affine         floor(affine / divisor)
     check       equality, affine        affine = 0, or >= 0
     field       slot, down              a digit; digits in turn are the order of the entries
     level       group, end, low, resets, begin (an array, or -1), place; keys, for each array, slot, place
     value       array, place
   where an affine is constant, terms, for each slot and factor, and a place is rank, for each dimension an affine.
   Slots are the coordinates, the made ones, and the position of each level. Level l steps on where a digit before `end`
   changes, and begins anew where it `resets` and one before `group` does. */
enum { SPFGEN_TABLE_BLOCK = 512, SPFGEN_TABLE_ARRAY = 34 };

typedef struct spfgen_table {
    int64_t rank, made, checks, fields, levels;
    const int64_t *extent, *making, *checking, *field, *level;
    const int64_t **slot; /* where the column of each slot is, for the block */
    int64_t *room;        /* for a column of each slot, and two more */
    int64_t *last;        /* the digits of the entry before the block */
    uint8_t *first, *falls;
} spfgen_table;

static const int64_t *spfgen_table_after(const int64_t *affine) {
    return affine + 2 + 2 * affine[1];
}

static const int64_t *spfgen_table_behind(const int64_t *place) {
    const int64_t *next = place + 1;
    for (int64_t d = 0; d < *place; d++) {
        next = spfgen_table_after(next);
    }
    return next;
}

/* The level behind one. */
static const int64_t *spfgen_table_next(const int64_t *level) {
    const int64_t *next = spfgen_table_behind(level + 5);
    int64_t keys = *next++;
    for (; keys > 0; keys--) {
        next = spfgen_table_behind(next + 2);
    }
    return next;
}

static int spfgen_table_open(spfgen_table *own, const int64_t *table) {
    const int64_t *next = table + 5;
    own->rank = table[0];
    own->made = table[1];
    own->checks = table[2];
    own->fields = table[3];
    own->levels = table[4];
    own->extent = next;
    next += own->rank;
    own->making = next;
    for (int64_t k = 0; k < own->made; k++) {
        next = spfgen_table_after(next + 1);
    }
    own->checking = next;
    for (int64_t k = 0; k < own->checks; k++) {
        next = spfgen_table_after(next + 1);
    }
    own->field = next;
    own->level = next + 2 * own->fields;
    const size_t slots = (size_t)(own->rank + own->made + own->levels);
    own->slot = (const int64_t **)malloc(slots * sizeof *own->slot);
    own->room = (int64_t *)malloc((slots + 2) * SPFGEN_TABLE_BLOCK * sizeof(int64_t));
    own->last = (int64_t *)malloc((size_t)(own->fields + 1) * sizeof(int64_t));
    own->first = (uint8_t *)malloc(2 * SPFGEN_TABLE_BLOCK);
    own->falls = own->first ? own->first + SPFGEN_TABLE_BLOCK : NULL;
    return own->slot && own->room && own->last && own->first;
}

static void spfgen_table_close(spfgen_table *own) {
    free((void *)own->slot);
    free(own->room);
    free(own->last);
    free(own->first);
}

/* The column of an affine: that of a slot where it is nothing else, else it is written `to` a room. */
static const int64_t *spfgen_table_affine(const spfgen_table *own, const int64_t *affine, int64_t count,
                                          int64_t *restrict to) {
    if (affine[0] == 0 && affine[1] == 1 && affine[3] == 1) {
        return own->slot[affine[2]];
    }
    for (int64_t q = 0; q < count; q++) {
        to[q] = affine[0];
    }
    for (int64_t k = 0; k < affine[1]; k++) {
        const int64_t *from = own->slot[affine[2 + 2 * k]];
        const int64_t factor = affine[3 + 2 * k];
        for (int64_t q = 0; q < count; q++) {
            to[q] += factor * from[q];
        }
    }
    return to;
}

/* The coordinates of a block and what is made of them; false where one lies outside, or a check fails. */
static int spfgen_table_load(spfgen_table *own, int64_t begin, int64_t count, const void *const *at, int narrow) {
    int64_t *room = own->room;
    uint64_t wrong = 0;
    for (int64_t k = 0; k < own->rank; k++, room += SPFGEN_TABLE_BLOCK) {
        const int64_t *column = room;
        if (narrow) {
            const int32_t *from = (const int32_t *)at[k] + begin;
            for (int64_t q = 0; q < count; q++) {
                room[q] = from[q];
            }
        } else {
            column = (const int64_t *)at[k] + begin;
        }
        for (int64_t q = 0; q < count; q++) {
            wrong |= (uint64_t)column[q] >= (uint64_t)own->extent[k];
        }
        own->slot[k] = column;
    }
    const int64_t *next = own->making;
    for (int64_t k = 0; k < own->made; k++, room += SPFGEN_TABLE_BLOCK) {
        const int64_t divisor = next[0];
        const int64_t *column = spfgen_table_affine(own, next + 1, count, room);
        if (divisor != 1) {
            for (int64_t q = 0; q < count; q++) {
                const int64_t rest = column[q] % divisor;
                room[q] = column[q] / divisor - (rest < 0);
            }
            column = room;
        }
        own->slot[own->rank + k] = column;
        next = spfgen_table_after(next + 1);
    }
    next = own->checking;
    for (int64_t k = 0; k < own->checks; k++) {
        const int64_t *column = spfgen_table_affine(own, next + 1, count, room);
        for (int64_t q = 0; q < count; q++) {
            wrong |= next[0] ? column[q] != 0 : column[q] < 0;
        }
        next = spfgen_table_after(next + 1);
    }
    return !wrong;
}

/* For each entry of the block the first digit that differs from the entry before, and whether that falls. */
static void spfgen_table_compare(spfgen_table *own, int64_t begin, int64_t count) {
    uint8_t *restrict first = own->first, *restrict falls = own->falls;
    memset(first, (int)own->fields, (size_t)count);
    memset(falls, 0, (size_t)count);
    for (int64_t f = own->fields - 1; f >= 0; f--) {
        const int64_t *digit = own->slot[own->field[2 * f]];
        const int down = own->field[2 * f + 1] != 0;
        if (begin > 0 && digit[0] != own->last[f]) {
            first[0] = (uint8_t)f;
            falls[0] = down ? digit[0] > own->last[f] : digit[0] < own->last[f];
        }
        for (int64_t q = 1; q < count; q++) {
            const int other = digit[q] != digit[q - 1];
            first[q] = other ? (uint8_t)f : first[q];
            falls[q] = other ? (uint8_t)((digit[q] < digit[q - 1]) ^ down) : falls[q];
        }
        own->last[f] = digit[count - 1];
    }
    if (begin == 0) {
        first[0] = 0;
    }
}

/* What the entries are like: found[0] one has no place, found[1] they are out of order, after which the rest is not looked
   at, found[2] two are equal; then of each level how many positions there are, and the most in a group.
   1 where there is no memory. */
int spfgen_table_look(const int64_t *table, int64_t count, const void *const *at, int narrow, int64_t *found) {
    spfgen_table own;
    int status = 1;
    if (spfgen_table_open(&own, table)) {
        status = 0;
        int64_t times[256] = {0};
        int64_t *const totals = found + 3;
        memset(found, 0, (size_t)(3 + 2 * own.levels) * sizeof *found);
        for (int64_t begin = 0; begin < count && !found[0] && !found[1]; begin += SPFGEN_TABLE_BLOCK) {
            const int64_t size = count - begin < SPFGEN_TABLE_BLOCK ? count - begin : SPFGEN_TABLE_BLOCK;
            found[0] |= !spfgen_table_load(&own, begin, size, at, narrow);
            spfgen_table_compare(&own, begin, size);
            for (int64_t q = 0; q < size; q++) {
                found[1] |= own.falls[q];
                times[own.first[q]]++;
            }
            const int64_t *level = own.level;
            for (int64_t l = 0; l < own.levels; l++) {
                if (level[3]) {
                    int64_t width = totals[2 * l], widest = totals[2 * l + 1]; /* the width so far stands in for the total */
                    for (int64_t q = 0; q < size; q++) {
                        width = own.first[q] < level[0] ? 1 : width + (own.first[q] < level[1]);
                        widest = width > widest ? width : widest;
                    }
                    totals[2 * l] = width;
                    totals[2 * l + 1] = widest;
                }
                level = spfgen_table_next(level);
            }
        }
        found[2] = times[own.fields] > 0;
        const int64_t *level = own.level;
        for (int64_t l = 0; l < own.levels; l++) {
            int64_t total = 0;
            for (int64_t f = 0; f < level[1]; f++) {
                total += times[f];
            }
            totals[2 * l] = total;
            totals[2 * l + 1] = level[3] ? totals[2 * l + 1] : total;
            level = spfgen_table_next(level);
        }
    }
    spfgen_table_close(&own);
    return status;
}

/* The digits of all entries, column by column, turned round where they run down. 1 where there is no memory. */
int spfgen_table_digits(const int64_t *table, int64_t count, const void *const *at, int narrow, int64_t *digits) {
    spfgen_table own;
    int status = 1;
    if (spfgen_table_open(&own, table)) {
        status = 0;
        for (int64_t begin = 0; begin < count; begin += SPFGEN_TABLE_BLOCK) {
            const int64_t size = count - begin < SPFGEN_TABLE_BLOCK ? count - begin : SPFGEN_TABLE_BLOCK;
            (void)spfgen_table_load(&own, begin, size, at, narrow);
            for (int64_t f = 0; f < own.fields; f++) {
                const int64_t *from = own.slot[own.field[2 * f]];
                int64_t *to = digits + f * count + begin;
                for (int64_t q = 0; q < size; q++) {
                    to[q] = own.field[2 * f + 1] ? -from[q] : from[q];
                }
            }
        }
    }
    spfgen_table_close(&own);
    return status;
}

/* An array is its address, the bytes of an element, its extents. */
static void spfgen_table_store(const int64_t *array, int64_t place, int64_t value) {
    void *const memory = (void *)(intptr_t)array[0];
    switch (array[1]) {
    case 1:
        ((int8_t *)memory)[place] = (int8_t)value;
        break;
    case 2:
        ((int16_t *)memory)[place] = (int16_t)value;
        break;
    case 4:
        ((int32_t *)memory)[place] = (int32_t)value;
        break;
    default:
        ((int64_t *)memory)[place] = value;
    }
}

/* Where the elements of an array are for the entries of a block; `to` has room for two columns. */
static const int64_t *spfgen_table_places(const spfgen_table *own, const int64_t *array, const int64_t *place,
                                          int64_t count, int64_t *to) {
    const int64_t *next = place + 1;
    const int64_t *found = NULL;
    for (int64_t d = 0; d < *place; d++) {
        int64_t *room = d == 0 ? to : to + SPFGEN_TABLE_BLOCK;
        const int64_t *column = spfgen_table_affine(own, next, count, room);
        if (d > 0) {
            const int64_t extent = array[2 + d];
            for (int64_t q = 0; q < count; q++) {
                to[q] = found[q] * extent + column[q];
            }
            column = to;
        }
        found = column;
        next = spfgen_table_after(next);
    }
    return found;
}

static void spfgen_table_values(const int64_t *array, const int64_t *place, int64_t count, const char *from) {
    char *const memory = (char *)(intptr_t)array[0];
    const size_t size = (size_t)array[1];
    switch (size) {
    case 4:
        for (int64_t q = 0; q < count; q++) {
            memcpy(memory + 4 * place[q], from + 4 * q, 4);
        }
        break;
    case 8:
        for (int64_t q = 0; q < count; q++) {
            memcpy(memory + 8 * place[q], from + 8 * q, 8);
        }
        break;
    default:
        for (int64_t q = 0; q < count; q++) {
            memcpy(memory + (size_t)place[q] * size, from + (size_t)q * size, size);
        }
    }
}

/* Write the arrays from entries that are in order, each once. Places that no entry has are left alone; so are arrays at
   address 0. 1 where there is no memory. */
int spfgen_table_fill(const int64_t *table, int64_t count, const void *const *at, int narrow, const void *values,
                      const int64_t *arrays, const int64_t *found) {
    spfgen_table own;
    int status = 1;
    int64_t *state = NULL;
    if (spfgen_table_open(&own, table)) {
        state = (int64_t *)malloc((size_t)(2 * own.levels + 1) * sizeof(int64_t)); /* position, last segment begun */
    }
    if (state) {
        status = 0;
        const int64_t *level = own.level;
        int64_t *const position = own.room + (own.rank + own.made) * SPFGEN_TABLE_BLOCK;
        int64_t *const spare = position + own.levels * SPFGEN_TABLE_BLOCK;
        const int64_t *const totals = found + 3;
        for (int64_t begin = 0; begin < count || begin == 0; begin += SPFGEN_TABLE_BLOCK) {
            const int64_t size = count - begin < SPFGEN_TABLE_BLOCK ? count - begin : SPFGEN_TABLE_BLOCK;
            const int is_last = begin + size >= count;
            if (size > 0) {
                (void)spfgen_table_load(&own, begin, size, at, narrow);
                spfgen_table_compare(&own, begin, size);
            }
            level = own.level;
            for (int64_t l = 0; l < own.levels; l++) {
                const int64_t group = level[0], end = level[1], low = level[2], resets = level[3], starts = level[4];
                if (begin == 0) {
                    state[2 * l] = low - 1;
                    state[2 * l + 1] = -1;
                }
                int64_t *const own_position = position + l * SPFGEN_TABLE_BLOCK;
                int64_t now = state[2 * l];
                for (int64_t q = 0; q < size; q++) {
                    now = resets && own.first[q] < group ? low - 1 : now;
                    now += own.first[q] < end;
                    own_position[q] = now;
                }
                state[2 * l] = now;
                own.slot[own.rank + own.made + l] = own_position;
                const int64_t *next = spfgen_table_behind(level + 5);
                const int64_t keys = *next++;
                if (starts >= 0 && arrays[starts * SPFGEN_TABLE_ARRAY]) {
                    const int64_t *const array = arrays + starts * SPFGEN_TABLE_ARRAY;
                    int64_t last = state[2 * l + 1];
                    if (size > 0) {
                        const int64_t *const place = spfgen_table_places(&own, array, level + 5, size, spare);
                        for (int64_t q = 0; q < size; q++) {
                            if (own.first[q] < end) {
                                while (last < place[q]) {
                                    spfgen_table_store(array, ++last, own_position[q]);
                                }
                            }
                        }
                        state[2 * l + 1] = last;
                    }
                    if (is_last) {
                        int64_t length = 1;
                        for (int64_t d = 0; d < level[5]; d++) {
                            length *= array[2 + d];
                        }
                        while (++last < length) {
                            spfgen_table_store(array, last, low + totals[2 * l]);
                        }
                    }
                }
                for (int64_t k = 0; k < keys; k++) {
                    const int64_t *const array = arrays + next[0] * SPFGEN_TABLE_ARRAY;
                    if (array[0] && size > 0) {
                        const int64_t *const key = own.slot[next[1]];
                        const int64_t *const place = spfgen_table_places(&own, array, next + 2, size, spare);
                        for (int64_t q = 0; q < size; q++) {
                            if (own.first[q] < end) {
                                spfgen_table_store(array, place[q], key[q]);
                            }
                        }
                    }
                    next = spfgen_table_behind(next + 2);
                }
                level = next;
            }
            const int64_t *const array = arrays + level[0] * SPFGEN_TABLE_ARRAY;
            if (array[0] && size > 0) {
                const int64_t *const place = spfgen_table_places(&own, array, level + 1, size, spare);
                spfgen_table_values(array, place, size, (const char *)values + (size_t)begin * (size_t)array[1]);
            }
        }
    }
    free(state);
    spfgen_table_close(&own);
    return status;
}
