/* What assembling entries tells its caller, which tries again. */
enum { SPFGEN_ELSEWHERE = 1001, SPFGEN_TOGETHER = 1002 };

/* Memory that is needed while entries become arrays, given back all at once. */
typedef struct spfgen_pool {
    void **block;
    int64_t count, room, most, taken;
} spfgen_pool;

static void *spfgen_pool_take(spfgen_pool *pool, int64_t count, size_t size) {
    if (count < 0 || (uint64_t)count > INT64_MAX / size) {
        return NULL;
    }
    const int64_t bytes = (int64_t)((size_t)(count > 0 ? count : 1) * size);
    if (pool->most > 0 && pool->taken > pool->most - bytes) {
        return NULL;
    }
    if (pool->count == pool->room) {
        const int64_t room = pool->room ? 2 * pool->room : 64;
        void **const more = (void **)realloc(pool->block, (size_t)room * sizeof(void *));
        if (!more) {
            return NULL;
        }
        pool->block = more;
        pool->room = room;
    }
    void *const found = malloc((size_t)bytes);
    if (found) {
        pool->block[pool->count++] = found;
        pool->taken += bytes;
    }
    return found;
}
/* Gives back all blocks from number `first` on. */
static void spfgen_pool_free(spfgen_pool *pool, int64_t first, int64_t taken) {
    for (int64_t k = first; k < pool->count; k++) {
        free(pool->block[k]);
    }
    pool->count = first < pool->count ? first : pool->count;
    pool->taken = taken;
    if (pool->count == 0) {
        free(pool->block);
        pool->block = NULL;
        pool->room = 0;
    }
}
/* A vector of integers. */
static int64_t *spfgen_vector(spfgen_pool *pool, int64_t length) {
    return (int64_t *)spfgen_pool_take(pool, length, sizeof(int64_t));
}
/* Coordinate k of all entries. */
static int64_t *spfgen_appended_column(spfgen_pool *pool, const spfgen_appended *entries, int k) {
    int64_t *const column = spfgen_vector(pool, entries->count);
    for (int64_t q = 0; column && q < entries->count; q++) {
        column[q] = spfgen_appended_at(entries, k, q);
    }
    return column;
}
/* How many rows a mask drops. */
static int64_t spfgen_dropped(int64_t count, const int64_t *mask) {
    int64_t dropped = 0;
    for (int64_t q = 0; q < count; q++) {
        dropped += mask[q] == 0;
    }
    return dropped;
}
/* The rows of a vector that a mask keeps, of `size` bytes each. */
static void *spfgen_kept(spfgen_pool *pool, int64_t count, const int64_t *mask, const void *vector, size_t size) {
    char *const found = (char *)spfgen_pool_take(pool, count, size);
    const char *const from = (const char *)vector;
    size_t to = 0;
    for (int64_t q = 0; found && q < count; q++) {
        if (mask[q]) {
            memcpy(found + to, from + (size_t)q * size, size);
            to += size;
        }
    }
    return found;
}
/* Rows that a mask drops and that have another alternative go there: whether there are any. */
static bool spfgen_moved(int64_t count, const int64_t *mask, const int64_t *more, const int64_t *number,
                         const int64_t *piece, int64_t *first) {
    bool moved = false;
    for (int64_t q = 0; q < count; q++) {
        if (!mask[q] && more[q]) {
            first[number[q]] = piece[q] + 1;
            moved = true;
        }
    }
    return moved;
}
/* The same of rows that a mask chooses. */
static bool spfgen_moved_away(int64_t count, const int64_t *mask, const int64_t *more, const int64_t *number,
                              const int64_t *piece, int64_t *first) {
    bool moved = false;
    for (int64_t q = 0; q < count; q++) {
        if (mask[q] && more[q]) {
            first[number[q]] = piece[q] + 1;
            moved = true;
        }
    }
    return moved;
}
/* How many elements of a sorted vector are not above a value. */
static int64_t spfgen_not_above(const int64_t *vector, int64_t length, int64_t value) {
    int64_t low = 0, high = length;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (vector[middle] <= value) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}
