/* Whether the threads add atomically, where they have no copies: such an addition takes about sixteen times as long as a
   plain one, unless that waits for memory, too. Else one of them does all. */
static inline bool spfgen_atomically(int copies, int threads, int64_t places) {
    return copies == 1 && threads > 1 && (places >= TUNED_ATOMIC_PLACES || threads > TUNED_ATOMIC_THREADS);
}
