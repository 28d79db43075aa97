/* The number of parts for that many threads and so many nanoseconds of work: one for each thread, and so many more that
   one that is done early takes another, at most `each` for one thread, where a part does not take longer to find than to
   do. */
static inline int spfgen_turns(int threads, double work, int each) {
    const double turns = work / 65536.0 / threads;
    if (threads <= 1 || work < 16384.0 * threads) {
        return threads;
    }
    return threads * (turns < 3.0 ? 3 : turns < each ? (int)turns : each);
}
