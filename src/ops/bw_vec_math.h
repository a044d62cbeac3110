/* Elementary functions over the vector type of bw_vec.h (which it includes), for all of f32: NaN, infinities, zeros,
 * subnormal values. Written once for every CPU level, over the compilers' vector extension. Owns the functions of the
 * unary family; refuses to know tensors.
 *
 * Errors are relative to the exact result, measured over the whole range without fused multiply-adds; the polynomials
 * are minimax fits.
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
BW_INLINE vf vf_min(vf a, vf b)
{
    return vf_pick(vf_less(b, a), b, a);
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

/* e^(high + low) for high in [-200, 89] that may have many digits and a small low; subnormal results too. The scale is
 * applied in two halves, since neither 2^-149 nor 2^128 is a normal number. */
BW_INLINE vf vf_exp_sum(vf high, vf low)
{
    vf n = vf_round(vf_mul(vf_add(high, low), vf_set1(1.44269504f)));
    vf r = vf_fnma(n, vf_set1(0.693359375f), high);
    r = vf_add(vf_fnma(n, vf_set1(-2.12194440e-4f), r), low);
    vf p = vf_set1(0.00139505998f);
    p = vf_fma(p, r, vf_set1(0.00836895406f));
    p = vf_fma(p, r, vf_set1(0.041666206f));
    p = vf_fma(p, r, vf_set1(0.166665182f));
    p = vf_fma(p, r, vf_set1(0.5f));
    p = vf_fma(p, vf_mul(r, r), r);
    p = vf_add(p, vf_set1(1.0f));
    vf half = vf_round(vf_mul(n, vf_set1(0.5f)));
    return vf_mul(vf_mul(p, vf_pow2(half)), vf_pow2(vf_sub(n, half)));
}

/* e^x, relative error below 3e-7, everywhere from subnormal results to infinity. */
BW_INLINE vf vf_exp_all(vf x)
{
    return vf_exp_sum(vf_clamp(x, -104.0f, 89.0f), vf_set1(0.0f));
}

/* e^x - 1, relative error below 5e-7. */
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

/* Natural logarithm, relative error below 3e-7: x = 2^e m with m in [sqrt(1/2), sqrt(2)), log(1 + f) as f - f^2/2 + f^3
 * P(f). */
BW_INLINE vf vf_log(vf x)
{
    vi small = vf_less(x, vf_set1(0x1p-126f));
    vf y = vf_pick(small, vf_mul(x, vf_set1(0x1p23f)), x);
    vu bits = (vu)y - 0x3f3504f3u;
    vf e = __builtin_convertvector((vi)bits >> 23, vf);
    e = vf_sub(e, vf_pick(small, vf_set1(23.0f), vf_set1(0.0f)));
    vf f = vf_sub((vf)((bits & 0x7fffffu) + 0x3f3504f3u), vf_set1(1.0f)), z = vf_mul(f, f);
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

/* sin and cos for |x| < 2^20: the angle is reduced in f64. */
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

/* 1 / (1 + e^-x), relative error below 5e-7, subnormal results too. */
BW_INLINE vf vf_logistic(vf x)
{
    vf one = vf_set1(1.0f), e = vf_exp_all(vf_neg(vf_abs(x)));
    return vf_div(vf_pick(vf_less(x, vf_set1(0.0f)), e, one), vf_add(one, e));
}

/* erfc(z) / 2 for z in [0, 10.3], given -z^2 as a sum: t e^(-z^2 + P(t)) / 2 with t = 1 / (1 + z/2). */
BW_INLINE vf vf_half_erfc_of(vf z, vf high, vf low)
{
    vf t = vf_div(vf_set1(1.0f), vf_fma(z, vf_set1(0.5f), vf_set1(1.0f)));
    vf p = vf_set1(0.144387692f);
    p = vf_fma(p, t, vf_set1(-0.678092539f));
    p = vf_fma(p, t, vf_set1(1.15092337f));
    p = vf_fma(p, t, vf_set1(-0.689517915f));
    p = vf_fma(p, t, vf_set1(-0.0848629773f));
    p = vf_fma(p, t, vf_set1(0.00308152894f));
    p = vf_fma(p, t, vf_set1(0.0342325307f));
    p = vf_fma(p, t, vf_set1(0.386658669f));
    p = vf_fma(p, t, vf_set1(0.998638391f));
    p = vf_fma(p, t, vf_set1(-1.26544869f));
    return vf_mul(vf_mul(t, vf_set1(0.5f)), vf_exp_sum(high, vf_add(low, p)));
}

/* erf, relative error below 5e-7. */
BW_INLINE vf vf_erf(vf x)
{
    vf a = vf_clamp(vf_abs(x), 0.0f, 10.0f), z = vf_mul(x, x);
    vf p = vf_set1(-0.000611129159f);
    p = vf_fma(p, z, vf_set1(0.00501622818f));
    p = vf_fma(p, z, vf_set1(-0.0267819576f));
    p = vf_fma(p, z, vf_set1(0.112822302f));
    p = vf_fma(p, z, vf_set1(-0.376125336f));
    p = vf_fma(p, z, vf_set1(1.12837911f));
    vf half_erfc = vf_half_erfc_of(a, vf_neg(vf_mul(a, a)), vf_set1(0.0f));
    vf large = vf_copysign(vf_fnma(half_erfc, vf_set1(2.0f), vf_set1(1.0f)), x);
    return vf_pick(vf_less(a, vf_set1(0.9f)), vf_mul(p, x), large);
}

/* The normal distribution's share below x, erfc(-x / sqrt(2)) / 2, relative error below 1e-6 to the last subnormal:
 * x^2 / 2 is split so that its upper part is exact. */
BW_INLINE vf vf_normcdf(vf x)
{
    vf a = vf_clamp(vf_abs(x), 0.0f, 15.0f), head = (vf)((vi)a & ~0xfff);
    vf high = vf_mul(vf_mul(head, head), vf_set1(-0.5f));
    vf low = vf_mul(vf_mul(vf_sub(a, head), vf_add(a, head)), vf_set1(-0.5f));
    vf below = vf_half_erfc_of(vf_mul(a, vf_set1(0.707106781f)), high, low);
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
BW_INLINE vf vf_elu(vf x, vf alpha)
{
    return vf_pick(vf_less(vf_set1(0.0f), x), x, vf_mul(alpha, vf_expm1(x)));
}

#endif
