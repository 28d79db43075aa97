/* The part after one that the calling thread is done with: the first that no thread of the team has taken, when each has
   begun with that of its own number. It is a later one in any case. */
static inline int spfgen_next_part(int *taken, int parts) {
#ifdef _OPENMP
    const int team = omp_get_num_threads();
    int next = parts;
    if (parts > team) {
#pragma omp atomic capture
        next = (*taken)++;
        next += team;
    }
    return next;
#else
    (void)parts;
    return ++*taken;
#endif
}
