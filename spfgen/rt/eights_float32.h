/* The sum of values[k]*x[places[k]] for 0 <= k < count, which is a multiple of eight. */
static inline float spfgen_eights_float32_TYPE(const float *values, const float *x, const TYPE_t *places,
                                               int64_t count) {
#ifdef __AVX512FP16__
    __m256 sums = _mm256_setzero_ps();
    for (int64_t k = 0; k < count; k += 8) {
        const __m256 found = SPFGEN_GATHER_float32_TYPE(255, x, places + k);
        sums = _mm256_fmadd_ps(_mm256_loadu_ps(values + k), found, sums);
    }
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(sums), _mm256_extractf128_ps(sums, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
#else
    float sum = 0.0f;
    for (int64_t k = 0; k < count; k++) {
        sum += values[k] * x[places[k]];
    }
    return sum;
#endif
}
