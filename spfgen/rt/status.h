#ifndef SPFGEN_STATUS
#define SPFGEN_STATUS
/* What a kernel returns. */
enum {
    SPFGEN_OK = 0,
    SPFGEN_ERROR_NULL = 1,  /* a pointer to a tensor is null */
    SPFGEN_ERROR_SHAPE = 2, /* extents or sizes that must agree do not, or one is negative */
    SPFGEN_ERROR_MEMORY = 3 /* a workspace could not be allocated */
};
#endif
