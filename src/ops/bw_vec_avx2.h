/* The vector type with AVX2, FMA and F16C: 8 floats. Included through bw_vec.h. */
#ifndef BW_VEC_AVX2_H
#define BW_VEC_AVX2_H

#include <immintrin.h>

#define BW_LEVEL(name) name##_avx2
enum { VF_N = 8 };
typedef __m256 vf;

BW_INLINE vf vf_load(const float *p)
{
    return _mm256_loadu_ps(p);
}
BW_INLINE void vf_store(float *p, vf v)
{
    _mm256_storeu_ps(p, v);
}
/* Past the caches (bw_stream.h); p is aligned to a vector. */
BW_INLINE void vf_stream(float *p, vf v)
{
    _mm256_stream_ps(p, v);
}
BW_INLINE __m256i vf_mask_n(int64_t n)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
BW_INLINE vf vf_load_n(const float *p, int64_t n)
{
    return _mm256_maskload_ps(p, vf_mask_n(n));
}
BW_INLINE void vf_store_n(float *p, vf v, int64_t n)
{
    _mm256_maskstore_ps(p, vf_mask_n(n), v);
}
BW_INLINE vf vf_set1(float x)
{
    return _mm256_set1_ps(x);
}
BW_INLINE vf vf_add(vf a, vf b)
{
    return _mm256_add_ps(a, b);
}
BW_INLINE vf vf_sub(vf a, vf b)
{
    return _mm256_sub_ps(a, b);
}
BW_INLINE vf vf_mul(vf a, vf b)
{
    return _mm256_mul_ps(a, b);
}
BW_INLINE vf vf_div(vf a, vf b)
{
    return _mm256_div_ps(a, b);
}
BW_INLINE vf vf_fma(vf a, vf b, vf c)
{
    return _mm256_fmadd_ps(a, b, c);
}
/* c - a * b */
BW_INLINE vf vf_fnma(vf a, vf b, vf c)
{
    return _mm256_fnmadd_ps(a, b, c);
}
BW_INLINE vf vf_max(vf a, vf b)
{
    return _mm256_max_ps(a, b);
}
BW_INLINE vf vf_neg(vf a)
{
    return _mm256_xor_ps(a, _mm256_set1_ps(-0.0f));
}
BW_INLINE vf vf_abs(vf a)
{
    return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a);
}
BW_INLINE vf vf_copysign(vf magnitude, vf sign)
{
    return _mm256_or_ps(magnitude, _mm256_and_ps(_mm256_set1_ps(-0.0f), sign));
}
/* NaN stays NaN: the second operand is what min and max return for it. */
BW_INLINE vf vf_clamp(vf x, float low, float high)
{
    return _mm256_min_ps(_mm256_set1_ps(high), _mm256_max_ps(_mm256_set1_ps(low), x));
}
BW_INLINE vf vf_round(vf x)
{
    return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
/* 2^n for integral n in [-126, 128]; 128 gives infinity. */
BW_INLINE vf vf_pow2(vf n)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127)), 23));
}
/* p 2^n for integral n in [-126, 128]. */
BW_INLINE vf vf_scale(vf p, vf n)
{
    return vf_mul(p, vf_pow2(n));
}
/* a / b for b in [1, 2], within an ulp. */
BW_INLINE vf vf_div_near(vf a, vf b)
{
    return vf_div(a, b);
}
/* v, but 0 where x < limit. */
BW_INLINE vf vf_zero_where_less(vf v, vf x, vf limit)
{
    return _mm256_andnot_ps(_mm256_cmp_ps(x, limit, _CMP_LT_OQ), v);
}
/* a < b ? yes : no */
BW_INLINE vf vf_select_less(vf a, vf b, vf yes, vf no)
{
    return _mm256_blendv_ps(no, yes, _mm256_cmp_ps(a, b, _CMP_LT_OQ));
}
/* (x0, x1, x2, x3, ...) to (x1, x0, x3, x2, ...) */
BW_INLINE vf vf_swap_pairs(vf x)
{
    return _mm256_permute_ps(x, 0xb1);
}
BW_INLINE float vf_sum(vf v)
{
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}
BW_INLINE float vf_max_lane(vf v)
{
    __m128 s = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    s = _mm_max_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_max_ss(s, _mm_movehdup_ps(s)));
}
/* The sums of four vectors to p[0..4). */
BW_INLINE void vf_store_sum4(float *p, vf a, vf b, vf c, vf d)
{
    __m256 s = _mm256_hadd_ps(_mm256_hadd_ps(a, b), _mm256_hadd_ps(c, d));
    _mm_storeu_ps(p, _mm_add_ps(_mm256_castps256_ps128(s), _mm256_extractf128_ps(s, 1)));
}
BW_INLINE vf vf_load_f16(const uint16_t *p)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p));
}
BW_INLINE void vf_store_f16(uint16_t *p, vf v)
{
    _mm_storeu_si128((__m128i *)p, _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
}
BW_INLINE vf vf_load_bf16(const uint16_t *p)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p)), 16));
}
/* Rounded to nearest even in the upper halves; the lower halves are anything. NaN stays NaN. */
BW_INLINE __m256i vf_round_bf16(vf v)
{
    __m256i b = _mm256_castps_si256(v), odd = _mm256_and_si256(_mm256_srli_epi32(b, 16), _mm256_set1_epi32(1));
    __m256i r = _mm256_add_epi32(b, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
    __m256i nan = _mm256_or_si256(b, _mm256_set1_epi32(0x400000));
    return _mm256_blendv_epi8(r, nan, _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q)));
}
BW_INLINE void vf_store_bf16(uint16_t *p, vf v)
{
    __m256i r = _mm256_srli_epi32(vf_round_bf16(v), 16);
    _mm_storeu_si128((__m128i *)p, _mm_packus_epi32(_mm256_castsi256_si128(r), _mm256_extracti128_si256(r, 1)));
}
/* 2 VF_N values, the even ones and the odd ones: without any of the shuffles that keep their order. */
BW_INLINE void vf_load_bf16_pairs(const uint16_t *p, vf *even, vf *odd)
{
    __m256i raw = _mm256_loadu_si256((const __m256i *)p);
    *even = _mm256_castsi256_ps(_mm256_slli_epi32(raw, 16));
    *odd = _mm256_castsi256_ps(_mm256_and_si256(raw, _mm256_set1_epi32((int)0xffff0000)));
}
/* The reverse; p is aligned to a vector if it is to be past the caches. */
BW_INLINE void vf_store_bf16_pairs(uint16_t *p, vf even, vf odd, bool is_streamed)
{
    __m256i low = _mm256_srli_epi32(vf_round_bf16(even), 16);
    __m256i both = _mm256_blend_epi16(low, vf_round_bf16(odd), 0xaa);
    if (is_streamed)
        _mm256_stream_si256((__m256i *)(void *)p, both);
    else
        _mm256_storeu_si256((__m256i *)p, both);
}
BW_INLINE vf vf_load_i8(const int8_t *p)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)p)));
}
/* Rounded to nearest even and saturated. */
BW_INLINE void vf_store_i8(int8_t *p, vf v)
{
    __m256i i = _mm256_cvtps_epi32(v);
    __m128i w = _mm_packs_epi32(_mm256_castsi256_si128(i), _mm256_extracti128_si256(i, 1));
    _mm_storel_epi64((__m128i *)p, _mm_packs_epi16(w, w));
}
BW_INLINE float bw_load_f16(const void *p)
{
    uint16_t h;
    memcpy(&h, p, 2);
    return _cvtsh_ss(h);
}

