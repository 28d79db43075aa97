/* lower_sum, made by spfgen 0.1.0. Compile with -std=c99 -O3 -fopenmp. */

#include "lower_sum.h"
#include <stdlib.h>

#ifdef _OPENMP
#include <omp.h>
#else
#pragma GCC diagnostic ignored "-Wunknown-pragmas"
#endif

/* Keeps a function out of its callers: compilers know that the arrays it takes do not overlap, as `restrict` says, but
   forget it where the body stands in a loop in parallel. */
#ifdef __GNUC__
#define SPFGEN_ALONE __attribute__((noinline))
#else
#define SPFGEN_ALONE
#endif

static inline int64_t spfgen_min(int64_t a, int64_t b) {
    return a < b ? a : b;
}

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

/* The same with any bytes: the threads that use it clear it, and so touch it first. */
static inline void *spfgen_memory(int64_t count, int64_t threads, size_t size) {
    const size_t most = SIZE_MAX / size / (size_t)threads;
    if (count > 0 && (uint64_t)count > most) {
        return NULL;
    }
    return malloc((size_t)(count > 0 ? count : 1) * (size_t)threads * size);
}

/* The number of parts for that many threads and so many nanoseconds of work: one for each thread, or so many more, at most
   `each`, that one that is done early takes another, where a part does not take longer to find than to do. */
static inline int spfgen_turns(int threads, double work, int each) {
    const double turns = work / 8192.0 / threads;
    return threads <= 1 ? 1 : threads * (turns < 1.0 ? 1 : turns < each ? (int)turns : each);
}

/* The smaller of two numbers of nanoseconds or iterations. */
static inline double spfgen_least(double a, double b) {
    return a < b ? a : b;
}

/* Where part `part` of `parts` equal parts of [low, high) begins. */
static inline int64_t spfgen_part(int64_t low, int64_t high, int part, int parts) {
    const int64_t length = high > low ? high - low : 0;
    return low + length / parts * part + length % parts * part / parts;
}

/* One part of a loop that threads share. */
static SPFGEN_ALONE void lower_sum_part(
    int part,
    int64_t ndiag,
    int parts,
    const int32_t *restrict A_offset,
    int64_t ncol,
    int64_t nrow,
    const double *restrict A_val,
    double *s_parts)
{
    const int64_t pd_begin = spfgen_part(0, ndiag, part, parts);
    const int64_t pd_end = spfgen_part(0, ndiag, part + 1, parts);
    double s_part = 0.0;
    for (int64_t pd = pd_begin; pd < pd_end; pd++) {
        const int64_t offset_pd = A_offset[pd];
        if (0 > offset_pd) {
            const int64_t j_end = spfgen_min(ncol, nrow + offset_pd);
            /* a vector of sums, two in long loops */
            int64_t j_next = 0;
            if (j_end < 32) {
                double s_part_vector[4];
                #pragma omp simd
                for (int64_t lane = 0; lane < 4; lane++) {
                    s_part_vector[lane] = 0.0;
                }
                while (j_next + 4 <= j_end) {
                    #pragma omp simd
                    for (int64_t lane = 0; lane < 4; lane++) {
                        s_part_vector[lane] += A_val[pd * ncol + (j_next + lane)];
                    }
                    j_next += 4;
                }
                for (int64_t j = j_next; j < j_end; j++) {
                    s_part += A_val[pd * ncol + j];
                }
                s_part += s_part_vector[0] + s_part_vector[2]
                        + (s_part_vector[1] + s_part_vector[3]);
            } else {
                double s_part_vector[4];
                double s_part_vector_2[4];
                #pragma omp simd
                for (int64_t lane = 0; lane < 4; lane++) {
                    s_part_vector[lane] = 0.0;
                }
                #pragma omp simd
                for (int64_t lane = 0; lane < 4; lane++) {
                    s_part_vector_2[lane] = 0.0;
                }
                while (j_next + 8 <= j_end) {
                    #pragma omp simd
                    for (int64_t lane = 0; lane < 4; lane++) {
                        s_part_vector[lane] += A_val[pd * ncol + (j_next + lane)];
                    }
                    #pragma omp simd
                    for (int64_t lane = 0; lane < 4; lane++) {
                        s_part_vector_2[lane] += A_val[pd * ncol + (j_next + lane + 4)];
                    }
                    j_next += 8;
                }
                for (int64_t j = j_next; j < j_end; j++) {
                    s_part += A_val[pd * ncol + j];
                }
                #pragma omp simd
                for (int64_t lane = 0; lane < 4; lane++) {
                    s_part_vector[lane] += s_part_vector_2[lane];
                }
                s_part += s_part_vector[0] + s_part_vector[2]
                        + (s_part_vector[1] + s_part_vector[3]);
            }
        }
    }
    s_parts[part] = s_part;
}

/*
 * s = A[i, j] where j < i
 *
 * Returns SPFGEN_OK or an error code; then nothing has been written.
 *
 * A        operand
 * s        result
 * threads  threads to use; 0 or less leaves the choice to OpenMP
 */
int lower_sum(const dia_f64_i32_t *A, scalar_f64_t *s, int threads)
{
    if (!A || !s) {
        return SPFGEN_ERROR_NULL;
    }
    if (A->nrow < 0 || A->ncol < 0 || A->ndiag < 0) {
        return SPFGEN_ERROR_SHAPE;
    }
    const int64_t ndiag = A->ndiag;
    const int64_t ncol = A->ncol;
    const int64_t nrow = A->nrow;
    const double *restrict A_val = A->val;
    const int32_t *restrict A_offset = A->offset;
    double *restrict s_val = s->val;
    if ((!A_offset && ndiag > 0) || (!A_val && ndiag > 0 && ncol > 0) || !s_val) {
        return SPFGEN_ERROR_NULL;
    }
    threads =
            spfgen_threads(threads, (double)ndiag
            + 3.0 * ((double)ndiag * spfgen_least((double)ncol, (double)nrow + 0.0)));
    /* more parts than threads: one that is done early takes another */
    const int parts =
            spfgen_turns(threads, (double)ndiag
            + 3.0 * ((double)ndiag * spfgen_least((double)ncol, (double)nrow + 0.0)), 8);
    double *s_parts = spfgen_memory(parts, 1, sizeof(double));
    if (!s_parts) {
        free(s_parts);
        return SPFGEN_ERROR_MEMORY;
    }
    /* s = A[i, j] where j < i */
    double s_sum = 0.0;
    /*
     * parallel over pd: its iterations only add to s, which each part does for itself; then the
     * sums are added
     */
    /* the iterations in equal parts */
    if (threads > 1) {
        #pragma omp parallel for schedule(monotonic: dynamic, 1) num_threads(threads)
        for (int part = 0; part < parts; part++) {
            lower_sum_part(part, ndiag, parts, A_offset, ncol, nrow, A_val, s_parts);
        }
    } else {
        for (int part = 0; part < parts; part++) {
            lower_sum_part(part, ndiag, parts, A_offset, ncol, nrow, A_val, s_parts);
        }
    }
    for (int part_2 = 0; part_2 < parts; part_2++) {
        s_sum += s_parts[part_2];
    }
    s_val[0] = s_sum;
    free(s_parts);
    return SPFGEN_OK;
}
