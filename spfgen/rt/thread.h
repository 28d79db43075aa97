/* The number of the calling thread in its team: 0 for the first, and where there is only one. */
static inline int spfgen_thread(void) {
#ifdef _OPENMP
    return omp_get_thread_num();
#else
    return 0;
#endif
}
