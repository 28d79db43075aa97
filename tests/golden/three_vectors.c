/* three_vectors, made by spfgen 0.1.0. Compile with -std=c99 -O3 -fopenmp. */

#include "three_vectors.h"

/* The first position p in [low, high) with array[base + p] <= key, or high; the array falls there. */
static inline int64_t spfgen_search_down_int32(const int32_t *array, int64_t base, int64_t low, int64_t high, int64_t key) {
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (array[base + middle] > key) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/*
 * s = x[i]*y[i]*z[i]
 *
 * Returns SPFGEN_OK or an error code; then nothing has been written.
 *
 * x        operand
 * y        operand
 * z        operand
 * s        result
 * threads  threads to use; 0 or less leaves the choice to OpenMP
 */
int three_vectors(
    const sv_f64_i32_t *x,
    const sv_decreasing_f64_i32_t *y,
    const sv_unsorted_f64_i32_t *z,
    scalar_f64_t *s,
    int threads)
{
    if (!x || !y || !z || !s) {
        return SPFGEN_ERROR_NULL;
    }
    if (x->n != y->n || x->n != z->n || x->n < 0 || x->nnz < 0 || y->nnz < 0 || z->nnz < 0) {
        return SPFGEN_ERROR_SHAPE;
    }
    const int64_t y_nnz = y->nnz;
    const int64_t z_nnz = z->nnz;
    const int64_t x_nnz = x->nnz;
    const double *restrict x_val = x->val;
    const int32_t *restrict x_idx = x->idx;
    const double *restrict y_val = y->val;
    const int32_t *restrict y_idx = y->idx;
    const double *restrict z_val = z->val;
    const int32_t *restrict z_idx = z->idx;
    double *restrict s_val = s->val;
    (void)threads;
    /* s = x[i]*y[i]*z[i] */
    double s_sum = 0.0;
    for (int64_t x_p = 0; x_p < x_nnz; x_p++) {
        const int64_t i = x_idx[x_p];
        /*
         * find y_p with y_idx[y_p] == i by binary search: y.idx falls strictly within these
         * bounds (by Z3 from the declared properties)
         */
        const int64_t y_p = spfgen_search_down_int32(y_idx, 0, 0, y_nnz, i);
        if (y_p < y_nnz && y_idx[y_p] == i) {
            /* find z_p with z_idx[z_p] == i by plain loop: every position is compared */
            for (int64_t z_p = 0; z_p < z_nnz; z_p++) {
                if (z_idx[z_p] == i) {
                    s_sum += x_val[x_p] * y_val[y_p] * z_val[z_p];
                }
            }
        }
    }
    s_val[0] = s_sum;
    return SPFGEN_OK;
}
