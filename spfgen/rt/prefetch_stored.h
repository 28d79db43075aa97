/* Asks for memory `bytes` behind the start of an array, soon to be stored, to the first cache. It may lie outside of the
   array: no pointer to it is made, and nothing is written. */
static inline void spfgen_prefetch_stored(const void *array, int64_t bytes) {
#ifdef __GNUC__
    __builtin_prefetch((const void *)((uintptr_t)array + (uintptr_t)bytes), 1, 3);
#else
    (void)array;
    (void)bytes;
#endif
}
