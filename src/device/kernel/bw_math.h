/* Elementary functions for device code, in f32 and f64, from arithmetic alone: AMD has no mathematical library without
 * its SDK. One text for every target, so that NVIDIA cards and the simulation try what AMD cards run. Owns accuracy:
 * each is within 4 units in the last place unless it says otherwise; e^x and the square root stand in the vendors'
 * rows.
 *
 * Every a * b + c whose rounding matters is a bw_fma; products that must be rounded alone go through bw_product. The
 * polynomials are Taylor's where they are short; the others are interpolations at Chebyshev's points, computed with 60
 * digits, whose errors stand beside them. */
#ifndef BW_MATH_H
#define BW_MATH_H

#if defined(__CUDACC__) && !defined(BW_KERNEL_HOST)
#define BW_MATH_TABLE static __constant__
BW_DEVICE uint64_t bw_bits(double x)
{
    return (uint64_t)__double_as_longlong(x);
}
BW_DEVICE double bw_from_bits(uint64_t x)
{
    return __longlong_as_double((long long)x);
}
BW_DEVICE double bw_product(double a, double b)
{
    return __dmul_rn(a, b);
}
BW_DEVICE double bw_ldexp(double x, int n)
{
    return ldexp(x, n);
}
BW_DEVICE int bw_leading_zeros(uint64_t x)
{
    return __clzll((long long)x);
}
#define BW_MATH_1(name)                                                                                                \
    BW_DEVICE float bw_##name(float x)                                                                                 \
    {                                                                                                                  \
        return name##f(x);                                                                                             \
    }                                                                                                                  \
    BW_DEVICE double bw_##name(double x)                                                                               \
    {                                                                                                                  \
        return name(x);                                                                                                \
    }
#else
#if defined(__HIP__) && !defined(BW_KERNEL_HOST)
#define BW_MATH_TABLE static __attribute__((constant))
#else
#define BW_MATH_TABLE static
#endif
BW_DEVICE uint64_t bw_bits(double x)
{
    uint64_t bits;
    __builtin_memcpy(&bits, &x, sizeof bits);
    return bits;
}
BW_DEVICE double bw_from_bits(uint64_t x)
{
    double value;
    __builtin_memcpy(&value, &x, sizeof value);
    return value;
}
BW_DEVICE double bw_product(double a, double b)
{
#if defined(__clang__)
#pragma clang fp contract(off)
#endif
    return a * b;
}
BW_DEVICE double bw_ldexp(double x, int n)
{
    return __builtin_ldexp(x, n);
}
BW_DEVICE int bw_leading_zeros(uint64_t x)
{
    return __builtin_clzll(x);
}
#define BW_MATH_1(name)                                                                                                \
    BW_DEVICE float bw_##name(float x)                                                                                 \
    {                                                                                                                  \
        return __builtin_##name##f(x);                                                                                 \
    }                                                                                                                  \
    BW_DEVICE double bw_##name(double x)                                                                               \
    {                                                                                                                  \
        return __builtin_##name(x);                                                                                    \
    }
#endif
BW_MATH_1(floor)
BW_MATH_1(ceil)
BW_MATH_1(trunc)
BW_MATH_1(rint)
BW_MATH_1(fabs)
#undef BW_MATH_1

BW_DEVICE float bw_infinity(float)
{
    return bw_from_bits(0x7f800000u);
}
BW_DEVICE double bw_infinity(double)
{
    return (double)bw_from_bits(0x7f800000u);
}
template <typename W> BW_DEVICE W bw_not_a_number(void)
{
    return (W)bw_from_bits(0x7fc00000u);
}
BW_DEVICE float bw_with_sign(float magnitude, float sign)
{
    return bw_from_bits((bw_bits(magnitude) & 0x7fffffffu) | (bw_bits(sign) & 0x80000000u));
}
BW_DEVICE double bw_with_sign(double magnitude, double sign)
{
    const uint64_t top = (uint64_t)1 << 63;
    return bw_from_bits((bw_bits(magnitude) & ~top) | (bw_bits(sign) & top));
}
/* To the nearest integer, halves away from 0. */
template <typename W> BW_DEVICE W bw_round_away(W x)
{
    W whole = bw_trunc(x);
    return bw_with_sign(bw_fabs(x - whole) >= (W)0.5 ? bw_fabs(whole) + 1 : bw_fabs(whole), x);
}

