#ifndef SPFGEN_ALLOCATOR
#define SPFGEN_ALLOCATOR
/* Where the arrays of a result come from, for the functions that end in `_in`: `allocate` returns memory for so many bytes,
   aligned for any type, or NULL; `release` takes it back, which happens only where the function fails. `context` is passed
   to both. At most `max_workspace` bytes are taken for entries and workspaces on the way (0: as many as there are), with
   malloc. Where the functions get NULL for all of this, arrays come from malloc, and the function of the struct that ends
   in `_free` frees them. */
typedef struct spfgen_allocator {
    void *(*allocate)(void *context, size_t bytes);
    void (*release)(void *context, void *memory);
    void *context;
    int64_t max_workspace;
} spfgen_allocator;
#endif
