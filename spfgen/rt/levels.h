/* Levels of a loop whose iterations need earlier ones. An inspector gives the pairs of iterations, several times: blocks
   of neighbouring iterations are put into levels, for several sizes of blocks, and the size is taken that should be
   fastest (small blocks leave more to do at once, large ones need fewer levels and go through memory in order), if
   lists of iterations should not be much faster (rt/lists.h); where they may be, there are both. Then it is found out
   which units of other threads each unit needs. No thread waits for more than that. */
#if defined(__unix__) || defined(__APPLE__)
#include <sched.h>
#endif

enum {
    SPFGEN_LEVELS_SIZES = 7,
    SPFGEN_LEVELS_ITERATION = 5, /* nanoseconds that an iteration takes, */
    SPFGEN_LEVELS_PAIRS = 3,     /* and ten of its pairs */
    SPFGEN_LEVELS_CHAIN = 8,     /* nanoseconds, at least, of one that needs the one before it, just done */
    SPFGEN_LEVELS_BYTES = 8,     /* of an iteration: a nanosecond until a block begins for so many from memory, */
    SPFGEN_LEVELS_SHARED = 4,    /* or so many in all from a cache that cores share, */
    SPFGEN_LEVELS_CACHED = 3,    /* or from one of a core's own */
    SPFGEN_LEVELS_SHORT = 8,     /* iterations of a block that need one another, while the core does others at once */
    SPFGEN_LEVELS_CACHE = 1 << 20, /* bytes that a thread has there */
    SPFGEN_LEVELS_LARGE = 8,     /* times as many it has in what cores share */
    SPFGEN_LEVELS_OVERLAP = 2,   /* iterations that a core does at once, where they do not need one another */
    SPFGEN_LEVELS_AHEAD = 4,     /* runs: so far ahead is fetched what does not come from there */
    SPFGEN_LEVELS_WAIT = 300,    /* nanoseconds until a thread knows what another one has done */
    SPFGEN_LEVELS_TRIES = 2000,  /* looks at what another thread has done before others may have the core */
    SPFGEN_LEVELS_EAGER = 64,    /* of these with no pause between them, which takes as long as several */
    SPFGEN_LEVELS_SOON = 50,     /* when that has happened in this call */
    SPFGEN_LEVELS_PADDING = 16,    /* places between what two threads write: they share no line of a cache */
    SPFGEN_LEVELS_LIKELY = 2,    /* times as long as by the other, where both levels and lists are tried */
    SPFGEN_LEVELS_LEAST = 8000,  /* nanoseconds of a loop, else it is serial: another way gains less than to time it */
    SPFGEN_LEVELS_WARM = 3,      /* calls after which caches have what a way needs there */
    SPFGEN_LEVELS_CALLS = 6,     /* calls that try a way at least, */
    SPFGEN_LEVELS_RUN = 2000,    /* and microseconds */
    SPFGEN_LEVELS_LATELY = 16,   /* calls, at least, whose mean says how long one takes now */
    SPFGEN_LEVELS_MOST = 8,      /* times as long as the others a call may count among them */
    SPFGEN_LEVELS_LONGER = 64,   /* times as long as a trial the fastest way runs at most */
    SPFGEN_LEVELS_GAIN = 10,     /* percent that it gains at least, else the loop is serial: it was measured in passing */
    SPFGEN_LEVELS_OTHER = 0,     /* ways in which a call runs: each thread does its units of the other order, */
    SPFGEN_LEVELS_PARALLEL = 1,  /* or of this one, */
    SPFGEN_LEVELS_ONE_THREAD = 2,     /* one thread does all units, */
    SPFGEN_LEVELS_SERIAL = 3,    /* or all iterations in their order */
    SPFGEN_LEVELS_WAYS = 4
};

/* How far the numbers of iterations are shifted to give those of blocks. */
static inline int spfgen_levels_shift(int size) {
    static const int shifts[SPFGEN_LEVELS_SIZES] = {0, 1, 2, 3, 4, 6, 9};
    return shifts[size];
}

/* The order number `number` that the caller keeps, if it is of use, and no other call uses it: it says how far the
   threads of one call are. */
