/* The entries of a Matrix Market text: where the first line begins that has not the form that it should have. */
#include <stdint.h>

static const unsigned char *spfgen_blanks(const unsigned char *p, const unsigned char *end) {
    while (p < end && (*p == ' ' || *p == '\t')) {
        p++;
    }
    return p;
}

static const unsigned char *spfgen_digits(const unsigned char *p, const unsigned char *end) {
    while (p < end && *p >= '0' && *p <= '9') {
        p++;
    }
    return p;
}

/* Behind the word, whatever the case of its letters; `p` itself where it does not stand there. */
static const unsigned char *spfgen_word(const unsigned char *p, const unsigned char *end, const char *word) {
    const unsigned char *q = p;
    for (; *word; word++, q++) {
        if (q >= end || (*q | 32) != (unsigned char)*word) {
            return p;
        }
    }
    return q;
}

/* Behind a number: an index or, with `fraction`, a real number, with `sign` a signed one; NULL where there is none. */
static const unsigned char *spfgen_number(const unsigned char *p, const unsigned char *end, int sign, int fraction) {
    if (sign && p < end && (*p == '-' || *p == '+')) {
        p++;
    }
    const unsigned char *q = spfgen_digits(p, end);
    if (!fraction) {
        return q > p ? q : 0;
    }
    int64_t count = q - p;
    if (q < end && *q == '.') {
        const unsigned char *point = q + 1;
        q = spfgen_digits(point, end);
        count += q - point;
    }
    if (count) {
        if (q < end && ((*q | 32) == 'e' || (*q | 32) == 'd')) {
            const unsigned char *power = q + 1;
            if (power < end && (*power == '-' || *power == '+')) {
                power++;
            }
            const unsigned char *after = spfgen_digits(power, end);
            return after > power ? after : 0;
        }
        return q;
    }
    q = spfgen_word(p, end, "nan");
    q = q > p ? q : spfgen_word(p, end, "infinity");
    q = q > p ? q : spfgen_word(p, end, "inf");
    return q > p ? q : 0;
}

/* Each line is empty or holds so many indices, then so many numbers; returns `count` when all do. */
int64_t spfgen_mtx_lines(const unsigned char *text, int64_t start, int64_t count, int indices, int numbers, int sign,
                         int fraction) {
    const unsigned char *p = text + start, *end = text + count;
    while (p < end) {
        const unsigned char *line = p;
        p = spfgen_blanks(p, end);
        if (p < end && *p != '\n' && *p != '\r') {
            for (int k = 0; k < indices + numbers; k++) {
                const unsigned char *own = k ? spfgen_blanks(p, end) : p;
                p = k && own == p ? 0 : spfgen_number(own, end, k >= indices && sign, k >= indices && fraction);
                if (!p) {
                    return line - text;
                }
            }
            p = spfgen_blanks(p, end);
        }
        p += p < end && *p == '\r';
        if (p < end && *p != '\n') {
            return line - text;
        }
        p += p < end;
    }
    return count;
}
