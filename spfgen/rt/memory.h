/* Memory for count elements of a size for each of some threads; NULL when there is not enough. What uses it clears it. */
static inline void *spfgen_memory(int64_t count, int64_t threads, size_t size) {
    const size_t most = SIZE_MAX / size / (size_t)threads;
    if (count > 0 && (uint64_t)count > most) {
        return NULL;
    }
    return malloc((size_t)(count > 0 ? count : 1) * (size_t)threads * size);
}
