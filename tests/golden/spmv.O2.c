/* spmv, made by spfgen 0.2.0. Compile with -std=c99 -O3 -fopenmp. */

#include "spmv.h"
#include <stdlib.h>

#ifdef __cplusplus
#define restrict __restrict
#endif

#ifdef _OPENMP
#include <omp.h>
#else
#pragma GCC diagnostic ignored "-Wunknown-pragmas"
#endif

/* Not inlined: compilers forget what `restrict` says of parameters where the body stands in a parallel loop. */
#ifdef __GNUC__
#define SPFGEN_NOINLINE __attribute__((noinline))
#else
#define SPFGEN_NOINLINE
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

/* Memory for count elements of a size for each of some threads; NULL when there is not enough. What uses it clears it. */
static inline void *spfgen_memory(int64_t count, int64_t threads, size_t size) {
    const size_t most = SIZE_MAX / size / (size_t)threads;
    if (count > 0 && (uint64_t)count > most) {
        return NULL;
    }
    return malloc((size_t)(count > 0 ? count : 1) * (size_t)threads * size);
}

/* The number of parts for that many threads and so many nanoseconds of work: one for each thread, or so many more, at most
   `each`, that one that is done early takes another, where a part does not take longer to find than to do. */
static inline int spfgen_chunks(int threads, double work, int each) {
    const double turns = work / 8192.0 / threads;
    return threads <= 1 ? 1 : threads * (turns < 1.0 ? 1 : turns < each ? (int)turns : each);
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

/* The same, but a part may begin within an iteration that is long: at *at in [array[i], array[i + 1]]. */
static inline int64_t spfgen_split_int32(const int32_t *array, int64_t low, int64_t high, int64_t each, int part,
                                        int parts, int64_t *at) {
    int64_t i = spfgen_partition_int32(array, low, high, each, part, parts);
    *at = array[i];
    if (part > 0 && part < parts && i > low) {
        const int64_t before = array[i - 1];
        const int64_t total = (int64_t)array[high] - (int64_t)array[low] + (high - low) * each;
        const int64_t wanted = total / parts * part + total % parts * part / parts;
        const int64_t inside = wanted - (before - (int64_t)array[low] + (i - 1 - low) * each);
        if (*at - before > total / parts / 8 && inside < *at - before) {
            i--;
            *at = before + inside;
        }
    }
    return i;
}

/* One part of a loop that threads share. */
static SPFGEN_NOINLINE void spmv_part(
    int part, const int32_t *restrict A_rowptr, int64_t nrow, int parts, int64_t *i_shared,
    double *y_parts, double *restrict y_val, bool far, const double *restrict A_val,
    const int32_t *restrict A_colidx, const double *restrict x_val)
{
    int64_t i_from;
    int64_t i_to;
    const int64_t i_begin = spfgen_split_int32(A_rowptr, 0, nrow, 6, part, parts, &i_from);
    const int64_t i_end = spfgen_split_int32(A_rowptr, 0, nrow, 6, part + 1, parts, &i_to);
    /* the last i may go on in the next part: what this part has of it is kept apart */
    const int64_t i_stop = i_to > A_rowptr[i_end] ? i_end + 1 : i_end;
    i_shared[part] = i_to > A_rowptr[i_end] ? i_end : -1;
    double *restrict y_part = y_parts + part;
    y_part[0] = 0.0;
    int64_t pj_begin = i_from;
    const int32_t i_until = (int32_t)i_to;
    /* whole rows, then what this part has of the last one */
    for (int piece = 0; piece < 2; piece++) {
        const int64_t i_first = piece ? i_end : i_begin;
        const int64_t i_last = piece ? i_stop : i_end;
        const int32_t *i_ends = piece ? &i_until : A_rowptr + (i_first + 1);
        double *i_places = piece ? y_part : y_val + i_first;
        for (int64_t i = i_first; i < i_last; i++) {
            double *y_row = i_places + (i - i_first);
            const int64_t pj_end = i_ends[i - i_first];
            double y_sum = 0.0;
            if (pj_begin < pj_end) {
                if (far) {
                    spfgen_prefetch_far(A_val, (pj_begin + 2048) * 8);
                    spfgen_prefetch_far(A_colidx, (pj_begin + 2048) * 4);
                }
                /* unrolled by four with partial sums, whose additions are independent */
                for (int64_t pj = pj_begin; pj < pj_end; pj += 4) {
                    double y_sum_1 = A_val[pj] * x_val[A_colidx[pj]];
                    if (pj + 1 < pj_end) {
                        double y_sum_2 = A_val[pj + 1] * x_val[A_colidx[pj + 1]];
                        if (pj + 2 < pj_end) {
                            y_sum_1 += A_val[pj + 2] * x_val[A_colidx[pj + 2]];
                            if (pj + 3 < pj_end) {
                                y_sum_2 += A_val[pj + 3] * x_val[A_colidx[pj + 3]];
                            }
                        }
                        y_sum_1 += y_sum_2;
                    }
                    y_sum += y_sum_1;
                }
            }
            y_row[0] = y_sum;
            pj_begin = pj_end;
        }
    }
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
    /* more parts than threads: one that is done early takes another */
    const int parts = spfgen_chunks(threads, (double)nrow + 3.0 * (double)nnz, 8);
    /* the segments are short, and all together exceed the caches: later reads are prefetched */
    const bool far = nnz >= 1048576 && nnz <= 8 * nrow;
    int64_t *i_shared = (int64_t *)spfgen_memory(parts, 1, sizeof(int64_t));
    double *y_parts = (double *)spfgen_memory(parts, 1, sizeof(double));
    if (!i_shared || !y_parts) {
        free(i_shared);
        free(y_parts);
        return SPFGEN_ERROR_MEMORY;
    }
    /* parallel over i: its iterations write different places of y */
    /* work partition: parts of about the same number of entries, by A_rowptr; a long i is split */
    if (threads > 1) {
        #pragma omp parallel for schedule(monotonic: dynamic, 1) num_threads(threads)
        for (int part = 0; part < parts; part++) {
            spmv_part(part, A_rowptr, nrow, parts, i_shared, y_parts, y_val, far, A_val, A_colidx,
                    x_val);
        }
    } else {
        for (int part = 0; part < parts; part++) {
            spmv_part(part, A_rowptr, nrow, parts, i_shared, y_parts, y_val, far, A_val, A_colidx,
                    x_val);
        }
    }
    /* what parts have of an iteration over i that goes on in the next one, in order */
    for (int part_2 = 0; part_2 < parts; part_2++) {
        if (i_shared[part_2] >= 0) {
            const int64_t i = i_shared[part_2];
            y_val[i] += y_parts[part_2];
        }
    }
    free(i_shared);
    free(y_parts);
    return SPFGEN_OK;
}
