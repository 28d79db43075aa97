/* Builds the table of [low, high) in `slots`, whatever they hold: for each key the first position p with
   array[base + p] == key, and in next[p - low] the next position with the key of p, or high. The shift is
   spfgen_hash_shift(high - low), there are spfgen_hash_slots(high - low) slots or more, and high - low places in next. */
static inline void spfgen_hash_chain_TYPE(struct spfgen_slot *slots, int64_t *next, int shift, const TYPE_t *array,
                                          int64_t base, int64_t low, int64_t high) {
    spfgen_hash_clear(slots, shift, high);
    for (int64_t p = high - 1; p >= low; p--) {
        const int64_t key = array[base + p];
        const uint64_t slot = spfgen_hash_slot(slots, shift, high, key);
        next[p - low] = slots[slot].position;
        slots[slot].key = key;
        slots[slot].position = p;
    }
}
