/* spmv, made by spfgen 0.1.0. Compile with -std=c99 -O3 -fopenmp. */

#include "spmv.h"
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

/* Puts a function into its callers, where numbers that it is given are known. */
#ifdef __GNUC__
#define SPFGEN_INLINE __attribute__((always_inline))
#else
#define SPFGEN_INLINE
#endif

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

/* The number of parts for that many threads and so many nanoseconds of work: one for each thread, or so many more, at most
   `each`, that one that is done early takes another, where a part does not take longer to find than to do. */
static inline int spfgen_turns(int threads, double work, int each) {
    const double turns = work / 8192.0 / threads;
    return threads <= 1 ? 1 : threads * (turns < 1.0 ? 1 : turns < each ? (int)turns : each);
}

/* Of how many units the parts are, when the first one of each thread is of six and its others are of one: those are for
   threads that are done early. */
static inline int spfgen_units(int parts, int threads) {
    return parts > threads ? parts + 5 * threads : parts;
}

/* At which of these units a part begins. */
static inline int spfgen_unit(int part, int parts, int threads) {
    const int each = parts / threads;
    const int later = part % each > 0 ? 5 : 0;
    return parts > threads ? part + 5 * (part / each) + later : part;
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

/* Asks for memory `bytes` behind the start of an array, needed soon, to the first cache. It may lie outside of the array:
   no pointer to it is made, and nothing is read. */
static inline void spfgen_prefetch_soon(const void *array, int64_t bytes) {
#ifdef __GNUC__
    __builtin_prefetch((const void *)((uintptr_t)array + (uintptr_t)bytes), 0, 3);
#else
    (void)array;
    (void)bytes;
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

/* Loops whose parts belong to threads, the same number to each: a thread takes its own ones in order, then those that
   others have not begun. So what it works on stays in its cache from call to call. The first part of a thread is for
   itself alone; `taken` counts how many of its others are taken, in a cache line for each thread. */
static inline void spfgen_untaken(int *taken, int threads) {
    for (int k = 0; k < threads; k++) {
        taken[16 * k] = 0;
    }
}

/* The part that the calling thread begins with. */
static inline int spfgen_own_part(int parts, int threads) {
    return spfgen_thread() * (parts / threads);
}

/* The part that it goes on with; `parts` where all are taken. A team may have fewer threads than were asked for: then the
   first parts of those that are missing are taken like the others. */
static inline int spfgen_part_after(int part, int *taken, int parts, int threads) {
#ifdef _OPENMP
    const int each = parts / threads;
    const int own = omp_get_thread_num(), team = omp_get_num_threads();
    int owner = part / each;
    if (each == 1 && team == threads) {
        return parts;
    }
    do {
        const int first = owner < team;
        int count;
#pragma omp atomic read
        count = taken[16 * owner];
        if (first + count < each) {
#pragma omp atomic capture
            count = taken[16 * owner]++;
            if (first + count < each) {
                return owner * each + first + count;
            }
        }
        owner = owner + 1 < threads ? owner + 1 : 0;
    } while (owner != own);
    return parts;
#else
    (void)taken;
    (void)parts;
    (void)threads;
    return part + 1;
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

/* Whether of most of `count` segments, which end at ends[0], ends[1], ... one behind the other, the next seven are as
   long, and none is longer than 8: 32 of them say so. */
static inline bool spfgen_even_int32(const int32_t *ends, int64_t count) {
    if (count < 256) {
        return false;
    }
    const int64_t step = (count - 8) / 32;
    int even = 0;
    for (int k = 0; k < 32; k++) {
        const int32_t *const at = ends + k * step;
        const int64_t length = (int64_t)at[1] - at[0];
        even += length > 0 && length <= 8 && (int64_t)at[8] - at[0] == 8 * length;
    }
    return even >= 16;
}

/* Whether `count` segments, which begin at begins[0], begins[1], ..., are about as long as their neighbours: two of them
   differ by `most` of their sum, on the average of 32 that are not empty. Of few segments a processor remembers the
   lengths. */
static inline bool spfgen_steady_int32(const int32_t *begins, int64_t count, double most) {
    if (count < 256) {
        return true;
    }
    const int64_t step = (count - 2) / 32;
    double apart = 0.0;
    int seen = 0;
    for (int k = 0; k < 32; k++) {
        const int32_t *const at = begins + k * step;
        const double length = (double)at[1] - (double)at[0], other = (double)at[2] - (double)at[1];
        if (length + other > 0.0) {
            apart += (length < other ? other - length : length - other) / (length + other);
            seen++;
        }
    }
    return apart <= seen * most;
}

/* Whether vectors of what lies scattered, or of a part of it, are read as fast as the values one by one: so on processors
   with this feature. Others that can read such vectors take longer for them. */
#ifdef __AVX512FP16__
#include <immintrin.h>
#define SPFGEN_GATHERS true
#define SPFGEN_GATHER_float64_int32(some, x, places) \
    _mm512_mask_i32gather_pd(_mm512_setzero_pd(), some, _mm256_maskz_loadu_epi32(some, places), x, 8)
#define SPFGEN_GATHER_float64_int64(some, x, places) \
    _mm512_mask_i64gather_pd(_mm512_setzero_pd(), some, _mm512_maskz_loadu_epi64(some, places), x, 8)
#define SPFGEN_GATHER_float32_int32(some, x, places) \
    _mm256_mmask_i32gather_ps(_mm256_setzero_ps(), some, _mm256_maskz_loadu_epi32(some, places), x, 4)
#define SPFGEN_GATHER_float32_int64(some, x, places) \
    _mm512_mask_i64gather_ps(_mm256_setzero_ps(), some, _mm512_maskz_loadu_epi64(some, places), x, 4)
#else
#define SPFGEN_GATHERS false
#endif

/* The sum of values[k]*x[places[k]] for 0 <= k < count. Vectors of eight, the last one in part: no question is asked that
   a processor may foresee wrongly but how many there are. If the arrays are `large`, what comes next is fetched. */
static inline double spfgen_dot_float64_int32(const double *values, const double *x, const int32_t *places, int64_t count,
                                             bool large) {
#ifdef __AVX512FP16__
    const __m512i lanes = _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7);
    __m512d sums = _mm512_setzero_pd();
    for (int64_t k = 0; k < count; k += 8) {
        if (large) {
            spfgen_prefetch_soon(values, (k + 256) * 8);
            spfgen_prefetch_soon(places, (k + 256) * (int64_t)sizeof *places);
        }
        const __mmask8 some = _mm512_cmplt_epi64_mask(lanes, _mm512_set1_epi64(count - k));
        const __m512d found = SPFGEN_GATHER_float64_int32(some, x, places + k);
        sums = _mm512_fmadd_pd(_mm512_maskz_loadu_pd(some, values + k), found, sums);
    }
    return _mm512_reduce_add_pd(sums);
#else
    double sum = 0.0;
    (void)large;
    for (int64_t k = 0; k < count; k++) {
        sum += values[k] * x[places[k]];
    }
    return sum;
#endif
}

/* Iterations over i that have a count, one at least; answers the first that has another. */
static inline SPFGEN_INLINE int64_t spmv_run(
    int64_t count,
    int64_t i,
    int64_t last,
    int64_t pj_begin,
    const int32_t *i_ends,
    int64_t i_first,
    double *i_places,
    bool far,
    const double *restrict A_val,
    const int32_t *restrict A_colidx,
    const double *restrict x_val)
{
    while (true) {
        double *y_row = i_places + (i - i_first);
        double y_sum = 0.0;
        if (0 < count) {
            if (far) {
                spfgen_prefetch_far(A_val, (pj_begin + 2048) * 8);
                spfgen_prefetch_far(A_colidx, (pj_begin + 2048) * 4);
            }
            /* four at a time, with vectors of what stands in order */
            int64_t k = 0;
            while (k + 4 <= count) {
                double x_values[2];
                double x_values_2[2];
                x_values[0] = x_val[A_colidx[pj_begin + k]];
                x_values[1] = x_val[A_colidx[pj_begin + k + 1]];
                x_values_2[0] = x_val[A_colidx[pj_begin + k + 2]];
                x_values_2[1] = x_val[A_colidx[pj_begin + k + 3]];
                #pragma omp simd
                for (int lane = 0; lane < 2; lane++) {
                    x_values[lane] = A_val[pj_begin + k + lane] * x_values[lane];
                    x_values[lane] += A_val[pj_begin + k + lane + 2] * x_values_2[lane];
                }
                y_sum += x_values[0] + x_values[1];
                k += 4;
            }
            if (k < count) {
                y_sum += A_val[pj_begin + k] * x_val[A_colidx[pj_begin + k]];
                if (k + 1 < count) {
                    y_sum += A_val[pj_begin + k + 1] * x_val[A_colidx[pj_begin + k + 1]];
                    if (k + 2 < count) {
                        y_sum += A_val[pj_begin + k + 2] * x_val[A_colidx[pj_begin + k + 2]];
                    }
                }
            }
        }
        y_row[0] = y_sum;
        pj_begin += count;
        i++;
        if (i == last || i_ends[i - i_first] - pj_begin != count) {
            break;
        }
    }
    return i;
}

/*
 * Iterations over i, many of whose segments are as long as their neighbours; answers where they
 * end.
 */
static SPFGEN_ALONE int64_t spmv_runs(
    int64_t i,
    int64_t last,
    int64_t pj_begin,
    const int32_t *i_ends,
    int64_t i_first,
    double *i_places,
    bool far,
    const double *restrict A_val,
    const int32_t *restrict A_colidx,
    const double *restrict x_val)
{
    while (i < last) {
        const int64_t count = i_ends[i - i_first] - pj_begin;
        /* where 8 have as many, the loop for that number, if there is one */
        const int64_t known = i + 7 < last && i_ends[i + 7 - i_first] - pj_begin == 8 * count
                ? count : 0;
        if (known == 1) {
            i =
                    spmv_run(1, i, last, pj_begin, i_ends, i_first, i_places, far, A_val, A_colidx,
                    x_val);
        } else if (known == 2) {
            i =
                    spmv_run(2, i, last, pj_begin, i_ends, i_first, i_places, far, A_val, A_colidx,
                    x_val);
        } else if (known == 3) {
            i =
                    spmv_run(3, i, last, pj_begin, i_ends, i_first, i_places, far, A_val, A_colidx,
                    x_val);
        } else if (known == 4) {
            i =
                    spmv_run(4, i, last, pj_begin, i_ends, i_first, i_places, far, A_val, A_colidx,
                    x_val);
        } else if (known == 5) {
            i =
                    spmv_run(5, i, last, pj_begin, i_ends, i_first, i_places, far, A_val, A_colidx,
                    x_val);
        } else if (known == 6) {
            i =
                    spmv_run(6, i, last, pj_begin, i_ends, i_first, i_places, far, A_val, A_colidx,
                    x_val);
        } else if (known == 7) {
            i =
                    spmv_run(7, i, last, pj_begin, i_ends, i_first, i_places, far, A_val, A_colidx,
                    x_val);
        } else if (known == 8) {
            i =
                    spmv_run(8, i, last, pj_begin, i_ends, i_first, i_places, far, A_val, A_colidx,
                    x_val);
        } else {
            i =
                    spmv_run(count, i, last, pj_begin, i_ends, i_first, i_places, far, A_val,
                    A_colidx, x_val);
        }
        pj_begin = i_ends[i - 1 - i_first];
    }
    return pj_begin;
}

/* One part of a loop that threads share. */
static SPFGEN_ALONE void spmv_part(
    int part,
    const int32_t *restrict A_rowptr,
    int64_t nrow,
    int parts,
    int threads,
    int units,
    int64_t *i_shared,
    double *y_parts,
    double *restrict y_val,
    bool steady,
    bool streamed,
    const double *restrict A_val,
    const double *restrict x_val,
    const int32_t *restrict A_colidx,
    bool far,
    bool large)
{
    int64_t i_from;
    int64_t i_to;
    const int64_t i_begin =
            spfgen_split_int32(A_rowptr, 0, nrow, 6, spfgen_unit(part, parts, threads), units,
            &i_from);
    const int64_t i_end =
            spfgen_split_int32(A_rowptr, 0, nrow, 6, spfgen_unit(part + 1, parts, threads), units,
            &i_to);
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
        if (steady) {
            if (streamed) {
                for (int64_t i = i_first; i < i_last; i++) {
                    double *y_row = i_places + (i - i_first);
                    const int64_t pj_end = i_ends[i - i_first];
                    double y_sum = 0.0;
                    if (pj_begin < pj_end) {
                        /* four at a time, with vectors of what stands in order */
                        int64_t pj_next = pj_begin;
                        while (pj_next + 4 <= pj_end) {
                            spfgen_prefetch_soon(A_val, (pj_next + 64) * 8);
                            double x_values[2];
                            double x_values_2[2];
                            x_values[0] = x_val[A_colidx[pj_next]];
                            x_values[1] = x_val[A_colidx[pj_next + 1]];
                            x_values_2[0] = x_val[A_colidx[pj_next + 2]];
                            x_values_2[1] = x_val[A_colidx[pj_next + 3]];
                            #pragma omp simd
                            for (int lane = 0; lane < 2; lane++) {
                                x_values[lane] = A_val[pj_next + lane] * x_values[lane];
                                x_values[lane] += A_val[pj_next + lane + 2] * x_values_2[lane];
                            }
                            y_sum += x_values[0] + x_values[1];
                            pj_next += 4;
                        }
                        if (pj_next < pj_end) {
                            y_sum += A_val[pj_next] * x_val[A_colidx[pj_next]];
                            if (pj_next + 1 < pj_end) {
                                y_sum += A_val[pj_next + 1] * x_val[A_colidx[pj_next + 1]];
                                if (pj_next + 2 < pj_end) {
                                    y_sum += A_val[pj_next + 2] * x_val[A_colidx[pj_next + 2]];
                                }
                            }
                        }
                    }
                    y_row[0] = y_sum;
                    pj_begin = pj_end;
                }
            } else if (spfgen_even_int32(i_ends, i_last - i_first)) {
                /* short segments of equal length: loops that are written out for it */
                pj_begin =
                        spmv_runs(i_first, i_last, pj_begin, i_ends, i_first, i_places, far, A_val,
                        A_colidx, x_val);
            } else {
                for (int64_t i = i_first; i < i_last; i++) {
                    double *y_row = i_places + (i - i_first);
                    const int64_t pj_end = i_ends[i - i_first];
                    double y_sum = 0.0;
                    if (pj_begin < pj_end) {
                        if (far) {
                            spfgen_prefetch_far(A_val, (pj_begin + 2048) * 8);
                            spfgen_prefetch_far(A_colidx, (pj_begin + 2048) * 4);
                        }
                        /* four at a time, with vectors of what stands in order */
                        int64_t pj_next = pj_begin;
                        while (pj_next + 4 <= pj_end) {
                            double x_values[2];
                            double x_values_2[2];
                            x_values[0] = x_val[A_colidx[pj_next]];
                            x_values[1] = x_val[A_colidx[pj_next + 1]];
                            x_values_2[0] = x_val[A_colidx[pj_next + 2]];
                            x_values_2[1] = x_val[A_colidx[pj_next + 3]];
                            #pragma omp simd
                            for (int lane = 0; lane < 2; lane++) {
                                x_values[lane] = A_val[pj_next + lane] * x_values[lane];
                                x_values[lane] += A_val[pj_next + lane + 2] * x_values_2[lane];
                            }
                            y_sum += x_values[0] + x_values[1];
                            pj_next += 4;
                        }
                        if (pj_next < pj_end) {
                            y_sum += A_val[pj_next] * x_val[A_colidx[pj_next]];
                            if (pj_next + 1 < pj_end) {
                                y_sum += A_val[pj_next + 1] * x_val[A_colidx[pj_next + 1]];
                                if (pj_next + 2 < pj_end) {
                                    y_sum += A_val[pj_next + 2] * x_val[A_colidx[pj_next + 2]];
                                }
                            }
                        }
                    }
                    y_row[0] = y_sum;
                    pj_begin = pj_end;
                }
            }
        } else if (large) {
            for (int64_t i = i_first; i < i_last; i++) {
                double *y_row = i_places + (i - i_first);
                const int64_t pj_end = i_ends[i - i_first];
                double y_sum = 0.0;
                if (pj_begin < pj_end) {
                    if (SPFGEN_GATHERS) {
                        y_sum += spfgen_dot_float64_int32(A_val + pj_begin, x_val, A_colidx
                                + pj_begin, pj_end - pj_begin, large);
                    } else {
                        /* four at a time, so that one addition need not wait for the other */
                        for (int64_t pj = pj_begin; pj < pj_end; pj += 4) {
                            spfgen_prefetch_soon(A_val, (pj + 64) * 8);
                            spfgen_prefetch_soon(A_colidx, (pj + 64) * 4);
                            double y_sum_1_2 = 0.0;
                            y_sum_1_2 += A_val[pj] * x_val[A_colidx[pj]];
                            if (pj + 1 < pj_end) {
                                double y_sum_2_2 = 0.0;
                                y_sum_2_2 += A_val[pj + 1] * x_val[A_colidx[pj + 1]];
                                if (pj + 2 < pj_end) {
                                    y_sum_1_2 += A_val[pj + 2] * x_val[A_colidx[pj + 2]];
                                    if (pj + 3 < pj_end) {
                                        y_sum_2_2 += A_val[pj + 3] * x_val[A_colidx[pj + 3]];
                                    }
                                }
                                y_sum_1_2 += y_sum_2_2;
                            }
                            y_sum += y_sum_1_2;
                        }
                    }
                }
                y_row[0] = y_sum;
                pj_begin = pj_end;
            }
        } else {
            for (int64_t i = i_first; i < i_last; i++) {
                double *y_row = i_places + (i - i_first);
                const int64_t pj_end = i_ends[i - i_first];
                double y_sum = 0.0;
                if (pj_begin < pj_end) {
                    if (SPFGEN_GATHERS) {
                        y_sum += spfgen_dot_float64_int32(A_val + pj_begin, x_val, A_colidx
                                + pj_begin, pj_end - pj_begin, large);
                    } else {
                        /* four at a time, so that one addition need not wait for the other */
                        for (int64_t pj = pj_begin; pj < pj_end; pj += 4) {
                            double y_sum_1 = 0.0;
                            y_sum_1 += A_val[pj] * x_val[A_colidx[pj]];
                            if (pj + 1 < pj_end) {
                                double y_sum_2 = 0.0;
                                y_sum_2 += A_val[pj + 1] * x_val[A_colidx[pj + 1]];
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
                }
                y_row[0] = y_sum;
                pj_begin = pj_end;
            }
        }
    }
}

/*
 * y[i] = A[i, j]*x[j]
 *
 * Returns SPFGEN_OK or an error code; then nothing has been written.
 *
 * A        operand
 * x        operand
 * y        result
 * threads  threads to use; 0 or less leaves the choice to OpenMP
 */
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
    const int parts = spfgen_turns(threads, (double)nrow + 3.0 * (double)nnz, 8);
    /* more than caches hold: where segments are of many lengths, all that comes next is fetched */
    const bool large = nnz >= 1048576;
    /* segments are short and as long as their neighbours, or else long */
    const bool steady = SPFGEN_GATHERS ? nnz < 12 * nrow
            && spfgen_steady_int32(A_rowptr, nrow, 0.08) : nnz >= 24 * nrow
            || spfgen_steady_int32(A_rowptr, nrow, nnz < 4 * nrow ? 0.05 : 0.15);
    /* many short segments, more than caches hold: what comes later is fetched */
    const bool far = nnz >= 1048576 && nnz <= 8 * nrow;
    /* long segments, more than caches hold: the values that come next are fetched all along */
    const bool streamed = nnz >= 1048576 && nnz > 8 * nrow;
    /* the first part of each thread is larger than those that it takes when it is done early */
    const int units = spfgen_units(parts, threads);
    int *parts_taken = spfgen_memory(16, threads, sizeof(int));
    int64_t *i_shared = spfgen_memory(parts, 1, sizeof(int64_t));
    double *y_parts = spfgen_memory(parts, 1, sizeof(double));
    if (!parts_taken || !i_shared || !y_parts) {
        free(parts_taken);
        free(i_shared);
        free(y_parts);
        return SPFGEN_ERROR_MEMORY;
    }
    /* y[i] = A[i, j]*x[j] */
    /* parallel over i: its iterations write different places of y */
    /* each part takes about the same of A_rowptr's differences */
    /* where one i takes long, several threads share it */
    spfgen_untaken(parts_taken, threads);
    if (threads > 1) {
        #pragma omp parallel num_threads(threads)
        for (int part = spfgen_own_part(parts, threads); part < parts; part =
                spfgen_part_after(part, parts_taken, parts, threads)) {
            spmv_part(part, A_rowptr, nrow, parts, threads, units, i_shared, y_parts, y_val, steady,
                    streamed, A_val, x_val, A_colidx, far, large);
        }
    } else {
        for (int part = 0; part < parts; part++) {
            spmv_part(part, A_rowptr, nrow, parts, threads, units, i_shared, y_parts, y_val, steady,
                    streamed, A_val, x_val, A_colidx, far, large);
        }
    }
    /* what parts have of an iteration over i that goes on in the next one, in order */
    for (int part_2 = 0; part_2 < parts; part_2++) {
        if (i_shared[part_2] >= 0) {
            const int64_t i = i_shared[part_2];
            y_val[i] += y_parts[part_2];
        }
    }
    free(parts_taken);
    free(i_shared);
    free(y_parts);
    return SPFGEN_OK;
}
