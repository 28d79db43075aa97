/* Whether all of so many values are finite: the product of zero and another value is not zero. */
static inline bool spfgen_finite_TYPE(const TYPE_t *values, int64_t count, int threads) {
    TYPE_t sum = 0;
    #pragma omp parallel for simd reduction(+ : sum) num_threads(threads)
    for (int64_t p = 0; p < count; p++) {
        sum += 0 * values[p];
    }
    (void)threads;
    return sum == 0;
}
