/* What the entries of a result are while they become its arrays: their keys in order, where each was before (NULL: they
   came in order), and how far each rank is where a part begins. See rt/keys.h. */
typedef struct spfgen_assembly {
    int64_t count;
    int parts;
    uint64_t *key;
    uint32_t *from;
    int64_t *start, *done;
} spfgen_assembly;

static void spfgen_assembly_close(const spfgen_assembly *own) {
    free(own->key);
    free(own->from);
    free(own->start);
    free(own->done);
}
/* For so many entries, with these keys, or with memory for them (NULL); false where there is not enough. */
static bool spfgen_assembly_open(spfgen_assembly *own, int64_t count, int parts, int64_t levels, uint64_t *key) {
    const size_t of_parts = (size_t)parts + 1;
    own->count = count;
    own->parts = parts;
    own->from = NULL;
    own->key = key;
    if (!key && (uint64_t)count < SIZE_MAX / 8) {
        own->key = (uint64_t *)malloc(((size_t)count + 1) * sizeof(uint64_t));
    }
    own->start = (int64_t *)malloc(of_parts * sizeof(int64_t));
    own->done = (int64_t *)malloc(of_parts * (size_t)(levels + 1) * sizeof(int64_t)); /* and a number for each part */
    if (own->key && own->start && own->done) {
        return true;
    }
    own->key = own->key == key ? NULL : own->key;
    spfgen_assembly_close(own);
    return false;
}
/* Sort the keys, of so many bits, unless they are in order; then cut them into parts, so that keys with equal bits from
   `align` up are in one. 1 where there is no memory, 2 where there are too many. */
static int spfgen_assembly_order(spfgen_assembly *own, int bits, int align) {
    if (spfgen_keys_order(own->count, own->key, own->parts) == 0) {
        int places = 1;
        while ((own->count - 1) >> places) {
            places++;
        }
        if (places > 32) {
            return 2;
        }
        int lead = places > 16 ? 11 : places > 5 ? places - 5 : 0;
        lead = lead > bits + places - 64 ? lead : bits + places - 64;
        lead = lead > bits ? bits : lead;
        own->from = (uint32_t *)malloc((size_t)own->count * sizeof(uint32_t));
        uint64_t *const word = (uint64_t *)malloc((size_t)own->count * sizeof(uint64_t));
        int64_t *const start = (int64_t *)malloc((((size_t)own->parts << lead) + 1) * sizeof(int64_t));
        if (own->from && word && start) {
            spfgen_keys_sort(own->count, bits, lead, own->key, own->from, word, start, own->parts);
        }
        const bool failed = !own->from || !word || !start;
        free(word);
        free(start);
        if (failed) {
            return 1;
        }
    }
    spfgen_keys_parts(own->count, own->key, align, own->parts, own->start);
    return 0;
}
/* How many different values the bits from `cut` up have: the positions of a rank, the one with that number of so many. */
static int64_t spfgen_assembly_rank(spfgen_assembly *own, int cut, int64_t number, int64_t levels) {
    int64_t *const found = own->done + own->parts * levels;
    int64_t total = 0;
    spfgen_keys_count(own->key, cut, own->parts, own->start, found);
    for (int part = 0; part < own->parts; part++) {
        own->done[part * levels + number] = total;
        total += found[part];
    }
    return total;
}
/* The bits that numbers up to `most` need, at least one. */
static inline int spfgen_bits_of(int64_t most) {
    int bits = 1;
    while (bits < 63 && most >> bits > 0) {
        bits++;
    }
    return bits;
}
/* How many elements an array with these extents has; INT64_MAX where they are too many to be counted. */
static inline int64_t spfgen_elements(int64_t a, int64_t b) {
    return a <= 0 || b <= 0 ? 0 : a > INT64_MAX / b ? INT64_MAX : a * b;
}
