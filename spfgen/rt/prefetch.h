/* Asks for the memory at an address, without waiting for it. */
static inline void spfgen_prefetch(const void *address) {
#ifdef __GNUC__
    __builtin_prefetch(address);
#else
    (void)address;
#endif
}