static inline spfgen_levels *spfgen_levels_kept(spfgen_levels *levels, int64_t number) {
#if defined(_OPENMP) && defined(__GNUC__)
    return levels && !__atomic_exchange_n(&levels[number].busy, 1, __ATOMIC_ACQUIRE) ? levels + number : NULL;
#else
    (void)levels, (void)number;
    return NULL; /* threads have no way to wait for one another, nor is there a clock */
#endif
}

/* The order as it was at first, but for the call that uses it. */
static inline void spfgen_levels_forget(spfgen_levels *order) {
    spfgen_levels_free(order);
    order->busy = 1;
}

/* Room for what the first pairs say. */
static inline bool spfgen_levels_begin(spfgen_levels *order, int64_t iterations, int threads) {
    spfgen_levels_forget(order);
    order->iterations = iterations;
    order->allowed = threads;
    order->threads = threads;
    if (iterations < 1 || iterations >= INT32_MAX || (uint64_t)iterations > SIZE_MAX / 32) {
        return false;
    }
    order->depth = (int64_t *)calloc(2 * (size_t)iterations + SPFGEN_LEVELS_SIZES, sizeof(int64_t));
    order->work = (int64_t *)malloc((size_t)iterations * sizeof(int64_t));
    order->nearest = (int32_t *)malloc((size_t)iterations * sizeof(int32_t));
    if (!order->depth || !order->work || !order->nearest) {
        spfgen_levels_forget(order);
        return false;
    }
    for (int64_t k = 0; k < iterations; k++) {
        order->work[k] = 0;
        order->nearest[k] = INT32_MAX;
    }
    return true;
}

/* After all pairs: the nanoseconds that each iteration takes, where the number of its pairs was. Returns their sum. */
static inline double spfgen_levels_weigh(const spfgen_levels *order) {
    double serial = 0;
    for (int64_t k = 0; k < order->iterations; k++) {
        order->work[k] = SPFGEN_LEVELS_ITERATION + (SPFGEN_LEVELS_PAIRS * order->work[k] + 5) / 10;
        serial += (double)order->work[k];
    }
    return serial;
}

/* The number of the block in which the last iteration is. */
static inline int64_t spfgen_levels_last_block(const spfgen_levels *order, int size) {
    return (order->iterations - 1) >> spfgen_levels_shift(size);
}

/* The units are known: that of one iteration needs that of the other. */
static inline void spfgen_levels_need(const spfgen_levels *order, int64_t later, int64_t earlier) {
    const int64_t *const a = order->place + 2 * (later >> order->shift);
    const int64_t *const b = order->place + 2 * (earlier >> order->shift);
    int32_t *const least = order->latest + (a[1] * order->threads + a[0]) * order->threads + b[0];
    if (a[0] != b[0] && *least <= b[1]) {
        *least = (int32_t)b[1] + 1;
    }
}

/* Iteration `later` needs iteration `earlier`. */
static inline void spfgen_levels_pair(const spfgen_levels *order, int64_t later, int64_t earlier) {
    if (order->latest) {
        spfgen_levels_need(order, later, earlier);
        if (order->other) {
            spfgen_levels_need(order->other, later, earlier);
        }
        return;
    }
    if (order->lists) {
        spfgen_lists_pair(order->lists, later, earlier);
        return;
    }
    int64_t *depth = order->depth;
    order->work[later]++;
    order->nearest[later] = (int32_t)spfgen_min(order->nearest[later], later - earlier);
    for (int k = 0; k < SPFGEN_LEVELS_SIZES; k++) {
        const int64_t a = later >> spfgen_levels_shift(k);
        const int64_t b = earlier >> spfgen_levels_shift(k);
        if (a == b) {
            return; /* nor do larger blocks tell them apart */
        }
        if (depth[a] <= depth[b]) {
            depth[a] = depth[b] + 1;
        }
        depth += spfgen_levels_last_block(order, k) + 1;
    }
}

/* What the levels of one size of blocks cost, by the work of each level and its largest block; and which levels one
   thread does alone, because that is faster, or (when levels are wanted) because they have one block. */