/* ---- logarithms ------------------------------------------------------------------------------------------------- */

/* x = 2^k m for x > 0 and finite, m in [sqrt(1/2), sqrt(2)). */
BW_DEVICE double bw_split_power(double x, int &k)
{
    const uint64_t least = 0x3fe6a09e667f3bcdu, one = 0x3ff0000000000000u;
    uint64_t b = bw_bits(x);
    int scaled = 0;
    if (b < 0x0010000000000000u) { /* subnormal */
        b = bw_bits(x * 0x1p54);
        scaled = -54;
    }
    b += one - least;
    k = (int)(b >> 52) - 1023 + scaled;
    return bw_from_bits((b & 0x000fffffffffffffu) + least);
}
BW_DEVICE float bw_split_power(float x, int &k)
{
    const uint32_t least = 0x3f3504f3u, one = 0x3f800000u;
    uint32_t b = bw_bits(x);
    int scaled = 0;
    if (b < 0x00800000u) {
        b = bw_bits(x * 0x1p24f);
        scaled = -24;
    }
    b += one - least;
    k = (int)(b >> 23) - 127 + scaled;
    return bw_from_bits((b & 0x007fffffu) + least);
}
template <typename W> BW_DEVICE W bw_log_special(W x, W result)
{
    result = x == bw_infinity(x) ? x : result;
    result = x == 0 ? -bw_infinity(x) : result;
    return x >= 0 ? result : bw_not_a_number<W>();
}

/* ln(1 + f) = 2 artanh(s) with s = f / (2 + f): 2s + 2s^3/3 + 2s^5/5 + ...; 2s = f - s f keeps the leading term exact.
 */
BW_DEVICE double bw_log(double x)
{
    int k;
    double f = bw_split_power(x, k) - 1, s = f / (2 + f), z = s * s, n = (double)k;
    double p = 2.0 / 21;
    p = bw_fma(p, z, 2.0 / 19);
    p = bw_fma(p, z, 2.0 / 17);
    p = bw_fma(p, z, 2.0 / 15);
    p = bw_fma(p, z, 2.0 / 13);
    p = bw_fma(p, z, 2.0 / 11);
    p = bw_fma(p, z, 2.0 / 9);
    p = bw_fma(p, z, 2.0 / 7);
    p = bw_fma(p, z, 2.0 / 5);
    p = bw_fma(p, z, 2.0 / 3);
    double rest = bw_fma(-s, f - z * p, n * 5.4979230187083712e-14); /* ln 2 in two parts, the first of 42 bits */
    return bw_log_special(x, bw_fma(n, 0.69314718055989033, f + rest));
}
BW_DEVICE float bw_log(float x)
{
    int k;
    float f = bw_split_power(x, k) - 1, s = f / (2 + f), z = s * s, n = (float)k;
    float p = 2.0f / 11;
    p = bw_fma(p, z, 2.0f / 9);
    p = bw_fma(p, z, 2.0f / 7);
    p = bw_fma(p, z, 2.0f / 5);
    p = bw_fma(p, z, 2.0f / 3);
    float rest = bw_fma(-s, f - z * p, n * 1.42860677e-6f);
    return bw_log_special(x, bw_fma(n, 0.693145752f, f + rest));
}

/* ---- sine and cosine -------------------------------------------------------------------------------------------- */

