/* solve, made by spfgen 0.1.0. Compile with -std=c99 -O3 -fopenmp. */

#include "solve.h"

#ifdef _OPENMP
#include <omp.h>
#else
#pragma GCC diagnostic ignored "-Wunknown-pragmas"
#endif

/* A function that is compiled as it would be by itself: for no caller in particular, and from the begin of a line of the
   cache. How well a processor foresees branches depends on where they stand in such lines. */
#if defined(__GNUC__) && !defined(__clang__)
#define SPFGEN_AS_IS __attribute__((noinline, noclone, aligned(64)))
#elif defined(__GNUC__)
#define SPFGEN_AS_IS __attribute__((noinline, aligned(64)))
#else
#define SPFGEN_AS_IS
#endif

/* Keeps the conditions in a loop as branches. gcc (seen with 11 and 12, from AVX2 on) takes neighbouring elements that
   are loaded under conditions of their own for a vector, and loads all of it under the conditions of its first part. */
static inline void spfgen_branch(void) {
#if defined(__GNUC__) && !defined(__clang__)
    __asm__ volatile("");
#endif
}

/* solve, one after another over i. */
static SPFGEN_AS_IS void solve_serial(
    bool near,
    int64_t nrow,
    const int32_t *restrict L_rowptr,
    const double *restrict b_val,
    const int32_t *restrict L_colidx,
    const double *restrict L_val,
    double *restrict x_val)
{
    if (near) {
        double latest = 0;
        int64_t latest_at = -1;
        /* where one segment ends the next one begins */
        int64_t L_rowptr_i = 0 < nrow ? L_rowptr[0] : 0;
        for (int64_t i = 0; i < nrow; i++) {
            double x_sum = b_val[i];
            double x_sum_2 = 0.0;
            const int64_t rowptr_i_1 = L_rowptr[i + 1];
            /* the last one has j = i: nothing has to be asked of the others */
            if (L_rowptr_i < rowptr_i_1 && L_colidx[rowptr_i_1 - 1] == i) {
                {
                    int64_t pj_next = L_rowptr_i;
                    if (24 <= rowptr_i_1 - 1 - L_rowptr_i) {
                        /* four sums, so that one addition need not wait for the other */
                        double x_sum_1 = 0.0;
                        double x_sum_2_2 = 0.0;
                        double x_sum_3 = 0.0;
                        double x_sum_4 = 0.0;
                        while (pj_next + 4 <= rowptr_i_1 - 1) {
                            x_sum_1 -= L_val[pj_next] * x_val[L_colidx[pj_next]];
                            x_sum_2_2 -= L_val[pj_next + 1] * x_val[L_colidx[pj_next + 1]];
                            x_sum_3 -= L_val[pj_next + 2] * x_val[L_colidx[pj_next + 2]];
                            x_sum_4 -= L_val[pj_next + 3] * x_val[L_colidx[pj_next + 3]];
                            pj_next += 4;
                        }
                        x_sum += x_sum_1 + x_sum_2_2 + (x_sum_3 + x_sum_4);
                    }
                    #pragma GCC unroll 2
                    for (int64_t pj = pj_next; pj < rowptr_i_1 - 2; pj++) {
                        x_sum -= L_val[pj] * x_val[L_colidx[pj]];
                    }
                    if (pj_next < rowptr_i_1 - 1) {
                        const int64_t own = L_colidx[rowptr_i_1 - 2];
                        x_sum -= L_val[rowptr_i_1 - 2] * (own == latest_at ? latest : x_val[own]);
                    }
                }
                x_sum_2 += L_val[rowptr_i_1 - 1];
            } else {
                for (int64_t pj = L_rowptr_i; pj < rowptr_i_1; pj++) {
                    const int64_t j = L_colidx[pj];
                    if (i > j) {
                        x_sum -= L_val[pj] * x_val[j];
                    }
                    if (j == i) {
                        x_sum_2 += L_val[pj];
                    }
                }
            }
            latest = x_sum / x_sum_2;
            x_val[i] = latest;
            latest_at = i;
            L_rowptr_i = rowptr_i_1;
        }
    } else {
        /* where one segment ends the next one begins */
        int64_t L_rowptr_i_2 = 0 < nrow ? L_rowptr[0] : 0;
        for (int64_t i = 0; i < nrow; i++) {
            double x_sum = b_val[i];
            double x_sum_2 = 0.0;
            const int64_t rowptr_i_1 = L_rowptr[i + 1];
            /* the last one has j = i: nothing has to be asked of the others */
            if (L_rowptr_i_2 < rowptr_i_1 && L_colidx[rowptr_i_1 - 1] == i) {
                {
                    int64_t pj_next = L_rowptr_i_2;
                    if (24 <= rowptr_i_1 - 1 - L_rowptr_i_2) {
                        /* four sums, so that one addition need not wait for the other */
                        double x_sum_1 = 0.0;
                        double x_sum_2_2 = 0.0;
                        double x_sum_3 = 0.0;
                        double x_sum_4 = 0.0;
                        while (pj_next + 4 <= rowptr_i_1 - 1) {
                            x_sum_1 -= L_val[pj_next] * x_val[L_colidx[pj_next]];
                            x_sum_2_2 -= L_val[pj_next + 1] * x_val[L_colidx[pj_next + 1]];
                            x_sum_3 -= L_val[pj_next + 2] * x_val[L_colidx[pj_next + 2]];
                            x_sum_4 -= L_val[pj_next + 3] * x_val[L_colidx[pj_next + 3]];
                            pj_next += 4;
                        }
                        x_sum += x_sum_1 + x_sum_2_2 + (x_sum_3 + x_sum_4);
                    }
                    #pragma GCC unroll 2
                    for (int64_t pj = pj_next; pj < rowptr_i_1 - 1; pj++) {
                        x_sum -= L_val[pj] * x_val[L_colidx[pj]];
                    }
                }
                x_sum_2 += L_val[rowptr_i_1 - 1];
            } else {
                for (int64_t pj = L_rowptr_i_2; pj < rowptr_i_1; pj++) {
                    const int64_t j = L_colidx[pj];
                    if (i > j) {
                        x_sum -= L_val[pj] * x_val[j];
                    }
                    if (j == i) {
                        x_sum_2 += L_val[pj];
                    }
                }
            }
            x_val[i] = x_sum / x_sum_2;
            L_rowptr_i_2 = rowptr_i_1;
        }
    }
}