/* The bytes of a value as integers: the first eight of them, or the others. */
static int64_t spfgen_value_word(const void *values, int64_t row, size_t size, int word) {
    int64_t found = 0;
    const size_t from = 8 * (size_t)word;
    if (from < size) {
        memcpy(&found, (const char *)values + (size_t)row * size + from, size - from < 8 ? size - from : 8);
    }
    return found;
}
static bool spfgen_same_value(const void *values, int64_t one, int64_t other, size_t size) {
    return memcmp((const char *)values + (size_t)one * size, (const char *)values + (size_t)other * size, size) == 0;
}
/* Whether rows come in the order of the columns. */
static bool spfgen_in_order(int64_t count, int columns, const int64_t *const *column) {
    for (int64_t q = 1; q < count; q++) {
        for (int k = 0; k < columns; k++) {
            if (column[k][q] != column[k][q - 1]) {
                if (column[k][q] < column[k][q - 1]) {
                    return false;
                }
                break;
            }
        }
    }
    return true;
}
/* Sort pairs of a key and a row by the key, equal ones as they come. */
static void spfgen_sort_pairs(int64_t count, uint64_t *key, int64_t *row, uint64_t *key_spare, int64_t *row_spare,
                              int bits) {
    if (count <= 32) {
        for (int64_t q = 1; q < count; q++) {
            const uint64_t own = key[q];
            const int64_t from = row[q];
            int64_t hole = q;
            for (; hole > 0 && key[hole - 1] > own; hole--) {
                key[hole] = key[hole - 1];
                row[hole] = row[hole - 1];
            }
            key[hole] = own;
            row[hole] = from;
        }
        return;
    }
    uint64_t *from = key, *to = key_spare;
    int64_t *rows = row, *rows_to = row_spare;
    for (int shift = 0; shift < bits; shift += 11) {
        int64_t start[2049] = {0};
        for (int64_t q = 0; q < count; q++) {
            start[(from[q] >> shift & 2047) + 1]++;
        }
        bool alone = false;
        for (int d = 0; d < 2048; d++) {
            alone |= start[d + 1] == count;
            start[d + 1] += start[d];
        }
        if (alone) {
            continue;
        }
        for (int64_t q = 0; q < count; q++) {
            const int64_t place = start[from[q] >> shift & 2047]++;
            to[place] = from[q];
            rows_to[place] = rows[q];
        }
        uint64_t *const keys = from;
        from = to;
        to = keys;
        int64_t *const others = rows;
        rows = rows_to;
        rows_to = others;
    }
    if (rows != row) {
        memcpy(row, rows, (size_t)count * sizeof *row);
    }
}
static int spfgen_width(uint64_t range) {
    int bits = 0;
    while (bits < 64 && range >> bits) {
        bits++;
    }
    return bits;
}
/* The rows in the order of the columns, the first one foremost, equal ones as they come: as many columns at once as fit
   in one word. NULL where there is no memory. */
static int64_t *spfgen_sorted(spfgen_pool *pool, int64_t count, int columns, const int64_t *const *column) {
    int64_t *const order = spfgen_vector(pool, count);
    for (int64_t q = 0; order && q < count; q++) {
        order[q] = q;
    }
    if (!order || spfgen_in_order(count, columns, column)) {
        return order;
    }
    const int64_t blocks = pool->count, taken = pool->taken;
    uint64_t *const key = (uint64_t *)spfgen_vector(pool, count), *const spare = (uint64_t *)spfgen_vector(pool, count);
    int64_t *const rows = spfgen_vector(pool, count);
    bool done = key && spare && rows;
    for (int last = columns; done && last > 0;) {
        int bits = 0, first = last;
        for (int64_t q = 0; q < count; q++) {
            key[q] = 0;
        }
        while (first > 0) {
            int64_t low = column[first - 1][0], high = low;
            for (int64_t q = 1; q < count; q++) {
                low = column[first - 1][q] < low ? column[first - 1][q] : low;
                high = column[first - 1][q] > high ? column[first - 1][q] : high;
            }
            const int width = spfgen_width((uint64_t)high - (uint64_t)low);
            if (bits > 0 && bits + width > 64) {
                break;
            }
            first--;
            for (int64_t q = 0; width > 0 && q < count; q++) {
                key[q] |= ((uint64_t)column[first][order[q]] - (uint64_t)low) << bits;
            }
            bits += width;
            if (bits == 64) {
                break;
            }
        }
        spfgen_sort_pairs(count, key, order, spare, rows, bits);
        last = first;
    }
    spfgen_pool_free(pool, blocks, taken);
    return done ? order : NULL;
}
/* Number rows by columns: the rank of each among the distinct ones in order, a row of each rank. */
static bool spfgen_ranks(spfgen_pool *pool, int64_t count, int columns, const int64_t *const *column, int64_t **rank,
                         int64_t **first, int64_t *total) {
    int64_t *const order = spfgen_sorted(pool, count, columns, column);
    int64_t *const number = spfgen_vector(pool, count), *const rows = spfgen_vector(pool, count);
    int64_t found = 0;
    if (!order || !number || !rows) {
        return false;
    }
    for (int64_t q = 0; q < count; q++) {
        const int64_t own = order[q];
        bool is_new = q == 0;
        for (int k = 0; k < columns && !is_new; k++) {
            is_new = column[k][own] != column[k][order[q - 1]];
        }
        if (is_new) {
            rows[found++] = own;
        }
        number[own] = found - 1;
    }
    *rank = number;
    *first = rows;
    *total = found;
    return true;
}
/* Lengths become begins; the sum of all is returned. */
static int64_t spfgen_offsets(int64_t *vector, int64_t length) {
    int64_t total = 0;
    for (int64_t q = 0; q < length; q++) {
        const int64_t own = vector[q];
        vector[q] = total;
        total += own;
    }
    return total;
}
/* Along rows of `width` elements each becomes the most, or the least, of those before it, or behind it. */
static void spfgen_running(int64_t *vector, int64_t length, int64_t width, bool least, bool backwards) {
    for (int64_t q = 1; q < length; q++) {
        const int64_t own = backwards ? length - 1 - q : q, other = backwards ? own + 1 : own - 1;
        const bool apart = width <= 0 || (backwards ? own % width == width - 1 : own % width == 0);
        if (!apart && (least ? vector[other] < vector[own] : vector[other] > vector[own])) {
            vector[own] = vector[other];
        }
    }
}
/* The number of the block of each row, in the order of groups: blocks are the smallest ranges that hold [low, high] of
   each row. */
