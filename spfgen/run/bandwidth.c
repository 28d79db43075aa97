/* How fast this machine reads memory, and copies with arithmetic (the triad of STREAM). */

#ifdef _OPENMP
#include <omp.h>
#endif

/* Threads of a parallel region, where nobody says how many. */
int team(void)
{
#ifdef _OPENMP
    return omp_get_max_threads();
#else
    return 1;
#endif
}

void fill(int threads, long size, double value, double *restrict a)
{
#pragma omp parallel for num_threads(threads) schedule(static)
    for (long i = 0; i < size; i++)
        a[i] = value;
}

/* Eight vectors of partial sums, because one chain of additions would be slower than the memory. */
double read_sum(int threads, long size, const double *restrict a)
{
    double total = 0.0;
#pragma omp parallel for num_threads(threads) schedule(static) reduction(+ : total)
    for (long block = 0; block < size / 64; block++) {
        const double *restrict from = a + 64 * block;
        double part[8] = {0, 0, 0, 0, 0, 0, 0, 0};
        for (int group = 0; group < 8; group++)
            for (int lane = 0; lane < 8; lane++)
                part[lane] += from[8 * group + lane];
        total += ((part[0] + part[1]) + (part[2] + part[3])) + ((part[4] + part[5]) + (part[6] + part[7]));
    }
    return total;
}

void triad(int threads, long size, const double *restrict a, const double *restrict b, double *restrict c)
{
#pragma omp parallel for num_threads(threads) schedule(static)
    for (long i = 0; i < size; i++)
        c[i] = a[i] + 3.0 * b[i];
}
