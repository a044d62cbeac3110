/* The vector type with AVX-512 F, BW, DQ and VL: 16 floats. Included through bw_vec.h. */
#ifndef BW_VEC_AVX512_H
#define BW_VEC_AVX512_H

#include <immintrin.h>

#define BW_LEVEL(name) name##_avx512
enum { VF_N = 16 };
typedef __m512 vf;

BW_INLINE vf vf_load(const float *p)
{
    return _mm512_loadu_ps(p);
}
BW_INLINE void vf_store(float *p, vf v)
{
    _mm512_storeu_ps(p, v);
}
/* Past the caches (bw_stream.h); p is aligned to a vector. */
BW_INLINE void vf_stream(float *p, vf v)
{
    _mm512_stream_ps(p, v);
}
BW_INLINE vf vf_load_n(const float *p, int64_t n)
{
    return _mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), p);
}
BW_INLINE void vf_store_n(float *p, vf v, int64_t n)
{
    _mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1), v);
}
BW_INLINE vf vf_set1(float x)
{
    return _mm512_set1_ps(x);
}
BW_INLINE vf vf_add(vf a, vf b)
{
    return _mm512_add_ps(a, b);
}
BW_INLINE vf vf_sub(vf a, vf b)
{
    return _mm512_sub_ps(a, b);
}
BW_INLINE vf vf_mul(vf a, vf b)
{
    return _mm512_mul_ps(a, b);
}
BW_INLINE vf vf_div(vf a, vf b)
{
    return _mm512_div_ps(a, b);
}
BW_INLINE vf vf_fma(vf a, vf b, vf c)
{
    return _mm512_fmadd_ps(a, b, c);
}
/* c - a * b */
BW_INLINE vf vf_fnma(vf a, vf b, vf c)
{
    return _mm512_fnmadd_ps(a, b, c);
}
BW_INLINE vf vf_max(vf a, vf b)
{
    return _mm512_max_ps(a, b);
}
BW_INLINE vf vf_neg(vf a)
{
    return _mm512_xor_ps(a, _mm512_set1_ps(-0.0f));
}
BW_INLINE vf vf_abs(vf a)
{
    return _mm512_andnot_ps(_mm512_set1_ps(-0.0f), a);
}
BW_INLINE vf vf_copysign(vf magnitude, vf sign)
{
    return _mm512_or_ps(magnitude, _mm512_and_ps(_mm512_set1_ps(-0.0f), sign));
}
/* NaN stays NaN: the second operand is what min and max return for it. */
BW_INLINE vf vf_clamp(vf x, float low, float high)
{
    return _mm512_min_ps(_mm512_set1_ps(high), _mm512_max_ps(_mm512_set1_ps(low), x));
}
BW_INLINE vf vf_round(vf x)
{
    return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
/* 2^n for integral n in [-126, 128]; 128 gives infinity. */
BW_INLINE vf vf_pow2(vf n)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_add_epi32(_mm512_cvtps_epi32(n), _mm512_set1_epi32(127)), 23));
}
/* p 2^n for integral n, rounded once: subnormal results too. */
BW_INLINE vf vf_scale(vf p, vf n)
{
    return _mm512_scalef_ps(p, n);
}
/* a / b for b in [1, 2], within an ulp: a division keeps its unit for 16 cycles, the approximation and a step of
 * Newton's take 3. */
