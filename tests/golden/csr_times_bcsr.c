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

/* The first position p in [low, high) with array[base + p] >= key, or high; the array rises there. */
static inline int64_t spfgen_search_int32(const int32_t *array, int64_t base, int64_t low, int64_t high, int64_t key) {
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (array[base + middle] < key) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* Where part `part` of `parts` begins when [low, high) is shared out so that array[i + 1] - array[i] + 1 adds up to
   about the same in each. The parts cover [low, high) without overlap whatever the array holds: for a larger part
   the search never ends further left. */
static inline int64_t spfgen_share_int32(const int32_t *array, int64_t low, int64_t high, int part, int parts) {
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
    const csr_f64_i32_t *A,
    const bcsr_R2_C2_f64_i32_t *B,
    dense_rank2_f64_t *C,
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
    /* each thread takes about the same part of A_rowptr's differences */
    #pragma omp parallel for schedule(static, 1) num_threads(threads)
    for (int part = 0; part < threads; part++) {
        const int64_t i_end = spfgen_share_int32(A_rowptr, 0, nrow, part + 1, threads);
        for (int64_t i = spfgen_share_int32(A_rowptr, 0, nrow, part, threads); i < i_end; i++) {
            const int64_t bi = i / 2;
            const int64_t r = i - 2 * bi;
            const int64_t browptr_bi = B_browptr[bi];
            const int64_t browptr_bi_1 = B_browptr[bi + 1];
            for (int64_t pj = A_rowptr[i]; pj < A_rowptr[i + 1]; pj++) {
                const int64_t j = A_colidx[pj];
                const int64_t pb_key = j / 2;
                /*
                 * find pb with B_bcolidx[pb] == pb_key by binary search: B.bcolidx rises
                 * strictly within these bounds (by Z3 from the declared properties)
                 */
                const int64_t pb =
                        spfgen_search_int32(B_bcolidx, 0, browptr_bi, browptr_bi_1, pb_key);
                if (pb < browptr_bi_1 && B_bcolidx[pb] == pb_key) {
                    const int64_t c = j - 2 * (int64_t)B_bcolidx[pb];
                    C_val[i * ncol + j] += A_val[pj] * B_val[(pb * 2 + r) * 2 + c];
                }
            }
        }
    }
    return SPFGEN_OK;
}
