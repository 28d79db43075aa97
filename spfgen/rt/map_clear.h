static inline void spfgen_map_clear(spfgen_map *map) {
    for (int64_t s = 0; s < map->slots; s++) {
        map->slot[s] = 0;
    }
    map->count = 0;
}
