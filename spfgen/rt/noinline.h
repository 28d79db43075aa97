/* Not inlined: compilers forget what `restrict` says of parameters where the body stands in a parallel loop. */
#ifdef __GNUC__
#define SPFGEN_NOINLINE __attribute__((noinline))
#else
#define SPFGEN_NOINLINE
#endif