static inline double spfgen_levels_cost(int64_t threads, int64_t levels, const int64_t *work, const int64_t *largest,
                                        unsigned char *single, bool wanted) {
    const double at_once = (double)(threads > 1 ? threads : SPFGEN_LEVELS_OVERLAP);
    const double wait = threads > 1 ? SPFGEN_LEVELS_WAIT : 0;
    double total = 0;
    bool several = false;
    for (int64_t k = 0; k < levels; k++) {
        const double shared = spfgen_most((double)work[k] / at_once, (double)largest[k]) + wait;
        single[k] = wanted ? work[k] == largest[k] : (double)work[k] <= shared;
        several = several || !single[k];
        total += single[k] ? (double)work[k] : shared;
    }
    return several ? total : 1e300;
}

/* The loop is serial, and that is not looked at again. */
static inline void spfgen_levels_refuse(spfgen_levels *order) {
    const int64_t iterations = order->iterations;
    const int64_t allowed = order->allowed;
    spfgen_levels_forget(order);
    order->iterations = iterations;
    order->allowed = allowed;
    order->levels = 1;
}

/* How many places of `seen` a thread has: they share no line of a cache with those of another one. */
static inline int64_t spfgen_levels_seen(int64_t threads) {
    return (threads / SPFGEN_LEVELS_PADDING + 2) * SPFGEN_LEVELS_PADDING;
}

/* Room for units, with what they need. */
static inline bool spfgen_levels_room(spfgen_levels *order, int64_t levels) {
    const size_t blocks = (size_t)((order->iterations - 1) >> order->shift) + 1;
    const size_t threads = (size_t)order->threads;
    const double needs = (double)levels * (double)threads * (double)threads;
    const bool fits = levels < INT32_MAX && needs < 128.0 * (double)order->iterations + 65536;
    const size_t units = fits ? (size_t)levels * threads : 0;
    order->levels = levels;
    order->units = (int64_t)units;
    order->run = (int32_t *)malloc(2 * (blocks + 1) * sizeof(int32_t));
    order->unit = (int64_t *)calloc(units + 3, sizeof(int64_t));
    order->wait = (int64_t *)calloc(units + 1, sizeof(int64_t));
    order->done = (int64_t *)malloc(threads * SPFGEN_LEVELS_PADDING * sizeof(int64_t));
    order->seen = (int64_t *)malloc(threads * (size_t)spfgen_levels_seen(order->threads) * sizeof(int64_t));
    order->latest = (int32_t *)calloc(units ? units * threads : 1, sizeof(int32_t));
    return fits && order->run && order->unit && order->wait && order->done && order->seen && order->latest;
}

/* The runs of the units, of blocks in their places: those of a unit that follow one another are one. In `unit` is how
   many each unit has, behind the one before it. */
static inline void spfgen_levels_runs(spfgen_levels *order) {
    const int64_t blocks = ((order->iterations - 1) >> order->shift) + 1;
    int64_t *const unit = order->unit;
    for (int64_t u = 0; u < order->units; u++) {
        unit[u + 1] += unit[u];
    }
    int64_t last = -1;
    for (int64_t b = 0; b < blocks; b++) {
        const int64_t own = order->place[2 * b + 1] * order->threads + order->place[2 * b];
        if (own != last) {
            order->run[2 * unit[own]++] = (int32_t)(b << order->shift);
        }
        order->run[2 * unit[own] - 1] = (int32_t)spfgen_min((b + 1) << order->shift, order->iterations);
        last = own;
    }
    for (int64_t u = order->units; u > 0; u--) {
        unit[u] = unit[u - 1];
    }
    unit[0] = 0;
}

/* The units are the parts of lists. Whether there is memory for them. */
static inline bool spfgen_levels_list(spfgen_levels *order, const spfgen_list *list) {
    const int64_t n = order->iterations;
    order->shift = 0;
    order->size = 1;
    order->listed = 1;
    order->place = (int64_t *)malloc(2 * (size_t)n * sizeof(int64_t));
    if (!order->place || !spfgen_levels_room(order, spfgen_lists_places(order->lists, list, order->place))) {
        return false;
    }
    int64_t last = -1;
    for (int64_t k = 0; k < n; k++) {
        const int64_t own = order->place[2 * k + 1] * order->threads + order->place[2 * k];
        order->unit[own + 1] += own != last;
        last = own;
    }
    spfgen_levels_runs(order);
    const int64_t runs = order->unit[order->units];
    order->unit[order->units + 1] = runs; /* and for one thread the loop as it is */
    order->unit[order->units + 2] = runs + 1;
    order->run[2 * runs] = 0;
    order->run[2 * runs + 1] = (int32_t)n;
    return true;
}

