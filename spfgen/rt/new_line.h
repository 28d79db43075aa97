/* 1 where a line of memory is none of those held in 4096 places, one for each remainder; then it takes that place. */
static inline int spfgen_new_line(int64_t *held, int64_t line) {
    int64_t *place = &held[line % 4096];
    const int new_line = *place != line;
    *place = line;
    return new_line;
}
