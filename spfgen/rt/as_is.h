/* A function that is compiled as it would be by itself: for no caller in particular, and from the begin of a line of the
   cache. How well a processor foresees branches depends on where they stand in such lines. */
#if defined(__GNUC__) && !defined(__clang__)
#define SPFGEN_AS_IS __attribute__((noinline, noclone, aligned(64)))
#elif defined(__GNUC__)
#define SPFGEN_AS_IS __attribute__((noinline, aligned(64)))
#else
#define SPFGEN_AS_IS
#endif
