#if defined(__linux__) && defined(__cplusplus)
#include <sys/mman.h>
#elif defined(__linux__)
int madvise(void *start, size_t length, int advice); /* of <sys/mman.h>, which hides it from C99 */
#endif

/* The bytes of a coordinate. */
static inline size_t spfgen_appended_bytes(const spfgen_appended *entries) {
    return entries->narrow ? sizeof(int32_t) : sizeof(int64_t);
}
/* The bytes of an entry, and of a group of them. */
static inline int64_t spfgen_appended_each(const spfgen_appended *entries, int rank, size_t size) {
    return (int64_t)((size_t)(rank - (entries->grouped != 0)) * spfgen_appended_bytes(entries) + size);
}
static inline int64_t spfgen_appended_group_each(const spfgen_appended *entries) {
    return (int64_t)(spfgen_appended_bytes(entries) + sizeof(int64_t));
}
/* Counts so many bytes more, or less: how many are taken then; -1 where there would be too many. */
static int64_t spfgen_appended_count(spfgen_appended *entries, int64_t bytes) {
    spfgen_appended *const whole = entries->whole ? entries->whole : entries;
    int64_t taken;
    #pragma omp atomic capture
    taken = whole->taken += bytes;
    if (bytes > 0 && whole->most > 0 && taken > whole->most) {
        #pragma omp atomic
        whole->taken -= bytes;
        return -1;
    }
    return taken;
}
/* Copies so many bytes and frees the old ones. Where memory is `scarce` the system gets back what is copied, piece by
   piece: `free` alone may keep it, for the next call. */
static void spfgen_appended_move(void *to, void *from, size_t bytes, bool scarce) {
    size_t done = 0;
    (void)scarce;
#ifdef __linux__
    const size_t page = (size_t)1 << 16, piece = (size_t)1 << 18;
    if (scarce && bytes >= TUNED_ENTRIES_MOVED_BYTES) {
        done = (page - (uintptr_t)from % page) % page;
        memcpy(to, from, done);
        for (; done + piece <= bytes; done += piece) {
            memcpy((char *)to + done, (char *)from + done, piece);
            (void)madvise((char *)from + done, piece, 4); /* MADV_DONTNEED */
        }
    }
#endif
    if (bytes > 0) {
        memcpy((char *)to + done, (char *)from + done, bytes - done);
    }
    free(from);
}
/* Memory of a new size; the first `used` bytes stay. New memory in small pages takes far longer to get than to fill. */
static void *spfgen_appended_memory(void *old, size_t used, size_t bytes, bool scarce) {
    const bool moved = scarce && used >= TUNED_ENTRIES_MOVED_BYTES && used < TUNED_ENTRIES_MAPPED_BYTES;
    void *const memory = moved ? malloc(bytes) : realloc(old, bytes);
    if (!memory) {
        return NULL;
    }
#ifdef __linux__
    const size_t page = (size_t)1 << 21;
    if (bytes >= TUNED_ENTRIES_LARGE_BYTES) {
        const uintptr_t first = ((uintptr_t)memory + page - 1) / page * page;
        (void)madvise((char *)memory + (first - (uintptr_t)memory), bytes - (first - (uintptr_t)memory), 14); /* MADV_HUGEPAGE */
    }
#endif
    if (moved) {
        spfgen_appended_move(memory, old, used, scarce);
    }
    return memory;
}
/* Memory for so many entries of `rank` coordinates with values of `size` bytes; false where there is not enough: then no
   more are taken. */