/* Sums of squares in f64. */
typedef struct vd {
    __m256d low, high;
} vd;
BW_INLINE vd vd_zero(void)
{
    return (vd){_mm256_setzero_pd(), _mm256_setzero_pd()};
}
BW_INLINE vd vd_add_square(vd s, vf x)
{
    __m256d a = _mm256_cvtps_pd(_mm256_castps256_ps128(x)), b = _mm256_cvtps_pd(_mm256_extractf128_ps(x, 1));
    return (vd){_mm256_fmadd_pd(a, a, s.low), _mm256_fmadd_pd(b, b, s.high)};
}
BW_INLINE double vd_sum(vd s)
{
    __m256d t = _mm256_add_pd(s.low, s.high);
    __m128d u = _mm_add_pd(_mm256_castpd256_pd128(t), _mm256_extractf128_pd(t, 1));
    return _mm_cvtsd_f64(_mm_add_sd(u, _mm_unpackhi_pd(u, u)));
}

/* angle = position * inv_freq in f64, minus the nearest multiple of pi / 2: the remainder as f32 and the multiple's
 * two low bits in *quadrant. */
BW_INLINE __m128 vf_reduce_half(double position, __m128 inv_freq, __m128i *quadrant)
{
    __m256d a = _mm256_mul_pd(_mm256_set1_pd(position), _mm256_cvtps_pd(inv_freq));
    __m256d n = _mm256_round_pd(_mm256_mul_pd(a, _mm256_set1_pd(0.63661977236758134308)),
                                _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    a = _mm256_fnmadd_pd(n, _mm256_set1_pd(1.57079632679489655800), a);
    a = _mm256_fnmadd_pd(n, _mm256_set1_pd(6.12323399573676603587e-17), a);
    *quadrant = _mm256_cvtpd_epi32(n);
    return _mm256_cvtpd_ps(a);
}
/* sin and cos of position * inv_freq[0..8). */
BW_INLINE void vf_sincos_angle(double position, vf inv_freq, vf *sin_out, vf *cos_out)
{
    __m128i q0, q1;
    __m128 r0 = vf_reduce_half(position, _mm256_castps256_ps128(inv_freq), &q0);
    __m128 r1 = vf_reduce_half(position, _mm256_extractf128_ps(inv_freq, 1), &q1);
    vf r = _mm256_insertf128_ps(_mm256_castps128_ps256(r0), r1, 1), z = vf_mul(r, r);
    __m256i q = _mm256_inserti128_si256(_mm256_castsi128_si256(q0), q1, 1);
    vf s = vf_set1(2.71823728e-06f);
    s = vf_fma(s, z, vf_set1(-0.000198393274f));
    s = vf_fma(s, z, vf_set1(0.00833332911f));
    s = vf_fma(s, z, vf_set1(-0.166666672f));
    s = vf_fma(vf_mul(s, z), r, r);
    vf c = vf_set1(-2.72095434e-07f);
    c = vf_fma(c, z, vf_set1(2.47995122e-05f));
    c = vf_fma(c, z, vf_set1(-0.00138888834f));
    c = vf_fma(c, z, vf_set1(0.0416666679f));
    c = vf_fma(c, z, vf_set1(-0.5f));
    c = vf_fma(c, z, vf_set1(1.0f));
    __m256 swap = _mm256_castsi256_ps(_mm256_slli_epi32(q, 31));
    __m256 sign_s = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_srli_epi32(q, 1), 31));
    __m256 sign_c =
        _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_srli_epi32(_mm256_add_epi32(q, _mm256_set1_epi32(1)), 1), 31));
    *sin_out = _mm256_xor_ps(_mm256_blendv_ps(s, c, swap), sign_s);
    *cos_out = _mm256_xor_ps(_mm256_blendv_ps(c, s, swap), sign_c);
}

#endif
