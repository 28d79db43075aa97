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

/* Number the marked keys upwards or, with `down`, downwards: the number of each; -1 where there is no mark. */
int64_t spfgen_numbered(int64_t range, int down, const uint8_t *restrict mark, int64_t *restrict number) {
    int64_t total = 0;
    for (int64_t k = 0; k < range; k++) {
        const int64_t at = down ? range - 1 - k : k;
        number[at] = mark[at] ? total : -1;
        total += mark[at] != 0;
    }
    return total;
}
