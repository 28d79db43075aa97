/* The positions of a rank that occur, as words, some of them twice, while a part of a loop finds them; then the numbers of
   those that came last. The lower bits of a word choose its slot. All zero before spfgen_marks_open. */
typedef struct spfgen_marks {
    uint32_t mask;   /* slots, less one */
    uint64_t *seen;  /* the word that each slot has, or one that belongs to another slot: none */
    uint32_t *number; /* where the key of a slot is among all keys, once these are in order */
    uint64_t *word;  /* those found */
    int64_t count, room;
    uint64_t group;  /* the bits that words of a group have in common */
    uint64_t loaded; /* one of the group whose words have been brought to their slots, which end at key `last` */
    int64_t last;    /* 0: none yet */
    spfgen_appended *entries; /* which counts bytes */
} spfgen_marks;

/* How many slots: one for each word with the same upper bits, but no more than there is work for. */
static inline int64_t spfgen_marks_slots(int bits, double entries) {
    int64_t slots = 2;
    while (bits > 1 && slots < INT64_C(1) << 31 && ((double)slots < entries || slots < 4096)) {
        slots *= 2;
        bits--;
    }
    return slots;
}
static int spfgen_marks_open(spfgen_marks *marks, int lanes, int64_t slots, spfgen_appended *entries) {
    for (int lane = 0; lane < lanes; lane++) {
        marks[lane].mask = (uint32_t)(slots - 1);
        marks[lane].entries = entries;
        const bool may = spfgen_appended_count(entries, 12 * slots) >= 0;
        marks[lane].seen = may ? (uint64_t *)malloc((size_t)slots * sizeof(uint64_t)) : NULL;
        if (!marks[lane].seen) {
            return SPFGEN_ERROR_MEMORY;
        }
        for (int64_t slot = 0; slot < slots; slot++) {
            marks[lane].seen[slot] = (uint64_t)slot ^ 1;
        }
    }
    return SPFGEN_OK;
}
static void spfgen_marks_free(spfgen_marks *marks, int lanes) {
    for (int lane = 0; lane < lanes; lane++) {
        free(marks[lane].seen);
        free(marks[lane].number);
        free(marks[lane].word);
    }
}
/* Room for more words; false where there is no memory, which is told at the end. */
static SPFGEN_NOINLINE bool spfgen_marks_grow(spfgen_marks *own) {
    const int64_t wanted = own->room < 32 ? 64 : 2 * own->room;
    spfgen_appended *const entries = own->entries;
    const bool may = spfgen_appended_count(entries, (wanted - own->room) * (int64_t)sizeof(uint64_t)) >= 0;
    uint64_t *const word = may ? (uint64_t *)realloc(own->word, (size_t)wanted * sizeof(uint64_t)) : NULL;
    if (!word) {
        #pragma omp atomic write
        entries->failed = 1;
        return false;
    }
    own->word = word;
    own->room = wanted;
    return true;
}
/* The position with this word occurs. */
static inline void spfgen_mark(spfgen_marks *own, uint64_t word) {
    uint64_t *const seen = own->seen + (word & own->mask);
    if (*seen != word) {
        *seen = word;
        if (own->count < own->room || spfgen_marks_grow(own)) {
            own->word[own->count++] = word;
        }
    }
}
/* The words of a part in order: those of a group, with equal bits from `width` up, mostly stand side by side. */
static void spfgen_marks_sort(spfgen_marks *own, int width, int bits) {
    uint64_t *const word = own->word;
    const uint64_t group = width < 64 ? UINT64_MAX << width : 0;
    bool falls = false;
    for (int64_t first = 0, last; first < own->count; first = last) {
        bool sorted = true;
        for (last = first + 1; last < own->count && ((word[last] ^ word[first]) & group) == 0; last++) {
            sorted &= word[last - 1] <= word[last];
        }
        if (!sorted) {
            spfgen_sort_words(word + first, last - first, width);
        }
        falls |= first > 0 && word[first] < word[first - 1];
    }
    if (falls) {
        spfgen_sort_words(word, own->count, bits);
    }
}
/* Words in order among n that are in order, each once; how many there are then. There is room for all. */
static int64_t spfgen_marks_merged(uint64_t *all, int64_t n, const uint64_t *word, int64_t count) {
    int64_t old = n, place = n + count, to;
    if (count > 0 && (n == 0 || all[n - 1] < word[0])) {
        memcpy(all + n, word, (size_t)count * sizeof *word);
    } else {
        for (int64_t q = count; q > 0;) {
            all[--place] = old > 0 && all[old - 1] > word[q - 1] ? all[--old] : word[--q];
        }
    }
    to = old;
    for (int64_t q = old; q < n + count; q++) {
        if (to == 0 || all[q] != all[to - 1]) {
            all[to++] = all[q];
        }
    }
    return to;
}
/* All words in order, each once, as the keys of the entries; then lanes look for numbers. */
static int spfgen_marks_gathered(spfgen_marks *marks, int lanes, int width, int bits, spfgen_appended *entries, int threads) {
    int64_t total = 0;
    (void)threads;
    if (entries->failed) {
        return SPFGEN_ERROR_MEMORY;
    }
    if (entries->misplaced) {
        return SPFGEN_ERROR_PLACE;
    }
    for (int lane = 0; lane < lanes; lane++) {
        total += marks[lane].count;
    }
    if (spfgen_appended_count(entries, (total + 1) * (int64_t)sizeof(uint64_t)) < 0) {
        return SPFGEN_ERROR_MEMORY;
    }
    entries->keys = (uint64_t *)malloc((size_t)(total + 1) * sizeof(uint64_t));
    bool failed = !entries->keys;
    #pragma omp parallel for schedule(dynamic, 1) num_threads(threads) reduction(|| : failed) if (threads > 1 && lanes > 1)
    for (int lane = 0; lane < lanes; lane++) {
        spfgen_marks *const own = marks + lane;
        spfgen_marks_sort(own, width, bits);
        own->group = width < 64 ? UINT64_MAX << width : 0;
        own->number = (uint32_t *)calloc((size_t)own->mask + 1, sizeof(uint32_t));
        failed = failed || !own->number;
    }
    if (failed) {
        return SPFGEN_ERROR_MEMORY;
    }
    entries->count = 0;
    for (int lane = 0; lane < lanes; lane++) { /* not in parallel: positions are few beside entries */
        entries->count = spfgen_marks_merged(entries->keys, entries->count, marks[lane].word, marks[lane].count);
    }
    return entries->count <= UINT32_MAX ? SPFGEN_OK : SPFGEN_ERROR_MEMORY;
}
/* The number of a word that is not in its slot: those of all words of its group are brought to their slots, once. */
static SPFGEN_NOINLINE int64_t spfgen_marks_find(spfgen_marks *own, const spfgen_appended *entries, uint64_t word) {
    const uint64_t *const key = entries->keys;
    const bool loads = own->last == 0 || ((word ^ own->loaded) & own->group) != 0;
    const uint64_t wanted = loads ? word & own->group : word;
    int64_t low = 0, high = entries->count;
    if (loads && own->last < high && ((key[own->last] ^ word) & own->group) == 0) {
        low = high = own->last; /* the next group; key[last - 1] is of the one before */
    }
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (key[middle] < wanted) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if (loads) {
        int64_t q = low;
        for (; q < entries->count && ((key[q] ^ word) & own->group) == 0; q++) {
            own->number[key[q] & own->mask] = (uint32_t)q;
        }
        own->loaded = word;
        own->last = q;
        low = own->number[word & own->mask];
        return key[low] == word ? low : spfgen_marks_find(own, entries, word);
    }
    own->number[word & own->mask] = (uint32_t)low;
    return low;
}
static inline int64_t spfgen_marked(spfgen_marks *own, const spfgen_appended *entries, uint64_t word) {
    const int64_t number = own->number[word & own->mask];
    return entries->keys[number] == word ? number : spfgen_marks_find(own, entries, word);
}