static bool spfgen_appended_reserve(spfgen_appended *entries, int64_t wanted, int rank, size_t size) {
    if (entries->failed || wanted <= entries->capacity) {
        return !entries->failed;
    }
    const size_t bytes = spfgen_appended_bytes(entries), each = (size_t)spfgen_appended_each(entries, rank, size);
    const int64_t more = (int64_t)((uint64_t)wanted > INT64_MAX / 2 / each ? 0 : (size_t)(wanted - entries->capacity) * each);
    const int64_t taken = more == 0 ? -1 : spfgen_appended_count(entries, more);
    if (taken < 0) {
        entries->failed = 1;
        return false;
    }
    for (int k = 0; k <= rank; k++) {
        if (k + 1 == entries->grouped) {
            continue;
        }
        void *const old = k < rank ? (void *)entries->at[k] : entries->values;
        const size_t width = k < rank ? bytes : size;
        void *const grown = spfgen_appended_memory(old, (size_t)entries->count * width, (size_t)wanted * width,
                                                  taken >= TUNED_ENTRIES_SCARCE_BYTES);
        if (!grown) {
            spfgen_appended_count(entries, -more);
            entries->failed = 1;
            return false;
        }
        if (k < rank) {
            entries->at[k] = (int64_t *)grown;
        } else {
            entries->values = grown;
        }
    }
    entries->capacity = wanted;
    return true;
}
/* Memory for `more` entries at least. Where there are many already, for all that are expected: memory that is not touched
   costs nothing, to move it does. */
static bool spfgen_appended_grow(spfgen_appended *entries, int64_t more, int rank, size_t size) {
    const int64_t needed = entries->count + more;
    const int64_t wanted = entries->capacity < 32 ? 64 : 2 * entries->capacity;
    const spfgen_appended *const whole = entries->whole ? entries->whole : entries;
    const int64_t expected = entries->expected < 1e15 ? (int64_t)entries->expected : 0;
    if (wanted > TUNED_ENTRIES_EXPECTED && wanted < expected && needed < expected && whole->most == 0 && !entries->failed) {
        if (spfgen_appended_reserve(entries, expected, rank, size)) {
            return true;
        }
        entries->failed = 0;
        entries->expected = 0;
    }
    return spfgen_appended_reserve(entries, wanted > needed ? wanted : needed, rank, size);
}
/* Whether there is memory for one more entry. */
static inline bool spfgen_appended_room(spfgen_appended *entries, int rank, size_t size) {
    return entries->count < entries->capacity || spfgen_appended_grow(entries, 1, rank, size);
}
/* The list of one of so many parts, or of the only one. */
static inline spfgen_appended *spfgen_appended_part(spfgen_appended *entries, spfgen_appended *parts, int64_t count,
                                                  int64_t number) {
    if (count == 1) {
        return entries;
    }
    spfgen_appended *const own = parts + number;
    own->whole = entries;
    own->narrow = entries->narrow;
    own->grouped = entries->grouped;
    own->expected = entries->expected / (double)count;
    return own;
}
/* A coordinate of an entry. */
static inline void spfgen_appended_set(const spfgen_appended *entries, int k, int64_t place, int64_t coordinate) {
    if (entries->narrow) {
        ((int32_t *)(void *)entries->at[k])[place] = (int32_t)coordinate;
    } else {
        entries->at[k][place] = coordinate;
    }
}
/* The same read. */
static inline int64_t spfgen_appended_at(const spfgen_appended *entries, int k, int64_t place) {
    return entries->narrow ? ((const int32_t *)(const void *)entries->at[k])[place] : entries->at[k][place];
}
/* An entry in the place of another one. */
static void spfgen_appended_copy(spfgen_appended *entries, int rank, size_t size, int64_t to, int64_t from) {
    for (int k = 0; k < rank; k++) {
        spfgen_appended_set(entries, k, to, spfgen_appended_at(entries, k, from));
    }
    memcpy((char *)entries->values + (size_t)to * size, (const char *)entries->values + (size_t)from * size, size);
}
/* Memory for so many groups; false where there is not enough. */
static bool spfgen_appended_reserve_groups(spfgen_appended *entries, int64_t wanted) {
    const int64_t more = (wanted - entries->group_capacity) * spfgen_appended_group_each(entries);
    if (entries->failed || more <= 0) {
        return !entries->failed;
    }
    entries->failed = spfgen_appended_count(entries, more) < 0;
    if (entries->failed) {
        return false;
    }
    int64_t **const own = &entries->at[entries->grouped - 1];
    void *const at = realloc(*own, (size_t)wanted * spfgen_appended_bytes(entries));
    *own = at ? (int64_t *)at : *own;
    void *const ends = at ? realloc(entries->ends, (size_t)wanted * sizeof(int64_t)) : NULL;
    entries->ends = ends ? (int64_t *)ends : entries->ends;
    if (!ends) {
        spfgen_appended_count(entries, -more);
        entries->failed = 1;
        return false;
    }
    entries->group_capacity = wanted;
    return true;
}
/* One more group, of the entries up to `end`, with the coordinate of all of them; false where there is no memory. */
static inline bool spfgen_appended_group(spfgen_appended *entries, int64_t coordinate, int64_t end) {
    const int64_t group = entries->groups, room = entries->group_capacity;
    if (group == room && !spfgen_appended_reserve_groups(entries, room < 32 ? 64 : 2 * room)) {
        return false;
    }
    spfgen_appended_set(entries, (int)entries->grouped - 1, group, coordinate);
    entries->ends[group] = end;
    entries->groups = group + 1;
    return true;
}
/* Before entries are delivered that have coordinate k in common, row by row or column by column: in groups, where the
   caller takes them. */