/* Puts the blocks in units: neighbouring levels that one thread does alone become one; the others are divided in parts
   of about equal work, one for each thread: neighbours are with the same thread in most of them. Blocks of a unit that
   follow one another become one run. Whether it can be. */
static inline bool spfgen_levels_divide(spfgen_levels *order, const int64_t *work, const int64_t *depth,
                                        const unsigned char *single, int64_t depths) {
    const int64_t blocks = ((order->iterations - 1) >> order->shift) + 1;
    const int64_t threads = order->threads;
    int64_t *const total = (int64_t *)calloc(3 * (size_t)depths, sizeof(int64_t));
    if (!total) {
        return false;
    }
    int64_t *const placed = total + depths; /* of the work of each level */
    int64_t *const level = placed + depths; /* that each depth becomes */
    int64_t levels = 0;
    for (int64_t k = 0; k < depths; k++) {
        levels += k == 0 || !single[k] || !single[k - 1];
        level[k] = levels - 1;
    }
    order->place = (int64_t *)malloc(2 * (size_t)blocks * sizeof(int64_t));
    if (!order->place || !spfgen_levels_room(order, levels)) {
        free(total);
        return false;
    }
    for (int64_t b = 0; b < blocks; b++) {
        total[level[depth[b]]] += work[b];
    }
    int64_t last = -1;
    for (int64_t b = 0; b < blocks; b++) {
        const int64_t at = level[depth[b]];
        const double middle = (double)placed[at] + (double)work[b] / 2; /* large blocks are with whom most of them is */
        const int64_t part = (int64_t)(middle / (double)total[at] * (double)threads);
        placed[at] += work[b];
        order->place[2 * b] = single[depth[b]] ? 0 : spfgen_min(part, threads - 1);
        order->place[2 * b + 1] = at;
        const int64_t own = at * threads + order->place[2 * b];
        order->unit[own + 1] += own != last;
        last = own;
    }
    free(total);
    spfgen_levels_runs(order);
    return true;
}

/* The levels of the blocks of one size. */
static inline const int64_t *spfgen_levels_depth(const spfgen_levels *order, int size) {
    const int64_t *depth = order->depth;
    for (int s = 0; s < size; s++) {
        depth += spfgen_levels_last_block(order, s) + 1;
    }
    return depth;
}

/* Nanoseconds that an iteration takes if the one before it has just been done. */
static inline int64_t spfgen_levels_chained(const spfgen_levels *order, int64_t iteration) {
    const int64_t work = order->work[iteration];
    return order->nearest[iteration] == 1 ? spfgen_max(work, SPFGEN_LEVELS_CHAIN) : work;
}

/* Nanoseconds until a block begins that does not follow the one before it. */
static inline int64_t spfgen_levels_jump(const spfgen_levels *order, double bytes) {
    const double cache = (double)order->threads * SPFGEN_LEVELS_CACHE;
    return bytes < cache                         ? SPFGEN_LEVELS_CACHED
           : bytes < SPFGEN_LEVELS_LARGE * cache ? SPFGEN_LEVELS_SHARED
                                                 : (int64_t)(bytes / SPFGEN_LEVELS_BYTES / (double)order->iterations);
}

/* The work of each block of one size, in `sums` that of each level and then that of its largest block. Returns the
   number of levels. */
static inline int64_t spfgen_levels_sum(const spfgen_levels *order, int size, double bytes, int64_t *work,
                                        int64_t *sums) {
    const int64_t jump = spfgen_levels_jump(order, bytes);
    const bool chained = 1 << spfgen_levels_shift(size) > SPFGEN_LEVELS_SHORT;
    const int64_t *const depth = spfgen_levels_depth(order, size);
    const int64_t blocks = spfgen_levels_last_block(order, size) + 1;
    int64_t depths = 0;
    for (int64_t b = 0; b < blocks; b++) {
        work[b] = b && depth[b] == depth[b - 1] ? 0 : jump;
        depths = depth[b] >= depths ? depth[b] + 1 : depths;
    }
    for (int64_t i = 0; i < order->iterations; i++) {
        work[i >> spfgen_levels_shift(size)] += chained ? spfgen_levels_chained(order, i) : order->work[i];
    }
    int64_t *const largest = sums + depths;
    for (int64_t d = 0; d < 2 * depths; d++) {
        sums[d] = 0;
    }
    for (int64_t b = 0; b < blocks; b++) {
        sums[depth[b]] += work[b];
        largest[depth[b]] = spfgen_max(work[b], largest[depth[b]]);
    }
    return depths;
}

