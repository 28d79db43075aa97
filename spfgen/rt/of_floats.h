/* a / b rounded down, as numpy computes it: by the remainder. */
static inline VALUE spfgen_floor_divide_TYPE(VALUE a, VALUE b) {
    if (b == 0) return a / b;
    const VALUE rest = fmod(a, b), quotient = (a - rest) / b - (rest != 0 && (b < 0) != (rest < 0));
    if (quotient == 0) return copysign(0, a / b);
    const VALUE down = floor(quotient);
    return quotient - down > (VALUE)0.5 ? down + 1 : down;
}

/* The remainder of a / b rounded down, of the sign of b. */
static inline VALUE spfgen_remainder_TYPE(VALUE a, VALUE b) {
    const VALUE rest = fmod(a, b);
    if (b == 0) return rest;
    if (rest == 0) return copysign(0, b);
    return (b < 0) != (rest < 0) ? rest + b : rest;
}

/* -1, 0 or 1, or nan. */
static inline VALUE spfgen_sign_TYPE(VALUE a) {
    return a > 0 ? 1 : a < 0 ? -1 : a == 0 ? 0 : a;
}

static inline VALUE spfgen_reciprocal_TYPE(VALUE a) {
    return 1 / a;
}

static inline VALUE spfgen_square_TYPE(VALUE a) {
    return a * a;
}

static inline VALUE spfgen_degrees_TYPE(VALUE a) {
    return a * (VALUE)57.29577951308232;
}

static inline VALUE spfgen_radians_TYPE(VALUE a) {
    return a * (VALUE)0.017453292519943295;
}

/* a * 2**n for any n. */
static inline VALUE spfgen_ldexp_TYPE(VALUE a, int64_t n) {
    return ldexp(a, (int)(n > INT32_MAX ? INT32_MAX : n < INT32_MIN ? INT32_MIN : n));
}

/* The distance to the next number away from 0. */
static inline VALUE spfgen_spacing_TYPE(VALUE a) {
    return isinf(a) ? (VALUE)NAN : nextafter(a, a < 0 ? -(VALUE)INFINITY : (VALUE)INFINITY) - a;
}

/* 0 for a < 0, 1 for a > 0, b for 0. */
static inline VALUE spfgen_heaviside_TYPE(VALUE a, VALUE b) {
    return a > 0 ? 1 : a < 0 ? 0 : a == 0 ? b : a;
}

/* log(exp(a) + exp(b)). */
static inline VALUE spfgen_logaddexp_TYPE(VALUE a, VALUE b) {
    const VALUE less = a - b;
    if (a == b) return a + (VALUE)0.6931471805599453;
    return less > 0 ? a + log1p(exp(-less)) : less <= 0 ? b + log1p(exp(less)) : less;
}

/* log2(2**a + 2**b). */
static inline VALUE spfgen_logaddexp2_TYPE(VALUE a, VALUE b) {
    const VALUE less = a - b, base = (VALUE)1.4426950408889634;
    if (a == b) return a + 1;
    return less > 0 ? a + base * log1p(exp2(-less)) : less <= 0 ? b + base * log1p(exp2(less)) : less;
}

/* The larger number; nan where one is. */
static inline VALUE spfgen_maximum_TYPE(VALUE a, VALUE b) {
    const VALUE most = b > a ? b : a;
    return b != b ? b : most;
}

/* The smaller number; nan where one is. */
static inline VALUE spfgen_minimum_TYPE(VALUE a, VALUE b) {
    const VALUE least = b < a ? b : a;
    return b != b ? b : least;
}

/* The larger number; the other one where one is nan. */
static inline VALUE spfgen_fmax_TYPE(VALUE a, VALUE b) {
    return a >= b || b != b ? a : b;
}

/* The smaller number; the other one where one is nan. */
static inline VALUE spfgen_fmin_TYPE(VALUE a, VALUE b) {
    return a <= b || b != b ? a : b;
}

/* a, but at least `low`, and then at most `high`; nan where one is. */
static inline VALUE spfgen_clip_TYPE(VALUE a, VALUE low, VALUE high) {
    const VALUE raised = a > low || a != a ? a : low;
    return raised < high || raised != raised ? raised : high;
}

/* 0 or pi. */
static inline VALUE spfgen_angle_TYPE(VALUE a) {
    return atan2(0, a);
}
