/* csr_times_bcsr, made by spfgen 0.1.0. Compile with -std=c99 -O3 -fopenmp. */

#include "csr_times_bcsr.h"

#ifdef _OPENMP
#include <omp.h>
#else
#pragma GCC diagnostic ignored "-Wunknown-pragmas"
#endif

/* The number of threads to use for `work` values: `wanted`, or OpenMP's own choice when that is not positive;
   one when there is so little work that starting a team would take longer. */
static inline int spfgen_threads(int wanted, int64_t work) {
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

/*
 * C[i, j] = A[i, j]*B[i, j]
 *
 * Returns SPFGEN_OK or an error code; then nothing has been written.
 *
 * A        operand
 * B        operand
 * C        result
 * threads  threads to use; 0 or less leaves the choice to OpenMP
 */
int csr_times_bcsr(
    const csr_f64_i32 *A,
    const bcsr_R2_C2_f64_i32 *B,
    dense_rank2_f64 *C,
    int threads)
{
    if (!A || !B || !C) {
        return SPFGEN_ERROR_NULL;
    }
    if (A->nrow != B->nrow || A->nrow != C->n_1 || A->nrow < 0 || A->ncol != B->ncol
            || A->ncol != C->n_2 || A->ncol < 0 || A->nnz < 0 || B->nb < 0) {
        return SPFGEN_ERROR_SHAPE;
    }
    const int64_t nrow = A->nrow;
    const int64_t ncol = A->ncol;
    const int64_t nnz = A->nnz;
    const int64_t nb = B->nb;
    const double *restrict A_val = A->val;
    const int32_t *restrict A_rowptr = A->rowptr;
    const int32_t *restrict A_colidx = A->colidx;
    const double *restrict B_val = B->val;
    const int32_t *restrict B_browptr = B->browptr;
    const int32_t *restrict B_bcolidx = B->bcolidx;
    double *restrict C_val = C->val;
    threads = spfgen_threads(threads, nnz + nb * 2 * 2 + nrow * ncol);
    /* C[i, j] = A[i, j]*B[i, j] */
    #pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t p = 0; p < nrow * ncol; p++) {
        C_val[p] = 0.0;
    }
    /* parallel over i: its iterations write different places of C */
    #pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t i = 0; i < nrow; i++) {
        const int64_t bi = i / 2;
        const int64_t r = i - 2 * bi;
        const int64_t browptr_bi = B_browptr[bi];
        const int64_t browptr_bi_1 = B_browptr[bi + 1];
        for (int64_t pj = A_rowptr[i]; pj < A_rowptr[i + 1]; pj++) {
            const int64_t j = A_colidx[pj];
            double C_sum = 0.0;
            /*
             * find pb with j < 2 * bcolidx_pb + 2 && 2 * bcolidx_pb <= j by plain loop: every
             * position is compared
             */
            for (int64_t pb = browptr_bi; pb < browptr_bi_1; pb++) {
                const int64_t bcolidx_pb = B_bcolidx[pb];
                if (j < 2 * bcolidx_pb + 2 && 2 * bcolidx_pb <= j) {
                    const int64_t c = j - 2 * bcolidx_pb;
                    C_sum += A_val[pj] * B_val[(pb * 2 + r) * 2 + c];
                }
            }
            C_val[i * ncol + j] += C_sum;
        }
    }
    return SPFGEN_OK;
}
