/* Whether most of `count` keys belong to long runs of one key: of 32 of them, 16 are also that of the place 8 further. */
static inline bool spfgen_long_runs_TYPE(const TYPE_t *keys, int64_t count) {
    if (count < 256) {
        return false;
    }
    const int64_t step = (count - 8) / 32;
    int same = 0;
    for (int k = 0; k < 32; k++) {
        same += keys[k * step] == keys[k * step + 8];
    }
    return same >= 16;
}
