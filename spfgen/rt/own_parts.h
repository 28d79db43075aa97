/* Loops whose parts belong to threads, the same number to each: a thread takes its own ones in order, then those that
   others have not begun. So what it works on stays in its cache from call to call. The first part of a thread is for
   itself alone; `taken` counts how many of its others are taken, in a cache line for each thread. */
static inline void spfgen_untaken(int *taken, int threads) {
    for (int k = 0; k < threads; k++) {
        taken[16 * k] = 0;
    }
}

/* The part that the calling thread begins with. */
static inline int spfgen_own_part(int parts, int threads) {
    return spfgen_thread() * (parts / threads);
}

/* The part that it goes on with; `parts` where all are taken. A team may have fewer threads than were asked for: then the
   first parts of those that are missing are taken like the others. */
static inline int spfgen_part_after(int part, int *taken, int parts, int threads) {
#ifdef _OPENMP
    const int each = parts / threads;
    const int own = omp_get_thread_num(), team = omp_get_num_threads();
    int owner = part / each;
    if (each == 1 && team == threads) {
        return parts;
    }
    do {
        const int first = owner < team;
        int count;
#pragma omp atomic read
        count = taken[16 * owner];
        if (first + count < each) {
#pragma omp atomic capture
            count = taken[16 * owner]++;
            if (first + count < each) {
                return owner * each + first + count;
            }
        }
        owner = owner + 1 < threads ? owner + 1 : 0;
    } while (owner != own);
    return parts;
#else
    (void)taken;
    (void)parts;
    (void)threads;
    return part + 1;
#endif
}
