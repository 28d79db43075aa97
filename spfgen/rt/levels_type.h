#ifndef SPFGEN_LEVELS
#define SPFGEN_LEVELS
/* In which order a loop runs whose iterations need results of earlier ones: level after level; the units of a level
   at once, the blocks of a unit one after another, the iterations of a block in their order. All zero before the first
   call, which fills it; later calls on the same pattern use it again. Freed by spfgen_levels_free. */
typedef struct spfgen_levels {
    int64_t iterations; /* of the loop that it was made for */
    int64_t threads;    /* that it was made for */
    int64_t size;       /* iterations of a block */
    int64_t levels;     /* how many there are; one when the loop is serial */
    int64_t trials;     /* calls that have been timed: the order is used when it has proved faster */
    double serial;      /* the least time of a call without it */
    double ordered;     /* and with it */
    int64_t *level;     /* [levels + 1] the first unit of each level */
    int64_t *unit;      /* [units + 1] where the blocks of each unit begin in `block` */
    int64_t *block;     /* [blocks] numbers of blocks */
    int64_t *depth;     /* while it is made: the level of each block, for each size of blocks that is tried */
    int64_t *work;      /* while it is made: about how many nanoseconds each iteration takes */
} spfgen_levels;

/* Gives back what a call has put there. */
static inline void spfgen_levels_free(spfgen_levels *order) {
    free(order->level);
    free(order->unit);
    free(order->block);
    free(order->depth);
    free(order->work);
    const spfgen_levels none = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    *order = none;
}
#endif
