/* Another order than levels for a loop whose iterations need earlier ones: a list of iterations for each thread. The
   loop is cut into stretches, where an iteration needs none of those shortly before it, and one stretch after another
   is put on the list of the thread that should end it first. So planes of a mesh run at once, each some way behind the
   one that it needs. This is list scheduling (Graham, 1969) with the time that messages take. Several distances are
   tried that count as shortly before. */
enum {
    SPFGEN_LISTS = 5,            /* distances that are tried: */
    SPFGEN_LISTS_NEAR = 4,       /* this one, and each four times the last one */
    SPFGEN_LISTS_MESSAGE = 1200, /* nanoseconds until a thread knows what another one has done, and has its values */
    SPFGEN_LISTS_PART = 400,     /* of work in a stretch, at least, until others are told how far the thread is */
    SPFGEN_LISTS_TELL = 40       /* to tell them */
};

/* The lists for one distance. */
typedef struct spfgen_list {
    int64_t distance;
    int64_t begin;   /* of the stretch that is looked at */
    int64_t work;    /* in it until now, in nanoseconds */
    int64_t told;    /* of this, when others were told last */
    double *free;    /* [threads] when each thread has done the stretches on its list; NULL if they are not tried */
    double *now;     /* [threads] when it would have done this one too, as far as it is looked at */
    double *needed;  /* [threads] when the last one of those of each thread that this iteration needs is done */
    float *end;      /* [iterations] when each iteration is done */
    float *by;       /* [iterations of the longest stretch, threads] when it would be done by each thread */
    int16_t *thread; /* [iterations] on whose list each iteration is */
} spfgen_list;

typedef struct spfgen_lists {
    int64_t at; /* the iteration that is looked at */
    int64_t iterations;
    int64_t threads;
    const int64_t *work;    /* [iterations] in nanoseconds */
    const int32_t *nearest; /* [iterations] how far before each one the last one is that it needs */
    spfgen_list list[SPFGEN_LISTS];
} spfgen_lists;

/* Goes on to the next iteration. Whether a stretch ends before it: it needs none of this stretch that is near. */
static inline bool spfgen_list_ends(const spfgen_lists *lists, const spfgen_list *list, int64_t next) {
    return list->work >= SPFGEN_LISTS_PART &&
           lists->nearest[next] > spfgen_min(list->distance, next - list->begin);
}

/* The next stretch begins. */
static inline void spfgen_list_begin(spfgen_list *list, int64_t begin) {
    list->begin = begin;
    list->work = list->told = 0;
}

/* Adds an iteration to the stretch. Whether others are told before it how far the thread is. */
static inline bool spfgen_list_adds(spfgen_list *list, int64_t work) {
    const bool tells = list->work == 0 || list->work - list->told >= SPFGEN_LISTS_PART;
    list->told = tells ? list->work : list->told;
    list->work += work;
    return tells;
}

static inline void spfgen_lists_free(spfgen_lists *lists) {
    for (int d = 0; lists && d < SPFGEN_LISTS; d++) {
        free(lists->list[d].free);
        free(lists->list[d].end);
        free(lists->list[d].thread);
    }
    free(lists);
}

/* Room for the lists of each distance, but for those of which one stretch is most of the loop; NULL if there are none
   others, or no memory. */
