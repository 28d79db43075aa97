/* Running totals of the counts of some groups, given for each part: count[part][g] becomes where the part's share of
   group g begins; with `apart` each group begins at 0. Returns the total, and the largest group in `widest`. */
static int64_t spfgen_totals_TYPE(int64_t groups, int parts, int apart, TYPE_t *restrict count, int64_t *restrict widest) {
    int64_t total = 0, most = 0;
    for (int64_t block = 0; block < groups && parts == 1; block += 1024) {
        const int64_t end = groups - block < 1024 ? groups : block + 1024;
        TYPE_t highest = 0;
        for (int64_t g = block; g < end; g++) {
            highest = count[g] > highest ? count[g] : highest;
        }
        most = highest > most ? highest : most;
        for (int64_t g = block; g < end; g++) {
            const TYPE_t own = count[g];
            count[g] = (TYPE_t)total;
            total += own;
        }
        for (int64_t g = block; g < end && apart; g++) {
            count[g] = 0;
        }
    }
    for (int64_t g = 0; g < groups && parts > 1; g++) {
        const int64_t first = total;
        int64_t next = apart ? 0 : first;
        for (int part = 0; part < parts; part++) {
            const TYPE_t own = count[part * groups + g];
            count[part * groups + g] = (TYPE_t)next;
            next += own;
            total += own;
        }
        most = total - first > most ? total - first : most;
    }
    *widest = most;
    return total;
}
