/* re + im*i, where these are infinite or nan, too. Compilers vectorise what is made by the function of GCC. */
static inline VALUE spfgen_complex_TYPE(REAL re, REAL im) {
#if defined(__GNUC__) && !defined(__clang__)
    return __builtin_complex(re, im);
#else
    const union {
        REAL parts[2];
        VALUE number;
    } made = {{re, im}};
    return made.number;
#endif
}

/* By the rule of school: that of C is slower, and another one where a part is infinite. */
static inline VALUE spfgen_multiply_TYPE(VALUE a, VALUE b) {
    return spfgen_complex_TYPE(creal(a) * creal(b) - cimag(a) * cimag(b), creal(a) * cimag(b) + cimag(a) * creal(b));
}

/* By Smith's rule: no part overflows before the quotient does. */
static inline VALUE spfgen_divide_TYPE(VALUE a, VALUE b) {
    const REAL re = creal(b), im = cimag(b);
    if (fabs(re) >= fabs(im)) {
        if (re == 0 && im == 0) return spfgen_complex_TYPE(creal(a) / fabs(re), cimag(a) / fabs(re));
        const REAL ratio = im / re, scale = 1 / (re + im * ratio);
        return spfgen_complex_TYPE((creal(a) + cimag(a) * ratio) * scale, (cimag(a) - creal(a) * ratio) * scale);
    }
    const REAL ratio = re / im, scale = 1 / (im + re * ratio);
    return spfgen_complex_TYPE((creal(a) * ratio + cimag(a)) * scale, (cimag(a) * ratio - creal(a)) * scale);
}

static inline VALUE spfgen_reciprocal_TYPE(VALUE a) {
    const REAL re = creal(a), im = cimag(a);
    if (fabs(im) <= fabs(re)) {
        const REAL ratio = im / re, scale = re + im * ratio;
        return spfgen_complex_TYPE(1 / scale, -ratio / scale);
    }
    const REAL ratio = re / im, scale = re * ratio + im;
    return spfgen_complex_TYPE(ratio / scale, -1 / scale);
}

static inline VALUE spfgen_square_TYPE(VALUE a) {
    return spfgen_multiply_TYPE(a, a);
}

/* Whole powers of a small exponent by products, as numpy has them. */
static inline VALUE spfgen_power_TYPE(VALUE a, VALUE b) {
    const REAL re = creal(b), im = cimag(b);
    if (re == 0 && im == 0) return 1;
    if (creal(a) == 0 && cimag(a) == 0) return re > 0 ? 0 : spfgen_complex_TYPE((REAL)NAN, (REAL)NAN);
    if (im != 0 || !(fabs(re) < 100) || re != floor(re)) return cpow(a, b);
    if (re == 1) return a;
    VALUE result = 1;
    bool first = true;
    for (int n = (int)fabs(re); n > 0; n /= 2) {
        if (n % 2 != 0) result = first ? a : spfgen_multiply_TYPE(result, a);
        first = first && n % 2 == 0;
        if (n > 1) a = spfgen_multiply_TYPE(a, a);
    }
    return re < 0 ? spfgen_divide_TYPE(1, result) : result;
}

/* a / |a|, or 0. */
static inline VALUE spfgen_sign_TYPE(VALUE a) {
    const REAL re = creal(a), im = cimag(a), size = cabs(a);
    if (isinf(re) && !isinf(im)) return copysign(1, re);
    if (isinf(im) && !isinf(re)) return spfgen_complex_TYPE(0, copysign(1, im));
    if (isnan(size) || isinf(re)) return spfgen_complex_TYPE((REAL)NAN, (REAL)NAN);
    return size == 0 ? 0 : spfgen_complex_TYPE(re / size, im / size);
}

static inline VALUE spfgen_exp2_TYPE(VALUE a) {
    const REAL base = (REAL)0.6931471805599453;
    return cexp(spfgen_complex_TYPE(creal(a) * base, cimag(a) * base));
}

