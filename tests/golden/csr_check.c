/* csr_check, made by spfgen 0.1.0. Compile with -std=c99 -O3 -fopenmp. */

#include <stdint.h>

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

static inline int64_t spfgen_min(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static inline int64_t spfgen_max(int64_t a, int64_t b) {
    return a > b ? a : b;
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

/* The part after one that the calling thread is done with: the first that no thread of the team has taken, when each has
   begun with that of its own number. It is a later one in any case. */
static inline int spfgen_next_part(int *taken, int parts) {
#ifdef _OPENMP
    const int team = omp_get_num_threads();
    int next = parts;
    if (parts > team) {
#pragma omp atomic capture
        next = (*taken)++;
        next += team;
    }
    return next;
#else
    (void)parts;
    return ++*taken;
#endif
}

/* Keeps the conditions in a loop as branches. gcc (seen with 11 and 12, from AVX2 on) takes neighbouring elements that
   are loaded under conditions of their own for a vector, and loads all of it under the conditions of its first part. */
static inline void spfgen_branch(void) {
#if defined(__GNUC__) && !defined(__clang__)
    __asm__ volatile("");
#endif
}

/* rowptr: rowptr(0) = 0; checked one by one */
static int csr_check_1(int64_t nrow, const int32_t *restrict rowptr, int64_t *report)
{
    if (0 < nrow + 1) {
        if (rowptr[0] != 0) {
            report[0] = 0;
            return SPFGEN_BROKEN;
        }
    }
    return SPFGEN_HOLDS;
}

/* rowptr: rowptr(nrow) = nnz; checked one by one */
static int csr_check_2(int64_t nrow, int64_t nnz, const int32_t *restrict rowptr, int64_t *report)
{
    if (0 <= nrow) {
        if (rowptr[nrow] != nnz) {
            report[0] = 1;
            return SPFGEN_BROKEN;
        }
    }
    return SPFGEN_HOLDS;
}

/*
 * rowptr: 0 <= rowptr(p) <= nnz; checked one by one
 * rowptr: increasing; checked for neighbours: proved to imply it for all p, q
 * colidx: 0 <= colidx(p) < ncol; checked one by one
 * colidx: strictly increasing within rowptr; checked for neighbours: proved to imply it for all
 * p, q
 */
static int csr_check_6(
    int64_t nrow,
    int64_t ncol,
    int64_t nnz,
    const int32_t *restrict rowptr,
    const int32_t *restrict colidx,
    int threads,
    int64_t *report)
{
    threads = spfgen_threads(threads, (double)((nrow + 1 + nnz) / 4));
    const uint32_t rowptr_count = (uint32_t)(spfgen_min(nnz, INT32_MAX) + 1);
    const uint32_t colidx_count = (uint32_t)(spfgen_min(ncol - 1, INT32_MAX) + 1);
    int64_t first = INT64_MAX;
    int64_t least = INT64_MAX;
    if (0 >= nrow) {
        for (int64_t p = 0; p < nnz; p++) {
            if (p < least && (uint32_t)colidx[p] >= colidx_count) {
                least = p;
            }
        }
    }
    int broken = 0;
    for (int64_t s = spfgen_max(0, nrow); s < nrow + 1; s++) {
        broken |= (uint32_t)rowptr[s] >= rowptr_count;
    }
    /* blocks of values of s: strictly increasing within rowptr */
    const int64_t count = spfgen_max(nrow, 0);
    const int64_t block_size = count / (((count / 2048) / threads + 1) * threads) + 1;
    const int blocks = (int)((count + (block_size - 1)) / block_size);
    int parts_taken = 0;
    #pragma omp parallel num_threads(threads)
    for (int part = spfgen_thread(); part < blocks; part = spfgen_next_part(&parts_taken, blocks)) {
        const int64_t block = part * block_size;
        const int64_t stop = spfgen_min(nrow, block + block_size);
        /* rowptr: 0 <= rowptr(p) <= nnz; rowptr: increasing */
        int unfit = 0;
        for (int64_t s = block; s < stop; s++) {
            unfit |= (uint32_t)rowptr[s] >= rowptr_count;
            unfit |= rowptr[s] > rowptr[s + 1];
        }
        if (unfit) {
            #pragma omp atomic write
            broken = 1;
        } else {
            /* colidx: 0 <= colidx(p) < ncol */
            const int64_t part_start = block == 0 ? 0 : spfgen_max(0, (int64_t)rowptr[block]);
            const int64_t part_end = stop == nrow ? nnz : spfgen_min(nnz, (int64_t)rowptr[stop]);
            int outside = 0;
            const int64_t p_first = spfgen_max(0, (int64_t)rowptr[block]);
            const int64_t p_stop =
                    spfgen_min(nnz - 1,
                    spfgen_max((int64_t)rowptr[stop - 1], (int64_t)rowptr[stop] - 1));
            /* how many are wrong in the block, wherever its values of s begin and end */
            int wrong = 0;
            for (int64_t p = p_first; p < p_stop; p++) {
                wrong += colidx[p] >= colidx[p + 1];
                outside |= (uint32_t)colidx[p] >= colidx_count;
            }
            for (int64_t p = part_start; p < spfgen_min(part_end, p_first); p++) {
                outside |= (uint32_t)colidx[p] >= colidx_count;
            }
            for (int64_t p = spfgen_max(part_start, p_stop); p < part_end; p++) {
                outside |= (uint32_t)colidx[p] >= colidx_count;
            }
            if (outside) {
                #pragma omp critical
                {
                    for (int64_t p = part_start; p < part_end; p++) {
                        if (p < least && (uint32_t)colidx[p] >= colidx_count) {
                            least = p;
                        }
                    }
                }
            }
            /* how many of them are between one value of s and the next */
            int between = 0;
            if (0 < nnz - 1) {
                int64_t p_begun = spfgen_max(0, (int64_t)rowptr[block]);
                for (int64_t s = block; s < stop - 1; s++) {
                    const int64_t p_next = (int64_t)rowptr[s + 1];
                    const int is_gap = (p_begun < p_next) & (p_next <= nnz - 1);
                    const int64_t p_near = is_gap ? p_next - 1 : 0;
                    between += is_gap & (colidx[p_near] >= colidx[p_near + 1]);
                    p_begun = spfgen_max(0, p_next);
                }
            }
            if (wrong != between || p_stop - p_first > INT32_MAX) {
                #pragma omp critical
                {
                    for (int64_t s = block; s < stop; s++) {
                        const int64_t p_start = spfgen_max(0, rowptr[s]);
                        const int64_t p_end = spfgen_min(nnz - 1, (int64_t)rowptr[s + 1] - 1);
                        for (int64_t p = p_start; p < p_end; p++) {
                            spfgen_branch();
                            if (s < first && colidx[p] >= colidx[p + 1]) {
                                first = s;
                                report[1] = s;
                                report[2] = p;
                                report[3] = p + 1;
                            }
                        }
                    }
                }
            }
        }
    }
    if (broken) {
        for (int64_t s = 0; s < nrow + 1; s++) {
            if ((uint32_t)rowptr[s] >= rowptr_count) {
                report[1] = s;
                report[0] = 2;
                return SPFGEN_BROKEN;
            }
        }
        for (int64_t s = 0; s < nrow; s++) {
            if (rowptr[s] > rowptr[s + 1]) {
                report[1] = s;
                report[2] = s + 1;
                report[0] = 3;
                return SPFGEN_BROKEN;
            }
        }
    }
    if (least < INT64_MAX) {
        report[1] = least;
        report[0] = 4;
        return SPFGEN_BROKEN;
    }
    if (first < INT64_MAX) {
        report[0] = 5;
        return SPFGEN_BROKEN;
    }
    return SPFGEN_HOLDS;
}

/*
 * Whether index arrays satisfy all that layout csr declares of them; they may hold anything.
 *
 * Returns SPFGEN_HOLDS, SPFGEN_BROKEN or SPFGEN_MEMORY.
 *
 * rowptr   [nrow + 1]
 * colidx   [nnz]
 * limit    give up a check that is not linear after so many instances
 * threads  threads to use; 0 or less leaves the choice to OpenMP
 * report   number of the check that failed, or -1; the values of its variables; for each check,
 *          whether it was not made
 */
int csr_check(
    int64_t nrow,
    int64_t ncol,
    int64_t nnz,
    const int32_t *rowptr,
    const int32_t *colidx,
    int64_t limit,
    int threads,
    int64_t *report)
{
    (void)limit;
    report[0] = -1;
    int status = SPFGEN_HOLDS;
    /* rowptr: rowptr(0) = 0; checked one by one */
    status = csr_check_1(nrow, rowptr, report);
    if (status == SPFGEN_BROKEN || status == SPFGEN_MEMORY) {
        return status;
    }
    report[4] = status == SPFGEN_UNCHECKED;
    /* rowptr: rowptr(nrow) = nnz; checked one by one */
    status = csr_check_2(nrow, nnz, rowptr, report);
    if (status == SPFGEN_BROKEN || status == SPFGEN_MEMORY) {
        return status;
    }
    report[5] = status == SPFGEN_UNCHECKED;
    /* rowptr: 0 <= rowptr(p) <= nnz; checked one by one */
    /* rowptr: increasing; checked for neighbours: proved to imply it for all p, q */
    /* colidx: 0 <= colidx(p) < ncol; checked one by one */
    /*
     * colidx: strictly increasing within rowptr; checked for neighbours: proved to imply it for
     * all p, q
     */
    status = csr_check_6(nrow, ncol, nnz, rowptr, colidx, threads, report);
    if (status == SPFGEN_BROKEN || status == SPFGEN_MEMORY) {
        return status;
    }
    report[9] = status == SPFGEN_UNCHECKED;
    return SPFGEN_HOLDS;
}
