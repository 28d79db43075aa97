/* The product of two numbers of elements; the largest there is, of which there is never memory, where it is beyond. */
static inline int64_t spfgen_times(int64_t a, int64_t b) {
    return a > 0 && b > INT64_MAX / a ? INT64_MAX : a * b;
}
