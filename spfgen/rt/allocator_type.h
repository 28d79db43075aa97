#ifndef SPFGEN_ALLOCATOR
#define SPFGEN_ALLOCATOR
#include <stdlib.h>
/* Where the arrays of results come from. `allocate` returns NULL where there is no memory; `resize` gives a block of
   `old_bytes` another size, as realloc does; `context` is handed to each. A NULL in place of the struct, or of all three
   functions, means malloc, realloc and free. `max_workspace`: the bytes that may be taken besides, for entries and
   workspaces, until the results are made; 0: as many as there are. */
typedef struct spfgen_allocator {
    void *(*allocate)(void *context, size_t bytes);
    void *(*resize)(void *context, void *block, size_t old_bytes, size_t bytes);
    void (*release)(void *context, void *block);
    void *context;
    int64_t max_workspace;
} spfgen_allocator;
static inline void spfgen_allocator_release(const spfgen_allocator *memory, void *block) {
    if (block && memory && memory->release) {
        memory->release(memory->context, block);
    } else if (!memory || !memory->allocate) {
        free(block);
    }
}
#endif
