/* The part after one that the calling thread is done with: the first that no thread of the team has taken. Each begins
   with the part of its own number, which is in its cache from call to call, and goes on to later ones only. */
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