/* 2 / pi: 64 bits of 0, then 1280 bits of its fraction. */
BW_MATH_TABLE const uint64_t bw_two_over_pi[21] = {
    0x0000000000000000u, 0xa2f9836e4e441529u, 0xfc2757d1f534ddc0u, 0xdb6295993c439041u, 0xfe5163abdebbc561u,
    0xb7246e3a424dd2e0u, 0x06492eea09d1921cu, 0xfe1deb1cb129a73eu, 0xe88235f52ebb4484u, 0xe99c7026b45f7e41u,
    0x3991d639835339f4u, 0x9c845f8bbdf9283bu, 0x1ff897ffde05980fu, 0xef2f118b5a0a6d1fu, 0x6d367ecf27cb09b7u,
    0x4f463f669e5fea2du, 0x7527bac7ebe5f17bu, 0x3d0739f78a5292eau, 0x6bfb5fb11f8d5d08u, 0x56033046fc7b6babu,
    0xf0cfbc209af4361du};

/* x = quadrant * pi / 2 + r + low, |r| <= pi / 4, quadrant modulo 4. */
struct bw_angle {
    double r, low;
    int quadrant;
};

BW_DEVICE uint64_t bw_high_product(uint64_t a, uint64_t b)
{
    return (uint64_t)((unsigned __int128)a * b >> 64);
}

/* Payne and Hanek's way for a finite x >= 2^30: x = M 2^e; bits of 2 / pi that make multiples of 4 with it are left
 * out, 192 bits from there on leave more than 2^-137 of a quadrant, where the nearest such x comes to 2^-62. */
BW_DEVICE bw_angle bw_large_angle(double x)
{
    uint64_t b = bw_bits(x), m = (b & 0x000fffffffffffffu) | 0x0010000000000000u;
    int at = (int)(b >> 52) - 1075 + 62, word = at >> 6, shift = at & 63;
    uint64_t w[4];
#pragma unroll
    for (int i = 0; i < 4; i++)
        w[i] = bw_two_over_pi[word + i];
    if (shift)
#pragma unroll
        for (int i = 0; i < 3; i++)
            w[i] = w[i] << shift | w[i + 1] >> (64 - shift);
    /* the product's low 192 bits, in units of 2^-190 */
    uint64_t low = m * w[2], carry = bw_high_product(m, w[2]), middle = m * w[1];
    uint64_t high = m * w[0] + bw_high_product(m, w[1]);
    middle += carry;
    high += middle < carry;
    bw_angle a;
    a.quadrant = (int)(high >> 62);
    high = high << 2 | middle >> 62;
    middle = middle << 2 | low >> 62;
    low <<= 2;
    bool is_above = high >> 63; /* more than half a quadrant: take the next one, and what is left is negative */
    if (is_above) {
        a.quadrant++;
        low = ~low + 1;
        middle = ~middle + (low == 0);
        high = ~high + (low == 0 && middle == 0);
    }
    int zeros = 0;
    if (high == 0) {
        high = middle;
        middle = low;
        low = 0;
        zeros = 64;
    }
    int more = bw_leading_zeros(high | 1);
    if (more) {
        high = high << more | middle >> (64 - more);
        middle = middle << more | low >> (64 - more);
    }
    double scale = bw_from_bits((uint64_t)(1023 - 64 - zeros - more) << 52);
    double f = (double)(high & ~(uint64_t)0x7ff) * scale;
    double g = bw_fma((double)middle, 0x1p-64, (double)(high & 0x7ff)) * scale;
    f = is_above ? -f : f;
    g = is_above ? -g : g;
    a.r = bw_product(f, 1.5707963267948966);
    a.low = bw_fma(f, 1.5707963267948966, -a.r) + bw_fma(f, 6.123233995736766e-17, g * 1.5707963267948966);
    return a;
}

/* pi / 2 in three parts of 53 bits. Below 2^30 the first leaves no rounding, and the second's is kept. */
BW_DEVICE bw_angle bw_small_angle(double x)
{
    double n = bw_rint(x * 0.63661977236758138), r = bw_fma(-n, 1.5707963267948966, x);
    double p = bw_product(n, 6.123233995736766e-17), p_low = bw_fma(n, 6.123233995736766e-17, -p);
    bw_angle a;
    a.r = r - p;
    double back = a.r - r, lost = (r - (a.r - back)) - (p + back);
    a.low = lost - bw_fma(n, -1.4973849048591698e-33, p_low);
    a.quadrant = (int)n;
    return a;
}

