/* Whether vectors of what lies scattered, or of a part of it, are read as fast as the values one by one: so on processors
   with this feature. Others that can read such vectors take longer for them. */
#ifdef __AVX512FP16__
#include <immintrin.h>
#define SPFGEN_GATHERS true
#define SPFGEN_GATHER_float64_int32(some, x, places) \
    _mm512_mask_i32gather_pd(_mm512_setzero_pd(), some, _mm256_maskz_loadu_epi32(some, places), x, 8)
#define SPFGEN_GATHER_float64_int64(some, x, places) \
    _mm512_mask_i64gather_pd(_mm512_setzero_pd(), some, _mm512_maskz_loadu_epi64(some, places), x, 8)
#define SPFGEN_GATHER_float32_int32(some, x, places) \
    _mm256_mmask_i32gather_ps(_mm256_setzero_ps(), some, _mm256_maskz_loadu_epi32(some, places), x, 4)
#define SPFGEN_GATHER_float32_int64(some, x, places) \
    _mm512_mask_i64gather_ps(_mm256_setzero_ps(), some, _mm512_maskz_loadu_epi64(some, places), x, 4)
#else
#define SPFGEN_GATHERS false
#endif
