/* Keeps a function out of its callers: compilers know that the arrays it takes do not overlap, as `restrict` says, but
   forget it where the body stands in a loop in parallel. */
#ifdef __GNUC__
#define SPFGEN_NOINLINE __attribute__((noinline))
#else
#define SPFGEN_NOINLINE
#endif