BW_DEVICE bw_angle bw_find_angle(double x)
{
    double size = bw_fabs(x);
    if (!(size >= 0x1p30))
        return bw_small_angle(x);
    bw_angle a = bw_large_angle(size);
    if (x < 0) {
        a.r = -a.r;
        a.low = -a.low;
        a.quadrant = -a.quadrant;
    }
    return a;
}

/* sin and cos of r + low. */
BW_DEVICE double bw_sine_near(double r, double low)
{
    double z = r * r, p = 2.8114572543455206e-15; /* 1 / 17! */
    p = bw_fma(p, z, -7.6471637318198164e-13);
    p = bw_fma(p, z, 1.6059043836821613e-10);
    p = bw_fma(p, z, -2.5052108385441719e-08);
    p = bw_fma(p, z, 2.7557319223985893e-06);
    p = bw_fma(p, z, -1.9841269841269841e-04);
    p = bw_fma(p, z, 8.3333333333333333e-03);
    p = bw_fma(p, z, -1.6666666666666667e-01);
    return r + bw_fma(z * r, p, low);
}
BW_DEVICE double bw_cosine_near(double r, double low)
{
    double z = r * r, p = 4.7794773323873853e-14; /* 1 / 16! */
    p = bw_fma(p, z, -1.1470745597729725e-11);
    p = bw_fma(p, z, 2.0876756987868099e-09);
    p = bw_fma(p, z, -2.7557319223985891e-07);
    p = bw_fma(p, z, 2.4801587301587302e-05);
    p = bw_fma(p, z, -1.3888888888888889e-03);
    p = bw_fma(p, z, 4.1666666666666667e-02);
    double half = 0.5 * z, most = 1 - half;
    return most + (((1 - most) - half) + bw_fma(z * z, p, -r * low));
}
BW_DEVICE float bw_sine_near(float r)
{
    float z = r * r, p = 2.7557319e-6f;
    p = bw_fma(p, z, -1.98412698e-4f);
    p = bw_fma(p, z, 8.33333333e-3f);
    p = bw_fma(p, z, -1.66666667e-1f);
    return bw_fma(z * r, p, r);
}
BW_DEVICE float bw_cosine_near(float r)
{
    float z = r * r, p = -2.75573192e-7f;
    p = bw_fma(p, z, 2.48015873e-5f);
    p = bw_fma(p, z, -1.38888889e-3f);
    p = bw_fma(p, z, 4.16666667e-2f);
    p = bw_fma(p, z, -0.5f);
    return bw_fma(p, z, 1.0f);
}

/* sin(x + turns * pi / 2), turns 0 or 1. */
BW_DEVICE double bw_sine_turned(double x, int turns)
{
    if (!(bw_fabs(x) < bw_infinity(x)))
        return bw_not_a_number<double>();
    bw_angle a = bw_find_angle(x);
    int quadrant = a.quadrant + turns;
    double s = bw_sine_near(a.r, a.low), c = bw_cosine_near(a.r, a.low), v = quadrant & 1 ? c : s;
    return quadrant & 2 ? -v : v;
}
/* The angle is found in f64. */
BW_DEVICE float bw_sine_turned(float x, int turns)
{
    double wide = (double)x, n = bw_rint(wide * 0.63661977236758138);
    float r;
    int quadrant;
    if (bw_fabs(x) < 0x1p30f) {
        r = (float)bw_fma(-n, 6.123233995736766e-17, bw_fma(-n, 1.5707963267948966, wide));
        quadrant = (int)n;
    } else if (bw_fabs(x) < bw_infinity(x)) {
        bw_angle a = bw_find_angle(wide);
        r = (float)a.r;
        quadrant = a.quadrant;
    } else {
        return bw_not_a_number<float>();
    }
    quadrant += turns;
    float s = bw_sine_near(r), c = bw_cosine_near(r), v = quadrant & 1 ? c : s;
    return quadrant & 2 ? -v : v;
}
template <typename W> BW_DEVICE W bw_sin(W x)
{
    return bw_fabs(x) < (W)0x1p-27 ? x : bw_sine_turned(x, 0); /* keeps the sign of 0 */
}
template <typename W> BW_DEVICE W bw_cos(W x)
{
    return bw_sine_turned(x, 1);
}

