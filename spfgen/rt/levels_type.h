#ifndef SPFGEN_LEVELS
#define SPFGEN_LEVELS
/* In which order a loop runs whose iterations need results of earlier ones: each thread has a unit of each level, and
   does one after another; it begins a unit when the other threads have done the units that this one needs. A unit is
   several blocks, a block is neighbouring iterations in their order; those that follow one another are one run. One
   thread may do all units, too: what does not need one another overlaps in its core. Or each thread has a list of
   iterations, and its units are the parts of this list. Where it is not sure which of the two is faster, there are
   both. All zero before the first call, which fills it; later calls on the same pattern use it again; what is called
   meanwhile is serial. Freed by spfgen_levels_free. */
typedef struct spfgen_levels {
    int64_t iterations; /* of the loop that it was made for */
    int64_t allowed;    /* threads that it was made for */
    int64_t threads;    /* and those that have units: all of them, or one */
    int64_t size;       /* iterations of a block */
    int64_t shift;      /* of numbers of iterations, for those of blocks */
    int64_t levels;     /* how many there are; one when the loop is serial */
    int64_t wanted;     /* whether it is used without having proved faster */
    int64_t units;      /* threads * levels, one level after another */
    int64_t ahead;      /* runs of a unit: so far ahead what is read first is fetched, if there is such a run */
    int64_t listed;     /* whether the units are parts of lists, of which `levels` is the number of the longest one */
    int64_t way;        /* in which calls run now: 0 by threads in the other order, 1 in this one, 2 one thread does all
                           units, 3 as the loop says */
    int64_t turn;       /* those below four and each second one after try a way, the others take the fastest */
    int64_t calls;      /* in this turn */
    int64_t longer;     /* how many times longer than a trial the fastest way runs */
    int64_t busy;       /* whether a call uses it now */
    double start;       /* when this call began, if that is asked */
    double spent;       /* seconds in this turn */
    double limit;       /* of this turn */
    double lately[4];   /* seconds that a call takes in each way: the mean of the last ones */
    int64_t *unit;      /* [units + 1] where the runs of each unit begin in `run`; [2] more: in lists, all of the loop */
    int32_t *run;       /* [runs, 2] the first iteration of blocks that follow one another, and the one after the last */
    int64_t *wait;      /* [units + 1] where that which each unit needs begins in `need` */
    int64_t *need;      /* [needs, 2] a thread, and how many units it must have done */
    int64_t *done;      /* [threads, 16] in each 16: how many units the thread has done in this call */
    int64_t *seen;      /* [threads, threads + 16 or more] what each thread has seen of `done`; its patience */
    struct spfgen_levels *other; /* lists, where this one is of levels and both are tried */
    int64_t *depth;     /* while it is made: the level of each block, for each size of blocks that is tried */
    int64_t *work;      /* while it is made: how many pairs each iteration has, then about how many nanoseconds it takes */
    int64_t *place;     /* while it is made: [blocks, 2] the thread of each block, and its level */
    int32_t *nearest;   /* while it is made: how far before each iteration the last one is that it needs */
    struct spfgen_lists *lists; /* while it is made: lists, for several ways to cut the loop */
    int32_t *latest;    /* while it is made: [levels, threads, threads] how many units each unit needs of each thread */
} spfgen_levels;

#define SPFGEN_LEVELS_NONE {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, {0, 0, 0, 0}, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}

/* Gives back the arrays of an order. */
static inline void spfgen_levels_arrays_free(const spfgen_levels *order) {
    free(order->unit);
    free(order->run);
    free(order->wait);
    free(order->need);
    free(order->done);
    free(order->seen);
    free(order->depth);
    free(order->work);
    free(order->place);
    free(order->nearest);
    free(order->latest);
}

/* There is one order only. */
static inline void spfgen_levels_drop(spfgen_levels *order) {
    if (order->other) {
        spfgen_levels_arrays_free(order->other);
        free(order->other);
        order->other = NULL;
    }
}

/* Gives back what a call has put there. */
static inline void spfgen_levels_free(spfgen_levels *order) {
    spfgen_levels_drop(order);
    spfgen_levels_arrays_free(order);
    const spfgen_levels none = SPFGEN_LEVELS_NONE;
    *order = none;
}
#endif
