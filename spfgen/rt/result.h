#if defined(__linux__) && defined(__cplusplus)
#include <sys/mman.h>
#elif defined(__linux__)
int madvise(void *start, size_t length, int advice); /* of <sys/mman.h>, which hides it from C99 */
#endif

/* New memory in small pages takes longer to get than to fill. */
static void *spfgen_in_large_pages(void *own, size_t bytes) {
    (void)bytes;
#ifdef __linux__
    const size_t page = (size_t)1 << 21;
    if (own && bytes >= TUNED_ENTRIES_LARGE_BYTES) {
        const uintptr_t first = ((uintptr_t)own + page - 1) / page * page;
        (void)madvise((char *)own + (first - (uintptr_t)own), bytes - (first - (uintptr_t)own), 14); /* MADV_HUGEPAGE */
    }
#endif
    return own;
}
/* An array of a result. */
static void *spfgen_result(const spfgen_allocator *memory, int64_t count, size_t size) {
    if (count < 0 || (uint64_t)count > INT64_MAX / size) {
        return NULL;
    }
    const size_t bytes = (size_t)(count > 0 ? count : 1) * size;
    if (memory && memory->allocate) {
        return memory->allocate(memory->context, bytes);
    }
    return spfgen_in_large_pages(malloc(bytes), bytes);
}
/* The same, all zero. */
static void *spfgen_result_zero(const spfgen_allocator *memory, int64_t count, size_t size) {
    if (count < 0 || (uint64_t)count > INT64_MAX / size) {
        return NULL;
    }
    const size_t bytes = (size_t)(count > 0 ? count : 1) * size;
    if (memory && memory->allocate) {
        void *const own = memory->allocate(memory->context, bytes);
        return own ? memset(own, 0, bytes) : NULL;
    }
    return spfgen_in_large_pages(calloc(bytes, 1), bytes);
}
