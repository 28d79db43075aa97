/* Whether a vector register has 64 bytes, or there are twice as many of 32: room for twice as many sums. */
#ifdef __AVX512F__
#define SPFGEN_WIDE true
#else
#define SPFGEN_WIDE false
#endif
