/* bcsr_times_coo, made by spfgen 0.1.0. Compile with -std=c99 -O3 -fopenmp. */

#include "bcsr_times_coo.h"
#include <stdlib.h>

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

static inline int64_t spfgen_min(int64_t a, int64_t b) {
    return a < b ? a : b;
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

/* Memory for count elements of a size for each of some threads, all bytes zero; NULL when there is not enough. */
static inline void *spfgen_workspace(int64_t count, int64_t threads, size_t size) {
    const size_t most = SIZE_MAX / size / (size_t)threads;
    if (count > 0 && (uint64_t)count > most) {
        return NULL;
    }
    return calloc((size_t)(count > 0 ? count : 1) * (size_t)threads, size);
}

/* The same with any bytes: the threads that use it clear it, and so touch it first. */
static inline void *spfgen_memory(int64_t count, int64_t threads, size_t size) {
    const size_t most = SIZE_MAX / size / (size_t)threads;
    if (count > 0 && (uint64_t)count > most) {
        return NULL;
    }
    return malloc((size_t)(count > 0 ? count : 1) * (size_t)threads * size);
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

/* The product of two numbers of elements; the largest there is, of which there is never memory, where it is beyond. */
static inline int64_t spfgen_times(int64_t a, int64_t b) {
    return a > 0 && b > INT64_MAX / a ? INT64_MAX : a * b;
}

/* A hash table over the positions of a range [low, high): open addressing, at most half full. An empty slot has the
   position `high`, so that a look-up that ends there returns it. */
struct spfgen_slot {
    int64_t key;
    int64_t position;
};

/* Which bits of a hash choose the slot in a table for `count` positions: those from this number on, 3 to 63. */
static inline int spfgen_hash_shift(int64_t count) {
    int shift = 63;
    while (shift > 3 && (int64_t)(UINT64_MAX >> shift) < 2 * count - 1) {
        shift--;
    }
    return shift;
}

/* The number of slots that a table for `count` positions takes: a power of two, at least 2 * count and 2. What is
   enough for the longest range is enough for all: a table uses only the first of the slots. */
static inline int64_t spfgen_hash_slots(int64_t count) {
    return (int64_t)(UINT64_MAX >> spfgen_hash_shift(count)) + 1;
}

/* The slot that holds the key or, if there is none, the empty one where it belongs. */
static inline uint64_t spfgen_hash_slot(const struct spfgen_slot *slots, int shift, int64_t high, int64_t key) {
    const uint64_t last = UINT64_MAX >> shift;
    uint64_t slot = ((uint64_t)key * UINT64_C(0x9E3779B97F4A7C15)) >> shift;
    while (slots[slot].key != key && slots[slot].position != high) {
        slot = (slot + 1) & last;
    }
    return slot;
}

/* The first position with the key, or high; the table was built with this shift and high. */
static inline int64_t spfgen_hash_find(const struct spfgen_slot *slots, int shift, int64_t high, int64_t key) {
    return slots[spfgen_hash_slot(slots, shift, high, key)].position;
}

/* Makes all slots empty that a table with this shift uses. */
static inline void spfgen_hash_clear(struct spfgen_slot *slots, int shift, int64_t high) {
    const int64_t count = (int64_t)(UINT64_MAX >> shift) + 1;
    for (int64_t s = 0; s < count; s++) {
        slots[s].key = 0;
        slots[s].position = high;
    }
}

/* A filter before a hash table: eight bits for each slot, so that most keys that are not there are known by one bit. */

/* The number of words of the filter of a table for `count` positions. */
static inline int64_t spfgen_hash_filter_words(int64_t count) {
    return spfgen_hash_slots(count) / 8 + 1;
}

/* The bit of the key. */
static inline uint64_t spfgen_hash_bit(int shift, int64_t key) {
    return ((uint64_t)key * UINT64_C(0x9E3779B97F4A7C15)) >> (shift - 3);
}

/* Whether the key may be in the table: never false for one that is. */
static inline int spfgen_hash_may(const uint64_t *filter, int shift, int64_t key) {
    const uint64_t bit = spfgen_hash_bit(shift, key);
    return (int)(filter[bit >> 6] >> (bit & 63) & 1);
}

/* The first position with the key, or high; the table and its filter were built with this shift and range. */
static inline int64_t spfgen_hash_find_filtered(const struct spfgen_slot *slots, const uint64_t *filter, int shift,
                                                int64_t high, int64_t key) {
    return spfgen_hash_may(filter, shift, key) ? spfgen_hash_find(slots, shift, high, key) : high;
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

/* The same, but a part may begin within an iteration that is long: at *at in [array[i], array[i + 1]]. */
static inline int64_t spfgen_split_int32(const int32_t *array, int64_t low, int64_t high, int64_t each, int part,
                                        int parts, int64_t *at) {
    int64_t i = spfgen_share_int32(array, low, high, each, part, parts);
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

/* Builds the table of [low, high) in `slots`, whatever they hold: for each key the first position p with
   array[base + p] == key. The shift is spfgen_hash_shift(high - low), and there are spfgen_hash_slots(high - low)
   slots or more. Where equal keys stand side by side, the others follow. */
static inline void spfgen_hash_build_int32(struct spfgen_slot *slots, int shift, const int32_t *array, int64_t base,
                                          int64_t low, int64_t high) {
    spfgen_hash_clear(slots, shift, high);
    for (int64_t p = low; p < high; p++) {
        const int64_t key = array[base + p];
        const uint64_t slot = spfgen_hash_slot(slots, shift, high, key);
        if (slots[slot].position == high) {
            slots[slot].key = key;
            slots[slot].position = p;
        }
    }
}

/* Builds the filter of the table of [low, high) in `filter`, whatever it holds: the shift is
   spfgen_hash_shift(high - low), and there are spfgen_hash_filter_words(high - low) words or more. */
static inline void spfgen_hash_filter_build_int32(uint64_t *filter, int shift, const int32_t *array, int64_t base, int64_t low,
                                                 int64_t high) {
    const int64_t last = (int64_t)(UINT64_MAX >> shift) / 8;
    for (int64_t w = 0; w <= last; w++) {
        filter[w] = 0;
    }
    for (int64_t p = low; p < high; p++) {
        const uint64_t bit = spfgen_hash_bit(shift, array[base + p]);
        filter[bit >> 6] |= UINT64_C(1) << (bit & 63);
    }
}

/* One part of a loop that threads share. */
static SPFGEN_ALONE void bcsr_times_coo_part(
    int part,
    const int32_t *restrict A_browptr,
    int64_t floor_nrow_1_2,
    int parts,
    int64_t *bi_shared,
    double *C_parts,
    int64_t n_2,
    double *restrict C_val,
    const int32_t *restrict A_bcolidx,
    int64_t nrow,
    int64_t ncol,
    const double *restrict A_val,
    int64_t *B_idx_1_end,
    int64_t *B_idx_1_at,
    const int32_t *restrict B_idx_2,
    const double *restrict B_val)
{
    int64_t bi_from;
    int64_t bi_to;
    const int64_t bi_begin =
            spfgen_split_int32(A_browptr, 0, floor_nrow_1_2, 1, part, parts, &bi_from);
    const int64_t bi_end =
            spfgen_split_int32(A_browptr, 0, floor_nrow_1_2, 1, part + 1, parts, &bi_to);
    /* the last bi may go on in the next part: what this part has of it is kept apart */
    const int64_t bi_stop = bi_to > A_browptr[bi_end] ? bi_end + 1 : bi_end;
    bi_shared[part] = bi_to > A_browptr[bi_end] ? bi_end : -1;
    double *restrict C_part = C_parts + (int64_t)part * (2 * n_2);
    for (int64_t p_3 = 0; p_3 < 2 * n_2; p_3++) {
        C_part[p_3] = 0.0;
    }
    int64_t pb_begin = bi_from;
    const int32_t bi_until = (int32_t)bi_to;
    /* whole rows, then what this part has of the last one */
    for (int piece = 0; piece < 2; piece++) {
        const int64_t bi_first = piece ? bi_end : bi_begin;
        const int64_t bi_last = piece ? bi_stop : bi_end;
        const int32_t *bi_ends = piece ? &bi_until : A_browptr + (bi_first + 1);
        for (int64_t bi = bi_first; bi < bi_last; bi++) {
            double *C_row = piece ? C_part : C_val + 2 * bi * n_2;
            const int64_t pb_end = bi_ends[bi - bi_first];
            for (int64_t pb = pb_begin; pb < pb_end; pb++) {
                const int64_t bcolidx_pb = A_bcolidx[pb];
                for (int64_t r = 0; r < spfgen_min(2, nrow - 2 * bi); r++) {
                    for (int64_t c = 0; c < spfgen_min(2, ncol - 2 * bcolidx_pb); c++) {
                        const int64_t j = 2 * bcolidx_pb + c;
                        const double A_value = A_val[(pb * 2 + r) * 2 + c];
                        /*
                         * find p with B_idx_1[p] == j by position array: B.idx_1 rises within
                         * these bounds: equal values are adjacent
                         */
                        const int64_t p_after = B_idx_1_end[j];
                        for (int64_t p = B_idx_1_at[j]; p < p_after; p++) {
                            C_row[r * n_2 + B_idx_2[p]] += A_value * B_val[p];
                        }
                    }
                }
            }
            pb_begin = pb_end;
        }
    }
}

/* One part of a loop that threads share. */
static SPFGEN_ALONE void bcsr_times_coo_part_2(
    int part_3,
    const int32_t *restrict A_browptr,
    int64_t floor_nrow_1_2,
    int parts,
    int64_t *bi_shared_2,
    double *C_parts_2,
    int64_t n_2,
    double *restrict C_val,
    const int32_t *restrict A_bcolidx,
    int64_t nrow,
    int64_t ncol,
    const int32_t *restrict B_idx_1,
    int64_t nnz,
    const int32_t *restrict B_idx_2,
    const double *restrict A_val,
    const double *restrict B_val)
{
    int64_t bi_from_2;
    int64_t bi_to_2;
    const int64_t bi_begin_2 =
            spfgen_split_int32(A_browptr, 0, floor_nrow_1_2, 1, part_3, parts, &bi_from_2);
    const int64_t bi_end_2 =
            spfgen_split_int32(A_browptr, 0, floor_nrow_1_2, 1, part_3 + 1, parts, &bi_to_2);
    /* the last bi may go on in the next part: what this part has of it is kept apart */
    const int64_t bi_stop_2 = bi_to_2 > A_browptr[bi_end_2] ? bi_end_2 + 1 : bi_end_2;
    bi_shared_2[part_3] = bi_to_2 > A_browptr[bi_end_2] ? bi_end_2 : -1;
    double *restrict C_part_2 = C_parts_2 + (int64_t)part_3 * (2 * n_2);
    for (int64_t p_4 = 0; p_4 < 2 * n_2; p_4++) {
        C_part_2[p_4] = 0.0;
    }
    int64_t pb_begin_2 = bi_from_2;
    const int32_t bi_until_2 = (int32_t)bi_to_2;
    /* whole rows, then what this part has of the last one */
    for (int piece_2 = 0; piece_2 < 2; piece_2++) {
        const int64_t bi_first_2 = piece_2 ? bi_end_2 : bi_begin_2;
        const int64_t bi_last_2 = piece_2 ? bi_stop_2 : bi_end_2;
        const int32_t *bi_ends_2 = piece_2 ? &bi_until_2 : A_browptr + (bi_first_2 + 1);
        for (int64_t bi = bi_first_2; bi < bi_last_2; bi++) {
            double *C_row_2 = piece_2 ? C_part_2 : C_val + 2 * bi * n_2;
            const int64_t pb_end_2 = bi_ends_2[bi - bi_first_2];
            for (int64_t pb = pb_begin_2; pb < pb_end_2; pb++) {
                const int64_t bcolidx_pb = A_bcolidx[pb];
                for (int64_t r = 0; r < spfgen_min(2, nrow - 2 * bi); r++) {
                    for (int64_t c = 0; c < spfgen_min(2, ncol - 2 * bcolidx_pb); c++) {
                        const int64_t j = 2 * bcolidx_pb + c;
                        /*
                         * find p with B_idx_1[p] == j by binary search: B.idx_1 rises within
                         * these bounds (by Z3 from the declared properties)
                         */
                        for (int64_t p = spfgen_search_int32(B_idx_1, 0, 0, nnz, j); p < nnz
                                && B_idx_1[p] == j; p++) {
                            C_row_2[r * n_2 + B_idx_2[p]] += A_val[(pb * 2 + r) * 2 + c] * B_val[p];
                        }
                    }
                }
            }
            pb_begin_2 = pb_end_2;
        }
    }
}

/* One part of a loop that threads share. */
static SPFGEN_ALONE void bcsr_times_coo_part_3(
    int part_5,
    const int32_t *restrict A_browptr,
    int64_t floor_nrow_1_2,
    int parts,
    int64_t *bi_shared_3,
    double *C_parts_3,
    int64_t n_2,
    double *restrict C_val,
    const int32_t *restrict A_bcolidx,
    int64_t nrow,
    int64_t ncol,
    struct spfgen_slot *B_idx_1_slots,
    uint64_t *B_idx_1_filter,
    int p_shift,
    int64_t nnz,
    const int32_t *restrict B_idx_1,
    const int32_t *restrict B_idx_2,
    const double *restrict A_val,
    const double *restrict B_val)
{
    int64_t bi_from_3;
    int64_t bi_to_3;
    const int64_t bi_begin_3 =
            spfgen_split_int32(A_browptr, 0, floor_nrow_1_2, 1, part_5, parts, &bi_from_3);
    const int64_t bi_end_3 =
            spfgen_split_int32(A_browptr, 0, floor_nrow_1_2, 1, part_5 + 1, parts, &bi_to_3);
    /* the last bi may go on in the next part: what this part has of it is kept apart */
    const int64_t bi_stop_3 = bi_to_3 > A_browptr[bi_end_3] ? bi_end_3 + 1 : bi_end_3;
    bi_shared_3[part_5] = bi_to_3 > A_browptr[bi_end_3] ? bi_end_3 : -1;
    double *restrict C_part_3 = C_parts_3 + (int64_t)part_5 * (2 * n_2);
    for (int64_t p_5 = 0; p_5 < 2 * n_2; p_5++) {
        C_part_3[p_5] = 0.0;
    }
    int64_t pb_begin_3 = bi_from_3;
    const int32_t bi_until_3 = (int32_t)bi_to_3;
    /* whole rows, then what this part has of the last one */
    for (int piece_3 = 0; piece_3 < 2; piece_3++) {
        const int64_t bi_first_3 = piece_3 ? bi_end_3 : bi_begin_3;
        const int64_t bi_last_3 = piece_3 ? bi_stop_3 : bi_end_3;
        const int32_t *bi_ends_3 = piece_3 ? &bi_until_3 : A_browptr + (bi_first_3 + 1);
        for (int64_t bi = bi_first_3; bi < bi_last_3; bi++) {
            double *C_row_3 = piece_3 ? C_part_3 : C_val + 2 * bi * n_2;
            const int64_t pb_end_3 = bi_ends_3[bi - bi_first_3];
            for (int64_t pb = pb_begin_3; pb < pb_end_3; pb++) {
                const int64_t bcolidx_pb = A_bcolidx[pb];
                for (int64_t r = 0; r < spfgen_min(2, nrow - 2 * bi); r++) {
                    for (int64_t c = 0; c < spfgen_min(2, ncol - 2 * bcolidx_pb); c++) {
                        const int64_t j = 2 * bcolidx_pb + c;
                        /*
                         * find p with B_idx_1[p] == j by hash map: B.idx_1 rises within these
                         * bounds: equal values are adjacent
                         */
                        for (int64_t p =
                                spfgen_hash_find_filtered(B_idx_1_slots, B_idx_1_filter, p_shift,
                                nnz, j); p < nnz && B_idx_1[p] == j; p++) {
                            C_row_3[r * n_2 + B_idx_2[p]] += A_val[(pb * 2 + r) * 2 + c] * B_val[p];
                        }
                    }
                }
            }
            pb_begin_3 = pb_end_3;
        }
    }
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
    const int64_t nnz = B->nnz;
    const int64_t nrow = A->nrow;
    const int64_t nb = A->nb;
    const int64_t ncol = A->ncol;
    const int64_t n_2 = B->n_2;
    const double *restrict A_val = A->val;
    const int32_t *restrict A_browptr = A->browptr;
    const int32_t *restrict A_bcolidx = A->bcolidx;
    const double *restrict B_val = B->val;
    const int32_t *restrict B_idx_1 = B->idx_1;
    const int32_t *restrict B_idx_2 = B->idx_2;
    double *restrict C_val = C->val;
    if (!A_browptr || (!A_bcolidx && nb > 0) || (!A_val && nb > 0) || (!B_idx_1 && nnz > 0)
            || (!B_idx_2 && nnz > 0) || (!B_val && nnz > 0) || (!C_val && nrow > 0 && n_2 > 0)) {
        return SPFGEN_ERROR_NULL;
    }
    /* what the cost estimates depend on */
    const double ratio = spfgen_over((double)nnz, (double)ncol);
    const double ratio_2 = spfgen_over((double)nb, ((double)nrow + 1.0) / 2.0);
    threads =
            spfgen_threads(threads, ((double)nrow + 1.0) / 2.0 + (double)nb
            + ((double)nrow + 1.0) * ratio_2 + ((double)nrow + 1.0) * ratio_2 * 2.0
            + 5.0 * ((double)nrow + 1.0) * ratio_2 * 2.0
            + 3.0 * (((double)nrow + 1.0) * ratio_2 * 2.0 * ratio));
    /* which is fastest depends on the sizes: expected nanoseconds of each variant */
    const double cost_1 = (double)nnz * 1.5
            + ((double)nrow + 1.0) * ratio_2 * 2.0 * (1.5
            + 12.0 * spfgen_least(spfgen_least(ratio, 1.0), 1.0 - spfgen_least(ratio, 1.0)))
            + (double)ncol * 0.1;
    const double cost_2 =
            ((double)nrow + 1.0) * ratio_2 * 2.0 * (8.0 + 4.0 * spfgen_log2((double)nnz + 2.0));
    const double cost_3 = (double)nnz * 4.0
            + ((double)nrow + 1.0) * ratio_2 * 2.0 * (1.7 + 4.5 * spfgen_least(ratio, 1.0)
            + 12.0 * spfgen_least(spfgen_least(ratio, 1.0), 1.0 - spfgen_least(ratio, 1.0)));
    const int variant = cost_1 <= cost_2 && cost_1 <= cost_3 ? 1 : cost_2 <= cost_3 ? 2 : 3;
    /* more parts than threads: one that is done early takes another */
    const int parts =
            spfgen_turns(threads, ((double)nrow + 1.0) / 2.0 + (double)nb
            + ((double)nrow + 1.0) * ratio_2 + ((double)nrow + 1.0) * ratio_2 * 2.0
            + 5.0 * ((double)nrow + 1.0) * ratio_2 * 2.0
            + 3.0 * (((double)nrow + 1.0) * ratio_2 * 2.0 * ratio), 8);
    int64_t *B_idx_1_at = spfgen_workspace(variant == 1 ? ncol : 0, 1, sizeof(int64_t));
    int64_t *B_idx_1_end = spfgen_workspace(variant == 1 ? ncol : 0, 1, sizeof(int64_t));
    int64_t *bi_shared = spfgen_memory(variant == 1 ? parts : 0, 1, sizeof(int64_t));
    double *C_parts =
            spfgen_memory(variant == 1 ? spfgen_times(parts, spfgen_times(2, n_2)) : 0, 1,
            sizeof(double));
    int64_t *bi_shared_2 = spfgen_memory(variant == 2 ? parts : 0, 1, sizeof(int64_t));
    double *C_parts_2 =
            spfgen_memory(variant == 2 ? spfgen_times(parts, spfgen_times(2, n_2)) : 0, 1,
            sizeof(double));
    struct spfgen_slot *B_idx_1_slots =
            spfgen_workspace(variant == 3 ? spfgen_hash_slots(nnz) : 0, 1,
            sizeof(struct spfgen_slot));
    uint64_t *B_idx_1_filter =
            spfgen_workspace(variant == 3 ? spfgen_hash_filter_words(nnz) : 0, 1, sizeof(uint64_t));
    int64_t *bi_shared_3 = spfgen_memory(variant == 3 ? parts : 0, 1, sizeof(int64_t));
    double *C_parts_3 =
            spfgen_memory(variant == 3 ? spfgen_times(parts, spfgen_times(2, n_2)) : 0, 1,
            sizeof(double));
    if (!B_idx_1_at || !B_idx_1_end || !bi_shared || !C_parts || !bi_shared_2 || !C_parts_2
            || !B_idx_1_slots || !B_idx_1_filter || !bi_shared_3 || !C_parts_3) {
        free(B_idx_1_at);
        free(B_idx_1_end);
        free(bi_shared);
        free(C_parts);
        free(bi_shared_2);
        free(C_parts_2);
        free(B_idx_1_slots);
        free(B_idx_1_filter);
        free(bi_shared_3);
        free(C_parts_3);
        return SPFGEN_ERROR_MEMORY;
    }
    /* C[i, k] += A[i, j]*B[j, k] */
    if (variant == 1) {
        const int64_t floor_nrow_1_2 = (nrow + 1) / 2;
        /*
         * position array of the positions by B_idx_1[p]: [0, B.nnz) is the same in all inner
         * loops
         */
        int64_t p_2 = 0;
        while (p_2 < nnz) {
            const int64_t p_2_key = B_idx_1[p_2];
            B_idx_1_at[p_2_key] = p_2;
            p_2++;
            while (p_2 < nnz && B_idx_1[p_2] == p_2_key) {
                p_2++;
            }
            B_idx_1_end[p_2_key] = p_2;
        }
        /* parallel over bi: its iterations write different places of C */
        if (0 < floor_nrow_1_2) {
            /* work partition: parts of about the same number of entries, by A_browptr */
            /* where one bi takes long, several threads share it */
            if (threads > 1) {
                #pragma omp parallel for schedule(monotonic: dynamic, 1) num_threads(threads)
                for (int part = 0; part < parts; part++) {
                    bcsr_times_coo_part(part, A_browptr, floor_nrow_1_2, parts, bi_shared, C_parts,
                            n_2, C_val, A_bcolidx, nrow, ncol, A_val, B_idx_1_end, B_idx_1_at,
                            B_idx_2, B_val);
                }
            } else {
                for (int part = 0; part < parts; part++) {
                    bcsr_times_coo_part(part, A_browptr, floor_nrow_1_2, parts, bi_shared, C_parts,
                            n_2, C_val, A_bcolidx, nrow, ncol, A_val, B_idx_1_end, B_idx_1_at,
                            B_idx_2, B_val);
                }
            }
            /* what parts have of an iteration over bi that goes on in the next one, in order */
            for (int part_2 = 0; part_2 < parts; part_2++) {
                if (bi_shared[part_2] >= 0) {
                    const int64_t bi = bi_shared[part_2];
                    if (2 * bi >= 0 && 2 * bi < nrow) {
                        for (int64_t r_2 = 0; r_2 < spfgen_min(2, nrow - 2 * bi); r_2++) {
                            for (int64_t r_3 = 0; r_3 < n_2; r_3++) {
                                C_val[(2 * bi + r_2) * n_2
                                        + r_3] += C_parts[(int64_t)part_2 * (2 * n_2)
                                        + (r_2 * n_2 + r_3)];
                            }
                        }
                    }
                }
            }
        }
    } else if (variant == 2) {
        const int64_t floor_nrow_1_2 = (nrow + 1) / 2;
        /* parallel over bi: its iterations write different places of C */
        if (0 < floor_nrow_1_2) {
            /* work partition: parts of about the same number of entries, by A_browptr */
            /* where one bi takes long, several threads share it */
            if (threads > 1) {
                #pragma omp parallel for schedule(monotonic: dynamic, 1) num_threads(threads)
                for (int part_3 = 0; part_3 < parts; part_3++) {
                    bcsr_times_coo_part_2(part_3, A_browptr, floor_nrow_1_2, parts, bi_shared_2,
                            C_parts_2, n_2, C_val, A_bcolidx, nrow, ncol, B_idx_1, nnz, B_idx_2,
                            A_val, B_val);
                }
            } else {
                for (int part_3 = 0; part_3 < parts; part_3++) {
                    bcsr_times_coo_part_2(part_3, A_browptr, floor_nrow_1_2, parts, bi_shared_2,
                            C_parts_2, n_2, C_val, A_bcolidx, nrow, ncol, B_idx_1, nnz, B_idx_2,
                            A_val, B_val);
                }
            }
            /* what parts have of an iteration over bi that goes on in the next one, in order */
            for (int part_4 = 0; part_4 < parts; part_4++) {
                if (bi_shared_2[part_4] >= 0) {
                    const int64_t bi = bi_shared_2[part_4];
                    if (2 * bi >= 0 && 2 * bi < nrow) {
                        for (int64_t r_2 = 0; r_2 < spfgen_min(2, nrow - 2 * bi); r_2++) {
                            for (int64_t r_3 = 0; r_3 < n_2; r_3++) {
                                C_val[(2 * bi + r_2) * n_2
                                        + r_3] += C_parts_2[(int64_t)part_4 * (2 * n_2)
                                        + (r_2 * n_2 + r_3)];
                            }
                        }
                    }
                }
            }
        }
    } else {
        const int64_t floor_nrow_1_2 = (nrow + 1) / 2;
        const int p_shift = spfgen_hash_shift(nnz);
        /* hash map of the positions by B_idx_1[p]: [0, B.nnz) is the same in all inner loops */
        spfgen_hash_build_int32(B_idx_1_slots, p_shift, B_idx_1, 0, 0, nnz);
        spfgen_hash_filter_build_int32(B_idx_1_filter, p_shift, B_idx_1, 0, 0, nnz);
        /* parallel over bi: its iterations write different places of C */
        if (0 < floor_nrow_1_2) {
            /* work partition: parts of about the same number of entries, by A_browptr */
            /* where one bi takes long, several threads share it */
            if (threads > 1) {
                #pragma omp parallel for schedule(monotonic: dynamic, 1) num_threads(threads)
                for (int part_5 = 0; part_5 < parts; part_5++) {
                    bcsr_times_coo_part_3(part_5, A_browptr, floor_nrow_1_2, parts, bi_shared_3,
                            C_parts_3, n_2, C_val, A_bcolidx, nrow, ncol, B_idx_1_slots,
                            B_idx_1_filter, p_shift, nnz, B_idx_1, B_idx_2, A_val, B_val);
                }
            } else {
                for (int part_5 = 0; part_5 < parts; part_5++) {
                    bcsr_times_coo_part_3(part_5, A_browptr, floor_nrow_1_2, parts, bi_shared_3,
                            C_parts_3, n_2, C_val, A_bcolidx, nrow, ncol, B_idx_1_slots,
                            B_idx_1_filter, p_shift, nnz, B_idx_1, B_idx_2, A_val, B_val);
                }
            }
            /* what parts have of an iteration over bi that goes on in the next one, in order */
            for (int part_6 = 0; part_6 < parts; part_6++) {
                if (bi_shared_3[part_6] >= 0) {
                    const int64_t bi = bi_shared_3[part_6];
                    if (2 * bi >= 0 && 2 * bi < nrow) {
                        for (int64_t r_2 = 0; r_2 < spfgen_min(2, nrow - 2 * bi); r_2++) {
                            for (int64_t r_3 = 0; r_3 < n_2; r_3++) {
                                C_val[(2 * bi + r_2) * n_2
                                        + r_3] += C_parts_3[(int64_t)part_6 * (2 * n_2)
                                        + (r_2 * n_2 + r_3)];
                            }
                        }
                    }
                }
            }
        }
    }
    free(B_idx_1_at);
    free(B_idx_1_end);
    free(bi_shared);
    free(C_parts);
    free(bi_shared_2);
    free(C_parts_2);
    free(B_idx_1_slots);
    free(B_idx_1_filter);
    free(bi_shared_3);
    free(C_parts_3);
    return SPFGEN_OK;
}
