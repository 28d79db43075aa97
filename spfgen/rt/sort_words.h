/* Sort at most 32 words: the place of each is the number of smaller ones, or the next one that is free. The inner loop
   has a fixed length, so that several words are compared at once. */
static void spfgen_sort_few_words(uint64_t *restrict word, int count) {
    uint64_t own[32] = {0}, place[32] = {0};
    memcpy(own, word, (size_t)count * sizeof *word);
    for (int r = 0; r < count; r++) {
        const uint64_t other = word[r];
        for (int p = 0; p < 32; p++) {
            place[p] += other < own[p];
        }
    }
    uint64_t taken = 0;
    for (int p = 0; p < count; p++) {
        while (taken >> place[p] & 1) {
            place[p]++;
        }
        taken |= UINT64_C(1) << place[p];
        word[place[p]] = own[p];
    }
}

/* Sort words, which differ below the bit `top` only. */
static void spfgen_sort_words(uint64_t *restrict word, int64_t count, int top) {
    while (count > 48 && top > 0) {
        const int shift = top > 8 ? top - 8 : 0;
        int64_t start[257], next[256];
        memset(start, 0, sizeof start);
        for (int64_t q = 0; q < count; q++) {
            start[(word[q] >> shift & 255) + 1]++;
        }
        int alone = 0;
        for (int d = 0; d < 256; d++) {
            alone |= start[d + 1] == count;
            start[d + 1] += start[d];
            next[d] = start[d];
        }
        top = shift;
        if (alone) {
            continue;
        }
        for (int d = 0; d < 256; d++) {
            while (next[d] < start[d + 1]) {
                uint64_t moved = word[next[d]];
                int own = (int)(moved >> shift & 255);
                while (own != d) {
                    const uint64_t other = word[next[own]];
                    word[next[own]++] = moved;
                    moved = other;
                    own = (int)(moved >> shift & 255);
                }
                word[next[d]++] = moved;
            }
        }
        for (int d = 0; d < 256; d++) {
            if (start[d + 1] - start[d] > 1) {
                spfgen_sort_words(word + start[d], start[d + 1] - start[d], shift);
            }
        }
        return;
    }
    int64_t sorted = 1;
    while (sorted < count && word[sorted - 1] < word[sorted]) {
        sorted++;
    }
    if (count > 8 && count <= 32 && sorted < count) {
        spfgen_sort_few_words(word, (int)count);
        return;
    }
    for (int64_t q = sorted; q < count; q++) {
        const uint64_t moved = word[q];
        int64_t hole = q;
        while (hole > 0 && word[hole - 1] > moved) {
            word[hole] = word[hole - 1];
            hole--;
        }
        word[hole] = moved;
    }
}