/* ---- e^x - 1, tanh ---------------------------------------------------------------------------------------------- */

/* x = k ln 2 + r: 2^k (e^r - 1) + (2^k - 1). */
BW_DEVICE double bw_expm1(double x)
{
    double n = bw_rint(x * 1.4426950408889634), r = bw_fma(n, -6.93147180369123816490e-01, x);
    r = bw_fma(n, -1.90821492927058770002e-10, r);
    double p = 1.1470745597729725e-11; /* 1 / 14! */
    p = bw_fma(p, r, 1.6059043836821613e-10);
    p = bw_fma(p, r, 2.0876756987868099e-09);
    p = bw_fma(p, r, 2.5052108385441719e-08);
    p = bw_fma(p, r, 2.7557319223985891e-07);
    p = bw_fma(p, r, 2.7557319223985893e-06);
    p = bw_fma(p, r, 2.4801587301587302e-05);
    p = bw_fma(p, r, 1.9841269841269841e-04);
    p = bw_fma(p, r, 1.3888888888888889e-03);
    p = bw_fma(p, r, 8.3333333333333333e-03);
    p = bw_fma(p, r, 4.1666666666666667e-02);
    p = bw_fma(p, r, 1.6666666666666667e-01);
    p = bw_fma(p, r, 0.5);
    double e = bw_fma(p * r, r, r);
    if (!(x > -40)) /* also NaN */
        return x < 0 ? -1 : x;
    if (x > 40)
        return bw_exp(x);
    double power = bw_ldexp(1.0, (int)n);
    return bw_fma(power, e, power - 1);
}
BW_DEVICE float bw_expm1(float x)
{
    float p = 1.98412698e-4f; /* 1 / 7! */
    p = bw_fma(p, x, 1.38888889e-3f);
    p = bw_fma(p, x, 8.33333333e-3f);
    p = bw_fma(p, x, 4.16666667e-2f);
    p = bw_fma(p, x, 1.66666667e-1f);
    p = bw_fma(p, x, 0.5f);
    float near = bw_fma(p * x, x, x);
    return bw_fabs(x) < 0.35f ? near : bw_exp(x) - 1;
}
/* t / (t + 2) with t = e^2x - 1. */
template <typename W> BW_DEVICE W bw_tanh(W x)
{
    W size = bw_fabs(x), t = bw_expm1(2 * size);
    return bw_with_sign(size > 22 ? (W)1 : t / (t + 2), x);
}

/* ---- the error function ----------------------------------------------------------------------------------------- */

/* erf(x) for |x| <= 1: x times a polynomial in x^2, within 2^-55. */
BW_DEVICE double bw_erf_near(double x)
{
    double z = x * x, p = 5.9571761477489113e-11;
    p = bw_fma(p, z, -1.1372848856791674e-09);
    p = bw_fma(p, z, 1.4659775274047436e-08);
    p = bw_fma(p, z, -1.6350312701054695e-07);
    p = bw_fma(p, z, 1.6461000484121368e-06);
    p = bw_fma(p, z, -1.4925595266831182e-05);
    p = bw_fma(p, z, 0.0001205533111164271);
    p = bw_fma(p, z, -0.000854832698083379);
    p = bw_fma(p, z, 0.0052239776248180145);
    p = bw_fma(p, z, -0.026866170645076792);
    p = bw_fma(p, z, 0.11283791670954879);
    p = bw_fma(p, z, -0.37612638903183748);
    return x * bw_fma(p, z, 1.1283791670955126);
}
BW_DEVICE float bw_erf_near(float x) /* 2^-24 */
{
    float z = x * x, p = 7.87587487e-05f;
    p = bw_fma(p, z, -0.00080168643f);
    p = bw_fma(p, z, 0.00518908724f);
    p = bw_fma(p, z, -0.0268542115f);
    p = bw_fma(p, z, 0.112835944f);
    p = bw_fma(p, z, -0.37612626f);
    return x * bw_fma(p, z, 1.12837911f);
}
/* e^(x^2) erfc(x) for x from 0.9 to 28 (f32: 11), over what it tends to, as a polynomial in (x - c) / (x + c): 2^-54.
 */
