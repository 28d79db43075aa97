/* A hash table of entries 0, 1, 2, ... in the order in which they came: the coordinates of each, and a value of so many
   bytes. Entries are looked for by linear probing; there are at least twice as many slots. */
typedef struct spfgen_map {
    int64_t rank, bytes, count, room, slots;
    int64_t *at, *slot;
    char *values;
} spfgen_map;

static inline spfgen_map spfgen_map_new(int64_t rank, int64_t bytes) {
    spfgen_map map = {rank, bytes, 0, 0, 0, NULL, NULL, NULL};
    return map;
}

static inline void spfgen_map_free(spfgen_map *map) {
    free(map->at);
    free(map->slot);
    free(map->values);
}

static inline uint64_t spfgen_map_hash(const spfgen_map *map, const int64_t *at) {
    uint64_t hash = 0;
    for (int64_t k = 0; k < map->rank; k++) {
        hash = (hash ^ (uint64_t)at[k]) * UINT64_C(0x9E3779B97F4A7C15);
        hash ^= hash >> 29;
    }
    return hash;
}

/* The slot of the entry at these coordinates, or the free one where it would be. */
static inline int64_t spfgen_map_slot(const spfgen_map *map, const int64_t *at) {
    int64_t s = (int64_t)(spfgen_map_hash(map, at) & (uint64_t)(map->slots - 1));
    for (;; s = (s + 1) & (map->slots - 1)) {
        const int64_t entry = map->slot[s] - 1;
        if (entry < 0) {
            return s;
        }
        int64_t k = 0;
        while (k < map->rank && map->at[entry * map->rank + k] == at[k]) {
            k++;
        }
        if (k == map->rank) {
            return s;
        }
    }
}

static inline bool spfgen_map_grow(spfgen_map *map) {
    const int64_t room = map->room ? 2 * map->room : 64;
    int64_t *at = (int64_t *)realloc(map->at, (size_t)(room * (map->rank ? map->rank : 1)) * sizeof(int64_t));
    if (at) {
        map->at = at;
    }
    char *values = (char *)realloc(map->values, (size_t)(room * map->bytes));
    if (values) {
        map->values = values;
    }
    int64_t *slot = (int64_t *)calloc((size_t)(2 * room), sizeof(int64_t));
    if (!at || !values || !slot) {
        free(slot);
        return false;
    }
    free(map->slot);
    map->slot = slot;
    map->slots = 2 * room;
    map->room = room;
    for (int64_t entry = 0; entry < map->count; entry++) {
        map->slot[spfgen_map_slot(map, map->at + entry * map->rank)] = entry + 1;
    }
    return true;
}

/* The entry at these coordinates, made with a value of zero bytes if there is none; -1 where there is no memory for it. */
static inline int64_t spfgen_map_add(spfgen_map *map, const int64_t *at) {
    if (map->count == map->room && !spfgen_map_grow(map)) {
        return -1;
    }
    const int64_t s = spfgen_map_slot(map, at);
    if (!map->slot[s]) {
        for (int64_t k = 0; k < map->rank; k++) {
            map->at[map->count * map->rank + k] = at[k];
        }
        for (int64_t k = 0; k < map->bytes; k++) {
            map->values[map->count * map->bytes + k] = 0;
        }
        map->slot[s] = ++map->count;
    }
    return map->slot[s] - 1;
}
