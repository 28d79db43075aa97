static inline VALUE spfgen_square_TYPE(VALUE a) {
    return (VALUE)(a * a);
}

static inline VALUE spfgen_maximum_TYPE(VALUE a, VALUE b) {
    return a > b ? a : b;
}

static inline VALUE spfgen_minimum_TYPE(VALUE a, VALUE b) {
    return a < b ? a : b;
}

/* a, but at least `low`, and then at most `high`. */
static inline VALUE spfgen_clip_TYPE(VALUE a, VALUE low, VALUE high) {
    const VALUE raised = a > low ? a : low;
    return raised < high ? raised : high;
}