static int64_t *spfgen_blocks(spfgen_pool *pool, int64_t count, const int64_t *group, const int64_t *low,
                              const int64_t *high) {
    const int64_t *column[2];
    column[0] = group;
    column[1] = low;
    int64_t *const order = spfgen_sorted(pool, count, 2, column), *const number = spfgen_vector(pool, count);
    int64_t block = -1, reached = 0;
    for (int64_t q = 0; order && number && q < count; q++) {
        const int64_t own = order[q];
        if (q == 0 || group[own] != group[order[q - 1]] || low[own] > reached) {
            block++;
            reached = high[own];
        }
        reached = high[own] > reached ? high[own] : reached;
        number[own] = block;
    }
    return order ? number : NULL;
}
/* A number for each group of rows that two share when their rows have the same content. */
static int64_t *spfgen_patterns(spfgen_pool *pool, int64_t count, const int64_t *group, const int64_t *content,
                                int64_t groups) {
    const int64_t *column[2];
    int64_t *rank = NULL, *first = NULL, total = 0, found = 0;
    column[0] = group;
    column[1] = content;
    int64_t *const number = spfgen_vector(pool, groups);
    int64_t slots = 2;
    while (slots < 2 * groups) {
        slots *= 2;
    }
    int64_t *const begin = spfgen_vector(pool, groups + 1), *const slot = spfgen_vector(pool, slots);
    if (!number || !begin || !slot || !spfgen_ranks(pool, count, 2, column, &rank, &first, &total)) {
        return NULL;
    }
    for (int64_t g = 0; g <= groups; g++) {
        begin[g] = 0;
    }
    for (int64_t s = 0; s < slots; s++) {
        slot[s] = -1;
    }
    for (int64_t q = 0; q < total; q++) {
        begin[group[first[q]] + 1]++;
    }
    for (int64_t g = 0; g < groups; g++) {
        begin[g + 1] += begin[g];
    }
    for (int64_t g = 0; g < groups; g++) {
        const int64_t from = begin[g], length = begin[g + 1] - from;
        if (length == 0) {
            number[g] = -1;
            continue;
        }
        uint64_t hash = UINT64_C(0x9E3779B97F4A7C15) * (uint64_t)length;
        for (int64_t q = 0; q < length; q++) {
            hash = (hash ^ (uint64_t)content[first[from + q]]) * UINT64_C(0x9E3779B97F4A7C15);
            hash ^= hash >> 29;
        }
        int64_t s = (int64_t)(hash & (uint64_t)(slots - 1));
        for (; slot[s] >= 0; s = (s + 1) & (slots - 1)) {
            const int64_t other = begin[slot[s]];
            bool same = begin[slot[s] + 1] - other == length;
            for (int64_t q = 0; same && q < length; q++) {
                same = content[first[from + q]] == content[first[other + q]];
            }
            if (same) {
                break;
            }
        }
        if (slot[s] < 0) {
            slot[s] = g;
            number[g] = found++;
        } else {
            number[g] = number[slot[s]];
        }
    }
    for (int64_t g = 0; g < groups; g++) {
        number[g] = number[g] < 0 ? found : number[g];
    }
    return number;
}
/* For each group the least keys from `low` on that it does not have, so that it has `width` in all. */
static bool spfgen_filler(spfgen_pool *pool, int64_t count, const int64_t *group, const int64_t *key, int64_t groups,
                          int64_t width, int64_t low, int64_t **new_group, int64_t **new_key, int64_t *total) {
    const int64_t room = spfgen_times(groups, width);
    int64_t *const has = spfgen_vector(pool, room), *const size = spfgen_vector(pool, groups);
    int64_t *const found = spfgen_vector(pool, room), *const keys = spfgen_vector(pool, room);
    int64_t made = 0;
    if (!has || !size || !found || !keys) {
        return false;
    }
    memset(has, 0, (size_t)(room > 0 ? room : 1) * sizeof *has);
    memset(size, 0, (size_t)(groups > 0 ? groups : 1) * sizeof *size);
    for (int64_t q = 0; q < count; q++) {
        size[group[q]]++;
        if (key[q] >= low && key[q] - low < width) {
            has[group[q] * width + key[q] - low] = 1;
        }
    }
    for (int64_t g = 0; g < groups; g++) {
        int64_t missing = width - size[g];
        for (int64_t k = 0; k < width && missing > 0; k++) {
            if (!has[g * width + k]) {
                found[made] = g;
                keys[made++] = low + k;
                missing--;
            }
        }
    }
    *new_group = found;
    *new_key = keys;
    *total = made;
    return true;
}
/* A mask of rows: those in the last slots of groups that have more than `width`, as far as all rows of a slot have
   another alternative. */
