/* Keeps the iterations of the loop around apart: gcc would merge some of them, and lose the sums from its registers. */
static inline void spfgen_compiler_barrier(void) {
#ifdef __GNUC__
    __asm__ __volatile__("");
#endif
}
