/* mixed_types, made by spfgen 0.1.0. Compile with -std=c99 -O3 -fopenmp. */

#include "mixed_types.h"

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

/* Asks for memory `bytes` behind the start of an array, needed later, to a cache behind the first one. It may lie
   outside of the array: no pointer to it is made, and nothing is read. */
static inline void spfgen_prefetch_far(const void *array, int64_t bytes) {
#ifdef __GNUC__
    __builtin_prefetch((const void *)((uintptr_t)array + (uintptr_t)bytes), 0, 2);
#else
    (void)array;
    (void)bytes;
#endif
}

/* Where part `part` of `parts` begins when [low, high) is shared out so that array[i + 1] - array[i] + 1 adds up to
   about the same in each. The parts cover [low, high) without overlap whatever the array holds: for a larger part
   the search never ends further left. */
static inline int64_t spfgen_share_int64(const int64_t *array, int64_t low, int64_t high, int part, int parts) {
    if (part <= 0 || low >= high) {
        return low;
    }
    if (part >= parts) {
        return high;
    }
    const int64_t total = (int64_t)array[high] - (int64_t)array[low] + (high - low);
    const int64_t wanted = total / parts * part + total % parts * part / parts;
    const int64_t first = low;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if ((int64_t)array[middle] - (int64_t)array[first] + (middle - first) < wanted) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/*
 * y[i] += A[i, j]*x[j]
 *
 * Returns SPFGEN_OK or an error code; then nothing has been written.
 *
 * A        operand
 * x        operand
 * y        result
 * threads  threads to use; 0 or less leaves the choice to OpenMP
 */
int mixed_types(
    const csr_f32_i64_i32_t *A,
    const dense_rank1_f32_t *x,
    dense_rank1_f64_t *y,
    int threads)
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
    const float *restrict A_val = A->val;
    const int64_t *restrict A_rowptr = A->rowptr;
    const int32_t *restrict A_colidx = A->colidx;
    const float *restrict x_val = x->val;
    double *restrict y_val = y->val;
    threads = spfgen_threads(threads, nnz + ncol + nrow);
    /* y[i] += A[i, j]*x[j] */
    /* parallel over i: its iterations write different places of y */
    /* each thread takes about the same part of A_rowptr's differences */
    #pragma omp parallel for schedule(static, 1) num_threads(threads)
    for (int part = 0; part < threads; part++) {
        const int64_t i_end = spfgen_share_int64(A_rowptr, 0, nrow, part + 1, threads);
        const int64_t i_begin = spfgen_share_int64(A_rowptr, 0, nrow, part, threads);
        /* where one segment ends the next one begins */
        int64_t A_rowptr_i = i_begin < i_end ? A_rowptr[i_begin] : 0;
        for (int64_t i = i_begin; i < i_end; i++) {
            double y_sum = 0.0;
            const int64_t pj_end = A_rowptr[i + 1];
            if (nnz >= 1048576 && nnz <= 8 * nrow && A_rowptr_i < pj_end) {
                /* short segments, and many: what comes later is fetched */
                spfgen_prefetch_far(A_val, (A_rowptr_i + 512) * 4);
                spfgen_prefetch_far(A_colidx, (A_rowptr_i + 512) * 4);
            }
            /* two sums, so that one addition need not wait for the other */
            double y_sum_2 = 0.0;
            int64_t pj_rest = A_rowptr_i;
            if (pj_end - A_rowptr_i >= 32) {
                double y_sum_3 = 0.0;
                double y_sum_4 = 0.0;
                pj_rest = pj_end - (pj_end - A_rowptr_i) % 4;
                for (int64_t pj = A_rowptr_i; pj < pj_rest; pj += 4) {
                    y_sum += (double)A_val[pj] * (double)x_val[A_colidx[pj]];
                    y_sum_2 += (double)A_val[pj + 1] * (double)x_val[A_colidx[pj + 1]];
                    y_sum_3 += (double)A_val[pj + 2] * (double)x_val[A_colidx[pj + 2]];
                    y_sum_4 += (double)A_val[pj + 3] * (double)x_val[A_colidx[pj + 3]];
                }
                y_sum += y_sum_3;
                y_sum_2 += y_sum_4;
            }
            for (int64_t pj = pj_rest; pj < pj_end; pj += 2) {
                y_sum += (double)A_val[pj] * (double)x_val[A_colidx[pj]];
                if (pj + 1 < pj_end) {
                    y_sum_2 += (double)A_val[pj + 1] * (double)x_val[A_colidx[pj + 1]];
                }
            }
            y_sum += y_sum_2;
            y_val[i] += y_sum;
            A_rowptr_i = pj_end;
        }
    }
    return SPFGEN_OK;
}
