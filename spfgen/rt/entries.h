/* Counts so many bytes more, or less; false where there would be too many. */
static bool spfgen_entries_count(spfgen_entries *entries, int64_t bytes) {
    spfgen_entries *const whole = entries->whole ? entries->whole : entries;
    int64_t taken;
    #pragma omp atomic capture
    taken = whole->taken += bytes;
    if (bytes > 0 && whole->most > 0 && taken > whole->most) {
        #pragma omp atomic
        whole->taken -= bytes;
        return false;
    }
    return true;
}
/* Memory for so many entries of `rank` coordinates with values of `size` bytes; false where there is not enough: then no
   more are taken. */
static bool spfgen_entries_reserve(spfgen_entries *entries, int64_t wanted, int rank, size_t size) {
    if (entries->failed || wanted <= entries->capacity) {
        return !entries->failed;
    }
    const size_t each = (size_t)rank * sizeof(int64_t) + size;
    const int64_t more = (int64_t)((uint64_t)wanted > INT64_MAX / 2 / each ? 0 : (size_t)(wanted - entries->capacity) * each);
    if (more == 0 || !spfgen_entries_count(entries, more)) {
        entries->failed = 1;
        return false;
    }
    for (int k = 0; k <= rank; k++) {
        void *const old = k < rank ? (void *)entries->at[k] : entries->values;
        void *const grown = realloc(old, (size_t)wanted * (k < rank ? sizeof(int64_t) : size));
        if (!grown) {
            entries->failed = 1;
            return false;
        }
        if (k < rank) {
            entries->at[k] = (int64_t *)grown;
        } else {
            entries->values = grown;
        }
    }
    entries->capacity = wanted;
    return true;
}
/* Whether there is memory for one more entry. */
static inline bool spfgen_entries_room(spfgen_entries *entries, int rank, size_t size) {
    if (entries->count < entries->capacity) {
        return true;
    }
    return spfgen_entries_reserve(entries, entries->capacity < 32 ? 64 : 2 * entries->capacity, rank, size);
}
/* The entries of all parts behind those that are there, in the order of the parts, which are freed. */
static void spfgen_entries_join(spfgen_entries *entries, spfgen_entries *parts, int64_t count, int rank, size_t size) {
    const int64_t each = (int64_t)((size_t)rank * sizeof(int64_t) + size);
    int64_t total = entries->count, filled = 0, last = 0;
    for (int64_t p = 0; p < count; p++) {
        total += parts[p].count;
        entries->failed |= parts[p].failed;
        filled += parts[p].count > 0;
        last = parts[p].count > 0 ? p : last;
    }
    if (!entries->failed && entries->count == 0 && filled == 1 && parts[last].count >= entries->capacity) {
        spfgen_entries_count(entries, -entries->capacity * each);
        const int64_t most = entries->most, taken = entries->taken;
        spfgen_entries *const whole = entries->whole;
        const spfgen_entries moved = parts[last];
        parts[last] = *entries;
        parts[last].capacity = 0; /* counted already */
        *entries = moved;
        entries->most = most;
        entries->taken = taken;
        entries->whole = whole;
    } else if (spfgen_entries_reserve(entries, total, rank, size)) {
        int64_t at = entries->count;
        for (int64_t p = 0; p < count; p++) {
            const size_t more = (size_t)parts[p].count;
            if (more > 0) {
                for (int k = 0; k < rank; k++) {
                    memcpy(entries->at[k] + at, parts[p].at[k], more * sizeof(int64_t));
                }
                memcpy((char *)entries->values + (size_t)at * size, parts[p].values, more * size);
            }
            at += parts[p].count;
            spfgen_entries_count(entries, -parts[p].capacity * each);
            spfgen_entries_free(&parts[p]);
        }
        entries->count = total;
    }
    for (int64_t p = 0; p < count; p++) {
        spfgen_entries_count(entries, -parts[p].capacity * each);
        spfgen_entries_free(&parts[p]);
    }
}