/* The size of blocks that should be fastest for the order's threads, faster than `best`, which becomes its time; -1
   when there is none. */
static inline int spfgen_levels_size(const spfgen_levels *order, double *best, double bytes, bool wanted, int64_t *work,
                                     int64_t *sums, unsigned char *single) {
    int chosen = -1;
    for (int size = 0; size < SPFGEN_LEVELS_SIZES; size++) {
        const int64_t depths = spfgen_levels_sum(order, size, bytes, work, sums);
        const double cost = spfgen_levels_cost(order->threads, depths, sums, sums + depths, single, wanted);
        if (cost < *best) {
            *best = cost;
            chosen = size;
        }
    }
    return chosen;
}

/* The first of the ways there are: where one thread has all units, each doing its own is no way besides the others. */
static inline int64_t spfgen_levels_least_way(const spfgen_levels *kept) {
    return kept->other         ? SPFGEN_LEVELS_OTHER
           : kept->threads > 1 ? SPFGEN_LEVELS_PARALLEL
                               : SPFGEN_LEVELS_ONE_THREAD;
}

/* Besides levels, the lists that may be faster; without, if there is no memory for them. */
static inline void spfgen_levels_add(spfgen_levels *order, const spfgen_list *list, int64_t threads) {
    spfgen_levels *const other = (spfgen_levels *)calloc(1, sizeof(spfgen_levels));
    if (other) {
        other->iterations = order->iterations;
        other->allowed = order->allowed;
        other->threads = threads;
        other->ahead = order->ahead;
        other->lists = order->lists;
        order->other = other;
        if (!spfgen_levels_list(other, list)) {
            spfgen_levels_drop(order);
        } else {
            other->lists = NULL;
        }
    }
}

/* After all pairs: the blocks in units, for all threads, or for one where waiting should take too long. Whether the
   pairs are wanted once more; if not the loop is serial, because that should be faster (and levels are not wanted all
   the same), or there is no memory. */
static inline bool spfgen_levels_choose(spfgen_levels *order, bool wanted) {
    const int64_t n = order->iterations;
    int64_t *const work = (int64_t *)malloc((size_t)n * sizeof(int64_t)); /* of each block */
    int64_t *const sums = (int64_t *)malloc(2 * (size_t)n * sizeof(int64_t));
    unsigned char *const single = (unsigned char *)malloc((size_t)n);
    double serial = 0;
    double all = 0;
    for (int64_t k = 0; k < n; k++) {
        all += (double)order->work[k];
        serial += (double)spfgen_levels_chained(order, k);
    }
    const double pairs = (all - (double)n * SPFGEN_LEVELS_ITERATION) * 10 / SPFGEN_LEVELS_PAIRS;
    const double bytes = 36.0 * (double)n + 12.0 * pairs;
    const int64_t threads = order->threads;
    const bool far = bytes > (double)SPFGEN_LEVELS_CACHE * (double)threads;
    order->ahead = far ? SPFGEN_LEVELS_AHEAD : INT32_MAX;
    bool made = false;
    if (work && sums && single) {
        double best = wanted ? 1e299 : serial;
        double listed = 1e300;
        spfgen_list *const list = order->lists ? spfgen_lists_best(order->lists, &listed) : NULL;
        int size = spfgen_levels_size(order, &best, bytes, wanted, work, sums, single);
        if (list && listed < (size < 0 ? best : best / SPFGEN_LEVELS_LIKELY)) {
            made = spfgen_levels_list(order, list);
        } else {
            if (size < 0 && threads > 1) {
                order->threads = 1;
                size = spfgen_levels_size(order, &best, bytes, wanted, work, sums, single);
            }
            if (size >= 0) {
                const int64_t depths = spfgen_levels_sum(order, size, bytes, work, sums);
                spfgen_levels_cost(order->threads, depths, sums, sums + depths, single, wanted);
                order->shift = spfgen_levels_shift(size);
                order->size = (int64_t)1 << order->shift;
                made = spfgen_levels_divide(order, work, spfgen_levels_depth(order, size), single, depths);
            }
            if (made && list && order->levels > 1 && listed < spfgen_least(serial, SPFGEN_LEVELS_LIKELY * best)) {
                spfgen_levels_add(order, list, threads);
            }
        }
    }
    spfgen_lists_free(order->lists);
    order->lists = NULL;
    free(work);
    free(sums);
    free(single);
    if (made) {
        order->wanted = wanted;
        order->turn = spfgen_levels_least_way(order);
        order->way = wanted ? order->turn : SPFGEN_LEVELS_SERIAL;
        for (int way = 0; way < SPFGEN_LEVELS_WAYS; way++) {
            order->lately[way] = 1e300; /* it is not known yet */
        }
    } else {
        spfgen_levels_refuse(order);
    }
    return made;
}