BW_DEVICE double bw_erfc_scaled(double x)
{
    double t = (x - 3) / (x + 3), p = -2.4463257462151428e-08;
    p = bw_fma(p, t, 1.4403583386129837e-07);
    p = bw_fma(p, t, -8.204373819350643e-08);
    p = bw_fma(p, t, -6.8711896666817732e-07);
    p = bw_fma(p, t, 3.4204832216020191e-07);
    p = bw_fma(p, t, 3.5149530804581646e-06);
    p = bw_fma(p, t, -7.351941269643587e-07);
    p = bw_fma(p, t, -2.0114181926446931e-05);
    p = bw_fma(p, t, 4.9524705333020818e-06);
    p = bw_fma(p, t, 0.00012510192359161854);
    p = bw_fma(p, t, -0.00010516054420877889);
    p = bw_fma(p, t, -0.00077983256764924884);
    p = bw_fma(p, t, 0.0018886904539234515);
    p = bw_fma(p, t, 0.0025293918364890553);
    p = bw_fma(p, t, -0.02377051492504454);
    p = bw_fma(p, t, 0.068308027343178132);
    p = bw_fma(p, t, -0.119273663415099);
    p = bw_fma(p, t, 0.12964515870277596);
    p = bw_fma(p, t, -0.047562294353453334);
    p = bw_fma(p, t, -0.13562110612458128);
    p = bw_fma(p, t, 1.2530080582697296);
    return p / (1 + 2 * x);
}
BW_DEVICE float bw_erfc_scaled(float x) /* 2^-26 */
{
    float t = (x - 2) / (x + 2), p = -0.00153391983f;
    p = bw_fma(p, t, 0.00113948097f);
    p = bw_fma(p, t, 0.00875488576f);
    p = bw_fma(p, t, -0.0080196606f);
    p = bw_fma(p, t, -0.054222744f);
    p = bw_fma(p, t, 0.164050624f);
    p = bw_fma(p, t, -0.166030347f);
    p = bw_fma(p, t, -0.0927638188f);
    p = bw_fma(p, t, 1.27697837f);
    return p / (1 + 2 * x);
}
/* erfc(x), x >= 1. e^(-x^2) needs x^2 beyond its rounding. */
BW_DEVICE double bw_erfc_far(double x)
{
    x = x < 28 ? x : 28;
    double h = bw_product(x, x), low = bw_fma(x, x, -h), e = bw_exp(-h);
    return bw_fma(-low, e, e) * bw_erfc_scaled(x);
}
template <typename W> BW_DEVICE W bw_erf(W x)
{
    W size = bw_fabs(x), most = size < 6 ? size : (W)6;
    if (!(size > 1)) /* also NaN */
        return bw_erf_near(x);
    return bw_with_sign(1 - bw_exp(-most * most) * bw_erfc_scaled(most), x);
}
BW_DEVICE double bw_erfc(double x)
{
    if (!(bw_fabs(x) > 1))
        return 1 - bw_erf_near(x);
    double far = bw_erfc_far(bw_fabs(x));
    return x < 0 ? 2 - far : far;
}
/* erfc(-x / sqrt 2) / 2 in f32. The exponent -x^2 / 2 is kept in two parts, and e^32 larger until the last product, so
 * that nothing rounds among subnormal numbers before. */
