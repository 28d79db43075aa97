/* csr_times_bcsr, made by spfgen 0.1.0. Compile with -std=c99 -O3 -fopenmp. */

#include "csr_times_bcsr.h"
#include <stdlib.h>
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

/* a / n rounded down, for n > 0. */
static inline int64_t spfgen_floor_div(int64_t a, int64_t n) {
    return a / n - (a % n < 0);
}

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

/* The number of the calling thread in its team: 0 for the first, and where there is only one. */
static inline int spfgen_thread(void) {
#ifdef _OPENMP
    return omp_get_thread_num();
#else
    return 0;
#endif
}

/* Memory for count elements of a size for each of some threads, all bytes zero; NULL when there is not enough. */
static inline void *spfgen_workspace(int64_t count, int64_t threads, size_t size) {
    const size_t most = SIZE_MAX / size / (size_t)threads;
    if (count > 0 && (uint64_t)count > most) {
        return NULL;
    }
    return calloc((size_t)(count > 0 ? count : 1) * (size_t)threads, size);
}

/* The number of parts for that many threads and so many nanoseconds of work: one for each thread, or so many more, at most
   `each`, that one that is done early takes another, where a part does not take longer to find than to do. */
static inline int spfgen_turns(int threads, double work, int each) {
    const double turns = work / 8192.0 / threads;
    return threads <= 1 ? 1 : threads * (turns < 1.0 ? 1 : turns < each ? (int)turns : each);
}

/* The logarithm to base 2, at least 0, exact for powers of two and linear between them. */
static inline double spfgen_log2(double x) {
    double whole = 0.0;
    while (x >= 2.0) {
        x /= 2.0;
        whole += 1.0;
    }
    return x > 1.0 ? whole + (x - 1.0) : whole;
}

/* a / b, where b counts as at least 1. */
static inline double spfgen_over(double a, double b) {
    return a / (b > 1.0 ? b : 1.0);
}

/* The smaller of two numbers of nanoseconds or iterations. */
static inline double spfgen_least(double a, double b) {
    return a < b ? a : b;
}

/* A bitmap over keys in [0, n): one bit for each. All words are zero between two uses. */
/* The number of words of a bitmap for keys in [0, n). */
static inline int64_t spfgen_bitmap_words(int64_t n) {
    return n / 64 + (n % 64 > 0);
}

/* Whether the bit of the key is set, for a key in [0, n). */
static inline int spfgen_bitmap_has(const uint64_t *words, int64_t key) {
    return (int)(words[key >> 6] >> (key & 63) & 1);
}

/* The number of bits that are set in a word. */
static inline int64_t spfgen_bits(uint64_t word) {
#if defined(__GNUC__)
    return __builtin_popcountll(word);
#else
    word -= word >> 1 & UINT64_C(0x5555555555555555);
    word = (word & UINT64_C(0x3333333333333333)) + (word >> 2 & UINT64_C(0x3333333333333333));
    word = (word + (word >> 4)) & UINT64_C(0x0F0F0F0F0F0F0F0F);
    return (int64_t)(word * UINT64_C(0x0101010101010101) >> 56);
#endif
}

