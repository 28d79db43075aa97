/* How many parts of a loop count for themselves: as many as threads, but the counters of all are no more than four times
   the entries. */
static inline int spfgen_lanes(int threads, double entries, int64_t groups) {
    const double most = groups > 0 ? 4.0 * entries / (double)groups : (double)threads;
    return most >= (double)threads ? threads : most > 1.0 ? (int)most : 1;
}