static inline void spfgen_appended_by_rows(spfgen_appended *entries, int k) {
    const int64_t grouped = entries->may_group ? k + 1 : 0;
    if (entries->grouped != grouped) {
        spfgen_appended_free(entries);
    }
    entries->grouped = grouped;
    entries->groups = 0;
}
/* The entries of all parts behind those that are there, in the order of the parts, which are freed. */
static void spfgen_appended_join(spfgen_appended *entries, spfgen_appended *parts, int64_t count, int rank, size_t size,
                                int threads) {
    const size_t bytes = spfgen_appended_bytes(entries);
    const int64_t each = spfgen_appended_each(entries, rank, size), group_each = spfgen_appended_group_each(entries);
    int64_t total = entries->count, groups = entries->groups, filled = 0, last = 0;
    (void)threads;
    for (int64_t p = 0; p < count; p++) {
        total += parts[p].count;
        groups += parts[p].groups;
        entries->failed |= parts[p].failed;
        filled += parts[p].count > 0;
        last = parts[p].count > 0 ? p : last;
    }
    if (!entries->failed && entries->count == 0 && filled == 1 && parts[last].count >= entries->capacity) {
        spfgen_appended_count(entries, -entries->capacity * each - entries->group_capacity * group_each);
        const int64_t most = entries->most, taken = entries->taken, may_group = entries->may_group;
        spfgen_appended *const whole = entries->whole;
        const spfgen_appended moved = parts[last];
        parts[last] = *entries;
        parts[last].capacity = parts[last].group_capacity = 0; /* counted already */
        *entries = moved;
        entries->most = most;
        entries->may_group = may_group;
        entries->taken = taken;
        entries->whole = whole;
    } else if (spfgen_appended_reserve(entries, total, rank, size) && spfgen_appended_reserve_groups(entries, groups)) {
        const bool scarce = entries->taken >= TUNED_ENTRIES_SCARCE_BYTES;
        int64_t at = entries->count;
        for (int64_t p = 0; p < count; p++) {
            const int64_t more = parts[p].count;
            for (int64_t g = 0; g < parts[p].groups; g++) {
                const int64_t *const rows = parts[p].at[entries->grouped - 1];
                const int64_t row = entries->narrow ? ((const int32_t *)(const void *)rows)[g] : rows[g];
                spfgen_appended_group(entries, row, at + parts[p].ends[g]);
            }
            parts[p].count = at; /* where its entries go */
            at += more;
        }
        #pragma omp parallel for schedule(dynamic, 1) num_threads(threads) if (threads > 1 && total > TUNED_ENTRIES_JOINED)
        for (int64_t p = 0; p < count; p++) {
            const size_t from = (size_t)parts[p].count, to = (size_t)(p + 1 < count ? parts[p + 1].count : total);
            if (from < to) {
                for (int k = 0; k < rank; k++) {
                    if (k + 1 != entries->grouped) {
                        spfgen_appended_move((char *)entries->at[k] + from * bytes, parts[p].at[k], (to - from) * bytes, scarce);
                        parts[p].at[k] = NULL;
                    }
                }
                spfgen_appended_move((char *)entries->values + from * size, parts[p].values, (to - from) * size, scarce);
                parts[p].values = NULL;
            }
        }
        entries->count = total;
    }
    for (int64_t p = 0; p < count; p++) {
        spfgen_appended_count(entries, -parts[p].capacity * each - parts[p].group_capacity * group_each);
        spfgen_appended_free(&parts[p]);
    }
}
