/* A hash table over the positions of a range [low, high): open addressing, at most half full. An empty slot has the
   position `high`, so that a look-up that ends there returns it. */
struct spfgen_slot {
    int64_t key;
    int64_t position;
};

/* Which bits of a hash choose the slot in a table for `count` positions: those from this number on, 3 to 63. */
static inline int spfgen_hash_shift(int64_t count) {
    int shift = 63;
    while (shift > 3 && (int64_t)(UINT64_MAX >> shift) < 2 * count - 1) {
        shift--;
    }
    return shift;
}

/* The number of slots that a table for `count` positions takes: a power of two, at least 2 * count and 2. What is
   enough for the longest range is enough for all: a table uses only the first of the slots. */
static inline int64_t spfgen_hash_slots(int64_t count) {
    return (int64_t)(UINT64_MAX >> spfgen_hash_shift(count)) + 1;
}

/* The slot that holds the key or, if there is none, the empty one where it belongs. */
static inline uint64_t spfgen_hash_slot(const struct spfgen_slot *slots, int shift, int64_t high, int64_t key) {
    const uint64_t last = UINT64_MAX >> shift;
    uint64_t slot = ((uint64_t)key * UINT64_C(0x9E3779B97F4A7C15)) >> shift;
    while (slots[slot].key != key && slots[slot].position != high) {
        slot = (slot + 1) & last;
    }
    return slot;
}

/* The first position with the key, or high; the table was built with this shift and high. */
static inline int64_t spfgen_hash_find(const struct spfgen_slot *slots, int shift, int64_t high, int64_t key) {
    return slots[spfgen_hash_slot(slots, shift, high, key)].position;
}

/* Makes all slots empty that a table with this shift uses. */
static inline void spfgen_hash_clear(struct spfgen_slot *slots, int shift, int64_t high) {
    const int64_t count = (int64_t)(UINT64_MAX >> shift) + 1;
    for (int64_t s = 0; s < count; s++) {
        slots[s].key = 0;
        slots[s].position = high;
    }
}
