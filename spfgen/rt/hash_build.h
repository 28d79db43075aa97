/* Builds the table of [low, high) in `slots`, whatever they hold: for each key the first position p with
   array[base + p] == key. The shift is spfgen_hash_shift(high - low), and there are spfgen_hash_slots(high - low)
   slots or more. Where equal keys stand side by side, the others follow. */
static inline void spfgen_hash_build_TYPE(struct spfgen_slot *slots, int shift, const TYPE_t *array, int64_t base,
                                          int64_t low, int64_t high) {
    spfgen_hash_clear(slots, shift, high);
    for (int64_t p = low; p < high; p++) {
        const int64_t key = array[base + p];
        const uint64_t slot = spfgen_hash_slot(slots, shift, high, key);
        if (slots[slot].position == high) {
            slots[slot].key = key;
            slots[slot].position = p;
        }
    }
}
