/* The number of parts for that many threads and so many nanoseconds of work: one for each thread, or so many more, at most
   `each`, that one that is done early takes another, where a part does not take longer to find than to do. */
static inline int spfgen_chunks(int threads, double work, int each) {
    const double turns = work / TUNED_CHUNK_NS / threads;
    return threads <= 1 ? 1 : threads * (turns < 1.0 ? 1 : turns < each ? (int)turns : each);
}
