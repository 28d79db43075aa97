/* triangle, made by spfgen 0.1.0. Compile with -std=c99 -O3 -fopenmp. */

#include "triangle.h"

#ifdef _OPENMP
#include <omp.h>
#else
#pragma GCC diagnostic ignored "-Wunknown-pragmas"
#endif

static inline int64_t spfgen_min(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* The number of threads to use for `work` nanoseconds of work: `wanted`, or OpenMP's own choice when that is not positive;
   one when there is so little work that starting a team would take longer. */
static inline int spfgen_threads(int wanted, double work) {
#ifdef _OPENMP
    if (work < 8192) {
        return 1;
    }
    return wanted > 0 ? wanted : omp_get_max_threads();
#else
    (void)wanted;
    (void)work;
    return 1;
#endif
}

/* a / b, where b counts as at least 1. */
static inline double spfgen_over(double a, double b) {
    return a / (b > 1.0 ? b : 1.0);
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
    const int64_t ncol = A->ncol;
    const int64_t nrow = A->nrow;
    const double *restrict A_val = A->val;
    const double *restrict x_val = x->val;
    double *restrict y_val = y->val;
    threads =
            spfgen_threads(threads, (double)nrow
            + 3.0 * ((double)nrow * ((double)ncol < spfgen_over((double)nrow, 2.0) + 1.0
            ? (double)ncol : spfgen_over((double)nrow, 2.0) + 1.0)));
    /* y[i] = A[i, j]*x[j] */
    /* parallel over i: its iterations write different places of y */
    #pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t i = 0; i < nrow; i++) {
        double y_sum = 0.0;
        const int64_t j_end = spfgen_min(ncol, i + 1);
        if (0 < j_end) {
            /* two sums, so that one addition need not wait for the other */
            double y_sum_2 = 0.0;
            int64_t j_rest = 0;
            if (j_end >= 32) {
                double y_sum_3 = 0.0;
                double y_sum_4 = 0.0;
                j_rest = j_end - j_end % 4;
                for (int64_t j = 0; j < j_rest; j += 4) {
                    y_sum += A_val[(i * (i + 1)) / 2 + j] * x_val[j];
                    y_sum_2 += A_val[(i * (i + 1)) / 2 + (j + 1)] * x_val[j + 1];
                    y_sum_3 += A_val[(i * (i + 1)) / 2 + (j + 2)] * x_val[j + 2];
                    y_sum_4 += A_val[(i * (i + 1)) / 2 + (j + 3)] * x_val[j + 3];
                }
                y_sum += y_sum_3;
                y_sum_2 += y_sum_4;
            }
            for (int64_t j = j_rest; j < j_end; j += 2) {
                y_sum += A_val[(i * (i + 1)) / 2 + j] * x_val[j];
                if (j + 1 < j_end) {
                    y_sum_2 += A_val[(i * (i + 1)) / 2 + (j + 1)] * x_val[j + 1];
                }
            }
            y_sum += y_sum_2;
        }
        y_val[i] = y_sum;
    }
    return SPFGEN_OK;
}
