/* The larger of two numbers of nanoseconds or iterations. */
static inline double spfgen_most(double a, double b) {
    return a > b ? a : b;
}
