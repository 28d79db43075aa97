/* sv_unsorted_check, made by spfgen 0.1.0. Compile with -std=c99 -O3 -fopenmp. */

#include <stdint.h>
#include <stdlib.h>

/* What a check of arrays returns. */
enum {
    SPFGEN_HOLDS = 0,
    SPFGEN_BROKEN = 1,    /* an instance does not hold */
    SPFGEN_UNCHECKED = 2, /* it was not checked, or not in full: there are too many instances */
    SPFGEN_MEMORY = 3     /* there is no memory for a table */
};

#ifdef _OPENMP
#include <omp.h>
#else
#pragma GCC diagnostic ignored "-Wunknown-pragmas"
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

/* A hash table of chains: the number of chains is a power of two, at least 2, and at least the number of keys. */

/* Which bits of a hash choose the chain: those from this number on, 1 to 63. */
static inline int spfgen_chain_shift(int64_t count) {
    int shift = 63;
    while (shift > 1 && (int64_t)(UINT64_MAX >> shift) < count - 1) {
        shift--;
    }
    return shift;
}

/* The number of chains for so many keys. */
static inline int64_t spfgen_chains(int64_t count) {
    return (int64_t)(UINT64_MAX >> spfgen_chain_shift(count)) + 1;
}

/* A hash of what was hashed to `hash` before and one more key: its upper bits are the best. */
static inline uint64_t spfgen_mix(uint64_t hash, int64_t key) {
    return (hash ^ (hash >> 32) ^ (uint64_t)key) * UINT64_C(0x9E3779B97F4A7C15);
}

/* idx: 0 <= idx(p) < n; checked one by one */
static int sv_unsorted_check_1(
    int64_t n,
    int64_t nnz,
    const int64_t *restrict idx,
    int threads,
    int64_t *report)
{
    threads = spfgen_threads(threads, (double)(nnz / 4));
    int broken = 0;
    /* whether it is wrong for some p */
    #pragma omp parallel for num_threads(threads) reduction(| : broken)
    for (int64_t p = 0; p < nnz; p++) {
        broken |= (idx[p] < 0) | (idx[p] >= n);
    }
    /* the first that is wrong */
    if (broken) {
        for (int64_t p = 0; p < nnz; p++) {
            if ((idx[p] < 0) | (idx[p] >= n)) {
                report[1] = p;
                report[0] = 0;
                return SPFGEN_BROKEN;
            }
        }
    }
    return SPFGEN_HOLDS;
}

/*
 * idx: injective; checked for pairs that follow one another among equal keys: proved to imply it
 * for all p, q
 */
static int sv_unsorted_check_2(
    int64_t n,
    int64_t nnz,
    const int64_t *restrict idx,
    int threads,
    int64_t *report)
{
    threads = spfgen_threads(threads, (double)nnz);
    int64_t found = INT64_MAX;
    const int64_t count = nnz;
    if (count <= 0) {
        return SPFGEN_HOLDS;
    }
    const int64_t span = n;
    if (span / 64 <= count) {
        /* the keys lie close together: a bit for each of them */
        const int64_t words = span / 64 + 1;
        uint64_t *bits = spfgen_workspace(words, 1, sizeof(uint64_t));
        if (!bits) {
            report[0] = 1;
            return SPFGEN_MEMORY;
        }
        #pragma omp parallel for num_threads(threads) schedule(static, 1)
        for (int part = 0; part < threads; part++) {
            /* the keys whose bits are in this part */
            const int64_t word_start = (words / threads) * part;
            const int64_t word_end = part + 1 == threads ? words : (words / threads) * (part + 1);
            for (int64_t q = 0; q < nnz; q++) {
                const int64_t key = idx[q];
                const int64_t word = key >= 0 && key < n ? key / 64 : -1;
                if (word >= word_start && word < word_end) {
                    const uint64_t bit = (uint64_t)1 << (key % 64);
                    if ((bits[word] & bit) != 0) {
                        #pragma omp critical
                        {
                            if (q < found) {
                                found = q;
                            }
                        }
                    }
                    bits[word] |= bit;
                }
            }
        }
        free(bits);
        if (found < INT64_MAX) {
            for (int64_t p = 0; p < found; p++) {
                if (idx[p] == idx[found]) {
                    report[1] = p;
                    report[2] = found;
                    report[0] = 1;
                    return SPFGEN_BROKEN;
                }
            }
        }
        return SPFGEN_HOLDS;
    }
    const int shift = spfgen_chain_shift(count);
    const int64_t slots = spfgen_chains(count);
    int64_t *table = spfgen_workspace(slots + count, 1, sizeof(int64_t));
    if (!table) {
        report[0] = 1;
        return SPFGEN_MEMORY;
    }
    #pragma omp parallel for num_threads(threads) schedule(static, 1)
    for (int part = 0; part < threads; part++) {
        /* the keys whose slots are in this part */
        const int64_t slot_start = (slots / threads) * part;
        const int64_t slot_end = part + 1 == threads ? slots : (slots / threads) * (part + 1);
        for (int64_t q = 0; q < nnz; q++) {
            uint64_t hash = 0;
            hash = spfgen_mix(hash, idx[q]);
            const int64_t slot = (int64_t)(hash >> shift);
            if (slot >= slot_start && slot < slot_end) {
                int64_t *link = table + slot;
                while (*link > 0 && idx[q] != idx[*link - 1]) {
                    link = table + slots + (*link - 1);
                }
                if (*link > 0) {
                    const int64_t p = *link - 1;
                    if (0 <= p && p < nnz && 0 <= q && q < nnz && idx[p] == idx[q] && p != q) {
                        #pragma omp critical
                        {
                            if (q < found) {
                                found = q;
                                report[1] = p;
                                report[2] = q;
                            }
                        }
                    }
                    table[slots + q] = table[slots + p];
                }
                *link = q + 1;
            }
        }
    }
    free(table);
    if (found < INT64_MAX) {
        report[0] = 1;
        return SPFGEN_BROKEN;
    }
    return SPFGEN_HOLDS;
}

/*
 * Whether index arrays satisfy all that layout sv_unsorted declares of them; they may hold
 * anything.
 *
 * Returns SPFGEN_HOLDS, SPFGEN_BROKEN or SPFGEN_MEMORY.
 *
 * idx      [nnz]
 * limit    give up a check that is not linear after so many instances
 * threads  threads to use; 0 or less leaves the choice to OpenMP
 * report   number of the check that failed, or -1; the values of its variables; for each check,
 *          whether it was not made
 */
int sv_unsorted_check(
    int64_t n,
    int64_t nnz,
    const int64_t *idx,
    int64_t limit,
    int threads,
    int64_t *report)
{
    (void)limit;
    report[0] = -1;
    int status = SPFGEN_HOLDS;
    /* idx: 0 <= idx(p) < n; checked one by one */
    status = sv_unsorted_check_1(n, nnz, idx, threads, report);
    if (status == SPFGEN_BROKEN || status == SPFGEN_MEMORY) {
        return status;
    }
    report[3] = status == SPFGEN_UNCHECKED;
    /*
     * idx: injective; checked for pairs that follow one another among equal keys: proved to
     * imply it for all p, q
     */
    status = sv_unsorted_check_2(n, nnz, idx, threads, report);
    if (status == SPFGEN_BROKEN || status == SPFGEN_MEMORY) {
        return status;
    }
    report[4] = status == SPFGEN_UNCHECKED;
    return SPFGEN_HOLDS;
}
