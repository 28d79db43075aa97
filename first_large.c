/* first_large, made by spfgen 0.1.0. Compile with -std=c99 -O3 -fopenmp -fwrapv. */

#include "first_large.h"

#ifdef _OPENMP
#include <omp.h>
#else
#pragma GCC diagnostic ignored "-Wunknown-pragmas"
#endif

/* The number of threads to use for `work` nanoseconds of work: `wanted`, or OpenMP's own choice when that is not positive;
   one when there is so little work that starting a team would take longer. Nobody asked for threads where the choice is
   OpenMP's: then the gain has to be sure, also on a machine that is busy, where a team waits for a thread that has no
   core. */
static inline int spfgen_threads(int wanted, double work) {
#ifdef _OPENMP
    if (work < (wanted > 0 ? 8192 : 65536)) {
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

/*
 * for i {
 *     let first = ...
 *     for j {
 *         if ... {
 *             first = ...
 *             break
 *         }
 *     }
 *     f[i] = first
 * }
 *
 * Returns SPFGEN_OK or an error code; then nothing has been written.
 *
 * A        operand
 * f        result
 * threads  threads to use; 0 or less leaves the choice to OpenMP
 */
int first_large(const csr_f64_i32_t *A, dense_rank1_i64_t *f, int threads)
{
    if (!A || !f) {
        return SPFGEN_ERROR_NULL;
    }
    if (A->nrow != f->n_1 || A->nrow < 0 || A->ncol < 0 || A->nnz < 0) {
        return SPFGEN_ERROR_SHAPE;
    }
    const int64_t ncol = A->ncol;
    const int64_t nrow = A->nrow;
    const int64_t nnz = A->nnz;
    const double *restrict A_val = A->val;
    const int32_t *restrict A_rowptr = A->rowptr;
    const int32_t *restrict A_colidx = A->colidx;
    int64_t *restrict f_val = f->val;
    if (!A_rowptr || (!A_colidx && nnz > 0) || (!A_val && nnz > 0) || (!f_val && nrow > 0)) {
        return SPFGEN_ERROR_NULL;
    }
    threads = spfgen_threads(threads, (double)(nnz + nrow));
    /* parallel over i: its iterations write different places */
    #pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t i = 0; i < nrow; i++) {
        int64_t first = -1;
        for (int64_t j = 0; j < ncol; j++) {
            double A_value = 0.0;
            {
                const int64_t pj_end = A_rowptr[i + 1];
                /*
                 * find pj with A_colidx[pj] == j by binary search: A.colidx rises strictly
                 * within these bounds (by Z3 from the declared properties)
                 */
                const int64_t pj = spfgen_search_int32(A_colidx, 0, A_rowptr[i], pj_end, j);
                if (pj < pj_end && A_colidx[pj] == j) {
                    A_value = A_val[pj];
                }
            }
            if (A_value > 0.8) {
                first = j;
                break;
            }
        }
        /* f[i] = first */
        f_val[i] = first;
    }
    return SPFGEN_OK;
}
