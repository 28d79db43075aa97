/* a / b, where b counts as at least 1. */
static inline double spfgen_over(double a, double b) {
    return a / (b > 1.0 ? b : 1.0);
}
