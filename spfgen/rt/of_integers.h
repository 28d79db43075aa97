/* a / b rounded down; 0 for b = 0, and the least number / -1 is itself. */
static inline VALUE spfgen_floor_divide_TYPE(VALUE a, VALUE b) {
    if (b == 0) return 0;
    if (b == -1) return (VALUE)-a;
    return (VALUE)(a / b - (a % b != 0 && (a < 0) != (b < 0)));
}

/* The remainder of a / b rounded down, of the sign of b; 0 for b = 0. */
static inline VALUE spfgen_remainder_TYPE(VALUE a, VALUE b) {
    if (b == 0 || b == -1) return 0;
    const VALUE r = (VALUE)(a % b);
    return r != 0 && (r < 0) != (b < 0) ? (VALUE)(r + b) : r;
}

/* The remainder of a / b rounded to 0, of the sign of a; 0 for b = 0. */
static inline VALUE spfgen_fmod_TYPE(VALUE a, VALUE b) {
    return b == 0 || b == -1 ? 0 : (VALUE)(a % b);
}

/* a to the power of n; of a negative n 1 / a**-n without its fraction, and 0 for a = 0. */
static inline VALUE spfgen_power_TYPE(VALUE a, VALUE n) {
    VALUE result = 1;
    if (n < 0) return a == 1 || (a == -1 && n % 2 == 0) ? 1 : a == -1 ? a : 0;
    for (; n > 0; n /= 2) {
        if (n % 2 != 0) result = (VALUE)(result * a);
        a = (VALUE)(a * a);
    }
    return result;
}

/* |a|; the least number stays what it is. */
static inline VALUE spfgen_absolute_TYPE(VALUE a) {
    return a < 0 ? (VALUE)-a : a;
}

/* -1, 0 or 1. */
static inline VALUE spfgen_sign_TYPE(VALUE a) {
    return (VALUE)((a > 0) - (a < 0));
}

/* 1 / a without its fraction; 0 for a = 0. */
static inline VALUE spfgen_reciprocal_TYPE(VALUE a) {
    return a == 1 || a == -1 ? a : 0;
}

/* The bits of the absolute value of a that are 1. */
static inline uint8_t spfgen_bitwise_count_TYPE(VALUE a) {
    uint8_t count = 0;
    for (UNSIGNED b = a < 0 ? (UNSIGNED)(0 - (UNSIGNED)a) : (UNSIGNED)a; b != 0; b &= (UNSIGNED)(b - 1)) count++;
    return count;
}

/* The greatest common divisor. */
static inline VALUE spfgen_gcd_TYPE(VALUE a, VALUE b) {
    UNSIGNED x = (UNSIGNED)(a < 0 ? -a : a), y = (UNSIGNED)(b < 0 ? -b : b);
    while (x != 0) {
        const UNSIGNED rest = (UNSIGNED)(y % x);
        y = x;
        x = rest;
    }
    return (VALUE)y;
}

/* The least common multiple; 0 where one is 0. */
static inline VALUE spfgen_lcm_TYPE(VALUE a, VALUE b) {
    const UNSIGNED x = (UNSIGNED)(a < 0 ? -a : a), y = (UNSIGNED)(b < 0 ? -b : b);
    const UNSIGNED divisor = (UNSIGNED)spfgen_gcd_TYPE(a, b);
    return divisor == 0 ? 0 : (VALUE)(x / divisor * y);
}

/* The bits of a, n places up: 0 where n is not within the width of the type. */
static inline VALUE spfgen_left_shift_TYPE(VALUE a, VALUE n) {
    return n >= 0 && n < (VALUE)(8 * sizeof a) ? (VALUE)((UNSIGNED)a << n) : 0;
}

/* The bits of a, n places down: only the sign is left where n is not within the width of the type. */
static inline VALUE spfgen_right_shift_TYPE(VALUE a, VALUE n) {
    return n >= 0 && n < (VALUE)(8 * sizeof a) ? (VALUE)(a >> n) : (VALUE)-(a < 0);
}
