#ifndef SPFGEN_STATUS
#define SPFGEN_STATUS
/* What a kernel expects and returns. The caller owns all arrays: a kernel frees none of them and keeps no pointer to
   them. An array that is written must not overlap another array of the call. Null pointers and extents are checked.
   Index arrays are trusted: where one breaks what the comment of its struct says, the kernel reads or writes out of
   bounds. Check arrays that come from elsewhere first. */
enum {
    SPFGEN_OK = 0,
    SPFGEN_ERROR_NULL = 1,  /* a pointer is null: to a tensor, or to an array that has elements */
    SPFGEN_ERROR_SHAPE = 2, /* extents or sizes that must agree do not, or one is negative */
    SPFGEN_ERROR_MEMORY = 3, /* a workspace could not be allocated */
    SPFGEN_ERROR_RANGE = 4, /* a value that is used as a subscript lies outside of its tensor */
    SPFGEN_ERROR_PLACE = 5, /* something was computed that has no place in a sparse result */
    SPFGEN_ERROR_INDEX = 6  /* a number does not fit the type of an index array of a result */
};
#endif
