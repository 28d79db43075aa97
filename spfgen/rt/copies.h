/* How many of the threads add at once, each to a copy of `places` values of its own: one where clearing the copies, fetching
   them from the caches of others and adding them up would take longer than what is saved of `work` nanoseconds. */
static inline int spfgen_copies(int threads, double work, int64_t places) {
    return work < TUNED_COPY_NS * (double)places + TUNED_COPIES_NS ? 1 : threads;
}
