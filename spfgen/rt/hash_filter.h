/* A filter before a hash table: eight bits for each slot, so that most keys that are not there are known by one bit. */

/* The number of words of the filter of a table for `count` positions. */
static inline int64_t spfgen_hash_filter_words(int64_t count) {
    return spfgen_hash_slots(count) / 8 + 1;
}

/* The bit of the key. */
static inline uint64_t spfgen_hash_bit(int shift, int64_t key) {
    return ((uint64_t)key * UINT64_C(0x9E3779B97F4A7C15)) >> (shift - 3);
}

/* Whether the key may be in the table: never false for one that is. */
static inline int spfgen_hash_may(const uint64_t *filter, int shift, int64_t key) {
    const uint64_t bit = spfgen_hash_bit(shift, key);
    return (int)(filter[bit >> 6] >> (bit & 63) & 1);
}

/* The first position with the key, or high; the table and its filter were built with this shift and range. */
static inline int64_t spfgen_hash_find_filtered(const struct spfgen_slot *slots, const uint64_t *filter, int shift,
                                                int64_t high, int64_t key) {
    return spfgen_hash_may(filter, shift, key) ? spfgen_hash_find(slots, shift, high, key) : high;
}
