/* `term` where the place of a workspace holds a value, else zero, without a branch: empty places hold a negative zero,
   which no stored value is. */
static inline TYPE_t spfgen_stored_TYPE(TYPE_t place, TYPE_t term) {
    intBITS_t bits, value;
    memcpy(&bits, &place, sizeof bits);
    memcpy(&value, &term, sizeof value);
    value &= -(intBITS_t)(bits != INTBITS_MIN);
    memcpy(&term, &value, sizeof term);
    return term;
}