/* Which units of other threads each unit needs, but for those that earlier units of its thread have needed. Whether
   there is memory for it. */
static inline bool spfgen_levels_needs(spfgen_levels *order) {
    const int64_t threads = order->threads;
    int64_t *const known = (int64_t *)malloc((size_t)threads * (size_t)threads * sizeof(int64_t)); /* to each thread, of each */
    for (int write = 0; known && write < 2; write++) { /* first how many there are */
        int64_t count = 0;
        for (int64_t k = 0; k < threads * threads; k++) {
            known[k] = 0;
        }
        for (int64_t unit = 0; unit < order->units; unit++) {
            order->wait[unit] = count;
            for (int64_t other = 0; other < threads; other++) {
                const int64_t least = order->latest[unit * threads + other];
                int64_t *const before = known + unit % threads * threads + other;
                if (least > *before) {
                    *before = least;
                    if (write) {
                        order->need[2 * count] = other;
                        order->need[2 * count + 1] = least;
                    }
                    count++;
                }
            }
        }
        order->wait[order->units] = count;
        if (!write) {
            order->need = (int64_t *)malloc((2 * (size_t)count + 1) * sizeof(int64_t));
            write += !order->need;
        }
    }
    free(known);
    free(order->depth);
    free(order->work);
    free(order->nearest);
    free(order->place);
    free(order->latest);
    order->depth = NULL;
    order->work = NULL;
    order->nearest = NULL;
    order->place = NULL;
    order->latest = NULL;
    return order->need;
}

/* After all pairs once more: what the units need. */
static inline void spfgen_levels_connect(spfgen_levels *order) {
    if (order->other && !spfgen_levels_needs(order->other)) {
        spfgen_levels_drop(order);
    }
    if (!spfgen_levels_needs(order)) {
        spfgen_levels_refuse(order);
    }
}

/* Whether the inspector is to give all pairs, once more: until the order for so many iterations and threads is made. */
static SPFGEN_NOINLINE bool spfgen_levels_asks(spfgen_levels *order, int64_t iterations, int threads, bool wanted) {
    if (!order) {
        return false;
    }
    if (order->latest) {
        spfgen_levels_connect(order);
        return false;
    }
    if (order->depth && !order->lists) {
        const double serial = spfgen_levels_weigh(order);
        if (!wanted && serial < SPFGEN_LEVELS_LEAST) {
            spfgen_levels_refuse(order);
            return false;
        }
        if (!wanted && threads > 1) {
            order->lists = spfgen_lists_new(iterations, threads, order->work, order->nearest);
        }
        return order->lists || spfgen_levels_choose(order, wanted);
    }
    if (order->lists) {
        return spfgen_levels_choose(order, wanted);
    }
    if (order->levels && order->iterations == iterations && order->allowed == threads) {
        return false;
    }
    return spfgen_levels_begin(order, iterations, threads);
}

/* Seconds since some moment. */
static inline double spfgen_levels_clock(void) {
#ifdef _OPENMP
    return omp_get_wtime();
#else
    return 0;
#endif
}

/* The way that has been fastest lately. */
static inline int64_t spfgen_levels_fastest(const spfgen_levels *kept) {
    int64_t fastest = spfgen_levels_least_way(kept);
    for (int64_t way = fastest + 1; way < SPFGEN_LEVELS_WAYS; way++) {
        fastest = kept->lately[way] < kept->lately[fastest] ? way : fastest;
    }
    return fastest;
}