static int64_t *spfgen_movable(spfgen_pool *pool, int64_t count, const int64_t *group, const int64_t *slot,
                               const int64_t *more, const int64_t *sizes, int64_t groups, int64_t width) {
    const int64_t *column[2];
    int64_t *place = NULL, *first = NULL, total = 0;
    column[0] = group;
    column[1] = slot;
    int64_t *const mask = spfgen_vector(pool, count), *const left = spfgen_vector(pool, groups);
    if (!mask || !left || !spfgen_ranks(pool, count, 2, column, &place, &first, &total)) {
        return NULL;
    }
    int64_t *const free_ = spfgen_vector(pool, total);
    if (!free_) {
        return NULL;
    }
    for (int64_t g = 0; g < groups; g++) {
        left[g] = sizes[g] > width ? sizes[g] - width : 0;
    }
    for (int64_t q = 0; q < total; q++) {
        free_[q] = 1;
    }
    for (int64_t q = 0; q < count; q++) {
        free_[place[q]] &= more[q] != 0;
    }
    for (int64_t q = total - 1; q >= 0; q--) {
        int64_t *const own = &left[group[first[q]]];
        free_[q] = free_[q] && *own > 0;
        *own -= free_[q];
    }
    for (int64_t q = 0; q < count; q++) {
        mask[q] = free_[place[q]];
    }
    return mask;
}
/* The two ends of each interval, which are entries with a last coordinate along the axis behind the others: rows of
   coordinates and values, in order; whether one is the end of the interval before. PLACE where two have a coordinate in
   common. */
static int spfgen_interval_ends(spfgen_pool *pool, const spfgen_appended *entries, int rank, int axis, size_t size,
                                int64_t **column, void **values, int64_t **linked, int64_t *total) {
    const int64_t count = entries->count;
    const int64_t *own[SPFGEN_APPENDED_RANK + 1];
    for (int k = 0; k <= rank; k++) {
        own[k] = spfgen_appended_column(pool, entries, k);
        if (!own[k]) {
            return SPFGEN_ERROR_MEMORY;
        }
    }
    const int64_t *const order = spfgen_sorted(pool, count, rank, own), *const last = own[rank];
    if (!order) {
        return SPFGEN_ERROR_MEMORY;
    }
    int64_t longer = 0;
    for (int64_t q = 0; q < count; q++) {
        longer += last[q] > own[axis][q];
        bool beside = q > 0;
        for (int k = 0; beside && k < rank; k++) {
            beside = k == axis ? own[k][order[q]] <= last[order[q - 1]] : own[k][order[q]] == own[k][order[q - 1]];
        }
        if (beside) {
            return SPFGEN_ERROR_PLACE;
        }
    }
    bool done = true;
    for (int k = 0; k < rank; k++) {
        column[k] = spfgen_vector(pool, count + longer);
        done = done && column[k];
    }
    char *const ends = (char *)spfgen_pool_take(pool, count + longer, size);
    int64_t *const link = spfgen_vector(pool, count + longer);
    if (!done || !ends || !link) {
        return SPFGEN_ERROR_MEMORY;
    }
    int64_t to = 0;
    for (int64_t q = 0; q < count; q++) {
        const int64_t from = order[q];
        for (int end = 0; end <= (last[from] > own[axis][from]); end++, to++) {
            for (int k = 0; k < rank; k++) {
                column[k][to] = k == axis && end ? last[from] : own[k][from];
            }
            memcpy(ends + (size_t)to * size, (const char *)entries->values + (size_t)from * size, size);
            link[to] = end;
        }
    }
    *values = ends;
    *linked = link;
    *total = to;
    return SPFGEN_OK;
}
