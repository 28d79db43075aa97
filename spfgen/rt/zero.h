/* A zero that compilers do not know to be one. They would clear and copy a few sums as memory, by memset and memcpy; those
   that begin with this zero, and are stored less it, stay in registers. Nothing else changes: x - 0.0 is x for all x. */
static inline double spfgen_zero(void) {
    volatile const double zero = 0.0;
    return zero;
}