BW_DEVICE float bw_normcdf(float x)
{
    if (!(bw_fabs(x) > 1.2728f))
        return 0.5f + 0.5f * bw_erf_near(x * 0.707106781f);
    float size = bw_fabs(x) < 15 ? bw_fabs(x) : 15.0f;
    double exponent = bw_fma(-0.5 * (double)size, (double)size, 32.0);
    float high = (float)exponent, low = (float)(exponent - (double)high), e = bw_exp(high);
    float far = 0.5f * bw_fma(low, e, e) * bw_erfc_scaled(size * 0.707106781f) * 1.26641655e-14f; /* e^-32 */
    return x < 0 ? far : 1 - far;
}

/* ---- powers ----------------------------------------------------------------------------------------------------- */

/* x^y for x > 0 and finite, x != 1, y finite. ln x in two numbers, good to 2^-63 of itself, so that y ln x up to 745 is
 * good to a part of the last place. */
BW_DEVICE double bw_power_of_positive(double x, double y)
{
    int k;
    double f = bw_split_power(x, k) - 1, n = (double)k;
    double u = 2 + f, u_low = (2 - u) + f;
    double s = f / u, s_low = bw_fma(-s, u_low, bw_fma(-s, u, f)) / u;
    double z = bw_product(s, s), z_low = bw_fma(2 * s, s_low, bw_fma(s, s, -z));
    double q = 2.0 / 21;
    q = bw_fma(q, z, 2.0 / 19);
    q = bw_fma(q, z, 2.0 / 17);
    q = bw_fma(q, z, 2.0 / 15);
    q = bw_fma(q, z, 2.0 / 13);
    q = bw_fma(q, z, 2.0 / 11);
    q = bw_fma(q, z, 2.0 / 9);
    q = bw_fma(q, z, 2.0 / 7);
    q = bw_product(bw_fma(q, z, 2.0 / 5), z);
    const double c0 = 0.66666666666666663, c0_low = 3.7007434154171883e-17; /* 2 / 3 */
    double c = c0 + q, c_low = ((c0 - c) + q) + c0_low;
    double r = bw_product(z, c), r_low = bw_fma(z, c_low, bw_fma(z_low, c, bw_fma(z, c, -r)));
    double t = 2 + r, t_low = ((2 - t) + r) + r_low;
    double l = bw_product(s, t), l_low = bw_fma(s, t_low, bw_fma(s_low, t, bw_fma(s, t, -l)));
    double whole = bw_product(n, 0.69314718055989033); /* exact: 42 bits by 11 */
    double sum = whole + l, rest = ((whole - sum) + l) + bw_fma(n, 5.4979230187083712e-14, l_low);
    double high = sum + rest, low = (sum - high) + rest;
    double p = bw_product(y, high), p_low = bw_fma(y, low, bw_fma(y, high, -p));
    if (p > 710)
        return bw_infinity(x);
    if (p < -746)
        return 0;
    double e = bw_exp(p);
    return e < bw_infinity(x) ? bw_fma(e, p_low, e) : e;
}

/* C's pow. IS_SHORT: good enough for f32, from plain logarithms. */
template <bool IS_SHORT> BW_DEVICE double bw_power(double x, double y)
{
    const double infinity = bw_infinity(x), size = bw_fabs(x);
    if (y == 0 || x == 1)
        return 1;
    if (x != x || y != y)
        return x + y;
    bool is_whole = bw_trunc(y) == y, is_odd = is_whole && bw_fabs(y) < 0x1p53 && ((int64_t)y & 1);
    double v;
    if (size == 1)
        v = 1;
    else if (bw_fabs(y) == infinity)
        return (size > 1) == (y > 0) ? infinity : 0;
    else if (size == 0 || size == infinity)
        v = (size == 0) == (y < 0) ? infinity : 0;
    else
        v = IS_SHORT ? bw_exp(y * bw_log(size)) : bw_power_of_positive(size, y);
    if (x < 0 && size < infinity && !is_whole)
        return bw_not_a_number<double>();
    return is_odd ? bw_with_sign(v, x) : v;
}
BW_DEVICE double bw_pow(double x, double y)
{
    return bw_power<false>(x, y);
}
BW_DEVICE float bw_pow(float x, double y)
{
    return (float)bw_power<true>((double)x, y);
}

#endif
