/* The logarithm to base 2, at least 0, exact for powers of two and linear between them. */
static inline double spfgen_log2(double x) {
    double whole = 0.0;
    while (x >= 2.0) {
        x /= 2.0;
        whole += 1.0;
    }
    return x > 1.0 ? whole + (x - 1.0) : whole;
}
