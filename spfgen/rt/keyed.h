/* Memory for the keys and the values of as many entries as lanes have counted; a count becomes where its lane begins. */
static int spfgen_keyed_room(spfgen_appended *entries, int64_t *counts, int lanes, int64_t stride, size_t size) {
    const int64_t each = (int64_t)(sizeof(uint64_t) + size);
    int64_t total = 0;
    for (int lane = 0; lane < lanes; lane++) {
        const int64_t own = counts[lane * stride];
        counts[lane * stride] = total;
        total += own;
    }
    if (entries->misplaced) {
        return SPFGEN_ERROR_PLACE;
    }
    const int64_t room = total > 0 ? total : 1;
    if (room > INT64_MAX / each || spfgen_appended_count(entries, room * each) < 0) {
        return SPFGEN_ERROR_MEMORY;
    }
    entries->keys = (uint64_t *)spfgen_appended_memory(NULL, 0, (size_t)room * sizeof(uint64_t), false);
    entries->values = spfgen_appended_memory(NULL, 0, (size_t)room * size, false);
    entries->count = total;
    return entries->keys && entries->values ? SPFGEN_OK : SPFGEN_ERROR_MEMORY;
}
