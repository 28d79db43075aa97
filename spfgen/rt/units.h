/* Of how many units the parts are, when the first one of each thread is of six and its others are of one: those are for
   threads that are done early. */
static inline int spfgen_units(int parts, int threads) {
    return parts > threads ? parts + 5 * threads : parts;
}

/* At which of these units a part begins. */
static inline int spfgen_unit(int part, int parts, int threads) {
    const int each = parts / threads;
    const int later = part % each > 0 ? 5 : 0;
    return parts > threads ? part + 5 * (part / each) + later : part;
}
