#ifndef SPFGEN_LEVELS
#define SPFGEN_LEVELS
/* In which order a loop runs whose iterations need results of earlier ones: each thread has a unit of each level, and
   does one after another; it begins a unit when the other threads have done the units that this one needs. A unit is
   several blocks, a block is neighbouring iterations in their order. All zero before the first call, which fills it;
   later calls on the same pattern use it again, one at a time. Freed by spfgen_levels_free. */
typedef struct spfgen_levels {
    int64_t iterations; /* of the loop that it was made for */
    int64_t threads;    /* that it was made for */
    int64_t size;       /* iterations of a block */
    int64_t shift;      /* of numbers of iterations, for those of blocks */
    int64_t levels;     /* how many there are; one when the loop is serial */
    int64_t wanted;     /* whether it is used without having proved faster */
    int64_t turn;       /* the first and each odd one tries an order, the others take the faster one */
    int64_t calls;      /* in this turn */
    int64_t longer;     /* how many times longer this turn takes than the one before */
    int64_t tries_serial; /* which of both an odd turn tries */
    double serial;      /* seconds that a call takes without the order, lately */
    double ordered;     /* and with it */
    double spent;       /* in this turn */
    double limit;       /* of this turn */
    int64_t *unit;      /* [threads * levels + 1] where the blocks of each unit begin in `block` */
    int64_t *block;     /* [blocks] numbers of blocks */
    int64_t *wait;      /* [threads * levels + 1] where that which each unit needs begins in `need` */
    int64_t *need;      /* [needs, 2] a thread, and how many units it must have done */
    int64_t *done;      /* [threads, 16] in the first of each 16: how many units the thread has done in this call */
    int64_t *depth;     /* while it is made: the level of each block, for each size of blocks that is tried */
    int64_t *work;      /* while it is made: about how many nanoseconds each iteration takes */
    int64_t *place;     /* while it is made: [blocks, 2] the thread of each block, and its level */
    int32_t *latest;    /* while it is made: [threads, levels, threads] how many units each unit needs of each thread */
} spfgen_levels;

/* Gives back what a call has put there. */
static inline void spfgen_levels_free(spfgen_levels *order) {
    free(order->unit);
    free(order->block);
    free(order->wait);
    free(order->need);
    free(order->done);
    free(order->depth);
    free(order->work);
    free(order->place);
    free(order->latest);
    const spfgen_levels none = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    *order = none;
}
#endif
