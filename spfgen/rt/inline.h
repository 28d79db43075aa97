/* Puts a function into its callers, where numbers that it is given are known. */
#ifdef __GNUC__
#define SPFGEN_INLINE __attribute__((always_inline))
#else
#define SPFGEN_INLINE
#endif
