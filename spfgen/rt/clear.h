/* Zeros in `count` elements of `size` bytes. Where they are `far` they go past the caches, and what stood there is not
   read before: half of the bytes move, but who needs them soon must read them from memory. */
#ifdef __AVX__
#include <immintrin.h>
#endif

static inline void spfgen_clear(void *array, int64_t count, size_t size, bool far) {
    if (count <= 0) {
        return;
    }
    size_t bytes = (size_t)count * size;
    char *at = (char *)array;
#ifdef __AVX__
    if (far && bytes >= 256) {
        const size_t before = (64 - (uintptr_t)at % 64) % 64; /* whole lines are written at once */
        memset(at, 0, before);
        at += before;
        bytes -= before;
        for (; bytes >= 64; at += 64, bytes -= 64) {
            _mm256_stream_si256((__m256i *)at, _mm256_setzero_si256());
            _mm256_stream_si256((__m256i *)(at + 32), _mm256_setzero_si256());
        }
        _mm_sfence();
    }
#else
    (void)far;
#endif
    memset(at, 0, bytes);
}
