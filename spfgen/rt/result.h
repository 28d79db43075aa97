/* An array of a result. */
static void *spfgen_result(const spfgen_allocator *memory, int64_t count, size_t size) {
    if (count < 0 || (uint64_t)count > INT64_MAX / size) {
        return NULL;
    }
    const size_t bytes = (size_t)(count > 0 ? count : 1) * size;
    return memory && memory->allocate ? memory->allocate(memory->context, bytes) : malloc(bytes);
}
