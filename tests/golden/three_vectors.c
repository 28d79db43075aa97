/* three_vectors, made by spfgen 0.1.0. Compile with -std=c99 -O3 -fopenmp. */

#include "three_vectors.h"
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

/* a / b, where b counts as at least 1. */
static inline double spfgen_over(double a, double b) {
    return a / (b > 1.0 ? b : 1.0);
}

/* The smaller of two numbers of nanoseconds or iterations. */
static inline double spfgen_least(double a, double b) {
    return a < b ? a : b;
}

/* Where part `part` of `parts` equal parts of [low, high) begins. */
static inline int64_t spfgen_part(int64_t low, int64_t high, int part, int parts) {
    const int64_t length = high > low ? high - low : 0;
    return low + length / parts * part + length % parts * part / parts;
}

/* `term` where the place of a workspace holds a value, else zero, without a branch: empty places hold a negative zero,
   which no stored value is. */
static inline double spfgen_stored_float64(double place, double term) {
    int64_t bits, value;
    memcpy(&bits, &place, sizeof bits);
    memcpy(&value, &term, sizeof value);
    value &= -(int64_t)(bits != INT64_MIN);
    memcpy(&term, &value, sizeof term);
    return term;
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
static SPFGEN_ALONE void three_vectors_part(
    int part,
    int64_t x_nnz,
    int parts,
    const int32_t *restrict x_idx,
    const int32_t *restrict y_idx,
    int64_t y_nnz,
    double *z_idx_workspace,
    const double *restrict x_val,
    const double *restrict y_val,
    double *s_parts)
{
    const int64_t x_p_begin = spfgen_part(0, x_nnz, part, parts);
    const int64_t x_p_end = spfgen_part(0, x_nnz, part + 1, parts);
    double s_part = 0.0;
    int64_t p_state = -1;
    for (int64_t x_p = x_p_begin; x_p < x_p_end; x_p++) {
        const int64_t i = x_idx[x_p];
        /*
         * find y_p with y_idx[y_p] == i by sequential iteration: y.idx falls strictly within
         * these bounds and the keys never fall (by Z3 from the declared properties)
         */
        if (p_state < 0) {
            p_state = spfgen_search_down_int32(y_idx, 0, 0, y_nnz, i - 1);
        }
        while (p_state > 0 && y_idx[p_state - 1] < i) {
            p_state -= 1;
        }
        const int64_t y_p = p_state - 1;
        if (y_p >= 0 && y_idx[y_p] == i) {
            /* find z_p with z_idx[z_p] == i by scatter: what z does not store adds nothing here */
            s_part += spfgen_stored_float64(z_idx_workspace[i],
                    x_val[x_p] * y_val[y_p] * z_idx_workspace[i]);
        }
    }
    s_parts[part] = s_part;
}

/* One part of a loop that threads share. */
static SPFGEN_ALONE void three_vectors_part_2(
    int part_3,
    int64_t x_nnz,
    int parts,
    const int32_t *restrict x_idx,
    struct spfgen_slot *y_idx_slots,
    uint64_t *y_idx_filter,
    int y_p_shift,
    int64_t y_nnz,
    struct spfgen_slot *z_idx_slots,
    uint64_t *z_idx_filter,
    int z_p_shift,
    int64_t z_nnz,
    const double *restrict x_val,
    const double *restrict y_val,
    const double *restrict z_val,
    double *s_parts_2)
{
    const int64_t x_p_begin_2 = spfgen_part(0, x_nnz, part_3, parts);
    const int64_t x_p_end_2 = spfgen_part(0, x_nnz, part_3 + 1, parts);
    double s_part_2 = 0.0;
    for (int64_t x_p = x_p_begin_2; x_p < x_p_end_2; x_p++) {
        const int64_t i = x_idx[x_p];
        /* find y_p with y_idx[y_p] == i by hash map: y.idx falls strictly within these bounds */
        const int64_t y_p =
                spfgen_hash_find_filtered(y_idx_slots, y_idx_filter, y_p_shift, y_nnz, i);
        if (y_p < y_nnz) {
            /*
             * find z_p with z_idx[z_p] == i by hash map: z.idx holds no value twice within these
             * bounds
             */
            const int64_t z_p =
                    spfgen_hash_find_filtered(z_idx_slots, z_idx_filter, z_p_shift, z_nnz, i);
            if (z_p < z_nnz) {
                s_part_2 += x_val[x_p] * y_val[y_p] * z_val[z_p];
            }
        }
    }
    s_parts_2[part_3] = s_part_2;
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
    const int64_t x_nnz = x->nnz;
    const int64_t z_nnz = z->nnz;
    const int64_t n = x->n;
    const double *restrict x_val = x->val;
    const int32_t *restrict x_idx = x->idx;
    const double *restrict y_val = y->val;
    const int32_t *restrict y_idx = y->idx;
    const double *restrict z_val = z->val;
    const int32_t *restrict z_idx = z->idx;
    double *restrict s_val = s->val;
    if ((!x_idx && x_nnz > 0) || (!x_val && x_nnz > 0) || (!y_idx && y_nnz > 0)
            || (!y_val && y_nnz > 0) || (!z_idx && z_nnz > 0) || (!z_val && z_nnz > 0) || !s_val) {
        return SPFGEN_ERROR_NULL;
    }
    /* what the cost estimates depend on */
    const double ratio = spfgen_over((double)y_nnz, (double)n);
    const double ratio_2 = spfgen_over((double)z_nnz, (double)n);
    threads =
            spfgen_threads(threads, (double)x_nnz + 5.0 * (double)x_nnz
            + 5.0 * (double)x_nnz * ratio + 3.0 * ((double)x_nnz * ratio * ratio_2));
    /* which is fastest depends on the sizes: expected nanoseconds of each variant */
    const double cost_1 = 0.5 * (double)y_nnz + (double)x_nnz * 4.0
            + ((double)z_nnz * 1.5 + (double)x_nnz * ratio * 1.7 + (double)n * 0.1);
    const double cost_2 = (double)y_nnz * 4.0
            + (double)x_nnz * (1.7 + 4.5 * spfgen_least(ratio, 1.0)
            + 12.0 * spfgen_least(spfgen_least(ratio, 1.0), 1.0 - spfgen_least(ratio, 1.0)))
            + ((double)z_nnz * 4.0
            + (double)x_nnz * ratio * (1.7 + 4.5 * spfgen_least(ratio_2, 1.0)
            + 12.0 * spfgen_least(spfgen_least(ratio_2, 1.0), 1.0 - spfgen_least(ratio_2, 1.0))));
    const int variant = cost_1 <= cost_2 ? 1 : 2;
    /* more parts than threads: one that is done early takes another */
    const int parts =
            spfgen_turns(threads, (double)x_nnz + 5.0 * (double)x_nnz + 5.0 * (double)x_nnz * ratio
            + 3.0 * ((double)x_nnz * ratio * ratio_2), 8);
    double *z_idx_workspace = spfgen_workspace(variant == 1 ? n : 0, 1, sizeof(double));
    double *s_parts = spfgen_memory(variant == 1 ? parts : 0, 1, sizeof(double));
    struct spfgen_slot *y_idx_slots =
            spfgen_workspace(variant == 2 ? spfgen_hash_slots(y_nnz) : 0, 1,
            sizeof(struct spfgen_slot));
    uint64_t *y_idx_filter =
            spfgen_workspace(variant == 2 ? spfgen_hash_filter_words(y_nnz) : 0, 1,
            sizeof(uint64_t));
    struct spfgen_slot *z_idx_slots =
            spfgen_workspace(variant == 2 ? spfgen_hash_slots(z_nnz) : 0, 1,
            sizeof(struct spfgen_slot));
    uint64_t *z_idx_filter =
            spfgen_workspace(variant == 2 ? spfgen_hash_filter_words(z_nnz) : 0, 1,
            sizeof(uint64_t));
    double *s_parts_2 = spfgen_memory(variant == 2 ? parts : 0, 1, sizeof(double));
    if (!z_idx_workspace || !s_parts || !y_idx_slots || !y_idx_filter || !z_idx_slots
            || !z_idx_filter || !s_parts_2) {
        free(z_idx_workspace);
        free(s_parts);
        free(y_idx_slots);
        free(y_idx_filter);
        free(z_idx_slots);
        free(z_idx_filter);
        free(s_parts_2);
        return SPFGEN_ERROR_MEMORY;
    }
    if (variant == 1) {
        #pragma omp parallel for schedule(static) num_threads(threads)
        for (int64_t z_idx_workspace_place = 0; z_idx_workspace_place < n;
                z_idx_workspace_place++) {
            z_idx_workspace[z_idx_workspace_place] = -0.0;
        }
    }
    /* s = x[i]*y[i]*z[i] */
    if (variant == 1) {
        double s_sum = 0.0;
        /* scatter of the positions by z_idx[z_p]: [0, z.nnz) is the same in all inner loops */
        for (int64_t z_p_2 = 0; z_p_2 < z_nnz; z_p_2++) {
            z_idx_workspace[z_idx[z_p_2]] = z_val[z_p_2] + 0.0;
        }
        /*
         * parallel over x_p: its iterations only add to s, which each part does for itself; then
         * the sums are added
         */
        /* the iterations in equal parts */
        if (threads > 1) {
            #pragma omp parallel for schedule(monotonic: dynamic, 1) num_threads(threads)
            for (int part = 0; part < parts; part++) {
                three_vectors_part(part, x_nnz, parts, x_idx, y_idx, y_nnz, z_idx_workspace, x_val,
                        y_val, s_parts);
            }
        } else {
            for (int part = 0; part < parts; part++) {
                three_vectors_part(part, x_nnz, parts, x_idx, y_idx, y_nnz, z_idx_workspace, x_val,
                        y_val, s_parts);
            }
        }
        for (int part_2 = 0; part_2 < parts; part_2++) {
            s_sum += s_parts[part_2];
        }
        s_val[0] = s_sum;
    } else {
        double s_sum_2 = 0.0;
        const int y_p_shift = spfgen_hash_shift(y_nnz);
        /* hash map of the positions by y_idx[y_p]: [0, y.nnz) is the same in all inner loops */
        spfgen_hash_build_int32(y_idx_slots, y_p_shift, y_idx, 0, 0, y_nnz);
        spfgen_hash_filter_build_int32(y_idx_filter, y_p_shift, y_idx, 0, 0, y_nnz);
        const int z_p_shift = spfgen_hash_shift(z_nnz);
        /* hash map of the positions by z_idx[z_p]: [0, z.nnz) is the same in all inner loops */
        spfgen_hash_build_int32(z_idx_slots, z_p_shift, z_idx, 0, 0, z_nnz);
        spfgen_hash_filter_build_int32(z_idx_filter, z_p_shift, z_idx, 0, 0, z_nnz);
        /*
         * parallel over x_p: its iterations only add to s, which each part does for itself; then
         * the sums are added
         */
        /* the iterations in equal parts */
        if (threads > 1) {
            #pragma omp parallel for schedule(monotonic: dynamic, 1) num_threads(threads)
            for (int part_3 = 0; part_3 < parts; part_3++) {
                three_vectors_part_2(part_3, x_nnz, parts, x_idx, y_idx_slots, y_idx_filter,
                        y_p_shift, y_nnz, z_idx_slots, z_idx_filter, z_p_shift, z_nnz, x_val, y_val,
                        z_val, s_parts_2);
            }
        } else {
            for (int part_3 = 0; part_3 < parts; part_3++) {
                three_vectors_part_2(part_3, x_nnz, parts, x_idx, y_idx_slots, y_idx_filter,
                        y_p_shift, y_nnz, z_idx_slots, z_idx_filter, z_p_shift, z_nnz, x_val, y_val,
                        z_val, s_parts_2);
            }
        }
        for (int part_4 = 0; part_4 < parts; part_4++) {
            s_sum_2 += s_parts_2[part_4];
        }
        s_val[0] = s_sum_2;
    }
    free(z_idx_workspace);
    free(s_parts);
    free(y_idx_slots);
    free(y_idx_filter);
    free(z_idx_slots);
    free(z_idx_filter);
    free(s_parts_2);
    return SPFGEN_OK;
}
