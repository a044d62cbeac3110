/* One vector type for kernels that are written once and compiled per CPU level. A kernel's body stands in a header
 * (<family>_simd.h) and is included by <family>_plain.c, _avx2.c and _avx512.c, each of which first defines
 * BW_VEC_PLAIN, BW_VEC_AVX2 or BW_VEC_AVX512. Owns loads, conversions, arithmetic and the elementary functions in f32;
 * refuses to know any operation.
 *
 * vf holds VF_N floats. BW_LEVEL(name) is name_plain, name_avx2 or name_avx512.
 * Loads and stores need no alignment. The _n forms touch only n < VF_N elements; missing ones read as 0.
 */
#ifndef BW_VEC_H
#define BW_VEC_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "bw_dtype.h"
#include "bw_inline.h"

#if defined(BW_VEC_AVX512)
#include "bw_vec_avx512.h"
#elif defined(BW_VEC_AVX2)
#include "bw_vec_avx2.h"
#elif defined(BW_VEC_PLAIN)
#include "bw_vec_plain.h"
#else
#error "define BW_VEC_PLAIN, BW_VEC_AVX2 or BW_VEC_AVX512 first"
#endif

/* vf_store, or past the caches: then p is aligned to a vector. */
BW_INLINE void vf_put(float *p, vf v, bool is_streamed)
{
    if (is_streamed)
        vf_stream(p, v);
    else
        vf_store(p, v);
}

/* Elements of a KV cache row or any plain row: VF_N values of f32, f16 or bf16 at element d of a row. dtype is a
 * constant at every call, so the choice costs nothing. */
BW_INLINE vf vf_load_as(bw_dtype dtype, const void *row, int64_t d)
{
    if (dtype == BW_F16)
        return vf_load_f16((const uint16_t *)row + d);
    if (dtype == BW_BF16)
        return vf_load_bf16((const uint16_t *)row + d);
    return vf_load((const float *)row + d);
}

/* e^x, relative error below 2e-7. Above 88.37 it is infinity, below -87.33 zero; NaN stays NaN. Range reduction to
 * |r| <= ln2 / 2 in two parts (Cody and Waite), minimax polynomial of degree 6. */
BW_INLINE vf vf_exp(vf x)
{
    const vf low = vf_set1(-87.33f);
    vf y = vf_clamp(x, -87.33f, 88.8f);
    vf n = vf_round(vf_mul(y, vf_set1(1.44269504f)));
    vf r = vf_fnma(n, vf_set1(0.693359375f), y);
    r = vf_fnma(n, vf_set1(-2.12194440e-4f), r);
    vf p = vf_set1(0.00139505998f);
    p = vf_fma(p, r, vf_set1(0.00836895406f));
    p = vf_fma(p, r, vf_set1(0.041666206f));
    p = vf_fma(p, r, vf_set1(0.166665182f));
    p = vf_fma(p, r, vf_set1(0.5f));
    p = vf_fma(p, vf_mul(r, r), r);
    p = vf_add(p, vf_set1(1.0f));
    return vf_zero_where_less(vf_mul(p, vf_pow2(n)), x, low);
}

/* The nearest integer to x c, |x c| < 2^22; its low bits are the low bits of *bits. Adding 1.5 * 2^23 rounds at units.
 */
BW_INLINE vf vf_round_product(vf x, float c, vf *bits)
{
    *bits = vf_fma(x, vf_set1(c), vf_set1(0x1.8p23f));
    return vf_sub(*bits, vf_set1(0x1.8p23f));
}

/* x / (1 + e^-u): x times the logistic function of u. */
BW_INLINE vf vf_mul_logistic(vf x, vf u)
{
    return vf_div(x, vf_add(vf_set1(1.0f), vf_exp(vf_neg(u))));
}

/* tanh, relative error below 4e-7: x P(x^2) / Q(x^2) on [-9.02, 9.02], minimax; beyond it is 1. */
BW_INLINE vf vf_tanh(vf x)
{
    x = vf_clamp(x, -9.02f, 9.02f);
    vf z = vf_mul(x, x);
    vf p = vf_set1(1.33190393e-08f), q = vf_set1(7.76200552e-07f);
    p = vf_fma(p, z, vf_set1(2.05834558e-05f));
    q = vf_fma(q, z, vf_set1(0.000328309025f));
    p = vf_fma(p, z, vf_set1(0.00349403295f));
    q = vf_fma(q, z, vf_set1(0.025871067f));
    p = vf_fma(p, z, vf_set1(0.133797166f));
    q = vf_fma(q, z, vf_set1(0.467130318f));
    p = vf_fma(p, z, vf_set1(0.999999979f));
    q = vf_fma(q, z, vf_set1(1.0f));
    return vf_clamp(vf_div(vf_mul(x, p), q), -1.0f, 1.0f);
}

/* erfc(z) / 2 for z >= 0, relative error below 1e-6 to z = 5: t e^(-z^2 + P(t)) / 2 with t = 1 / (1 + z/2), P a minimax
 * polynomial. */
BW_INLINE vf vf_half_erfc(vf z)
{
    vf t = vf_div(vf_set1(1.0f), vf_fma(z, vf_set1(0.5f), vf_set1(1.0f)));
    vf p = vf_set1(0.142194912f);
    p = vf_fma(p, t, vf_set1(-0.666066647f));
    p = vf_fma(p, t, vf_set1(1.12240922f));
    p = vf_fma(p, t, vf_set1(-0.651259184f));
    p = vf_fma(p, t, vf_set1(-0.11677888f));
    p = vf_fma(p, t, vf_set1(0.0201915354f));
    p = vf_fma(p, t, vf_set1(0.0283585619f));
    p = vf_fma(p, t, vf_set1(0.387899429f));
    p = vf_fma(p, t, vf_set1(0.998492539f));
    p = vf_fma(p, t, vf_set1(-1.26544142f));
    return vf_mul(vf_mul(t, vf_set1(0.5f)), vf_exp(vf_fnma(z, z, p)));
}

#endif
