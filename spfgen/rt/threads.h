/* The number of threads to use for `work` nanoseconds of work: `wanted`, or OpenMP's own choice when that is not positive;
   one when there is so little work that starting a team would take longer. Nobody asked for threads where the choice is
   OpenMP's: then what a team gains on free cores has to be worth what it loses where one of its threads has no core. Two
   threads on two cores, A*x by rows: on free cores a team takes 1.1 of one thread's time at 8 and 16 us of work, 0.65
   at 33, 0.6 from 66 on; with five programs on each core 2 to 17 ms more a call, whatever the work. At 262 us, which one
   thread does in 39, the team saves 16 us where it does not lose a hundred times that. */
static inline int spfgen_threads(int wanted, double work) {
#ifdef _OPENMP
    if (work < (wanted > 0 ? 8192 : 262144)) {
        return 1;
    }
    return wanted > 0 ? wanted : omp_get_max_threads();
#else
    (void)wanted;
    (void)work;
    return 1;
#endif
}