BW_INLINE vf vf_div_near(vf a, vf b)
{
    vf y = _mm512_rcp14_ps(b), rest = _mm512_fnmadd_ps(b, y, _mm512_set1_ps(1.0f));
    return _mm512_mul_ps(a, _mm512_fmadd_ps(y, rest, y));
}
/* v, but 0 where x < limit. */
BW_INLINE vf vf_zero_where_less(vf v, vf x, vf limit)
{
    return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x, limit, _CMP_NLT_UQ), v);
}
/* a < b ? yes : no */
BW_INLINE vf vf_select_less(vf a, vf b, vf yes, vf no)
{
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), no, yes);
}
/* (x0, x1, x2, x3, ...) to (x1, x0, x3, x2, ...) */
BW_INLINE vf vf_swap_pairs(vf x)
{
    return _mm512_permute_ps(x, 0xb1);
}
BW_INLINE __m256 vf_low(vf v)
{
    return _mm512_castps512_ps256(v);
}
BW_INLINE __m256 vf_high(vf v)
{
    return _mm512_extractf32x8_ps(v, 1);
}
BW_INLINE float vf_sum(vf v)
{
    return _mm512_reduce_add_ps(v);
}
BW_INLINE float vf_max_lane(vf v)
{
    __m256 h = _mm256_max_ps(vf_low(v), vf_high(v));
    __m128 s = _mm_max_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
    s = _mm_max_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_max_ss(s, _mm_movehdup_ps(s)));
}
/* The sums of four vectors to p[0..4). */
BW_INLINE void vf_store_sum4(float *p, vf a, vf b, vf c, vf d)
{
    __m256 a8 = _mm256_add_ps(vf_low(a), vf_high(a)), b8 = _mm256_add_ps(vf_low(b), vf_high(b));
    __m256 c8 = _mm256_add_ps(vf_low(c), vf_high(c)), d8 = _mm256_add_ps(vf_low(d), vf_high(d));
    __m256 s = _mm256_hadd_ps(_mm256_hadd_ps(a8, b8), _mm256_hadd_ps(c8, d8));
    _mm_storeu_ps(p, _mm_add_ps(_mm256_castps256_ps128(s), _mm256_extractf128_ps(s, 1)));
}
BW_INLINE vf vf_load_f16(const uint16_t *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
}
BW_INLINE void vf_store_f16(uint16_t *p, vf v)
{
    _mm256_storeu_si256((__m256i *)p, _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
}
BW_INLINE vf vf_load_bf16(const uint16_t *p)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p)), 16));
}
/* Rounded to nearest even in the upper halves; the lower halves are anything. NaN stays NaN. */
BW_INLINE __m512i vf_round_bf16(vf v)
{
    __m512i b = _mm512_castps_si512(v), r = _mm512_add_epi32(b, _mm512_set1_epi32(0x7fff));
    r = _mm512_mask_add_epi32(r, _mm512_test_epi32_mask(b, _mm512_set1_epi32(0x10000)), r, _mm512_set1_epi32(1));
    return _mm512_mask_or_epi32(r, _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q), b, _mm512_set1_epi32(0x400000));
}
BW_INLINE void vf_store_bf16(uint16_t *p, vf v)
{
    _mm256_storeu_si256((__m256i *)p, _mm512_cvtepi32_epi16(_mm512_srli_epi32(vf_round_bf16(v), 16)));
}
/* 2 VF_N values, the even ones and the odd ones: without any of the shuffles that keep their order. */
BW_INLINE void vf_load_bf16_pairs(const uint16_t *p, vf *even, vf *odd)
{
    __m512i raw = _mm512_loadu_si512(p);
    *even = _mm512_castsi512_ps(_mm512_slli_epi32(raw, 16));
    *odd = _mm512_castsi512_ps(_mm512_and_si512(raw, _mm512_set1_epi32((int)0xffff0000)));
}
/* The reverse; p is aligned to a vector if it is to be past the caches. */
BW_INLINE void vf_store_bf16_pairs(uint16_t *p, vf even, vf odd, bool is_streamed)
{
    __m512i low = _mm512_srli_epi32(vf_round_bf16(even), 16);
    __m512i both = _mm512_mask_blend_epi16(0xaaaaaaaau, low, vf_round_bf16(odd));
    if (is_streamed)
        _mm512_stream_si512((__m512i *)(void *)p, both);
    else
        _mm512_storeu_si512(p, both);
}
BW_INLINE vf vf_load_i8(const int8_t *p)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)p)));
}
/* Rounded to nearest even and saturated. */
BW_INLINE void vf_store_i8(int8_t *p, vf v)
{
    _mm_storeu_si128((__m128i *)p, _mm512_cvtsepi32_epi8(_mm512_cvtps_epi32(v)));
}
BW_INLINE float bw_load_f16(const void *p)
{
    uint16_t h;
    memcpy(&h, p, 2);
    return _cvtsh_ss(h);
}

/* Sums of squares in f64. */
typedef struct vd {
    __m512d low, high;
} vd;
BW_INLINE vd vd_zero(void)
{
    return (vd){_mm512_setzero_pd(), _mm512_setzero_pd()};
}
BW_INLINE vd vd_add_square(vd s, vf x)
{
    __m512d a = _mm512_cvtps_pd(vf_low(x)), b = _mm512_cvtps_pd(vf_high(x));
    return (vd){_mm512_fmadd_pd(a, a, s.low), _mm512_fmadd_pd(b, b, s.high)};
}
BW_INLINE double vd_sum(vd s)
{
    return _mm512_reduce_add_pd(_mm512_add_pd(s.low, s.high));
}

/* angle = position * inv_freq in f64, minus the nearest multiple of pi / 2: the remainder as f32 and the multiple's
 * two low bits in *quadrant. */
BW_INLINE __m256 vf_reduce_half(double position, __m256 inv_freq, __m256i *quadrant)
{
    __m512d a = _mm512_mul_pd(_mm512_set1_pd(position), _mm512_cvtps_pd(inv_freq));
    __m512d n = _mm512_roundscale_pd(_mm512_mul_pd(a, _mm512_set1_pd(0.63661977236758134308)),
                                     _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    a = _mm512_fnmadd_pd(n, _mm512_set1_pd(1.57079632679489655800), a);
    a = _mm512_fnmadd_pd(n, _mm512_set1_pd(6.12323399573676603587e-17), a);
    *quadrant = _mm512_cvtpd_epi32(n);
    return _mm512_cvtpd_ps(a);
}
/* sin and cos of position * inv_freq[0..16). */
BW_INLINE void vf_sincos_angle(double position, vf inv_freq, vf *sin_out, vf *cos_out)
{
    __m256i q0, q1;
    __m256 r0 = vf_reduce_half(position, vf_low(inv_freq), &q0);
    __m256 r1 = vf_reduce_half(position, vf_high(inv_freq), &q1);
    vf r = _mm512_insertf32x8(_mm512_castps256_ps512(r0), r1, 1), z = vf_mul(r, r);
    __m512i q = _mm512_inserti32x8(_mm512_castsi256_si512(q0), q1, 1);
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
    __mmask16 swap = _mm512_test_epi32_mask(q, _mm512_set1_epi32(1));
    __m512i sign_s = _mm512_slli_epi32(_mm512_srli_epi32(q, 1), 31);
    __m512i sign_c = _mm512_slli_epi32(_mm512_srli_epi32(_mm512_add_epi32(q, _mm512_set1_epi32(1)), 1), 31);
    *sin_out = _mm512_xor_ps(_mm512_mask_blend_ps(swap, s, c), _mm512_castsi512_ps(sign_s));
    *cos_out = _mm512_xor_ps(_mm512_mask_blend_ps(swap, c, s), _mm512_castsi512_ps(sign_c));
}

#endif
