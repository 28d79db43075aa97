/* spmv, made by spfgen 0.2.0. Compile with -std=c99 -O3 -fopenmp. */

#include "spmv.h"

#ifdef __cplusplus
#define restrict __restrict
#endif

#ifdef _OPENMP
#include <omp.h>
#else
#pragma GCC diagnostic ignored "-Wunknown-pragmas"
#endif

/* The number of threads to use for `work` nanoseconds of work: `wanted`, or OpenMP's own choice when that is not positive;
   one when there is so little work that a team would not gain what it costs. */
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

/* Where part `part` of `parts` begins, where array[i + 1] - array[i] + each adds up to about the same in each. The parts
   cover [low, high) without overlap whatever the array holds: for a larger part the search never ends further left. */
static inline int64_t spfgen_partition_int32(const int32_t *array, int64_t low, int64_t high, int64_t each,
                                             int part, int parts) {
    if (part <= 0 || part >= parts || low >= high) {
        return part >= parts && low < high ? high : low;
    }
    const int64_t total = (int64_t)array[high] - (int64_t)array[low] + (high - low) * each;
    const int64_t wanted = total / parts * part + total % parts * part / parts;
    const int64_t first = low;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if ((int64_t)array[middle] - (int64_t)array[first] + (middle - first) * each < wanted) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* y[i] = A[i, j]*x[j] */
int spmv(const csr_f64_i32_t *A, const dense_rank1_f64_t *x, dense_rank1_f64_t *y, int threads)
{
    if (!A || !x || !y) {
        return SPFGEN_ERROR_NULL;
    }
    if (A->nrow != y->n_1 || A->nrow < 0 || A->ncol != x->n_1 || A->ncol < 0 || A->nnz < 0) {
        return SPFGEN_ERROR_SHAPE;
    }
    const int64_t nrow = A->nrow;
    const int64_t nnz = A->nnz;
    const int64_t ncol = A->ncol;
    const double *restrict A_val = A->val;
    const int32_t *restrict A_rowptr = A->rowptr;
    const int32_t *restrict A_colidx = A->colidx;
    const double *restrict x_val = x->val;
    double *restrict y_val = y->val;
    if (!A_rowptr || (!A_colidx && nnz > 0) || (!A_val && nnz > 0) || (!x_val && ncol > 0)
            || (!y_val && nrow > 0)) {
        return SPFGEN_ERROR_NULL;
    }
    threads = spfgen_threads(threads, (double)nrow + 3.0 * (double)nnz);
    /* parallel over i: its iterations write different places of y */
    /* work partition: parts of about the same number of entries, by A_rowptr */
    #pragma omp parallel for schedule(static, 1) num_threads(threads)
    for (int part = 0; part < threads; part++) {
        const int64_t i_begin = spfgen_partition_int32(A_rowptr, 0, nrow, 6, part, threads);
        const int64_t i_end = spfgen_partition_int32(A_rowptr, 0, nrow, 6, part + 1, threads);
        for (int64_t i = i_begin; i < i_end; i++) {
            double y_sum = 0.0;
            for (int64_t pj = A_rowptr[i]; pj < A_rowptr[i + 1]; pj++) {
                y_sum += A_val[pj] * x_val[A_colidx[pj]];
            }
            y_val[i] = y_sum;
        }
    }
    return SPFGEN_OK;
}
