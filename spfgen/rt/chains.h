/* A hash table of chains: the number of chains is a power of two, at least 2, and at least the number of keys. */

/* Which bits of a hash choose the chain: those from this number on, 1 to 63. */
static inline int spfgen_chain_shift(int64_t count) {
    int shift = 63;
    while (shift > 1 && (int64_t)(UINT64_MAX >> shift) < count - 1) {
        shift--;
    }
    return shift;
}

/* The number of chains for so many keys. */
static inline int64_t spfgen_chains(int64_t count) {
    return (int64_t)(UINT64_MAX >> spfgen_chain_shift(count)) + 1;
}

/* A hash of what was hashed to `hash` before and one more key: its upper bits are the best. */
static inline uint64_t spfgen_mix(uint64_t hash, int64_t key) {
    return (hash ^ (hash >> 32) ^ (uint64_t)key) * UINT64_C(0x9E3779B97F4A7C15);
}
