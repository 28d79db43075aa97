/* The sum of values[k]*x[places[k]] for 0 <= k < count. Vectors of eight, the last one in part: no question is asked that
   a processor may foresee wrongly but how many there are. If the arrays are `large`, what comes next is fetched. */
static inline double spfgen_dot_float64_TYPE(const double *values, const double *x, const TYPE_t *places, int64_t count,
                                             bool large) {
#ifdef __AVX512FP16__
    const __m512i lanes = _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7);
    __m512d sums = _mm512_setzero_pd();
    for (int64_t k = 0; k < count; k += 8) {
        if (large) {
            spfgen_prefetch_soon(values, (k + 256) * 8);
            spfgen_prefetch_soon(places, (k + 256) * (int64_t)sizeof *places);
        }
        const __mmask8 some = _mm512_cmplt_epi64_mask(lanes, _mm512_set1_epi64(count - k));
        const __m512d found = SPFGEN_GATHER_float64_TYPE(some, x, places + k);
        sums = _mm512_fmadd_pd(_mm512_maskz_loadu_pd(some, values + k), found, sums);
    }
    return _mm512_reduce_add_pd(sums);
#else
    double sum = 0.0;
    (void)large;
    for (int64_t k = 0; k < count; k++) {
        sum += values[k] * x[places[k]];
    }
    return sum;
#endif
}