static inline VALUE spfgen_expm1_TYPE(VALUE a) {
    const REAL half = sin(cimag(a) / 2);
    return spfgen_complex_TYPE(expm1(creal(a)) * cos(cimag(a)) - 2 * half * half, exp(creal(a)) * sin(cimag(a)));
}

static inline VALUE spfgen_log2_TYPE(VALUE a) {
    const REAL base = (REAL)1.4426950408889634;
    const VALUE found = clog(a);
    return spfgen_complex_TYPE(creal(found) * base, cimag(found) * base);
}

static inline VALUE spfgen_log10_TYPE(VALUE a) {
    const REAL base = (REAL)0.4342944819032518;
    const VALUE found = clog(a);
    return spfgen_complex_TYPE(creal(found) * base, cimag(found) * base);
}

static inline VALUE spfgen_log1p_TYPE(VALUE a) {
    return spfgen_complex_TYPE(log(hypot(creal(a) + 1, cimag(a))), atan2(cimag(a), creal(a) + 1));
}

static inline VALUE spfgen_rint_TYPE(VALUE a) {
    return spfgen_complex_TYPE(rint(creal(a)), rint(cimag(a)));
}

static inline bool spfgen_isnan_TYPE(VALUE a) {
    return isnan(creal(a)) || isnan(cimag(a));
}

static inline bool spfgen_isinf_TYPE(VALUE a) {
    return isinf(creal(a)) || isinf(cimag(a));
}

static inline bool spfgen_isfinite_TYPE(VALUE a) {
    return isfinite(creal(a)) && isfinite(cimag(a));
}

/* Complex numbers are ordered by their real parts, and then by their imaginary ones. */
static inline bool spfgen_less_TYPE(VALUE a, VALUE b) {
    return (creal(a) < creal(b) && !isnan(cimag(a)) && !isnan(cimag(b))) ||
           (creal(a) == creal(b) && cimag(a) < cimag(b));
}

static inline bool spfgen_less_equal_TYPE(VALUE a, VALUE b) {
    return (creal(a) < creal(b) && !isnan(cimag(a)) && !isnan(cimag(b))) ||
           (creal(a) == creal(b) && cimag(a) <= cimag(b));
}

static inline bool spfgen_greater_TYPE(VALUE a, VALUE b) {
    return spfgen_less_TYPE(b, a);
}

static inline bool spfgen_greater_equal_TYPE(VALUE a, VALUE b) {
    return spfgen_less_equal_TYPE(b, a);
}

/* The larger number; nan where one is. */
static inline VALUE spfgen_maximum_TYPE(VALUE a, VALUE b) {
    return spfgen_isnan_TYPE(a) || spfgen_less_equal_TYPE(b, a) ? a : b;
}

/* The smaller number; nan where one is. */
static inline VALUE spfgen_minimum_TYPE(VALUE a, VALUE b) {
    return spfgen_isnan_TYPE(a) || spfgen_less_equal_TYPE(a, b) ? a : b;
}

/* The larger number; the other one where one is nan. */
static inline VALUE spfgen_fmax_TYPE(VALUE a, VALUE b) {
    return spfgen_isnan_TYPE(b) || spfgen_less_equal_TYPE(b, a) ? a : b;
}

/* The smaller number; the other one where one is nan. */
static inline VALUE spfgen_fmin_TYPE(VALUE a, VALUE b) {
    return spfgen_isnan_TYPE(b) || spfgen_less_equal_TYPE(a, b) ? a : b;
}

/* a, but at least `low`, and then at most `high`; nan where one is. */
static inline VALUE spfgen_clip_TYPE(VALUE a, VALUE low, VALUE high) {
    const bool over = creal(a) == creal(low) ? cimag(a) > cimag(low) : creal(a) > creal(low);
    const VALUE raised = spfgen_isnan_TYPE(a) || over ? a : low;
    const bool under = creal(raised) == creal(high) ? cimag(raised) < cimag(high) : creal(raised) < creal(high);
    return spfgen_isnan_TYPE(raised) || under ? raised : high;
}
