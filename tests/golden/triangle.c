/* triangle, made by spfgen 0.1.0. Compile with -std=c99 -O3 -fopenmp. */

#include "triangle.h"

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

/* a / n rounded down, for n > 0. */
static inline int64_t spfgen_floor_div(int64_t a, int64_t n) {
    return a / n - (a % n < 0);
}

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
static SPFGEN_ALONE void triangle_part(
    int part,
    int64_t nrow,
    int parts,
    int64_t ncol,
    const double *restrict A_val,
    const double *restrict x_val,
    double *restrict y_val)
{
    const int64_t i_begin = spfgen_part(0, nrow, part, parts);
    const int64_t i_end = spfgen_part(0, nrow, part + 1, parts);
    for (int64_t i = i_begin; i < i_end; i++) {
        double y_sum = 0.0;
        const int64_t j_end = spfgen_min(i + 1, ncol);
        if (0 < j_end) {
            /* four at a time, so that one addition need not wait for the other */
            for (int64_t j = 0; j < j_end; j += 4) {
                double y_sum_1 = 0.0;
                y_sum_1 += A_val[(i * (i + 1)) / 2 + j] * x_val[j];
                if (j + 1 < j_end) {
                    double y_sum_2 = 0.0;
                    y_sum_2 += A_val[(i * (i + 1)) / 2 + (j + 1)] * x_val[j + 1];
                    if (j + 2 < j_end) {
                        y_sum_1 += A_val[(i * (i + 1)) / 2 + (j + 2)] * x_val[j + 2];
                        if (j + 3 < j_end) {
                            y_sum_2 += A_val[(i * (i + 1)) / 2 + (j + 3)] * x_val[j + 3];
                        }
                    }
                    y_sum_1 += y_sum_2;
                }
                y_sum += y_sum_1;
            }
        }
        y_val[i] = y_sum;
    }
}

/*
 * y[i] = A[i, j]*x[j]
 *
 * Returns SPFGEN_OK or an error code; then nothing has been written.
 *
 * A        operand
 * x        operand
 * y        result
 * threads  threads to use; 0 or less leaves the choice to OpenMP
 */
int triangle(const lower_f64_t *A, const dense_rank1_f64_t *x, dense_rank1_f64_t *y, int threads)
{
    if (!A || !x || !y) {
        return SPFGEN_ERROR_NULL;
    }
    if (A->nrow != y->n_1 || A->nrow < 0 || A->ncol != x->n_1 || A->ncol < 0) {
        return SPFGEN_ERROR_SHAPE;
    }
    const int64_t nrow = A->nrow;
    const int64_t ncol = A->ncol;
    const double *restrict A_val = A->val;
    const double *restrict x_val = x->val;
    double *restrict y_val = y->val;
    if ((!A_val && spfgen_floor_div(nrow * (nrow + 1), 2) > 0) || (!x_val && ncol > 0)
            || (!y_val && nrow > 0)) {
        return SPFGEN_ERROR_NULL;
    }
    threads =
            spfgen_threads(threads, (double)nrow
            + 3.0 * ((double)nrow * spfgen_least((double)nrow / 2.0 + 1.0, (double)ncol)));
    /* more parts than threads: one that is done early takes another */
    const int parts =
            spfgen_turns(threads, (double)nrow
            + 3.0 * ((double)nrow * spfgen_least((double)nrow / 2.0 + 1.0, (double)ncol)), 8);
    /* y[i] = A[i, j]*x[j] */
    /* parallel over i: its iterations write different places of y */
    /* the iterations in equal parts */
    if (threads > 1) {
        #pragma omp parallel for schedule(monotonic: dynamic, 1) num_threads(threads)
        for (int part = 0; part < parts; part++) {
            triangle_part(part, nrow, parts, ncol, A_val, x_val, y_val);
        }
    } else {
        for (int part = 0; part < parts; part++) {
            triangle_part(part, nrow, parts, ncol, A_val, x_val, y_val);
        }
    }
    return SPFGEN_OK;
}