/* Whether this turn tries a way: first each of them, then one of the slower ones now and then. */
static inline bool spfgen_levels_tries(const spfgen_levels *kept) {
    return kept->turn < SPFGEN_LEVELS_WAYS || (kept->turn - SPFGEN_LEVELS_WAYS) % 2 != 0;
}

/* The order for one thread, which does all units. */
static inline spfgen_levels spfgen_levels_one_thread(const spfgen_levels *order) {
    spfgen_levels single = *order;
    single.threads = 1;
    single.wait = single.done = NULL; /* nobody waits */
    if (order->listed) {
        single.unit += order->units + 1;
        single.units = 1;
    }
    return single;
}

/* The order of this call: the one that is kept, for its threads or one, or of no threads when the loop is serial; the
   values are the same. All ways are tried for some time, the loop as it is first, as it takes several calls until caches
   and predictions of branches are as they will be; then what has been fastest lately runs, and in between another one is
   tried again, all of them where that one has become slower: others may need the cores now, or none any more. */
static SPFGEN_NOINLINE spfgen_levels spfgen_levels_order(spfgen_levels *kept) {
    const spfgen_levels serial = SPFGEN_LEVELS_NONE;
    if (!kept || !kept->size) {
        return serial;
    }
    kept->start = kept->wanted ? 0 : spfgen_levels_clock();
    if (!kept->wanted && !spfgen_levels_tries(kept) && kept->calls == 0) {
        const int64_t fastest = spfgen_levels_fastest(kept);
        const double least = kept->lately[SPFGEN_LEVELS_SERIAL] * (100 - SPFGEN_LEVELS_GAIN) / 100;
        kept->way = kept->lately[fastest] < least ? fastest : SPFGEN_LEVELS_SERIAL;
    }
    const bool together = kept->way <= SPFGEN_LEVELS_PARALLEL;
    spfgen_levels *const order = kept->way == SPFGEN_LEVELS_OTHER ? kept->other : kept;
    for (int64_t t = 0; together && t < order->threads; t++) {
        int64_t *const seen = order->seen + t * spfgen_levels_seen(order->threads);
        order->done[t * SPFGEN_LEVELS_PADDING] = 0;
        for (int64_t other = 0; other < order->threads; other++) {
            seen[other] = 0;
        }
        seen[order->threads] = SPFGEN_LEVELS_TRIES;
    }
    return together ? *order : kept->way == SPFGEN_LEVELS_ONE_THREAD ? spfgen_levels_one_thread(kept) : serial;
}

/* The call has run: how fast its way is, and whether another one is tried next. */
static SPFGEN_NOINLINE void spfgen_levels_timed(spfgen_levels *kept) {
    const double took = spfgen_levels_clock() - kept->start;
    const double least = SPFGEN_LEVELS_RUN * 1e-6;
    double *const lately = kept->lately + kept->way;
    const int64_t least_way = spfgen_levels_least_way(kept);
    const bool tried = spfgen_levels_tries(kept);
    if (tried && kept->calls < SPFGEN_LEVELS_WARM) { /* what was before is too long ago */
        *lately = took;
    } else { /* in the mean of half a trial or more, one call that was disturbed does not make the way look slower */
        const double window = spfgen_most(SPFGEN_LEVELS_LATELY, least / 2 / *lately);
        const double calls = tried ? spfgen_least((double)(kept->calls - SPFGEN_LEVELS_WARM + 2), window) : window;
        *lately += (spfgen_least(took, SPFGEN_LEVELS_MOST * *lately) - *lately) / calls;
    }
    kept->spent += took;
    kept->calls++;
    const bool over = kept->calls >= SPFGEN_LEVELS_CALLS && kept->spent >= spfgen_most(kept->limit, least);
    const double best = kept->lately[spfgen_levels_fastest(kept)];
    const bool known = (kept->turn > SPFGEN_LEVELS_WAYS && kept->calls > SPFGEN_LEVELS_CALLS) ||
                       (kept->calls > 1 && kept->spent >= least); /* where cores are not free, each call takes that long */
    const bool hopeless = tried && known && *lately > (kept->calls > SPFGEN_LEVELS_WARM ? 1.5 : 3) * best;
    const bool slower = !tried && kept->spent >= kept->limit / 2 && *lately > 1.25 * best; /* trials are the lesser part */
    if (!over && !hopeless && !slower) {
        return;
    }
    const double spent = spfgen_most(kept->spent, least);
    kept->turn = slower ? least_way : kept->turn + 1; /* others may be slower now, too: all are tried anew */
    kept->limit = 0;
    if (kept->turn < SPFGEN_LEVELS_WAYS) {
        kept->way = least_way + SPFGEN_LEVELS_WAYS - 1 - kept->turn;
    } else if (spfgen_levels_tries(kept)) { /* one of those that are slower, in turn */
        const int64_t ways = SPFGEN_LEVELS_WAYS - least_way;
        const int64_t after = 1 + kept->turn / 2 % (ways - 1);
        kept->way = least_way + (spfgen_levels_fastest(kept) - least_way + after) % ways;
    } else if (tried) {
        kept->longer = kept->longer ? spfgen_min(4 * kept->longer, SPFGEN_LEVELS_LONGER) : 4;
        kept->limit = (double)kept->longer * spent;
    }
    kept->spent = 0;
    kept->calls = 0;
}

