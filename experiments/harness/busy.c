/* Stands between a kernel and gcc's OpenMP runtime (linked with -Wl,--wrap=GOMP_parallel): how long each thread works
   in a parallel region before it waits for the others. */

#include <omp.h>
#include <stdint.h>
#include <time.h>

enum { BUSY_THREADS = 256 };

/* Nanoseconds of each thread in the last region. */
double busy_nanoseconds[BUSY_THREADS];

typedef struct {
    void (*region)(void *);
    void *data;
} busy_work;

static double busy_clock(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static void busy_timed(void *given) {
    const busy_work *work = given;
    const double start = busy_clock();
    work->region(work->data);
    const int thread = omp_get_thread_num();
    if (thread < BUSY_THREADS) {
        busy_nanoseconds[thread] = busy_clock() - start;
    }
}

void __real_GOMP_parallel(void (*region)(void *), void *data, unsigned threads, unsigned flags);

void __wrap_GOMP_parallel(void (*region)(void *), void *data, unsigned threads, unsigned flags) {
    busy_work work = {region, data};
    __real_GOMP_parallel(busy_timed, &work, threads, flags);
}
