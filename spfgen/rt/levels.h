/* Levels of a loop whose iterations need earlier ones. An inspector gives the pairs of iterations; blocks of
   neighbouring iterations are put into levels, for several sizes of blocks, and the size is taken that should be
   fastest: small blocks leave more to do at once, large ones need fewer levels and go through memory in order. */
enum { SPFGEN_LEVELS_SIZES = 5, SPFGEN_LEVELS_SHIFT = 3 };

enum {
    SPFGEN_LEVELS_ITERATION = 5, /* nanoseconds that an iteration takes besides its pairs */
    SPFGEN_LEVELS_SINGLE = 25,   /* until one begins that does not follow the one before it */
    SPFGEN_LEVELS_BLOCK = 90,    /* until a block of several begins */
    SPFGEN_LEVELS_BARRIER = 600, /* nanoseconds until all threads have met */
    SPFGEN_LEVELS_TRIALS = 6     /* calls that are timed */
};

/* The order number `number` that the caller keeps, if it is worth having. */
static inline spfgen_levels *spfgen_levels_kept(spfgen_levels *levels, int64_t number, int threads) {
    return levels && threads > 1 ? levels + number : NULL;
}

/* Whether the order is to be made now: for so many iterations and threads it is not there yet. */
static inline bool spfgen_levels_begin(spfgen_levels *order, int64_t iterations, int threads) {
    if (!order || (order->levels && order->iterations == iterations && order->threads == threads)) {
        return false;
    }
    spfgen_levels_free(order);
    order->iterations = iterations;
    order->threads = threads;
    if (iterations < 1 || (uint64_t)iterations > SIZE_MAX / 32) {
        return false;
    }
    order->depth = calloc((size_t)iterations + (size_t)iterations / 4 + 2 * SPFGEN_LEVELS_SIZES, sizeof(int64_t));
    order->work = malloc((size_t)iterations * sizeof(int64_t));
    if (!order->depth || !order->work) {
        spfgen_levels_free(order);
        return false;
    }
    for (int64_t k = 0; k < iterations; k++) {
        order->work[k] = SPFGEN_LEVELS_ITERATION;
    }
    return true;
}

/* Iteration `later` needs iteration `earlier`. */
static inline void spfgen_levels_pair(const spfgen_levels *order, int64_t later, int64_t earlier) {
    int64_t *depth = order->depth;
    order->work[later]++;
    for (int k = 0; k < SPFGEN_LEVELS_SIZES; k++) {
        const int64_t a = later >> (k * SPFGEN_LEVELS_SHIFT);
        const int64_t b = earlier >> (k * SPFGEN_LEVELS_SHIFT);
        if (a == b) {
            return; /* nor do larger blocks tell them apart */
        }
        if (depth[a] <= depth[b]) {
            depth[a] = depth[b] + 1;
        }
        depth += ((order->iterations - 1) >> (k * SPFGEN_LEVELS_SHIFT)) + 1;
    }
}

/* What the levels of one size of blocks cost, by the work of each level and its largest block; and which levels one
   thread does alone, because that is faster, or (when levels are wanted) because they have one block. */
static inline double spfgen_levels_cost(int64_t threads, int64_t levels, const int64_t *work, const int64_t *largest,
                                        unsigned char *alone, bool wanted) {
    double total = 0;
    bool before = false;
    bool several = false;
    for (int64_t k = 0; k < levels; k++) {
        const double share = (double)work[k] / (double)threads;
        const double shared = (share > (double)largest[k] ? share : (double)largest[k]) + SPFGEN_LEVELS_BARRIER;
        alone[k] = wanted ? work[k] == largest[k] : (double)work[k] <= shared;
        several = several || !alone[k];
        total += alone[k] ? (double)work[k] : shared + (before ? SPFGEN_LEVELS_BARRIER : 0);
        before = alone[k];
    }
    return several ? total : 1e300;
}

/* Puts the blocks in order: neighbouring levels that one thread does alone become one. */
static inline void spfgen_levels_sort(spfgen_levels *order, int64_t blocks, const int64_t *depth, const int64_t *work,
                                      const unsigned char *alone, int64_t depths, int64_t *place) {
    int64_t count = 0;
    for (int64_t k = 0; k < depths; k++) { /* place: the level that each depth becomes */
        count += k == 0 || !alone[k] || !alone[k - 1];
        place[k] = count - 1;
    }
    for (int64_t k = 0; k <= count; k++) {
        order->level[k] = 0;
    }
    for (int64_t b = 0; b < blocks; b++) {
        order->level[place[depth[b]] + 1]++;
    }
    for (int64_t k = 0; k < count; k++) {
        order->level[k + 1] += order->level[k];
    }
    for (int64_t b = 0; b < blocks; b++) {
        order->block[order->level[place[depth[b]]]++] = b;
    }
    for (int64_t k = count; k > 0; k--) {
        order->level[k] = order->level[k - 1];
    }
    order->level[0] = 0;
    int64_t units = 0; /* each level in parts of about equal work, one for each thread */
    int64_t d = 0;
    for (int64_t k = 0; k < count; k++) {
        const bool one = alone[d];
        while (d < depths && place[d] == k) {
            d++;
        }
        const int64_t first = order->level[k];
        const int64_t last = order->level[k + 1];
        int64_t total = 0;
        for (int64_t b = first; b < last; b++) {
            total += work[order->block[b]];
        }
        const int64_t parts = one ? 1 : order->threads;
        int64_t done = 0;
        int64_t part = 0;
        order->level[k] = units;
        for (int64_t b = first; b < last; b++) {
            if (b == first || (part < parts - 1 && done >= total / parts * (part + 1))) {
                part += b != first;
                order->unit[units++] = b;
            }
            done += work[order->block[b]];
        }
    }
    order->level[count] = units;
    order->unit[units] = blocks;
    order->levels = count;
}

