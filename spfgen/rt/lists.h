/* Another order than levels for a loop whose iterations need earlier ones: a list of iterations for each thread. The
   loop is cut into stretches, where an iteration needs none of those shortly before it, and one stretch after another
   is put on the list of the thread that should end it first. So planes of a mesh run at once, each some way behind the
   one that it needs. A stretch is cut into parts: before one a thread waits for what all of it needs, and after it
   others are told. This is list scheduling (Graham, 1969) with the time that messages take. Several lists are made: for
   what counts as shortly before, and for how long parts are. */
enum {
    SPFGEN_LISTS = 10,           /* that are made, at most: for each of two numbers of iterations that are near, */
    SPFGEN_LISTS_NEAR = 16,      /* this one */
    SPFGEN_LISTS_FAR = 128,      /* and this one, */
    SPFGEN_LISTS_PART = 200,     /* and each of several lengths of parts: so many nanoseconds of work, at least, */
    SPFGEN_LISTS_LONGER = 2,     /* so many times as many, and so on */
    SPFGEN_LISTS_MESSAGE = 700,  /* nanoseconds until a thread knows what another one has done, and has its values */
    SPFGEN_LISTS_TELL = 80,      /* nanoseconds to begin a part, and to tell others that it is done */
    SPFGEN_LISTS_CUT_PART = 1,   /* before an iteration: a part ends, */
    SPFGEN_LISTS_CUT = 2         /* or the stretch */
};

/* The lists for one distance and length. */
typedef struct spfgen_list {
    int64_t distance; /* of iterations that are near */
    int64_t least;    /* work of a part */
    int64_t begin;    /* of the stretch that is looked at */
    int64_t work;     /* in it before the iteration that is looked at */
    int64_t told;     /* of this, in parts that have ended */
    int64_t last;     /* and in the last one of these */
    int64_t first;    /* part of the stretch */
    int64_t parts;    /* that have ended */
    int64_t all;      /* parts that there are */
    double *free;     /* [threads] when each thread has done its list; NULL if these lists are not made */
    double *now;      /* [threads] when it would have done the stretch too, as far as it is looked at */
    double *needed;   /* [threads] when the last one of those of each thread that this part needs is done */
    float *end;       /* [parts] when each part is done */
    float *by;        /* [parts of the longest stretch, threads] when it would be done by each thread */
    int16_t *thread;  /* [parts] on whose list each part is */
    int32_t *part;    /* [iterations] in which part each iteration is */
} spfgen_list;

typedef struct spfgen_lists {
    int64_t at; /* the iteration that is looked at; -1 before the first one */
    int64_t iterations;
    int64_t threads;
    const int64_t *work;    /* [iterations] in nanoseconds */
    const int32_t *nearest; /* [iterations] how far before each one the last one is that it needs */
    spfgen_list list[SPFGEN_LISTS];
} spfgen_lists;

/* Goes on to an iteration, one after another: what is cut before it. A stretch ends where none of it that is near is
   needed. */
static inline int spfgen_list_cut(const spfgen_lists *lists, spfgen_list *list, int64_t iteration) {
    list->work += iteration ? lists->work[iteration - 1] : 0;
    list->last = list->work - list->told;
    const bool over = iteration == lists->iterations;
    if (over || iteration == 0 ||
        (list->work >= list->least &&
         lists->nearest[iteration] > spfgen_min(list->distance, iteration - list->begin))) {
        list->begin = iteration;
        list->work = list->told = 0;
        return SPFGEN_LISTS_CUT;
    }
    if (list->last < list->least) {
        return 0;
    }
    list->told = list->work;
    return SPFGEN_LISTS_CUT_PART;
}

static inline void spfgen_lists_free(spfgen_lists *lists) {
    for (int d = 0; lists && d < SPFGEN_LISTS; d++) {
        free(lists->list[d].free);
        free(lists->list[d].end);
        free(lists->list[d].thread);
        free(lists->list[d].part);
    }
    free(lists);
}

/* Room for lists, unless one stretch is most of the loop, or other ones are the same (NULL: none): whether there is
   memory. */
static inline bool spfgen_list_make(const spfgen_lists *lists, spfgen_list *list, const spfgen_list *other) {
    const int64_t n = lists->iterations;
    const int64_t threads = lists->threads;
    int64_t parts = 0;
    int64_t before = 0; /* the stretch */
    int64_t longest = 0;
    int64_t iterations = 0; /* of the longest one */
    for (int64_t k = 0; k < n; k++) {
        const int cut = spfgen_list_cut(lists, list, k);
        parts += cut != 0;
        before = cut == SPFGEN_LISTS_CUT ? parts - 1 : before;
        iterations = spfgen_max(iterations, k - list->begin + 1);
        longest = spfgen_max(longest, parts - before);
    }
    list->begin = list->work = list->told = 0;
    list->all = parts;
    if ((other && other->all == parts) || iterations > n / 2 || (double)longest * (double)threads > 32.0 * (double)n) {
        return true;
    }
    list->free = (double *)calloc(3 * (size_t)threads, sizeof(double));
    list->end = (float *)malloc((size_t)(parts + longest * threads) * sizeof(float));
    list->thread = (int16_t *)malloc((size_t)parts * sizeof(int16_t));
    list->part = (int32_t *)malloc((size_t)n * sizeof(int32_t));
    if (!list->free || !list->end || !list->thread || !list->part) {
        return false;
    }
    list->now = list->free + threads;
    list->needed = list->now + threads;
    list->by = list->end + parts;
    return true;
}