/* The position of a key whose bit is set; spfgen_bitmap_rank_ has filled `first`. */
static inline int64_t spfgen_bitmap_position(const uint64_t *words, const int64_t *first, int64_t key) {
    const uint64_t below = (UINT64_C(1) << (key & 63)) - 1;
    return first[key >> 6] + spfgen_bits(words[key >> 6] & below);
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

/* Makes all words zero that have the bit of an array[base + p] with p in [low, high). */
static inline void spfgen_bitmap_clear_int32(uint64_t *words, const int32_t *array, int64_t base, int64_t low, int64_t high) {
    for (int64_t p = low; p < high; p++) {
        words[array[base + p] >> 6] = 0;
    }
}

/* Sets the bit of array[base + p] for each p in [low, high), and first[w] to the first position whose bit is in word w,
   where there is one; the array rises strictly there, its keys lie in [0, n), and `first` has as many places as there
   are words: they need no value before, and no reset. */
static inline void spfgen_bitmap_rank_int32(uint64_t *words, int64_t *first, const int32_t *array, int64_t base, int64_t low,
                                           int64_t high) {
    for (int64_t p = high - 1; p >= low; p--) {
        words[array[base + p] >> 6] |= UINT64_C(1) << (array[base + p] & 63);
        first[array[base + p] >> 6] = p;
    }
}

/* One part of a loop that threads share. */
static SPFGEN_ALONE void csr_times_bcsr_part(
    int part,
    int thread,
    const int32_t *restrict A_rowptr,
    int64_t nrow,
    int64_t i_cost,
    int parts,
    double *restrict C_val,
    int64_t ncol,
    bool C_far,
    const int32_t *restrict B_browptr,
    uint64_t *B_bcolidx_bits,
    int64_t *B_bcolidx_first,
    const int32_t *restrict B_bcolidx,
    const int32_t *restrict A_colidx,
    const double *restrict A_val,
    const double *restrict B_val)
{
    const int64_t i_begin = spfgen_share_int32(A_rowptr, 0, nrow, i_cost, part, parts);
    const int64_t i_end = spfgen_share_int32(A_rowptr, 0, nrow, i_cost, part + 1, parts);
    /* where one segment ends the next one begins */
    int64_t A_rowptr_i = i_begin < i_end ? A_rowptr[i_begin] : 0;
    for (int64_t i = i_begin; i < i_end; i++) {
        const int64_t A_rowptr_i_1 = A_rowptr[i + 1];
        /* C is cleared here: no other iteration writes this part of it */
        spfgen_clear(C_val + i * ncol, ncol, sizeof(double), C_far);
        const int64_t bi = i / 2;
        const int64_t r = i - 2 * bi;
        const int64_t browptr_bi = B_browptr[bi];
        const int64_t browptr_bi_1 = B_browptr[bi + 1];
        uint64_t *restrict B_bcolidx_bits_own = B_bcolidx_bits
                + thread * spfgen_bitmap_words(spfgen_floor_div(ncol + 1, 2));
        int64_t *restrict B_bcolidx_first_own = B_bcolidx_first
                + thread * spfgen_bitmap_words(spfgen_floor_div(ncol + 1, 2));
        /*
         * bitmap of the positions by B_bcolidx[pb]: [B.browptr(B.bi), B.browptr(B.bi + 1)) is
         * the same in all inner loops
         */
        spfgen_bitmap_rank_int32(B_bcolidx_bits_own, B_bcolidx_first_own, B_bcolidx, 0, browptr_bi,
                browptr_bi_1);
        for (int64_t pj = A_rowptr_i; pj < A_rowptr_i_1; pj++) {
            const int64_t j = A_colidx[pj];
            const int64_t pb_key = j / 2;
            /*
             * find pb with B_bcolidx[pb] == pb_key by bitmap: B.bcolidx rises strictly within
             * these bounds
             */
            if (spfgen_bitmap_has(B_bcolidx_bits_own, pb_key)) {
                const int64_t pb =
                        spfgen_bitmap_position(B_bcolidx_bits_own, B_bcolidx_first_own, pb_key);
                const int64_t c = j - 2 * (int64_t)B_bcolidx[pb];
                C_val[i * ncol + j] += A_val[pj] * B_val[(pb * 2 + r) * 2 + c];
            }
        }
        spfgen_bitmap_clear_int32(B_bcolidx_bits_own, B_bcolidx, 0, browptr_bi, browptr_bi_1);
        A_rowptr_i = A_rowptr_i_1;
    }
}

/* One part of a loop that threads share. */
static SPFGEN_ALONE void csr_times_bcsr_part_2(
    int part_2,
    const int32_t *restrict A_rowptr,
    int64_t nrow,
    int64_t i_cost,
    int parts,
    double *restrict C_val,
    int64_t ncol,
    bool C_far,
    const int32_t *restrict B_browptr,
    const int32_t *restrict A_colidx,
    const int32_t *restrict B_bcolidx,
    const double *restrict A_val,
    const double *restrict B_val)
{
    const int64_t i_begin_2 = spfgen_share_int32(A_rowptr, 0, nrow, i_cost, part_2, parts);
    const int64_t i_end_2 = spfgen_share_int32(A_rowptr, 0, nrow, i_cost, part_2 + 1, parts);
    /* where one segment ends the next one begins */
    int64_t A_rowptr_i_2 = i_begin_2 < i_end_2 ? A_rowptr[i_begin_2] : 0;
    for (int64_t i = i_begin_2; i < i_end_2; i++) {
        const int64_t A_rowptr_i_1_2 = A_rowptr[i + 1];
        /* C is cleared here: no other iteration writes this part of it */
        spfgen_clear(C_val + i * ncol, ncol, sizeof(double), C_far);
        const int64_t bi = i / 2;
        const int64_t r = i - 2 * bi;
        const int64_t browptr_bi = B_browptr[bi];
        const int64_t browptr_bi_1 = B_browptr[bi + 1];
        for (int64_t pj = A_rowptr_i_2; pj < A_rowptr_i_1_2; pj++) {
            const int64_t j = A_colidx[pj];
            const int64_t pb_key_2 = j / 2;
            /*
             * find pb with B_bcolidx[pb] == pb_key_2 by binary search: B.bcolidx rises strictly
             * within these bounds (by Z3 from the declared properties)
             */
            const int64_t pb =
                    spfgen_search_int32(B_bcolidx, 0, browptr_bi, browptr_bi_1, pb_key_2);
            if (pb < browptr_bi_1 && B_bcolidx[pb] == pb_key_2) {
                const int64_t c = j - 2 * (int64_t)B_bcolidx[pb];
                C_val[i * ncol + j] += A_val[pj] * B_val[(pb * 2 + r) * 2 + c];
            }
        }
        A_rowptr_i_2 = A_rowptr_i_1_2;
    }
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
    const int64_t nb = B->nb;
    const int64_t nnz = A->nnz;
    const int64_t ncol = A->ncol;
    const double *restrict A_val = A->val;
    const int32_t *restrict A_rowptr = A->rowptr;
    const int32_t *restrict A_colidx = A->colidx;
    const double *restrict B_val = B->val;
    const int32_t *restrict B_browptr = B->browptr;
    const int32_t *restrict B_bcolidx = B->bcolidx;
    double *restrict C_val = C->val;
    if (!A_rowptr || (!A_colidx && nnz > 0) || (!A_val && nnz > 0) || !B_browptr
            || (!B_bcolidx && nb > 0) || (!B_val && nb > 0) || (!C_val && nrow > 0 && ncol > 0)) {
        return SPFGEN_ERROR_NULL;
    }
    /* what the cost estimates depend on */
    const double ratio = spfgen_over((double)nb, ((double)nrow + 1.0) / 2.0);
    const double ratio_2 = spfgen_over(ratio, ((double)ncol + 1.0) / 2.0);
    threads =
            spfgen_threads(threads, (double)nrow + (double)nnz + 5.0 * (double)nnz
            + 3.0 * ((double)nnz * ratio_2) + ((double)nrow * (double)ncol) / 16.0);
    /* which is fastest depends on the sizes: expected nanoseconds of each variant */
    const double cost_1 = (double)nrow * ratio * 1.5
            + (double)nnz * (0.6 + 2.0 * spfgen_least(ratio_2, 1.0)
            + 11.0 * spfgen_least(spfgen_least(ratio_2, 1.0), 1.0 - spfgen_least(ratio_2, 1.0)))
            + (((double)ncol + 1.0) / 2.0) / 500.0;
    const double cost_2 = (double)nnz * (8.0 + 4.0 * spfgen_log2(ratio + 2.0));
    const int variant = cost_1 <= cost_2 ? 1 : 2;
    /* more parts than threads: one that is done early takes another */
    const int parts =
            spfgen_turns(threads, (double)nrow + (double)nnz + 5.0 * (double)nnz
            + 3.0 * ((double)nnz * ratio_2), 8);
    /* what an iteration clears, in iterations of the loop inside */
    const int64_t i_cost = (int64_t)(1.0 + spfgen_over((double)ncol, 1.0 + (5.0 + 3.0 * ratio_2)));
    /* C is more than caches hold, and few of its lines are added to: zeros go past them */
    const bool C_far = (double)nrow * (double)ncol >= 33554432.0
            && 32.0 * (double)nnz <= (double)nrow * (double)ncol;
    uint64_t *B_bcolidx_bits =
            spfgen_workspace(variant == 1 ? spfgen_bitmap_words(spfgen_floor_div(ncol + 1, 2)) : 0,
            threads, sizeof(uint64_t));
    int64_t *B_bcolidx_first =
            spfgen_workspace(variant == 1 ? spfgen_bitmap_words(spfgen_floor_div(ncol + 1, 2)) : 0,
            threads, sizeof(int64_t));
    if (!B_bcolidx_bits || !B_bcolidx_first) {
        free(B_bcolidx_bits);
        free(B_bcolidx_first);
        return SPFGEN_ERROR_MEMORY;
    }
    /* C[i, j] = A[i, j]*B[i, j] */
    if (variant == 1) {
        /* parallel over i: its iterations write different places of C */
        /* work partition: parts of about the same number of entries, by A_rowptr */
        if (threads > 1) {
            #pragma omp parallel for schedule(monotonic: dynamic, 1) num_threads(threads)
            for (int part = 0; part < parts; part++) {
                csr_times_bcsr_part(part, spfgen_thread(), A_rowptr, nrow, i_cost, parts, C_val,
                        ncol, C_far, B_browptr, B_bcolidx_bits, B_bcolidx_first, B_bcolidx,
                        A_colidx, A_val, B_val);
            }
        } else {
            for (int part = 0; part < parts; part++) {
                csr_times_bcsr_part(part, 0, A_rowptr, nrow, i_cost, parts, C_val, ncol, C_far,
                        B_browptr, B_bcolidx_bits, B_bcolidx_first, B_bcolidx, A_colidx, A_val,
                        B_val);
            }
        }
    } else {
        /* parallel over i: its iterations write different places of C */
        /* work partition: parts of about the same number of entries, by A_rowptr */
        if (threads > 1) {
            #pragma omp parallel for schedule(monotonic: dynamic, 1) num_threads(threads)
            for (int part_2 = 0; part_2 < parts; part_2++) {
                csr_times_bcsr_part_2(part_2, A_rowptr, nrow, i_cost, parts, C_val, ncol, C_far,
                        B_browptr, A_colidx, B_bcolidx, A_val, B_val);
            }
        } else {
            for (int part_2 = 0; part_2 < parts; part_2++) {
                csr_times_bcsr_part_2(part_2, A_rowptr, nrow, i_cost, parts, C_val, ncol, C_far,
                        B_browptr, A_colidx, B_bcolidx, A_val, B_val);
            }
        }
    }
    free(B_bcolidx_bits);
    free(B_bcolidx_first);
    return SPFGEN_OK;
}
