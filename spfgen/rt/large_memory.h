/* Memory of which all is used: where it is much, the system is asked for large pages. New memory in small ones takes far
   longer to get than to fill. */
#if defined(__linux__) && defined(__cplusplus)
#include <sys/mman.h>
#elif defined(__linux__)
int madvise(void *start, size_t length, int advice); /* of <sys/mman.h>, which hides it from C99 */
#endif

static inline void *spfgen_large_memory(int64_t count, int64_t threads, size_t size) {
    void *memory = spfgen_memory(count, threads, size);
#ifdef __linux__
    const size_t page = (size_t)1 << 21, bytes = (size_t)(count > 0 ? count : 0) * (size_t)threads * size;
    if (memory && bytes >= 16 * page) {
        const size_t unaligned = (size_t)((uintptr_t)memory % page);
        const size_t before = unaligned ? page - unaligned : 0;
        (void)madvise((char *)memory + before, (bytes - before) / page * page, 14); /* MADV_HUGEPAGE */
    }
#endif
    return memory;
}