static inline spfgen_lists *spfgen_lists_new(int64_t iterations, int64_t threads, const int64_t *work,
                                             const int32_t *nearest) {
    spfgen_lists *const lists = calloc(1, sizeof(spfgen_lists));
    bool any = false;
    for (int d = 0; lists && threads <= INT16_MAX && d < SPFGEN_LISTS; d++) {
        const spfgen_lists all = {0, iterations, threads, work, nearest, {{0}}};
        spfgen_list cut = {.distance = (int64_t)SPFGEN_LISTS_NEAR << 2 * d};
        int64_t longest = 1;
        for (int64_t k = 1; k < iterations; k++) {
            spfgen_list_adds(&cut, work[k - 1]);
            if (spfgen_list_ends(&all, &cut, k)) {
                spfgen_list_begin(&cut, k);
            }
            longest = spfgen_max(longest, k + 1 - cut.begin);
        }
        if (longest > iterations / 2 || (double)longest * (double)threads > 32.0 * (double)iterations) {
            continue;
        }
        spfgen_list *const list = &lists->list[d];
        list->distance = cut.distance;
        list->free = calloc(3 * (size_t)threads, sizeof(double));
        list->end = malloc((size_t)(iterations + longest * threads) * sizeof(float));
        list->thread = malloc((size_t)iterations * sizeof(int16_t));
        if (!list->free || !list->end || !list->thread) {
            spfgen_lists_free(lists);
            return NULL;
        }
        list->now = list->free + threads;
        list->needed = list->now + threads;
        list->by = list->end + iterations;
        any = true;
    }
    if (!any) {
        spfgen_lists_free(lists);
        return NULL;
    }
    lists->iterations = iterations;
    lists->threads = threads;
    lists->work = work;
    lists->nearest = nearest;
    return lists;
}

/* The stretch that ends before `end` is put on the list of the thread that ends it first. */
static inline void spfgen_list_put(spfgen_list *list, int64_t end, int64_t threads) {
    int64_t first = 0;
    for (int64_t t = 1; t < threads; t++) {
        first = list->now[t] < list->now[first] ? t : first;
    }
    for (int64_t k = list->begin; k < end; k++) {
        list->end[k] = list->by[(k - list->begin) * threads + first];
        list->thread[k] = (int16_t)first;
    }
    list->free[first] = list->now[first];
    for (int64_t t = 0; t < threads; t++) {
        list->now[t] = list->free[t];
    }
    spfgen_list_begin(list, end);
}

/* When each thread would have done the iteration, whose needs are known. */
static inline void spfgen_list_run(spfgen_list *list, int64_t iteration, int64_t work, int64_t threads) {
    const double takes = (double)(work + (spfgen_list_adds(list, work) ? SPFGEN_LISTS_TELL : 0));
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
        const double told = others > 0 ? others + SPFGEN_LISTS_MESSAGE : 0;
        list->now[t] = spfgen_most(list->now[t], spfgen_most(told, needed[t])) + takes;
        list->by[(iteration - list->begin) * threads + t] = (float)list->now[t];
    }
    for (int64_t t = 0; t < threads; t++) {
        needed[t] = 0;
    }
}

/* Goes on to an iteration: all pairs of earlier ones are known. */
static inline void spfgen_lists_reach(spfgen_lists *lists, int64_t iteration) {
    for (; lists->at < iteration; lists->at++) {
        const int64_t next = lists->at + 1;
        for (int d = 0; d < SPFGEN_LISTS; d++) {
            spfgen_list *const list = &lists->list[d];
            if (!list->free) {
                continue;
            }
            spfgen_list_run(list, lists->at, lists->work[lists->at], lists->threads);
            if (next == lists->iterations || spfgen_list_ends(lists, list, next)) {
                spfgen_list_put(list, next, lists->threads);
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
            double *const needed = &list->needed[list->thread[earlier]];
            *needed = spfgen_most(*needed, (double)list->end[earlier]);
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

/* The thread of each iteration, and in which of its parts it is, to `place` [iterations, 2]. Returns how many parts a
   thread has, at most. */
static inline int64_t spfgen_lists_parts(const spfgen_lists *lists, spfgen_list *list, int64_t *place) {
    int64_t most = 0;
    double *const parts = list->now; /* of each thread */
    for (int64_t t = 0; t < lists->threads; t++) {
        parts[t] = 0;
    }
    spfgen_list_begin(list, 0);
    for (int64_t k = 0; k < lists->iterations; k++) {
        if (k && spfgen_list_ends(lists, list, k)) {
            spfgen_list_begin(list, k);
        }
        const int64_t thread = list->thread[k];
        parts[thread] += spfgen_list_adds(list, lists->work[k]);
        place[2 * k] = thread;
        place[2 * k + 1] = (int64_t)parts[thread] - 1;
        most = spfgen_max(most, (int64_t)parts[thread]);
    }
    return most;
}
