/* Memory for count elements of a size for each of some threads, all bytes zero; NULL when there is not enough. */
static inline void *spfgen_workspace(int64_t count, int64_t threads, size_t size) {
    const size_t most = SIZE_MAX / size / (size_t)threads;
    if (count > 0 && (uint64_t)count > most) {
        return NULL;
    }
    return calloc((size_t)(count > 0 ? count : 1) * (size_t)threads, size);
}
