/* `term` where the place of a workspace holds a value, else zero, without a branch: empty places hold a negative zero,
   which no stored value is. */
static inline float spfgen_stored_float32(float place, float term) {
    int32_t bits, value;
    memcpy(&bits, &place, sizeof bits);
    memcpy(&value, &term, sizeof value);
    value &= -(int32_t)(bits != INT32_MIN);
    memcpy(&term, &value, sizeof term);
    return term;
}
