/* The sum of values[k]*x[places[k]] for 0 <= k < count. Vectors of eight, the last one in part: no question is asked that
   a processor may foresee wrongly but how many there are. If the arrays are `large`, what comes next is fetched. */
static inline float spfgen_dot_float32_TYPE(const float *values, const float *x, const TYPE_t *places, int64_t count,
                                            bool large) {
#ifdef __AVX512FP16__
    const __m512i lanes = _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7);
    __m256 sums = _mm256_setzero_ps();
    for (int64_t k = 0; k < count; k += 8) {
        if (large) {
            spfgen_prefetch_soon(values, (k + 256) * 4);
            spfgen_prefetch_soon(places, (k + 256) * (int64_t)sizeof *places);
        }
        const __mmask8 some = _mm512_cmplt_epi64_mask(lanes, _mm512_set1_epi64(count - k));
        const __m256 found = SPFGEN_GATHER_float32_TYPE(some, x, places + k);
        sums = _mm256_fmadd_ps(_mm256_maskz_loadu_ps(some, values + k), found, sums);
    }
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(sums), _mm256_extractf128_ps(sums, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
#else
    float sum = 0.0f;
    (void)large;
    for (int64_t k = 0; k < count; k++) {
        sum += values[k] * x[places[k]];
    }
    return sum;
#endif
}
