/* Elementary functions over the vector type of bw_vec.h (which it includes), for all of f32: NaN, infinities, zeros,
 * subnormal values. Written once for every CPU level, over the compilers' vector extension. Owns the functions of the
 * unary family; refuses to know tensors.
 *
 * Errors are relative to the exact result where that is a normal number, the largest at every 1009th f32, with and
 * without fused multiply-adds; the polynomials are minimax fits.
 */
#ifndef BW_VEC_MATH_H
#define BW_VEC_MATH_H

#include "bw_vec.h"

/* Integer lanes beside vf's. Comparing two vf gives a vi of all ones or zeros per lane. Arithmetic wraps in vu. */
typedef int32_t vi __attribute__((vector_size(4 * VF_N)));
typedef uint32_t vu __attribute__((vector_size(4 * VF_N)));

/* mask ? yes : no */
BW_INLINE vf vf_pick(vi mask, vf yes, vf no)
{
    return (vf)((mask & (vi)yes) | (~mask & (vi)no));
}
BW_INLINE vi vf_less(vf a, vf b)
{
    return (vi)(a < b);
}
BW_INLINE vi vf_less_equal(vf a, vf b)
{
    return (vi)(a <= b);
}
BW_INLINE vi vf_equal(vf a, vf b)
{
    return (vi)(a == b);
}
BW_INLINE vi vf_is_nan(vf a)
{
    return (vi)(a != a);
}
#if defined(BW_VEC_AVX512)
BW_INLINE vf vf_floor(vf x)
{
    return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
}
BW_INLINE vf vf_ceil(vf x)
{
    return _mm512_roundscale_ps(x, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC);
}
BW_INLINE vf vf_trunc(vf x)
{
    return _mm512_roundscale_ps(x, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC);
}
BW_INLINE vf vf_sqrt(vf x)
{
    return _mm512_sqrt_ps(x);
}
#elif defined(BW_VEC_AVX2)
BW_INLINE vf vf_floor(vf x)
{
    return _mm256_round_ps(x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
}
BW_INLINE vf vf_ceil(vf x)
{
    return _mm256_round_ps(x, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC);
}
BW_INLINE vf vf_trunc(vf x)
{
    return _mm256_round_ps(x, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC);
}
BW_INLINE vf vf_sqrt(vf x)
{
    return _mm256_sqrt_ps(x);
}
#else
BW_INLINE vf vf_floor(vf x)
{
    return (vf){floorf(x[0]), floorf(x[1]), floorf(x[2]), floorf(x[3])};
}
BW_INLINE vf vf_ceil(vf x)
{
    return (vf){ceilf(x[0]), ceilf(x[1]), ceilf(x[2]), ceilf(x[3])};
}
BW_INLINE vf vf_trunc(vf x)
{
    return (vf){truncf(x[0]), truncf(x[1]), truncf(x[2]), truncf(x[3])};
}
BW_INLINE vf vf_sqrt(vf x)
{
    return (vf){sqrtf(x[0]), sqrtf(x[1]), sqrtf(x[2]), sqrtf(x[3])};
}
#endif

/* To the nearest integer, halves away from zero. The difference from the truncated value is exact. */
BW_INLINE vf vf_round_away(vf x)
{
    vf t = vf_trunc(x), one = vf_copysign(vf_set1(1.0f), x);
    return vf_pick(vf_less(vf_abs(vf_sub(x, t)), vf_set1(0.5f)), t, vf_pick(vf_is_nan(x), x, vf_add(t, one)));
}

/* -1, 0 or 1; 0 for NaN. */
BW_INLINE vf vf_sign(vf x)
{
    vf zero = vf_set1(0.0f), one = vf_set1(1.0f);
    return vf_sub(vf_pick(vf_less(zero, x), one, zero), vf_pick(vf_less(x, zero), one, zero));
}

/* e^r 2^n for |r| <= ln2 / 2 and integral n in [-151, 129]; subnormal results too. The scale is applied in two halves,
 * since neither 2^-149 nor 2^128 is a normal number. */
BW_INLINE vf vf_exp_scaled(vf r, vf n)
{
    vf r2 = vf_mul(r, r);
    vf p = vf_fma(vf_set1(0.00139505998f), r2, vf_fma(vf_set1(0.00836895406f), r, vf_set1(0.041666206f)));
    p = vf_fma(p, r2, vf_fma(vf_set1(0.166665182f), r, vf_set1(0.5f)));
    p = vf_add(vf_fma(p, r2, r), vf_set1(1.0f));
#if defined(BW_VEC_AVX512)
    return vf_scale(p, n);
#else
    vf half = vf_round(vf_mul(n, vf_set1(0.5f)));
    return vf_mul(vf_mul(p, vf_pow2(half)), vf_pow2(vf_sub(n, half)));
#endif
}

/* e^(high + low) for high in [-104, 89] that may have many digits, and a small low. */
BW_INLINE vf vf_exp_sum(vf high, vf low)
{
    vf n = vf_round(vf_mul(vf_add(high, low), vf_set1(1.44269504f)));
    vf r = vf_fnma(n, vf_set1(0.693359375f), high);
    return vf_exp_scaled(vf_add(vf_fnma(n, vf_set1(-2.12194440e-4f), r), low), n);
}

/* e^x for x in [-104, 89]. */
BW_INLINE vf vf_exp_between(vf x)
{
    vf bits, n = vf_round_product(x, 1.44269504f, &bits);
    return vf_exp_scaled(vf_fnma(n, vf_set1(-2.12194440e-4f), vf_fnma(n, vf_set1(0.693359375f), x)), n);
}

/* e^x, relative error below 1e-7, everywhere from subnormal results to infinity. */
BW_INLINE vf vf_exp_all(vf x)
{
#if defined(BW_VEC_AVX512)
    /* No limit above: the polynomial is positive, infinite or, where n is infinite too, NaN, and the scaling by so
     * large an n gives infinity for each. */
    return vf_exp_between(vf_max(vf_set1(-104.0f), x));
#else
    return vf_exp_between(vf_clamp(x, -104.0f, 89.0f));
#endif
}

/* e^x - 1, relative error below 3e-7. */
BW_INLINE vf vf_expm1(vf x)
{
    vf q = vf_set1(0.000198459558f);
    q = vf_fma(q, x, vf_set1(0.00139416417f));
    q = vf_fma(q, x, vf_set1(0.00833339151f));
    q = vf_fma(q, x, vf_set1(0.0416663475f));
    q = vf_fma(q, x, vf_set1(0.166666657f));
    q = vf_fma(q, x, vf_set1(0.5f));
    vf small = vf_fma(q, vf_mul(x, x), x);
    return vf_pick(vf_less(vf_abs(x), vf_set1(0.35f)), small, vf_sub(vf_exp_all(x), vf_set1(1.0f)));
}

/* x = 2^e (1 + f), f in [sqrt(1/2) - 1, sqrt(2) - 1), for finite x > 0. */
BW_INLINE vf vf_split(vf x, vf *f)
{
    vi small = vf_less(x, vf_set1(0x1p-126f));
    vu bits = (vu)vf_pick(small, vf_mul(x, vf_set1(0x1p23f)), x) - 0x3f3504f3u;
    *f = vf_sub((vf)((bits & 0x7fffffu) + 0x3f3504f3u), vf_set1(1.0f));
    return vf_sub(__builtin_convertvector((vi)bits >> 23, vf), vf_pick(small, vf_set1(23.0f), vf_set1(0.0f)));
}

/* Natural logarithm, relative error below 1e-7: log(1 + f) as f - f^2/2 + f^3 P(f). */
BW_INLINE vf vf_log(vf x)
{
    vf f, e = vf_split(x, &f), z = vf_mul(f, f);
    vf p = vf_set1(-0.0763442963f);
    p = vf_fma(p, f, vf_set1(0.127615497f));
    p = vf_fma(p, f, vf_set1(-0.131601945f));
    p = vf_fma(p, f, vf_set1(0.142017618f));
    p = vf_fma(p, f, vf_set1(-0.166233569f));
    p = vf_fma(p, f, vf_set1(0.200012267f));
    p = vf_fma(p, f, vf_set1(-0.250008225f));
    p = vf_fma(p, f, vf_set1(0.333333313f));
    vf r = vf_fma(e, vf_set1(-2.12194440e-4f), vf_mul(vf_mul(z, f), p));
    r = vf_add(vf_fnma(z, vf_set1(0.5f), r), f);
    r = vf_fma(e, vf_set1(0.693359375f), r);
    r = vf_pick(vf_equal(x, vf_set1(INFINITY)), x, r);
    vf none = vf_pick(vf_equal(x, vf_set1(0.0f)), vf_set1(-INFINITY), vf_set1(NAN));
    return vf_pick(vf_less(vf_set1(0.0f), x), r, none);
}

/* Half a vector's lanes as f64. */
typedef double vf_half64 __attribute__((vector_size(4 * VF_N)));
typedef int64_t vf_half64_bits __attribute__((vector_size(4 * VF_N)));
typedef float vf_half32 __attribute__((vector_size(2 * VF_N)));

BW_INLINE vf_half64 vf_pick64(vf_half64_bits mask, vf_half64 yes, vf_half64 no)
{
    return (vf_half64)((mask & (vf_half64_bits)yes) | (~mask & (vf_half64_bits)no));
}

/* Of those: half a vector to f64 and back (which compilers' own conversions of vectors do piece by piece), two halves
 * as one, a b + c, a / b for b in [1, 3] with a relative error below 2^-40, and x held between two limits, NaN stays
 * NaN. */
#if defined(BW_VEC_AVX512)
BW_INLINE vf_half64 vf_widen(vf_half32 x)
{
    return (vf_half64)_mm512_cvtps_pd((__m256)x);
}
BW_INLINE vf_half32 vf_narrow(vf_half64 x)
{
    return (vf_half32)_mm512_cvtpd_ps((__m512d)x);
}
BW_INLINE vf vf_join(vf_half32 low, vf_half32 high)
{
    return _mm512_insertf32x8(_mm512_castps256_ps512((__m256)low), (__m256)high, 1);
}
BW_INLINE vf_half64 vf_fma64(vf_half64 a, vf_half64 b, double c)
{
    return (vf_half64)_mm512_fmadd_pd((__m512d)a, (__m512d)b, _mm512_set1_pd(c));
}
BW_INLINE vf_half64 vf_div64(vf_half64 a, vf_half64 b)
{
    __m512d x = (__m512d)a, y = (__m512d)b, inverse = _mm512_rcp14_pd(y), q = _mm512_mul_pd(x, inverse);
    q = _mm512_fmadd_pd(_mm512_fnmadd_pd(q, y, x), inverse, q);
    return (vf_half64)_mm512_fmadd_pd(_mm512_fnmadd_pd(q, y, x), inverse, q);
}
BW_INLINE vf_half64 vf_clamp64(vf_half64 x, double low, double high)
{
    return (vf_half64)_mm512_min_pd(_mm512_set1_pd(high), _mm512_max_pd(_mm512_set1_pd(low), (__m512d)x));
}
#elif defined(BW_VEC_AVX2)
BW_INLINE vf_half64 vf_widen(vf_half32 x)
{
    return (vf_half64)_mm256_cvtps_pd((__m128)x);
}
BW_INLINE vf_half32 vf_narrow(vf_half64 x)
{
    return (vf_half32)_mm256_cvtpd_ps((__m256d)x);
}
BW_INLINE vf vf_join(vf_half32 low, vf_half32 high)
{
    return _mm256_insertf128_ps(_mm256_castps128_ps256((__m128)low), (__m128)high, 1);
}
BW_INLINE vf_half64 vf_fma64(vf_half64 a, vf_half64 b, double c)
{
    return (vf_half64)_mm256_fmadd_pd((__m256d)a, (__m256d)b, _mm256_set1_pd(c));
}
BW_INLINE vf_half64 vf_div64(vf_half64 a, vf_half64 b)
{
    return a / b;
}
BW_INLINE vf_half64 vf_clamp64(vf_half64 x, double low, double high)
{
    return (vf_half64)_mm256_min_pd(_mm256_set1_pd(high), _mm256_max_pd(_mm256_set1_pd(low), (__m256d)x));
}
#else
BW_INLINE vf_half64 vf_widen(vf_half32 x)
{
    return __builtin_convertvector(x, vf_half64);
}
BW_INLINE vf_half32 vf_narrow(vf_half64 x)
{
    return __builtin_convertvector(x, vf_half32);
}
BW_INLINE vf vf_join(vf_half32 low, vf_half32 high)
{
    const vf_half32 halves[2] = {low, high};
    vf out;
    memcpy(&out, halves, sizeof out);
    return out;
}
BW_INLINE vf_half64 vf_fma64(vf_half64 a, vf_half64 b, double c)
{
    return a * b + c;
}
BW_INLINE vf_half64 vf_div64(vf_half64 a, vf_half64 b)
{
    return a / b;
}
BW_INLINE vf_half64 vf_clamp64(vf_half64 x, double low, double high)
{
    const vf_half64 zero = {0}, most = zero + high, least = zero + low;
    return vf_pick64((vf_half64_bits)(x > most), most, vf_pick64((vf_half64_bits)(x < least), least, x));
}
#endif

/* p (e ln2 + log(1 + f)) = n ln2 + r, in f64: log(1 + f) = 2 atanh(s) with s = f / (2 + f), |s| < 0.172, by its series.
 * Clamped to where e^ is 0 or infinite in f32. */
BW_INLINE vf_half32 vf_pow_reduce(vf_half32 e32, vf_half32 f32, double p, vf_half32 *n_out)
{
    const double ln2 = 0.69314718055994530942;
    vf_half64 e = vf_widen(e32), f = vf_widen(f32);
    vf_half64 s = vf_div64(f, f + 2.0), z = s * s;
    vf_half64 q = vf_fma64(z, (vf_half64){0} + 1.0 / 13, 1.0 / 11);
    q = vf_fma64(q, z, 1.0 / 9);
    q = vf_fma64(q, z, 1.0 / 7);
    q = vf_fma64(q, z, 1.0 / 5);
    q = vf_fma64(q, z, 1.0 / 3);
    vf_half64 t = vf_clamp64((e * ln2 + 2.0 * (s + s * z * q)) * p, -104.5, 89.5);
    vf_half64 n = (t * 1.44269504088896340736 + 0x1.8p52) - 0x1.8p52;
    *n_out = vf_narrow(n);
    return vf_narrow(t - n * ln2);
}

/* x^p as C's pow, relative error below 1e-7. Everything that depends on p alone is the same for all lanes. */
BW_INLINE vf vf_pow(vf x, double p)
{
    vf out = vf_set1(1.0f);
    if (p == 0.0)
        return out;
    if (!(fabs(p) < 1e15)) {
        for (int i = 0; i < VF_N; i++)
            ((float *)&out)[i] = (float)pow((double)((const float *)&x)[i], p);
        return out;
    }
    vf a = vf_abs(x), f, e = vf_split(a, &f), r, n;
    vf_half32 halves[4], r_halves[2], n_halves[2];
    memcpy(halves, &e, sizeof e);
    memcpy(halves + 2, &f, sizeof f);
    for (int k = 0; k < 2; k++)
        r_halves[k] = vf_pow_reduce(halves[k], halves[2 + k], p, &n_halves[k]);
    r = vf_join(r_halves[0], r_halves[1]);
    n = vf_join(n_halves[0], n_halves[1]);
    out = vf_exp_scaled(r, n);
    const vf infinity = vf_set1(INFINITY), zero = vf_set1(0.0f);
    out = vf_pick(vf_equal(a, zero), p > 0 ? zero : infinity, out);
    out = vf_pick(vf_equal(a, infinity), p > 0 ? infinity : zero, out);
    int64_t whole = (int64_t)p;
    if ((double)whole != p)
        out = vf_pick(vf_less(x, zero) & vf_less(a, infinity), vf_set1(NAN), out);
    else if (whole % 2 != 0)
        out = vf_copysign(out, x);
    return vf_pick(vf_is_nan(x), x, out);
}

/* sin and cos for |x| < 2^20, relative error below 2e-7. With fused multiply-adds x - n pi is reduced in f32: pi's
 * first part times n is subtracted exactly, and the rest in two parts; then |r| < pi / 2 + 0.063 and sin r is a minimax
 * polynomial. Without them the angle is reduced in f64. */
#if defined(BW_VEC_AVX512) || defined(BW_VEC_AVX2)
BW_INLINE vf vf_minus_pi(vf x, vf n)
{
    return vf_fnma(n, vf_set1(-3.430249e-15f), vf_fnma(n, vf_set1(-8.742278e-8f), vf_fnma(n, vf_set1(3.14159274f), x)));
}
BW_INLINE vf vf_sin_reduced(vf r)
{
    vf z = vf_mul(r, r), p = vf_set1(2.59315834e-06f);
    p = vf_fma(p, z, vf_set1(-0.000198039721f));
    p = vf_fma(p, z, vf_set1(0.00833299104f));
    p = vf_fma(p, z, vf_set1(-0.166666567f));
    return vf_fma(vf_mul(p, z), r, r);
}
BW_INLINE vf vf_sin(vf x)
{
    vf bits, n = vf_round_product(x, 0.318309886f, &bits);
    return (vf)((vu)vf_sin_reduced(vf_minus_pi(x, n)) ^ (vu)bits << 31);
}
/* With n + 1/2 in place of n: cos x = -(-1)^n sin(x - (n + 1/2) pi). */
BW_INLINE vf vf_cos(vf x)
{
    const vf units = vf_set1(0x1.8p23f), half = vf_set1(0.5f);
    vf bits = vf_add(vf_fma(x, vf_set1(0.318309886f), vf_set1(-0.5f)), units), n = vf_sub(bits, units);
    return (vf)((vu)vf_sin_reduced(vf_minus_pi(x, vf_add(n, half))) ^ ~(vu)bits << 31);
}
#else
BW_INLINE vf vf_sin(vf x)
{
    vf s, c;
    vf_sincos_angle(1.0, x, &s, &c);
    return s;
}
BW_INLINE vf vf_cos(vf x)
{
    vf s, c;
    vf_sincos_angle(1.0, x, &s, &c);
    return c;
}
#endif

/* 1 / (1 + e^-x), relative error below 2e-7, subnormal results too. */
BW_INLINE vf vf_logistic(vf x)
{
    vf one = vf_set1(1.0f), e = vf_exp_between(vf_max(vf_set1(-104.0f), vf_neg(vf_abs(x))));
    return vf_div_near(vf_select_less(x, vf_set1(0.0f), e, one), vf_add(one, e));
}

/* erfc(z) / 2 for z in [0, 10.3], given t = 1 / (1 + z/2) and -z^2 as a sum: t e^(-z^2 + P(t)) / 2. P is summed in
 * pairs: the chain of operations is what takes the time. */
BW_INLINE vf vf_half_erfc_of(vf t, vf high, vf low)
{
    vf t2 = vf_mul(t, t), t4 = vf_mul(t2, t2);
    vf p01 = vf_fma(vf_set1(0.998638391f), t, vf_set1(-1.26544869f));
    vf p23 = vf_fma(vf_set1(0.0342325307f), t, vf_set1(0.386658669f));
    vf p45 = vf_fma(vf_set1(-0.0848629773f), t, vf_set1(0.00308152894f));
    vf p67 = vf_fma(vf_set1(1.15092337f), t, vf_set1(-0.689517915f));
    vf p89 = vf_fma(vf_set1(0.144387692f), t, vf_set1(-0.678092539f));
    vf p47 = vf_fma(p67, t2, p45), p49 = vf_fma(p89, t4, p47);
    vf p = vf_fma(p49, t4, vf_fma(p23, t2, p01));
    return vf_mul(vf_mul(t, vf_set1(0.5f)), vf_exp_sum(high, vf_add(low, p)));
}

/* erf, relative error below 4e-7: x P(x^2) / Q(x^2) on [-4, 4], minimax; beyond it is 1. */
BW_INLINE vf vf_erf(vf x)
{
    x = vf_clamp(x, -4.0f, 4.0f);
    vf z = vf_mul(x, x);
    vf p = vf_set1(1.98698586e-06f), q = vf_set1(3.74211175e-05f);
    p = vf_fma(p, z, vf_set1(0.000284542934f));
    q = vf_fma(q, z, vf_set1(0.0011853112f));
    p = vf_fma(p, z, vf_set1(0.00388225437f));
    q = vf_fma(q, z, vf_set1(0.0152050474f));
    p = vf_fma(p, z, vf_set1(0.0530983327f));
    q = vf_fma(q, z, vf_set1(0.115339375f));
    p = vf_fma(p, z, vf_set1(0.19351939f));
    q = vf_fma(q, z, vf_set1(0.504834654f));
    p = vf_fma(p, z, vf_set1(1.12837914f));
    q = vf_fma(q, z, vf_set1(1.0f));
    return vf_clamp(vf_div(vf_mul(x, p), q), -1.0f, 1.0f);
}

/* x (1 + erf(x / sqrt(2))) / 2, absolute error below 1e-6. */
BW_INLINE vf vf_gelu_erf(vf x)
{
    vf half = vf_mul(x, vf_set1(0.5f));
    return vf_fma(half, vf_erf(vf_mul(x, vf_set1(0.707106781f))), half);
}

/* The normal distribution's share below x, erfc(-x / sqrt(2)) / 2, relative error below 5e-7 to the last subnormal:
 * x^2 / 2 is split so that its upper part is exact. */
BW_INLINE vf vf_normcdf(vf x)
{
    vf a = vf_clamp(vf_abs(x), 0.0f, 15.0f), head = (vf)((vi)a & ~0xfff);
    vf high = vf_mul(vf_mul(head, head), vf_set1(-0.5f));
    vf low = vf_mul(vf_mul(vf_sub(a, head), vf_add(a, head)), vf_set1(-0.5f));
    vf t = vf_div(vf_set1(1.0f), vf_fma(a, vf_set1(0.353553391f), vf_set1(1.0f)));
    vf below = vf_half_erfc_of(t, high, low);
    return vf_pick(vf_less(vf_set1(0.0f), x), vf_sub(vf_set1(1.0f), below), below);
}

/* x / (1 + e^-2u), u = sqrt(2 / pi) (x + 0.044715 x^3): gelu's tanh form. */
BW_INLINE vf vf_gelu_tanh(vf x)
{
    vf u = vf_mul(x, vf_fma(vf_mul(x, x), vf_set1(0.0713548163f), vf_set1(1.59576912f)));
    return vf_mul(x, vf_logistic(u));
}

/* x > 0 ? x : 0; 0 for NaN. */
BW_INLINE vf vf_relu(vf x)
{
    vf zero = vf_set1(0.0f);
    return vf_pick(vf_less(zero, x), x, zero);
}

/* x > 0 ? x : alpha (e^x - 1) */
BW_INLINE vf vf_elu(vf x, double alpha)
{
    return vf_pick(vf_less(vf_set1(0.0f), x), x, vf_mul(vf_set1((float)alpha), vf_expm1(x)));
}

#endif
