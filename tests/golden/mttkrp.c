/* mttkrp, made by spfgen 0.1.0. Compile with -std=c99 -O3 -fopenmp. */

#include "mttkrp.h"
#include <string.h>

#ifdef _OPENMP
#include <omp.h>
#else
#pragma GCC diagnostic ignored "-Wunknown-pragmas"
#endif

/* Keeps a function out of its callers: compilers know that the arrays it takes do not overlap, as `restrict` says, but
   forget it where the body stands in a loop in parallel. */
#ifdef __GNUC__
#define SPFGEN_ALONE __attribute__((noinline))
#else
#define SPFGEN_ALONE
#endif

/* Puts a function into its callers, where numbers that it is given are known. */
#ifdef __GNUC__
#define SPFGEN_INLINE __attribute__((always_inline))
#else
#define SPFGEN_INLINE
#endif

/* Whether a vector register has 64 bytes, or there are twice as many of 32: room for twice as many sums. */
#ifdef __AVX512F__
#define SPFGEN_WIDE true
#else
#define SPFGEN_WIDE false
#endif

/* The number of threads to use for `work` nanoseconds of work: `wanted`, or OpenMP's own choice when that is not positive;
   one when there is so little work that starting a team would take longer. Nobody asked for threads where the choice is
   OpenMP's: then what a team gains on free cores has to be worth what it loses where one of its threads has no core. Two
   threads on two cores, A*x by rows: on free cores a team takes 1.1 of one thread's time at 8 and 16 us of work, 0.65
   at 33, 0.6 from 66 on; with five programs on each core 2 to 17 ms more a call, whatever the work. At 262 us, which one
   thread does in 39, the team saves 16 us where it does not lose a hundred times that. */
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

/* The number of parts for that many threads and so many nanoseconds of work: one for each thread, or so many more, at most
   `each`, that one that is done early takes another, where a part does not take longer to find than to do. */
static inline int spfgen_turns(int threads, double work, int each) {
    const double turns = work / 8192.0 / threads;
    return threads <= 1 ? 1 : threads * (turns < 1.0 ? 1 : turns < each ? (int)turns : each);
}

/* Keeps the iterations of the loop around apart: gcc would merge some of them, and lose the sums from its registers. */
static inline void spfgen_apart(void) {
#ifdef __GNUC__
    __asm__ __volatile__("");
#endif
}

/* A zero that compilers do not know to be one. They would clear and copy a few sums as memory, by memset and memcpy; those
   that begin with this zero, and are stored less it, stay in registers. Nothing else changes: x - 0.0 is x for all x. */
static inline double spfgen_zero(void) {
    volatile const double zero = 0.0;
    return zero;
}

/* Zeros in `count` elements of `size` bytes. Where they are `far` they go past the caches, and what stood there is not
   read before: half of the bytes move, but who needs them soon must read them from memory. */
#ifdef __AVX__
#include <immintrin.h>
#endif

