/* `term` where the place of a workspace holds a value, else zero, without a branch: empty places hold a negative zero,
   which no stored value is. */
static inline double spfgen_stored_float64(double place, double term) {
    int64_t bits, value;
    memcpy(&bits, &place, sizeof bits);
    memcpy(&value, &term, sizeof value);
    value &= -(int64_t)(bits != INT64_MIN);
    memcpy(&term, &value, sizeof term);
    return term;
}
