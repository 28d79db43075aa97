/* Asks for memory `bytes` behind the start of an array, needed later, to a cache behind the first one. It may lie
   outside of the array: no pointer to it is made, and nothing is read. */
static inline void spfgen_prefetch_far(const void *array, int64_t bytes) {
#ifdef __GNUC__
    __builtin_prefetch((const void *)((uintptr_t)array + (uintptr_t)bytes), 0, 2);
#else
    (void)array;
    (void)bytes;
#endif
}
