/* The number of threads to use: `wanted`, or what OpenMP would use when that is not positive. */
static inline int spfgen_threads(int wanted) {
#ifdef _OPENMP
    return wanted > 0 ? wanted : omp_get_max_threads();
#else
    (void)wanted;
    return 1;
#endif
}
