/* Whether most of `count` keys belong to long runs of one key: of 32 of them, 16 are also that of the place 8 further.
   They lie at uneven distances: runs of one length would else all be seen at the same place. */
static inline bool spfgen_long_runs_TYPE(const TYPE_t *keys, int64_t count) {
    if (count < 256) {
        return false;
    }
    const int64_t step = (count - 72) / 32;
    int same = 0;
    for (int k = 0; k < 32; k++) {
        const TYPE_t *const at = keys + k * step + k * k % 64;
        same += at[0] == at[8];
    }
    return same >= 16;
}
