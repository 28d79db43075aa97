/* a / b rounded down; 0 for b = 0. */
static inline VALUE spfgen_floor_divide_TYPE(VALUE a, VALUE b) {
    return b == 0 ? 0 : (VALUE)(a / b);
}

/* The remainder of a / b; 0 for b = 0. */
static inline VALUE spfgen_remainder_TYPE(VALUE a, VALUE b) {
    return b == 0 ? 0 : (VALUE)(a % b);
}

/* The remainder of a / b; 0 for b = 0. */
static inline VALUE spfgen_fmod_TYPE(VALUE a, VALUE b) {
    return b == 0 ? 0 : (VALUE)(a % b);
}

/* a to the power of n. */
static inline VALUE spfgen_power_TYPE(VALUE a, VALUE n) {
    VALUE result = 1;
    for (; n > 0; n /= 2) {
        if (n % 2 != 0) result = (VALUE)(result * a);
        a = (VALUE)(a * a);
    }
    return result;
}

/* 0 or 1. */
static inline VALUE spfgen_sign_TYPE(VALUE a) {
    return a > 0;
}

/* 1 / a without its fraction; 0 for a = 0. */
static inline VALUE spfgen_reciprocal_TYPE(VALUE a) {
    return a == 1;
}

/* The bits of a that are 1. */
static inline uint8_t spfgen_bitwise_count_TYPE(VALUE a) {
    uint8_t count = 0;
    for (; a != 0; a &= (VALUE)(a - 1)) count++;
    return count;
}

/* The greatest common divisor. */
static inline VALUE spfgen_gcd_TYPE(VALUE a, VALUE b) {
    while (a != 0) {
        const VALUE rest = (VALUE)(b % a);
        b = a;
        a = rest;
    }
    return b;
}

/* The least common multiple; 0 where one is 0. */
static inline VALUE spfgen_lcm_TYPE(VALUE a, VALUE b) {
    const VALUE divisor = spfgen_gcd_TYPE(a, b);
    return divisor == 0 ? 0 : (VALUE)(a / divisor * b);
}

/* The bits of a, n places up: 0 where n is not within the width of the type. */
static inline VALUE spfgen_left_shift_TYPE(VALUE a, VALUE n) {
    return n < 8 * sizeof a ? (VALUE)(a << n) : 0;
}

/* The bits of a, n places down: 0 where n is not within the width of the type. */
static inline VALUE spfgen_right_shift_TYPE(VALUE a, VALUE n) {
    return n < 8 * sizeof a ? (VALUE)(a >> n) : 0;
}

/* Of numbers with and without a sign: C would take the sign for a bit. */
static inline bool spfgen_less_int64_uint64(int64_t a, uint64_t b) {
    return a < 0 || (uint64_t)a < b;
}

static inline bool spfgen_equal_int64_uint64(int64_t a, uint64_t b) {
    return a >= 0 && (uint64_t)a == b;
}

static inline bool spfgen_less_equal_int64_uint64(int64_t a, uint64_t b) {
    return a < 0 || (uint64_t)a <= b;
}
