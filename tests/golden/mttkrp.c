/* mttkrp, made by spfgen 0.1.0. Compile with -std=c99 -O3 -fopenmp. */

#include "mttkrp.h"
#include <stdlib.h>

#ifdef _OPENMP
#include <omp.h>
#else
#pragma GCC diagnostic ignored "-Wunknown-pragmas"
#endif

static inline int64_t spfgen_min(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static inline int64_t spfgen_max(int64_t a, int64_t b) {
    return a > b ? a : b;
}

/* The number of threads to use for `work` nanoseconds of work: `wanted`, or OpenMP's own choice when that is not positive;
   one when there is so little work that starting a team would take longer. */
static inline int spfgen_threads(int wanted, double work) {
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

/* The same with any bytes: the threads that use it clear it, and so touch it first. */
static inline void *spfgen_memory(int64_t count, int64_t threads, size_t size) {
    const size_t most = SIZE_MAX / size / (size_t)threads;
    if (count > 0 && (uint64_t)count > most) {
        return NULL;
    }
    return malloc((size_t)(count > 0 ? count : 1) * (size_t)threads * size);
}

/* a / b, where b counts as at least 1. */
static inline double spfgen_over(double a, double b) {
    return a / (b > 1.0 ? b : 1.0);
}

/* Keeps the iterations of the loop around apart: gcc would merge some of them, and lose the sums from its registers. */
static inline void spfgen_apart(void) {
#ifdef __GNUC__
    __asm__ __volatile__("");
#endif
}

/* Where part `part` of `parts` begins when [low, high) is shared out so that array[i + 1] - array[i] + each adds up to
   about the same in each. The parts cover [low, high) without overlap whatever the array holds: for a larger part
   the search never ends further left. */
static inline int64_t spfgen_share_int32(const int32_t *array, int64_t low, int64_t high, int64_t each, int part,
                                        int parts) {
    if (part <= 0 || low >= high) {
        return low;
    }
    if (part >= parts) {
        return high;
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

/* The first i of [low, high] with array[i] >= position, where part `part` of `parts` begins; the first and the last
   part begin and end with the range. */
static inline int64_t spfgen_outer_int32(const int32_t *array, int64_t low, int64_t high, int64_t position, int part,
                                        int parts) {
    if (part <= 0) {
        return low;
    }
    if (part >= parts) {
        return high;
    }
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if ((int64_t)array[middle] < position) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* The same, but a part may begin within an iteration that is long: at *at in [array[i], array[i + 1]]. */
static inline int64_t spfgen_outer_split_int32(const int32_t *array, int64_t low, int64_t high, int64_t position,
                                              int part, int parts, int64_t *at) {
    int64_t i = spfgen_outer_int32(array, low, high, position, part, parts);
    *at = array[i];
    if (part > 0 && part < parts && i > low && *at > position) {
        const int64_t before = array[i - 1];
        if (*at - before > ((int64_t)array[high] - (int64_t)array[low]) / parts / 8) {
            i--;
            *at = position;
        }
    }
    return i;
}

/*
 * D[i, l] = A[i, j, k]*B[j, l]*C[k, l]
 *
 * Returns SPFGEN_OK or an error code; then nothing has been written.
 *
 * A        operand
 * B        operand
 * C        operand
 * D        result
 * threads  threads to use; 0 or less leaves the choice to OpenMP
 */
int mttkrp(
    const csf_rank3_f64_i32_t *A,
    const dense_rank2_f64_t *B,
    const dense_rank2_f64_t *C,
    dense_rank2_f64_t *D,
    int threads)
{
    if (!A || !B || !C || !D) {
        return SPFGEN_ERROR_NULL;
    }
    if (A->n_1 != D->n_1 || A->n_1 < 0 || A->n_2 != B->n_1 || A->n_2 < 0 || A->n_3 != C->n_1
            || A->n_3 < 0 || A->nnz_1 < 0 || A->nnz_2 < 0 || A->nnz_3 < 0 || B->n_2 != C->n_2
            || B->n_2 != D->n_2 || B->n_2 < 0) {
        return SPFGEN_ERROR_SHAPE;
    }
    const int64_t n_1 = A->n_1;
    const int64_t B_n_2 = B->n_2;
    const int64_t nnz_1 = A->nnz_1;
    const int64_t nnz_2 = A->nnz_2;
    const int64_t nnz_3 = A->nnz_3;
    const double *restrict A_val = A->val;
    const int32_t *restrict A_idx_1 = A->idx_1;
    const int32_t *restrict A_ptr_2 = A->ptr_2;
    const int32_t *restrict A_idx_2 = A->idx_2;
    const int32_t *restrict A_ptr_3 = A->ptr_3;
    const int32_t *restrict A_idx_3 = A->idx_3;
    const double *restrict B_val = B->val;
    const double *restrict C_val = C->val;
    double *restrict D_val = D->val;
    threads =
            spfgen_threads(threads, (double)nnz_1 + (double)nnz_1 * (double)B_n_2
            + (double)B_n_2 * (double)nnz_2 + 3.0 * ((double)B_n_2 * (double)nnz_3)
            + spfgen_over((double)n_1 * (double)B_n_2, 2.0));
    /* more parts than threads: one that is done early takes another */
    const int parts = threads > 1 ? 8 * threads : 1;
    int64_t *p_1_shared = spfgen_memory(2 * parts, 1, sizeof(int64_t));
    double *D_parts = spfgen_memory(2 * parts * B_n_2, 1, sizeof(double));
    if (!p_1_shared || !D_parts) {
        free(p_1_shared);
        free(D_parts);
        return SPFGEN_ERROR_MEMORY;
    }
    /* D[i, l] = A[i, j, k]*B[j, l]*C[k, l] */
    if (threads > 1) {
        #pragma omp parallel for schedule(static) num_threads(threads)
        for (int64_t p = 0; p < n_1 * B_n_2; p++) {
            D_val[p] = 0.0;
        }
    } else {
        for (int64_t p = 0; p < n_1 * B_n_2; p++) {
            D_val[p] = 0.0;
        }
    }
    /*
     * parallel over p_1: its iterations write different places of D (by Z3 from the declared
     * properties)
     */
    /* each part takes about the same of A_ptr_2's differences, measured by A_ptr_3 */
    /* where one p_1 takes long, several threads share it */
    #pragma omp parallel for schedule(dynamic, 1) num_threads(threads)
    for (int part = 0; part < parts; part++) {
        int64_t p_1_from;
        int64_t p_1_to;
        int64_t p_1_next =
                spfgen_outer_split_int32(A_ptr_2, 0, nnz_1,
                spfgen_share_int32(A_ptr_3, A_ptr_2[0], A_ptr_2[nnz_1], 1, part, parts), part,
                parts, &p_1_from);
        const int64_t p_1_end =
                spfgen_outer_split_int32(A_ptr_2, 0, nnz_1,
                spfgen_share_int32(A_ptr_3, A_ptr_2[0], A_ptr_2[nnz_1], 1, part + 1, parts), part
                + 1, parts, &p_1_to);
        for (int piece = 0; piece < 2; piece++) {
            const int number = 2 * part + piece;
            p_1_shared[number] = -1;
            if (p_1_from > A_ptr_2[p_1_next]
                    || (p_1_next == p_1_end && p_1_to > A_ptr_2[p_1_next])) {
                /* a part of p_1 = p_1_next, which other threads share */
                const int64_t p_1 = p_1_next;
                p_1_shared[number] = p_1_next;
                double *restrict D_part = D_parts + (int64_t)number * B_n_2;
                for (int64_t p_4 = 0; p_4 < B_n_2; p_4++) {
                    D_part[p_4] = 0.0;
                }
                const int64_t ptr_2_p_1 = A_ptr_2[p_1];
                const int64_t ptr_2_p_1_1 = A_ptr_2[p_1 + 1];
                /*
                 * tiles of 32, 16 or fewer l: the sums of so many neighbouring places of D fit
                 * into registers
                 */
                int64_t l_from = 0;
                while (l_from + 32 <= B_n_2) {
                    double D_tile[32];
                    #pragma omp simd
                    for (int64_t l = l_from; l < l_from + 32; l++) {
                        D_tile[l - l_from] = 0.0;
                    }
                    const int64_t p_2_begin = spfgen_max(ptr_2_p_1, p_1_from);
                    /* where one segment ends the next one begins */
                    int64_t A_ptr_3_p_2 = p_2_begin < spfgen_min(ptr_2_p_1_1, p_1_to)
                            ? A_ptr_3[p_2_begin] : 0;
                    for (int64_t p_2 = p_2_begin; p_2 < spfgen_min(ptr_2_p_1_1, p_1_to); p_2++) {
                        const int64_t A_ptr_3_p_2_1 = A_ptr_3[p_2 + 1];
                        const int64_t j = A_idx_2[p_2];
                        for (int64_t p_3 = A_ptr_3_p_2; p_3 < A_ptr_3_p_2_1; p_3++) {
                            const int64_t k = A_idx_3[p_3];
                            const double A_value = A_val[p_3];
                            spfgen_apart();
                            #pragma omp simd
                            for (int64_t l = l_from; l < l_from + 32; l++) {
                                D_tile[l - l_from] += A_value * B_val[j * B_n_2
                                        + l] * C_val[k * B_n_2 + l];
                            }
                        }
                        A_ptr_3_p_2 = A_ptr_3_p_2_1;
                    }
                    #pragma omp simd
                    for (int64_t l = l_from; l < l_from + 32; l++) {
                        D_part[l] += D_tile[l - l_from];
                    }
                    l_from += 32;
                }
                while (l_from + 16 <= B_n_2) {
                    double D_tile_2[16];
                    #pragma omp simd
                    for (int64_t l = l_from; l < l_from + 16; l++) {
                        D_tile_2[l - l_from] = 0.0;
                    }
                    const int64_t p_2_begin_2 = spfgen_max(ptr_2_p_1, p_1_from);
                    /* where one segment ends the next one begins */
                    int64_t A_ptr_3_p_2_2 = p_2_begin_2 < spfgen_min(ptr_2_p_1_1, p_1_to)
                            ? A_ptr_3[p_2_begin_2] : 0;
                    for (int64_t p_2 = p_2_begin_2; p_2 < spfgen_min(ptr_2_p_1_1, p_1_to); p_2++) {
                        const int64_t A_ptr_3_p_2_1_2 = A_ptr_3[p_2 + 1];
                        const int64_t j = A_idx_2[p_2];
                        for (int64_t p_3 = A_ptr_3_p_2_2; p_3 < A_ptr_3_p_2_1_2; p_3++) {
                            const int64_t k = A_idx_3[p_3];
                            const double A_value_2 = A_val[p_3];
                            spfgen_apart();
                            #pragma omp simd
                            for (int64_t l = l_from; l < l_from + 16; l++) {
                                D_tile_2[l - l_from] += A_value_2 * B_val[j * B_n_2
                                        + l] * C_val[k * B_n_2 + l];
                            }
                        }
                        A_ptr_3_p_2_2 = A_ptr_3_p_2_1_2;
                    }
                    #pragma omp simd
                    for (int64_t l = l_from; l < l_from + 16; l++) {
                        D_part[l] += D_tile_2[l - l_from];
                    }
                    l_from += 16;
                }
                if (l_from < B_n_2) {
                    double D_tile_3[16];
                    #pragma omp simd
                    for (int64_t l = l_from; l < B_n_2; l++) {
                        D_tile_3[l - l_from] = 0.0;
                    }
                    const int64_t p_2_begin_3 = spfgen_max(ptr_2_p_1, p_1_from);
                    /* where one segment ends the next one begins */
                    int64_t A_ptr_3_p_2_3 = p_2_begin_3 < spfgen_min(ptr_2_p_1_1, p_1_to)
                            ? A_ptr_3[p_2_begin_3] : 0;
                    for (int64_t p_2 = p_2_begin_3; p_2 < spfgen_min(ptr_2_p_1_1, p_1_to); p_2++) {
                        const int64_t A_ptr_3_p_2_1_3 = A_ptr_3[p_2 + 1];
                        const int64_t j = A_idx_2[p_2];
                        for (int64_t p_3 = A_ptr_3_p_2_3; p_3 < A_ptr_3_p_2_1_3; p_3++) {
                            const int64_t k = A_idx_3[p_3];
                            const double A_value_3 = A_val[p_3];
                            spfgen_apart();
                            #pragma omp simd
                            for (int64_t l = l_from; l < B_n_2; l++) {
                                D_tile_3[l - l_from] += A_value_3 * B_val[j * B_n_2
                                        + l] * C_val[k * B_n_2 + l];
                            }
                        }
                        A_ptr_3_p_2_3 = A_ptr_3_p_2_1_3;
                    }
                    #pragma omp simd
                    for (int64_t l = l_from; l < B_n_2; l++) {
                        D_part[l] += D_tile_3[l - l_from];
                    }
                }
                p_1_next++;
            }
            /* where one segment ends the next one begins */
            int64_t A_ptr_2_p_1 = p_1_next < p_1_end ? A_ptr_2[p_1_next] : 0;
            for (int64_t p_1 = p_1_next; p_1 < p_1_end; p_1++) {
                const int64_t ptr_2_p_1 = A_ptr_2_p_1;
                const int64_t ptr_2_p_1_1 = A_ptr_2[p_1 + 1];
                const int64_t i = A_idx_1[p_1];
                /*
                 * tiles of 32, 16 or fewer l: the sums of so many neighbouring places of D fit
                 * into registers
                 */
                int64_t l_from = 0;
                while (l_from + 32 <= B_n_2) {
                    double D_tile_4[32];
                    #pragma omp simd
                    for (int64_t l = l_from; l < l_from + 32; l++) {
                        D_tile_4[l - l_from] = 0.0;
                    }
                    /* where one segment ends the next one begins */
                    int64_t A_ptr_3_p_2_4 = ptr_2_p_1 < ptr_2_p_1_1 ? A_ptr_3[ptr_2_p_1] : 0;
                    for (int64_t p_2 = ptr_2_p_1; p_2 < ptr_2_p_1_1; p_2++) {
                        const int64_t A_ptr_3_p_2_1_4 = A_ptr_3[p_2 + 1];
                        const int64_t j = A_idx_2[p_2];
                        for (int64_t p_3 = A_ptr_3_p_2_4; p_3 < A_ptr_3_p_2_1_4; p_3++) {
                            const int64_t k = A_idx_3[p_3];
                            const double A_value_4 = A_val[p_3];
                            spfgen_apart();
                            #pragma omp simd
                            for (int64_t l = l_from; l < l_from + 32; l++) {
                                D_tile_4[l - l_from] += A_value_4 * B_val[j * B_n_2
                                        + l] * C_val[k * B_n_2 + l];
                            }
                        }
                        A_ptr_3_p_2_4 = A_ptr_3_p_2_1_4;
                    }
                    #pragma omp simd
                    for (int64_t l = l_from; l < l_from + 32; l++) {
                        D_val[i * B_n_2 + l] += D_tile_4[l - l_from];
                    }
                    l_from += 32;
                }
                while (l_from + 16 <= B_n_2) {
                    double D_tile_5[16];
                    #pragma omp simd
                    for (int64_t l = l_from; l < l_from + 16; l++) {
                        D_tile_5[l - l_from] = 0.0;
                    }
                    /* where one segment ends the next one begins */
                    int64_t A_ptr_3_p_2_5 = ptr_2_p_1 < ptr_2_p_1_1 ? A_ptr_3[ptr_2_p_1] : 0;
                    for (int64_t p_2 = ptr_2_p_1; p_2 < ptr_2_p_1_1; p_2++) {
                        const int64_t A_ptr_3_p_2_1_5 = A_ptr_3[p_2 + 1];
                        const int64_t j = A_idx_2[p_2];
                        for (int64_t p_3 = A_ptr_3_p_2_5; p_3 < A_ptr_3_p_2_1_5; p_3++) {
                            const int64_t k = A_idx_3[p_3];
                            const double A_value_5 = A_val[p_3];
                            spfgen_apart();
                            #pragma omp simd
                            for (int64_t l = l_from; l < l_from + 16; l++) {
                                D_tile_5[l - l_from] += A_value_5 * B_val[j * B_n_2
                                        + l] * C_val[k * B_n_2 + l];
                            }
                        }
                        A_ptr_3_p_2_5 = A_ptr_3_p_2_1_5;
                    }
                    #pragma omp simd
                    for (int64_t l = l_from; l < l_from + 16; l++) {
                        D_val[i * B_n_2 + l] += D_tile_5[l - l_from];
                    }
                    l_from += 16;
                }
                if (l_from < B_n_2) {
                    double D_tile_6[16];
                    #pragma omp simd
                    for (int64_t l = l_from; l < B_n_2; l++) {
                        D_tile_6[l - l_from] = 0.0;
                    }
                    /* where one segment ends the next one begins */
                    int64_t A_ptr_3_p_2_6 = ptr_2_p_1 < ptr_2_p_1_1 ? A_ptr_3[ptr_2_p_1] : 0;
                    for (int64_t p_2 = ptr_2_p_1; p_2 < ptr_2_p_1_1; p_2++) {
                        const int64_t A_ptr_3_p_2_1_6 = A_ptr_3[p_2 + 1];
                        const int64_t j = A_idx_2[p_2];
                        for (int64_t p_3 = A_ptr_3_p_2_6; p_3 < A_ptr_3_p_2_1_6; p_3++) {
                            const int64_t k = A_idx_3[p_3];
                            const double A_value_6 = A_val[p_3];
                            spfgen_apart();
                            #pragma omp simd
                            for (int64_t l = l_from; l < B_n_2; l++) {
                                D_tile_6[l - l_from] += A_value_6 * B_val[j * B_n_2
                                        + l] * C_val[k * B_n_2 + l];
                            }
                        }
                        A_ptr_3_p_2_6 = A_ptr_3_p_2_1_6;
                    }
                    #pragma omp simd
                    for (int64_t l = l_from; l < B_n_2; l++) {
                        D_val[i * B_n_2 + l] += D_tile_6[l - l_from];
                    }
                }
                A_ptr_2_p_1 = ptr_2_p_1_1;
            }
            if (p_1_next < p_1_end) {
                p_1_next = p_1_end;
            }
        }
    }
    /* what several threads have summed of one p_1, in order */
    for (int number_2 = 0; number_2 < 2 * parts; number_2++) {
        if (p_1_shared[number_2] >= 0) {
            const int64_t p_1 = p_1_shared[number_2];
            for (int64_t r = 0; r < B_n_2; r++) {
                D_val[A_idx_1[p_1] * B_n_2 + r] += D_parts[(int64_t)number_2 * B_n_2 + r];
            }
        }
    }
    free(p_1_shared);
    free(D_parts);
    return SPFGEN_OK;
}
