/*
 * spmv, made by spfgen 0.2.0. Compile with -std=c99 -O3 -fopenmp. Extents and sizes may be up to
 * 2^62: what is computed from them fits in 64 bits.
 */

#ifndef SPFGEN_SPMV_H
#define SPFGEN_SPMV_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef SPFGEN_STATUS
#define SPFGEN_STATUS
/* What a kernel expects and returns. The caller owns all arrays: a kernel frees none of them and keeps no pointer to
   them. An array that is written must not overlap another array of the call. Null pointers and extents are checked.
   Index arrays are trusted: where one breaks what the comment of its struct says, the kernel reads or writes out of
   bounds. Check arrays that come from elsewhere first. */
enum {
    SPFGEN_OK = 0,
    SPFGEN_ERROR_NULL = 1,  /* a pointer is null: to a tensor, or to an array that has elements */
    SPFGEN_ERROR_SHAPE = 2, /* extents or sizes that must agree do not, or one is negative */
    SPFGEN_ERROR_MEMORY = 3, /* a workspace could not be allocated */
    SPFGEN_ERROR_RANGE = 4, /* a value that is used as a subscript lies outside of its tensor */
    SPFGEN_ERROR_PLACE = 5, /* something was computed that has no place in a sparse result */
    SPFGEN_ERROR_INDEX = 6  /* a number does not fit the type of an index array of a result */
};
#endif

#ifndef SPFGEN_STRUCT_csr_f64_i32_t
#define SPFGEN_STRUCT_csr_f64_i32_t
/*
 * Compressed sparse row: the non-zeros of each row side by side.
 *
 *     5 . 6      rowptr = 0 2 2 3
 *     . . .      colidx = 0 2 1
 *     . 7 .      val    = 5 6 7
 *
 * Source: Saad, Iterative Methods for Sparse Linear Systems, section 3.4.
 * { [pi, pj] -> [i, j] : 0 <= pi < nrow and rowptr(pi) <= pj < rowptr(pi + 1) and i = pi and j =
 * colidx(pj) }
 */
typedef struct csr_f64_i32_t {
    int64_t nrow;           /* extent 1 of 2 */
    int64_t ncol;           /* extent 2 of 2 */
    int64_t nnz;            /* size */
    /* [nrow + 1] 0 <= rowptr(p) <= nnz; increasing; rowptr(0) = 0; rowptr(nrow) = nnz */
    const int32_t *rowptr;
    const int32_t *colidx;  /* [nnz] 0 <= colidx(p) < ncol; strictly increasing within rowptr */
    double *val;            /* [nnz] at (pj) */
} csr_f64_i32_t;
#endif

#ifndef SPFGEN_STRUCT_dense_rank1_f64_t
#define SPFGEN_STRUCT_dense_rank1_f64_t
/*
 * Dense, the last index runs fastest (row-major, C order).
 *
 *     0 1 2
 *     3 4 5      val = 0 1 2 3 4 5
 *
 * Source: C and numpy arrays.
 * { [p_1] -> [i_1] : 0 <= p_1 < n_1 and i_1 = p_1 }
 */
typedef struct dense_rank1_f64_t {
    int64_t n_1;  /* extent 1 of 1 */
    double *val;  /* [n_1] at (p_1) */
} dense_rank1_f64_t;
#endif

/*
 * y[i] = A[i, j]*x[j]
 *
 * Returns SPFGEN_OK or an error code. After an error nothing has been written.
 *
 * A        operand
 * x        operand
 * y        result
 * threads  threads to use; 0 or less leaves the choice to OpenMP
 */
int spmv(const csr_f64_i32_t *A, const dense_rank1_f64_t *x, dense_rank1_f64_t *y, int threads);

#ifdef __cplusplus
}
#endif

#endif /* SPFGEN_SPMV_H */
