/* What a check of arrays returns. */
enum {
    SPFGEN_HOLDS = 0,
    SPFGEN_BROKEN = 1,    /* an instance does not hold */
    SPFGEN_UNCHECKED = 2, /* it was not checked, or not in full: there are too many instances */
    SPFGEN_MEMORY = 3     /* there is no memory for a table */
};
