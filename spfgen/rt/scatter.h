/* How far apart in a result lie entries that follow one another: of windows of them, each with a number of its own, how
   many lie in another one of 1021 parts of the groups than all before them in their window. */
typedef struct spfgen_spread {
    uint64_t factor; /* 2^32 * parts / groups */
    int64_t entries, found;
    int window;
    int seen[TUNED_CONVERT_SPREAD];
} spfgen_spread;
/* Whether the question is asked: the result does not fit the cache, and a group is a number of 31 bits. */
static inline bool spfgen_may_scatter(spfgen_spread *own, double entries, int64_t each, int64_t groups) {
    memset(own, 0, sizeof *own);
    own->factor = groups > 0 ? ((uint64_t)TUNED_CONVERT_SPREAD << 32) / (uint64_t)groups : 0;
    return entries * (double)each > TUNED_CONVERT_FAR_BYTES && groups > 0 && groups < INT32_MAX;
}
static inline void spfgen_spread_note(spfgen_spread *own, int64_t group) {
    int *const seen = own->seen + ((uint64_t)group * own->factor >> 32);
    own->entries++;
    own->found += *seen != own->window;
    *seen = own->window;
}
static inline bool spfgen_is_far(const spfgen_spread *own) {
    return own->entries > 0 && 100 * own->found >= TUNED_CONVERT_MANY_APART * own->entries;
}
/* How many buckets of groups; one begins at another part of a page than the one before, else all would share few lines. */
static inline int64_t spfgen_buckets(double entries, int64_t groups) {
    const double wanted = entries / TUNED_CONVERT_BUCKET;
    int64_t most = wanted < TUNED_CONVERT_BUCKETS ? (int64_t)wanted : TUNED_CONVERT_BUCKETS;
    most = most < groups ? most : groups;
    most = most < 1 ? 1 : most;
    int64_t best = most;
    double least = 4096.0;
    for (int64_t b = most - most / 8; b <= most; b++) {
        const double part = 4.0 * entries / (double)b, far = part - 4096.0 * (double)(int64_t)(part / 4096.0) - TUNED_CONVERT_PAGE_PART;
        if (b > 0 && (far < 0.0 ? -far : far) < least) {
            least = far < 0.0 ? -far : far;
            best = b;
        }
    }
    return best;
}
/* In how many windows the entries are cut, of which some are looked at. */
static inline int spfgen_windows(double entries) {
    const double windows = entries / TUNED_CONVERT_WINDOW;
    return windows < TUNED_CONVERT_SAMPLES ? TUNED_CONVERT_SAMPLES : windows < INT32_MAX ? (int)windows : INT32_MAX;
}
