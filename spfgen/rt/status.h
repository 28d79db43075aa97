#ifndef SPFGEN_STATUS
#define SPFGEN_STATUS
/* What a kernel asks and returns. All arrays are the caller's, before the call and after it: a kernel frees none of them
   and keeps no pointer to them. An array that it writes must not overlap another one of the call. Extents and null
   pointers are checked; index arrays are trusted: where one breaks what its struct says of it, the kernel reads or writes
   outside of arrays. Whoever has such arrays from elsewhere validates them before. */
enum {
    SPFGEN_OK = 0,
    SPFGEN_ERROR_NULL = 1,  /* a pointer is null: to a tensor, or to an array that has elements */
    SPFGEN_ERROR_SHAPE = 2, /* extents or sizes that must agree do not, or one is negative */
    SPFGEN_ERROR_MEMORY = 3, /* a workspace could not be allocated */
    SPFGEN_ERROR_RANGE = 4  /* a value that is used as a subscript lies outside of its tensor */
};
#endif
