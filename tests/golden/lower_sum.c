/* lower_sum, made by spfgen 0.1.0. Compile with -std=c99 -O3 -fopenmp. */

#include "lower_sum.h"

#ifdef _OPENMP
#include <omp.h>
#else
#pragma GCC diagnostic ignored "-Wunknown-pragmas"
#endif

static inline int64_t spfgen_min(int64_t a, int64_t b) {
    return a < b ? a : b;
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
    const int64_t ncol = A->ncol;
    const int64_t nrow = A->nrow;
    const int64_t ndiag = A->ndiag;
    const double *restrict A_val = A->val;
    const int32_t *restrict A_offset = A->offset;
    double *restrict s_val = s->val;
    (void)threads;
    /* s = A[i, j] where j < i */
    double s_sum = 0.0;
    for (int64_t pd = 0; pd < ndiag; pd++) {
        const int64_t offset_pd = A_offset[pd];
        if (0 > offset_pd) {
            #pragma omp simd reduction(+:s_sum)
            for (int64_t j = 0; j < spfgen_min(nrow + offset_pd, ncol); j++) {
                s_sum += A_val[pd * ncol + j];
            }
        }
    }
    s_val[0] = s_sum;
    return SPFGEN_OK;
}