/*
 * x[i] = (b[i] - sum(j < i: L[i, j]*x[j]))/L[i, i]
 *
 * Returns SPFGEN_OK or an error code; then nothing has been written.
 *
 * L        operand
 * b        operand
 * x        operand
 * threads  threads to use; 0 or less leaves the choice to OpenMP
 */
int solve(const csr_f64_i32_t *L, const dense_rank1_f64_t *b, dense_rank1_f64_t *x, int threads)
{
    if (!L || !b || !x) {
        return SPFGEN_ERROR_NULL;
    }
    if (L->nrow != L->ncol || L->nrow != b->n_1 || L->nrow != x->n_1 || L->nrow < 0 || L->nnz < 0) {
        return SPFGEN_ERROR_SHAPE;
    }
    const int64_t nrow = L->nrow;
    const int64_t nnz = L->nnz;
    const double *restrict L_val = L->val;
    const int32_t *restrict L_rowptr = L->rowptr;
    const int32_t *restrict L_colidx = L->colidx;
    const double *restrict b_val = b->val;
    double *restrict x_val = x->val;
    if (!L_rowptr || (!L_colidx && nnz > 0) || (!L_val && nnz > 0) || (!b_val && nrow > 0)
            || (!x_val && nrow > 0)) {
        return SPFGEN_ERROR_NULL;
    }
    (void)threads;
    /* x[i] = (b[i] - sum(j < i: L[i, j]*x[j]))/L[i, i] */
    /* whether nearly every i needs the value of the one before: that stays in a register then */
    int64_t hits = 0;
    for (int64_t i = 1; i < nrow && hits >= -7; i = i + (2 * ((nrow - 1) / 32) + 1)) {
        spfgen_branch();
        hits += L_rowptr[i] < L_rowptr[i + 1] && L_colidx[L_rowptr[i + 1] - 1] == i
                && L_rowptr[i] < L_rowptr[i + 1] - 1 && L_colidx[L_rowptr[i + 1] - 2] == i - 1 ? 1
                : -7;
    }
    const bool near = hits > 0;
    solve_serial(near, nrow, L_rowptr, b_val, L_colidx, L_val, x_val);
    return SPFGEN_OK;
}
