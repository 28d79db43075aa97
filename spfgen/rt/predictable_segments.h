/* Whether a processor foresees where runs of one key end, among `count` keys: of 32 keys 16 belong to long runs, as the
   key 8 further is the same, or 24 to such ones or to runs of some keys after which two of one length come. They lie at
   uneven distances: runs of one length would else all be seen at the same place. */
static inline bool spfgen_predictable_segments_TYPE(const TYPE_t *keys, int64_t count) {
    if (count < 1024) {
        return false;
    }
    const int64_t step = (count - 96) / 32;
    int most = 0, alike = 0;
    for (int k = 0; k < 32; k++) {
        const TYPE_t *at = keys + k * step + k * k % 64;
        const bool same = at[0] == at[8];
        int length[3] = {1, 1, 1};
        for (int run = 0; run < 3; run++) {
            for (int next = 1; next <= 8; next++) {
                length[run] += at[next] == at[0];
            }
            at += length[run];
        }
        most += same;
        alike += same || (length[1] > 1 && length[1] == length[2]);
    }
    return most >= 16 || alike >= 24;
}
