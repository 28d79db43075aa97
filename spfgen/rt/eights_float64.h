/* The sum of values[k]*x[places[k]] for 0 <= k < count, which is a multiple of eight. */
static inline double spfgen_eights_float64_TYPE(const double *values, const double *x, const TYPE_t *places,
                                                int64_t count) {
#ifdef __AVX512FP16__
    __m512d sums = _mm512_setzero_pd();
    for (int64_t k = 0; k < count; k += 8) {
        const __m512d found = SPFGEN_GATHER_float64_TYPE(255, x, places + k);
        sums = _mm512_fmadd_pd(_mm512_loadu_pd(values + k), found, sums);
    }
    return _mm512_reduce_add_pd(sums);
#else
    double sum = 0.0;
    for (int64_t k = 0; k < count; k++) {
        sum += values[k] * x[places[k]];
    }
    return sum;
#endif
}
