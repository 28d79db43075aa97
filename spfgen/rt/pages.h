/* Ask for large pages in place of small ones: each page that is touched for the first time costs a call of the system. */
void spfgen_in_large_pages(void *memory, int64_t bytes) {
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    const uintptr_t page = 4096;
    const uintptr_t first = ((uintptr_t)memory + page - 1) / page * page;
    const uintptr_t end = ((uintptr_t)memory + (uintptr_t)bytes) / page * page;
    if (first < end) {
        (void)madvise((void *)first, end - first, MADV_HUGEPAGE);
    }
#else
    (void)memory;
    (void)bytes;
#endif
}
