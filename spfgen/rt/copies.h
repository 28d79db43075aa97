/* How many of the threads add at once, each to a copy of `places` values of its own: one where copying them would take
   longer than the additions. */
static inline int spfgen_copies(int threads, double additions, int64_t places) {
    return additions < 4.0 * (double)places ? 1 : threads;
}
