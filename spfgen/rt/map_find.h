/* The entry at these coordinates, or -1. */
static inline int64_t spfgen_map_find(const spfgen_map *map, const int64_t *at) {
    return map->slots ? map->slot[spfgen_map_slot(map, at)] - 1 : -1;
}