/* The call is over. */
static inline void spfgen_levels_done(spfgen_levels *kept) {
    if (!kept) {
        return;
    }
    if (kept->size && !kept->wanted) {
        spfgen_levels_timed(kept);
    }
#ifdef __GNUC__
    __atomic_store_n(&kept->busy, 0, __ATOMIC_RELEASE);
#endif
}

/* The order that the threads of a team go by: one of them does all where there are fewer than it was made for. */
static inline const spfgen_levels *spfgen_levels_team(const spfgen_levels *order, const spfgen_levels *single) {
#ifdef _OPENMP
    return omp_get_num_threads() < order->threads ? single : order;
#else
    (void)single;
    return order;
#endif
}

/* The first unit of a thread, if it has any. */
static inline int64_t spfgen_levels_first(const spfgen_levels *order, int64_t thread) {
    return thread < order->threads ? thread : order->units;
}

/* Between two looks at what another thread has done. One that had to let others have its core does so sooner the next
   time, as they may be those that it waits for. */
static inline void spfgen_levels_rest(int64_t *patience, int64_t *tries) {
    if (*tries > 0) {
        --*tries;
#if defined(__x86_64__) || defined(__i386__)
        if (*tries < *patience - SPFGEN_LEVELS_EAGER) {
            __builtin_ia32_pause();
        }
#endif
    } else {
        *patience = SPFGEN_LEVELS_SOON;
#if defined(__unix__) || defined(__APPLE__)
        sched_yield(); /* there may be fewer cores than threads */
#endif
    }
}

/* Whether another thread has done at least so many units. What was seen of it is kept: to look again takes long if it
   has done more since, as that is in its own cache. */
static inline bool spfgen_levels_sees(int64_t *seen, const int64_t *done, int64_t least) {
#ifdef __GNUC__
    if (*seen < least) {
        *seen = __atomic_load_n(done, __ATOMIC_ACQUIRE);
    }
#else
    (void)done;
#endif
    return *seen >= least;
}

/* Until the other threads have done what the unit needs. */
static inline void spfgen_levels_wait(const spfgen_levels *order, int64_t unit, int64_t thread) {
    if (!order->wait) {
        return; /* the thread is alone */
    }
    int64_t *const seen = order->seen + thread * spfgen_levels_seen(order->threads);
    int64_t *const patience = seen + order->threads;
    for (int64_t k = order->wait[unit]; k < order->wait[unit + 1]; k++) {
        const int64_t other = order->need[2 * k];
        int64_t tries = *patience;
        while (!spfgen_levels_sees(seen + other, order->done + other * SPFGEN_LEVELS_PADDING, order->need[2 * k + 1])) {
            spfgen_levels_rest(patience, &tries);
        }
    }
}

/* The thread has done one more unit: others may go on. */
static inline void spfgen_levels_pass(const spfgen_levels *order, int64_t thread) {
#ifdef __GNUC__
    if (order->done) {
        int64_t *const done = order->done + thread * SPFGEN_LEVELS_PADDING;
        __atomic_store_n(done, *done + 1, __ATOMIC_RELEASE);
    }
#else
    (void)order, (void)thread;
#endif
}