/* Room for all lists; NULL if none is made, or there is no memory. */
static inline spfgen_lists *spfgen_lists_new(int64_t iterations, int64_t threads, const int64_t *work,
                                             const int32_t *nearest) {
    spfgen_lists *const lists = threads <= INT16_MAX ? (spfgen_lists *)calloc(1, sizeof(spfgen_lists)) : NULL;
    if (!lists) {
        return NULL;
    }
    lists->at = -1;
    lists->iterations = iterations;
    lists->threads = threads;
    lists->work = work;
    lists->nearest = nearest;
    bool any = false;
    int64_t least = SPFGEN_LISTS_PART;
    for (int d = 0; d < SPFGEN_LISTS; d++) {
        spfgen_list *const list = &lists->list[d];
        list->distance = d % 2 ? SPFGEN_LISTS_FAR : SPFGEN_LISTS_NEAR;
        list->least = least;
        least *= d % 2 ? SPFGEN_LISTS_LONGER : 1;
        if (!spfgen_list_make(lists, list, d % 2 ? list - 1 : NULL)) {
            spfgen_lists_free(lists);
            return NULL;
        }
        any = any || list->free;
    }
    if (!any) {
        spfgen_lists_free(lists);
        return NULL;
    }
    return lists;
}

/* A part of the stretch ends: when it would be done by each thread. */
static inline void spfgen_list_end(spfgen_list *list, int64_t threads) {
    double *const needed = list->needed;
    int64_t last = 0; /* the thread with what is done last, and when those of the other ones are done */
    double second = 0;
    for (int64_t t = 1; t < threads; t++) {
        const bool later = needed[t] > needed[last];
        second = spfgen_most(second, needed[later ? last : t]);
        last = later ? t : last;
    }
    const double latest = needed[last];
    for (int64_t t = 0; t < threads; t++) {
        const double others = t == last ? second : latest;
        const double known = others > 0 ? others + SPFGEN_LISTS_MESSAGE : 0;
        list->now[t] = spfgen_most(list->now[t], known) + (double)(list->last + SPFGEN_LISTS_TELL);
        list->by[(list->parts - list->first) * threads + t] = (float)list->now[t];
    }
    for (int64_t t = 0; t < threads; t++) {
        needed[t] = 0;
    }
    list->parts++;
}

/* The stretch is put on the list of the thread that ends it first. */
static inline void spfgen_list_put(spfgen_list *list, int64_t threads) {
    int64_t first = 0;
    for (int64_t t = 1; t < threads; t++) {
        first = list->now[t] < list->now[first] ? t : first;
    }
    for (int64_t p = list->first; p < list->parts; p++) {
        list->end[p] = list->by[(p - list->first) * threads + first];
        list->thread[p] = (int16_t)first;
    }
    list->free[first] = list->now[first];
    for (int64_t t = 0; t < threads; t++) {
        list->now[t] = list->free[t];
    }
    list->first = list->parts;
}

/* Goes on to an iteration: all pairs of earlier ones are known. */
static inline void spfgen_lists_reach(spfgen_lists *lists, int64_t iteration) {
    while (lists->at < iteration) {
        const int64_t at = ++lists->at;
        for (int d = 0; d < SPFGEN_LISTS; d++) {
            spfgen_list *const list = &lists->list[d];
            const int cut = list->free ? spfgen_list_cut(lists, list, at) : 0;
            if (cut && at > 0) {
                spfgen_list_end(list, lists->threads);
            }
            if (cut == SPFGEN_LISTS_CUT && at > 0) {
                spfgen_list_put(list, lists->threads);
            }
            if (list->free && at < lists->iterations) {
                list->part[at] = (int32_t)list->parts;
            }
        }
    }
}

/* Iteration `later` needs iteration `earlier`; pairs come in the order of the former. */
static inline void spfgen_lists_pair(spfgen_lists *lists, int64_t later, int64_t earlier) {
    spfgen_lists_reach(lists, later);
    for (int d = 0; d < SPFGEN_LISTS; d++) {
        spfgen_list *const list = &lists->list[d];
        if (list->free && earlier < list->begin) {
            const int32_t part = list->part[earlier];
            double *const needed = &list->needed[list->thread[part]];
            *needed = spfgen_most(*needed, (double)list->end[part]);
        }
    }
}

/* After all pairs: the lists that should be done first, and when. */
static inline spfgen_list *spfgen_lists_best(spfgen_lists *lists, double *when) {
    spfgen_list *best = NULL;
    spfgen_lists_reach(lists, lists->iterations);
    for (int d = 0; d < SPFGEN_LISTS; d++) {
        double last = 0;
        for (int64_t t = 0; lists->list[d].free && t < lists->threads; t++) {
            last = spfgen_most(last, lists->list[d].free[t]);
        }
        if (lists->list[d].free && (!best || last < *when)) {
            best = &lists->list[d];
            *when = last;
        }
    }
    return best;
}

/* The thread of each iteration, and the number of its part on the list, to `place` [iterations, 2]. Returns how many
   parts the longest list has. */
static inline int64_t spfgen_lists_places(const spfgen_lists *lists, const spfgen_list *list, int64_t *place) {
    int64_t longest = 0;
    double *const parts = list->needed; /* of each thread */
    for (int64_t t = 0; t < lists->threads; t++) {
        parts[t] = 0;
    }
    for (int64_t k = 0; k < lists->iterations; k++) {
        const int64_t thread = list->thread[list->part[k]];
        parts[thread] += k == 0 || list->part[k] != list->part[k - 1];
        place[2 * k] = thread;
        place[2 * k + 1] = (int64_t)parts[thread] - 1;
        longest = spfgen_max(longest, (int64_t)parts[thread]);
    }
    return longest;
}
