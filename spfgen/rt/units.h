/* Of how many units `parts` parts are: the first part of each thread is of four, so that most of what it does stays in
   its cache from call to call; those that it takes when it is done early are of one. */
static inline int spfgen_units(int parts, int threads) {
    return parts > threads ? parts + 3 * threads : parts;
}

/* At which of these units a part begins. */
static inline int spfgen_unit(int part, int parts, int threads) {
    return parts <= threads ? part : part < threads ? 4 * part : part + 3 * threads;
}
