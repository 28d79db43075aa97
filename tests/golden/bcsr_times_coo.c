/* bcsr_times_coo, made by spfgen 0.1.0. Compile with -std=c99 -O3 -fopenmp. */

#include "bcsr_times_coo.h"

#ifdef _OPENMP
#include <omp.h>
#else
#pragma GCC diagnostic ignored "-Wunknown-pragmas"
#endif

static inline int64_t spfgen_min(int64_t a, int64_t b) {
    return a < b ? a : b;
}

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
 * C[i, k] += A[i, j]*B[j, k]
 *
 * Returns SPFGEN_OK or an error code; then nothing has been written.
 *
 * A        operand
 * B        operand
 * C        result
 * threads  threads to use; 0 or less leaves the choice to OpenMP
 */
int bcsr_times_coo(
    const bcsr_R2_C2_f64_i32_t *A,
    const coo_rank2_f64_i32_t *B,
    dense_rank2_f64_t *C,
    int threads)
{
    if (!A || !B || !C) {
        return SPFGEN_ERROR_NULL;
    }
    if (A->nrow != C->n_1 || A->nrow < 0 || A->ncol != B->n_1 || A->ncol < 0 || A->nb < 0
            || B->n_2 != C->n_2 || B->n_2 < 0 || B->nnz < 0) {
        return SPFGEN_ERROR_SHAPE;
    }
    const int64_t nrow = A->nrow;
    const int64_t nnz = B->nnz;
    const int64_t n_2 = B->n_2;
    const int64_t ncol = A->ncol;
    const int64_t nb = A->nb;
    const double *restrict A_val = A->val;
    const int32_t *restrict A_browptr = A->browptr;
    const int32_t *restrict A_bcolidx = A->bcolidx;
    const double *restrict B_val = B->val;
    const int32_t *restrict B_idx_1 = B->idx_1;
    const int32_t *restrict B_idx_2 = B->idx_2;
    double *restrict C_val = C->val;
    threads = spfgen_threads(threads, nb * 2 * 2 + nnz + nrow * n_2);
    /* C[i, k] += A[i, j]*B[j, k] */
    const int64_t floor_nrow_1_2 = (nrow + 1) / 2;
    /* parallel over bi: its iterations write different places of C */
    /* each thread takes about the same part of A_browptr's differences */
    #pragma omp parallel for schedule(static, 1) num_threads(threads)
    for (int part = 0; part < threads; part++) {
        const int64_t bi_end = spfgen_share_int32(A_browptr, 0, floor_nrow_1_2, part + 1, threads);
        for (int64_t bi = spfgen_share_int32(A_browptr, 0, floor_nrow_1_2, part, threads);
                bi < bi_end; bi++) {
            for (int64_t pb = A_browptr[bi]; pb < A_browptr[bi + 1]; pb++) {
                const int64_t bcolidx_pb = A_bcolidx[pb];
                for (int64_t r = 0; r < spfgen_min(2, nrow - 2 * bi); r++) {
                    const int64_t i = 2 * bi + r;
                    for (int64_t c = 0; c < spfgen_min(2, ncol - 2 * bcolidx_pb); c++) {
                        const int64_t j = 2 * bcolidx_pb + c;
                        /*
                         * find p with B_idx_1[p] == j by binary search: B.idx_1 rises within
                         * these bounds (by Z3 from the declared properties)
                         */
                        for (int64_t p = spfgen_search_int32(B_idx_1, 0, 0, nnz, j); p < nnz
                                && B_idx_1[p] == j; p++) {
                            C_val[i * n_2 + B_idx_2[p]] += A_val[(pb * 2 + r) * 2 + c] * B_val[p];
                        }
                    }
                }
            }
        }
    }
    return SPFGEN_OK;
}
