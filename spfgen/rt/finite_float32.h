/* Whether all of so many values are finite: the product of zero and another value is not zero. */
static inline bool spfgen_finite_float32(const float *values, int64_t count, int threads) {
    float sum = 0;
    #pragma omp parallel for simd reduction(+ : sum) num_threads(threads)
    for (int64_t p = 0; p < count; p++) {
        sum += 0 * values[p];
    }
    (void)threads;
    return sum == 0;
}