/* Makes the order of all pairs that were given; leaves it empty when the loop should be faster serial (and the order is
   not wanted all the same), or there is no memory. */
static inline void spfgen_levels_end(spfgen_levels *order, bool wanted) {
    const int64_t n = order->iterations;
    int64_t *const work = malloc(((size_t)n + 1) * sizeof(int64_t)); /* of each block */
    int64_t *const sums = malloc(2 * ((size_t)n + 1) * sizeof(int64_t));
    unsigned char *const alone = malloc((size_t)n + 1);
    order->level = malloc(((size_t)n + 2) * sizeof(int64_t));
    order->unit = malloc(((size_t)n + 2) * sizeof(int64_t));
    order->block = malloc(((size_t)n + 1) * sizeof(int64_t));
    const bool enough = work && sums && alone && order->level && order->unit && order->block;
    double serial = 0;
    for (int64_t k = 0; k < n; k++) {
        serial += (double)order->work[k];
    }
    double best = wanted ? 1e299 : serial * 0.9;
    int chosen = -1;
    for (int round = 0; enough && round <= SPFGEN_LEVELS_SIZES; round++) { /* the last one makes what was chosen */
        const int k = round < SPFGEN_LEVELS_SIZES ? round : chosen;
        if (k < 0) {
            break;
        }
        const int64_t *depth = order->depth;
        for (int s = 0; s < k; s++) {
            depth += ((n - 1) >> (s * SPFGEN_LEVELS_SHIFT)) + 1;
        }
        const int64_t blocks = ((n - 1) >> (k * SPFGEN_LEVELS_SHIFT)) + 1;
        int64_t depths = 0;
        for (int64_t b = 0; b < blocks; b++) {
            work[b] = k ? SPFGEN_LEVELS_BLOCK : SPFGEN_LEVELS_SINGLE;
            depths = depth[b] >= depths ? depth[b] + 1 : depths;
        }
        for (int64_t i = 0; i < n; i++) {
            work[i >> (k * SPFGEN_LEVELS_SHIFT)] += order->work[i];
        }
        int64_t *const largest = sums + depths;
        for (int64_t d = 0; d < 2 * depths; d++) {
            sums[d] = 0;
        }
        for (int64_t b = 0; b < blocks; b++) {
            sums[depth[b]] += work[b];
            largest[depth[b]] = work[b] > largest[depth[b]] ? work[b] : largest[depth[b]];
        }
        const double cost = spfgen_levels_cost(order->threads, depths, sums, largest, alone, wanted);
        if (round == SPFGEN_LEVELS_SIZES) {
            order->size = (int64_t)1 << (k * SPFGEN_LEVELS_SHIFT);
            spfgen_levels_sort(order, blocks, depth, work, alone, depths, sums);
        } else if (cost < best) {
            best = cost;
            chosen = k;
        }
    }
    free(work);
    free(sums);
    free(alone);
    free(order->depth);
    free(order->work);
    order->depth = NULL;
    order->work = NULL;
    order->trials = wanted ? SPFGEN_LEVELS_TRIALS : 0;
    order->serial = wanted;
    if (!order->levels) { /* serial: it is not looked at again */
        order->levels = 1;
        order->size = 0;
    }
}

/* One level with all iterations, for which `places` has room. */
static inline spfgen_levels spfgen_levels_whole(int64_t *places, int64_t iterations) {
    const spfgen_levels whole = {iterations, 1, iterations, 1, 0, 0, 0, places, places + 2, places + 4, 0, 0};
    places[0] = 0;
    places[1] = 1;
    places[2] = 0;
    places[3] = 1;
    places[4] = 0;
    return whole;
}

/* Seconds since some moment. */
static inline double spfgen_levels_clock(void) {
#ifdef _OPENMP
    return omp_get_wtime();
#else
    return 0;
#endif
}

/* The order of this call: the one that is kept, or serial. The first calls try both in turn, the values are the same;
   then the faster one stays. */
static inline const spfgen_levels *spfgen_levels_order(spfgen_levels *kept, const spfgen_levels *whole) {
    if (!kept || !kept->size) {
        return whole;
    }
    if (kept->trials < SPFGEN_LEVELS_TRIALS) {
        return kept->trials % 2 ? whole : kept;
    }
    return kept->ordered < kept->serial ? kept : whole;
}

/* The call that started then is over. */
static inline void spfgen_levels_done(spfgen_levels *kept, const spfgen_levels *order, double start) {
    if (kept && kept->size && kept->trials < SPFGEN_LEVELS_TRIALS) {
        const double took = spfgen_levels_clock() - start;
        double *const least = order == kept ? &kept->ordered : &kept->serial;
        *least = kept->trials < 2 || took < *least ? took : *least;
        kept->trials++;
    }
}