static inline void spfgen_clear(void *array, int64_t count, size_t size, bool far) {
    if (count <= 0) {
        return;
    }
    size_t bytes = (size_t)count * size;
    char *at = array;
#ifdef __AVX__
    if (far && bytes >= 256) {
        const size_t before = (64 - (uintptr_t)at % 64) % 64; /* whole lines are written at once */
        memset(at, 0, before);
        at += before;
        bytes -= before;
        for (; bytes >= 64; at += 64, bytes -= 64) {
            _mm256_stream_si256((__m256i *)at, _mm256_setzero_si256());
            _mm256_stream_si256((__m256i *)(at + 32), _mm256_setzero_si256());
        }
        _mm_sfence();
    }
#else
    (void)far;
#endif
    memset(at, 0, bytes);
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

/* One tile of so many places. */
static inline SPFGEN_INLINE void mttkrp_tile(
    int64_t width,
    double zero,
    int64_t A_ptr_2_p_1,
    int64_t ptr_2_p_1_1,
    const int32_t *restrict A_ptr_3,
    const int32_t *restrict A_idx_2,
    const int32_t *restrict A_idx_3,
    const double *restrict A_val,
    const double *restrict B_val,
    int64_t B_n_2,
    int64_t l_from,
    const double *restrict C_val,
    double *restrict D_val,
    int64_t i)
{
    double D_tile[64];
    #pragma omp simd
    for (int64_t l_in = 0; l_in < width; l_in++) {
        D_tile[l_in] = zero;
    }
    /* where one segment ends the next one begins */
    int64_t A_ptr_3_p_2 = A_ptr_2_p_1 < ptr_2_p_1_1 ? A_ptr_3[A_ptr_2_p_1] : 0;
    for (int64_t p_2 = A_ptr_2_p_1; p_2 < ptr_2_p_1_1; p_2++) {
        const int64_t A_ptr_3_p_2_1 = A_ptr_3[p_2 + 1];
        const int64_t j = A_idx_2[p_2];
        for (int64_t p_3 = A_ptr_3_p_2; p_3 < A_ptr_3_p_2_1; p_3++) {
            const int64_t k = A_idx_3[p_3];
            const double A_value = A_val[p_3];
            spfgen_apart();
            #pragma omp simd
            for (int64_t l_in = 0; l_in < width; l_in++) {
                D_tile[l_in] += A_value * B_val[j * B_n_2 + (l_from + l_in)] * C_val[k * B_n_2
                        + (l_from + l_in)];
            }
        }
        A_ptr_3_p_2 = A_ptr_3_p_2_1;
    }
    #pragma omp simd
    for (int64_t l_in = 0; l_in < width; l_in++) {
        D_val[i * B_n_2 + (l_from + l_in)] += D_tile[l_in];
    }
}

/* Tiles for all places: wide ones, then what is left. */
static inline SPFGEN_INLINE void mttkrp_tiles(
    int64_t B_n_2,
    double zero,
    int64_t A_ptr_2_p_1,
    int64_t ptr_2_p_1_1,
    const int32_t *restrict A_ptr_3,
    const int32_t *restrict A_idx_2,
    const int32_t *restrict A_idx_3,
    const double *restrict A_val,
    const double *restrict B_val,
    const double *restrict C_val,
    double *restrict D_val,
    int64_t i)
{
    int64_t l_from = 0;
    while (SPFGEN_WIDE && l_from + 64 <= B_n_2) {
        mttkrp_tile(64, zero, A_ptr_2_p_1, ptr_2_p_1_1, A_ptr_3, A_idx_2, A_idx_3, A_val, B_val,
                B_n_2, l_from, C_val, D_val, i);
        l_from += 64;
    }
    while (l_from + 32 <= B_n_2) {
        mttkrp_tile(32, zero, A_ptr_2_p_1, ptr_2_p_1_1, A_ptr_3, A_idx_2, A_idx_3, A_val, B_val,
                B_n_2, l_from, C_val, D_val, i);
        l_from += 32;
    }
    if (l_from + 16 <= B_n_2) {
        mttkrp_tile(16, zero, A_ptr_2_p_1, ptr_2_p_1_1, A_ptr_3, A_idx_2, A_idx_3, A_val, B_val,
                B_n_2, l_from, C_val, D_val, i);
        l_from += 16;
    }
    if (l_from + 8 <= B_n_2) {
        mttkrp_tile(8, zero, A_ptr_2_p_1, ptr_2_p_1_1, A_ptr_3, A_idx_2, A_idx_3, A_val, B_val,
                B_n_2, l_from, C_val, D_val, i);
        l_from += 8;
    }
    if (l_from + 4 <= B_n_2) {
        mttkrp_tile(4, zero, A_ptr_2_p_1, ptr_2_p_1_1, A_ptr_3, A_idx_2, A_idx_3, A_val, B_val,
                B_n_2, l_from, C_val, D_val, i);
        l_from += 4;
    }
    if (l_from + 2 <= B_n_2) {
        mttkrp_tile(2, zero, A_ptr_2_p_1, ptr_2_p_1_1, A_ptr_3, A_idx_2, A_idx_3, A_val, B_val,
                B_n_2, l_from, C_val, D_val, i);
        l_from += 2;
    }
    if (l_from + 1 <= B_n_2) {
        mttkrp_tile(1, zero, A_ptr_2_p_1, ptr_2_p_1_1, A_ptr_3, A_idx_2, A_idx_3, A_val, B_val,
                B_n_2, l_from, C_val, D_val, i);
        l_from++;
    }
}

/* One part of a loop that threads share, for a B_n_2 that may be a number. */
static inline SPFGEN_INLINE void mttkrp_part_for(
    int part,
    const int32_t *restrict A_ptr_2,
    int64_t nnz_1,
    const int32_t *restrict A_ptr_3,
    int parts,
    const int32_t *restrict A_idx_1,
    double *restrict D_val,
    int64_t B_n_2,
    bool D_far,
    int64_t n_1,
    double zero,
    const int32_t *restrict A_idx_2,
    const int32_t *restrict A_idx_3,
    const double *restrict A_val,
    const double *restrict B_val,
    const double *restrict C_val)
{
    const int64_t p_1_begin =
            spfgen_outer_int32(A_ptr_2, 0, nnz_1,
            spfgen_share_int32(A_ptr_3, A_ptr_2[0], A_ptr_2[nnz_1], 1, part, parts), part, parts);
    const int64_t p_1_end =
            spfgen_outer_int32(A_ptr_2, 0, nnz_1,
            spfgen_share_int32(A_ptr_3, A_ptr_2[0], A_ptr_2[nnz_1], 1, part + 1, parts), part + 1,
            parts);
    /* where one segment ends the next one begins */
    int64_t A_ptr_2_p_1 = p_1_begin < p_1_end ? A_ptr_2[p_1_begin] : 0;
    for (int64_t p_1 = p_1_begin; p_1 < p_1_end; p_1++) {
        /* D is cleared here: no other iteration writes it, or any what lies before it */
        if (p_1 == 0) {
            for (int64_t val_1 = 0; val_1 < (int64_t)A_idx_1[p_1] + 1; val_1++) {
                spfgen_clear(D_val + val_1 * B_n_2, B_n_2, sizeof(double), D_far);
            }
        }
        if (p_1 > 0) {
            for (int64_t val_1 = (int64_t)A_idx_1[p_1 - 1] + 1; val_1 < (int64_t)A_idx_1[p_1] + 1;
                    val_1++) {
                spfgen_clear(D_val + val_1 * B_n_2, B_n_2, sizeof(double), D_far);
            }
        }
        if (p_1 == nnz_1 - 1) {
            for (int64_t val_1 = (int64_t)A_idx_1[p_1] + 1; val_1 < n_1; val_1++) {
                spfgen_clear(D_val + val_1 * B_n_2, B_n_2, sizeof(double), D_far);
            }
        }
        const int64_t ptr_2_p_1_1 = A_ptr_2[p_1 + 1];
        const int64_t i = A_idx_1[p_1];
        /*
         * tiles of 32, 16, ... l, and of 64 where registers are wide: the sums of so many
         * neighbouring places of D fit into registers
         */
        mttkrp_tiles(B_n_2, zero, A_ptr_2_p_1, ptr_2_p_1_1, A_ptr_3, A_idx_2, A_idx_3, A_val, B_val,
                C_val, D_val, i);
        A_ptr_2_p_1 = ptr_2_p_1_1;
    }
}

/* The same, written out for each B_n_2 that is the width of one tile. */
static SPFGEN_ALONE void mttkrp_part(
    int part,
    const int32_t *restrict A_ptr_2,
    int64_t nnz_1,
    const int32_t *restrict A_ptr_3,
    int parts,
    const int32_t *restrict A_idx_1,
    double *restrict D_val,
    int64_t B_n_2,
    bool D_far,
    int64_t n_1,
    double zero,
    const int32_t *restrict A_idx_2,
    const int32_t *restrict A_idx_3,
    const double *restrict A_val,
    const double *restrict B_val,
    const double *restrict C_val)
{
    if (SPFGEN_WIDE && B_n_2 == 64) {
        mttkrp_part_for(part, A_ptr_2, nnz_1, A_ptr_3, parts, A_idx_1, D_val, 64, D_far, n_1, zero,
                A_idx_2, A_idx_3, A_val, B_val, C_val);
    } else if (B_n_2 == 32) {
        mttkrp_part_for(part, A_ptr_2, nnz_1, A_ptr_3, parts, A_idx_1, D_val, 32, D_far, n_1, zero,
                A_idx_2, A_idx_3, A_val, B_val, C_val);
    } else if (B_n_2 == 16) {
        mttkrp_part_for(part, A_ptr_2, nnz_1, A_ptr_3, parts, A_idx_1, D_val, 16, D_far, n_1, zero,
                A_idx_2, A_idx_3, A_val, B_val, C_val);
    } else {
        mttkrp_part_for(part, A_ptr_2, nnz_1, A_ptr_3, parts, A_idx_1, D_val, B_n_2, D_far, n_1,
                zero, A_idx_2, A_idx_3, A_val, B_val, C_val);
    }
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
    const int64_t nnz_1 = A->nnz_1;
    const int64_t n_1 = A->n_1;
    const int64_t B_n_2 = B->n_2;
    const int64_t nnz_2 = A->nnz_2;
    const int64_t nnz_3 = A->nnz_3;
    const int64_t A_n_2 = A->n_2;
    const int64_t n_3 = A->n_3;
    const double *restrict A_val = A->val;
    const int32_t *restrict A_idx_1 = A->idx_1;
    const int32_t *restrict A_ptr_2 = A->ptr_2;
    const int32_t *restrict A_idx_2 = A->idx_2;
    const int32_t *restrict A_ptr_3 = A->ptr_3;
    const int32_t *restrict A_idx_3 = A->idx_3;
    const double *restrict B_val = B->val;
    const double *restrict C_val = C->val;
    double *restrict D_val = D->val;
    if ((!A_idx_1 && nnz_1 > 0) || !A_ptr_2 || (!A_idx_2 && nnz_2 > 0) || !A_ptr_3
            || (!A_idx_3 && nnz_3 > 0) || (!A_val && nnz_3 > 0)
            || (!B_val && A_n_2 > 0 && B_n_2 > 0) || (!C_val && n_3 > 0 && B_n_2 > 0)
            || (!D_val && n_1 > 0 && B_n_2 > 0)) {
        return SPFGEN_ERROR_NULL;
    }
    threads =
            spfgen_threads(threads, (double)nnz_1 + 0.2 * ((double)nnz_1 * (double)B_n_2)
            + 0.2 * ((double)B_n_2 * (double)nnz_2) + 0.7 * ((double)B_n_2 * (double)nnz_3)
            + ((double)n_1 * (double)B_n_2) / 16.0);
    /* more parts than threads: one that is done early takes another */
    const int parts =
            spfgen_turns(threads, (double)nnz_1 + 0.2 * ((double)nnz_1 * (double)B_n_2)
            + 0.2 * ((double)B_n_2 * (double)nnz_2) + 0.7 * ((double)B_n_2 * (double)nnz_3), 8);
    /* D is more than caches hold, and few of its lines are added to: zeros go past them */
    const bool D_far = (double)n_1 * (double)B_n_2 >= 33554432.0
            && 32.0 * ((double)nnz_1 * (double)B_n_2) <= (double)n_1 * (double)B_n_2;
    /* with a zero that compilers do not know they keep sums in registers */
    const double zero = spfgen_zero();
    /* D[i, l] = A[i, j, k]*B[j, l]*C[k, l] */
    if (nnz_1 == 0) {
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
    }
    /*
     * parallel over p_1: its iterations write different places of D (by Z3 from the declared
     * properties)
     */
    /* work partition: parts of about the same number of entries, by A_ptr_2, measured by A_ptr_3 */
    if (threads > 1) {
        #pragma omp parallel for schedule(monotonic: dynamic, 1) num_threads(threads)
        for (int part = 0; part < parts; part++) {
            mttkrp_part(part, A_ptr_2, nnz_1, A_ptr_3, parts, A_idx_1, D_val, B_n_2, D_far, n_1,
                    zero, A_idx_2, A_idx_3, A_val, B_val, C_val);
        }
    } else {
        for (int part = 0; part < parts; part++) {
            mttkrp_part(part, A_ptr_2, nnz_1, A_ptr_3, parts, A_idx_1, D_val, B_n_2, D_far, n_1,
                    zero, A_idx_2, A_idx_3, A_val, B_val, C_val);
        }
    }
    return SPFGEN_OK;
}
