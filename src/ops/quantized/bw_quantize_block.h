/* Device code: what the encoders of blocks share. The arithmetic is that of src/tensor/encode*.c, operation by
 * operation, so that the bytes are equal: files that include this are compiled without fused multiply-adds (named
 * *_exact.hip). Sums run in four lanes, as there. */
#ifndef BW_QUANTIZE_BLOCK_H
#define BW_QUANTIZE_BLOCK_H

#include "quantized/bw_quant_blocks.h"

#include "quantized/bw_quantize_args.h"

BW_DEVICE float bw_abs(float x)
{
    return bw_from_bits(bw_bits(x) & 0x7fffffffu);
}
BW_DEVICE float bw_infinity(void)
{
    return bw_from_bits(0x7f800000u);
}
/* f32 to the bits of a half, NaN to the one NaN. */
BW_DEVICE uint32_t bw_half_bits(float f)
{
    uint32_t b = bw_bits(f), sign = b >> 16 & 0x8000u, abs = b & 0x7fffffffu;
    if (abs > 0x7f800000u)
        return sign | 0x7e00u;
    if (abs >= 0x477ff000u)
        return sign | 0x7c00u;
    if (abs < 0x38800000u) /* subnormal result: the addition rounds */
        return sign | (bw_bits(bw_from_bits(abs) + 0.5f) - 0x3f000000u);
    return sign | (abs - 0x38000000u + 0xfffu + (abs >> 13 & 1u)) >> 13;
}
BW_DEVICE bool bw_half_is_finite(uint32_t h)
{
    return (h & 0x7c00u) != 0x7c00u;
}
/* 1 / f, or 0 where that is no finite number. */
BW_DEVICE float bw_inverse(float f)
{
    float r = f != 0 ? 1.0f / f : 0.0f;
    return r - r == 0 ? r : 0.0f;
}
/* To the nearest integer, ties to even; |f| must be below 2^22. */
BW_DEVICE float bw_round_near(float f)
{
    return (f + 12582912.0f) - 12582912.0f;
}
BW_DEVICE float bw_clamp(float f, float low, float high)
{
    return f < low ? low : f > high ? high : f;
}
BW_DEVICE int bw_clamp_int(int v, int low, int high)
{
    return v < low ? low : v > high ? high : v;
}
BW_DEVICE float bw_level(float f, float low, float high)
{
    f = f < low ? low : f;
    f = f > high ? high : f;
    return bw_round_near(f);
}
BW_DEVICE float bw_sum4(const float (&v)[4])
{
    return (v[0] + v[2]) + (v[1] + v[3]);
}

/* Values that no encoder refuses: NaN 0, magnitudes at most 65504; importances 0 to 1e30. */
BW_DEVICE float bw_quantize_value(float x)
{
    return !(x == x) ? 0.0f : bw_clamp(x, -65504.0f, 65504.0f);
}
BW_DEVICE float bw_quantize_importance(float w)
{
    return w > 1e30f ? 1e30f : w > 0 ? w : 0.0f;
}

/* A thread's n values: in registers, where every loop over them is unrolled, or in shared memory, where none is: a
 * column of a tile with BW_QUANTIZE_THREADS columns. Loops take four elements at a time, `fours` such steps unrolled.
 */
enum { BW_QUANTIZE_THREADS = 64 };
template <int N> struct bw_in_registers {
    static constexpr int n = N, fours = N / 4;
    float v[N];
    BW_DEVICE_SPECIAL float operator[](int i) const
    {
        return v[i];
    }
};
template <int N> struct bw_in_column {
    static constexpr int n = N, fours = 1;
    const float *v;
    BW_DEVICE_SPECIAL float operator[](int i) const
    {
        return v[i * BW_QUANTIZE_THREADS];
    }
};

/* The value of the largest magnitude, the first of equals; 0 if all are. */
template <typename X> BW_DEVICE float bw_extreme(const X &x)
{
    float most = 0, value = 0;
#pragma unroll X::fours
    for (int i = 0; i < X::n; i += 4)
#pragma unroll
        for (int j = 0; j < 4; j++) {
            bool is_more = bw_abs(x[i + j]) > most;
            value = is_more ? x[i + j] : value;
            most = is_more ? bw_abs(x[i + j]) : most;
        }
    return value;
}

/* Where block number `block` of all rows lies: its f32 values, its column, its first element in y. */
struct bw_quantize_place {
    int64_t x, column, y;
};
BW_DEVICE bw_quantize_place bw_quantize_find(const bw_quantize_args &p, int64_t block, int elements)
{
    int64_t at[2], row = block / p.per_row;
    bw_quantize_place place;
    place.column = (block - row * p.per_row) * elements;
    bw_loop_offsets<2, uint64_t>(p.rows, (uint64_t)row, at);
    place.x = at[0] + place.column;
    place.y = at[1] + place.column;
    return place;
}

/* ---- the list of 16 values of iq4_nl and iq4_xs ------------------------------------------------------------------ */

BW_DEVICE uint32_t bw_iq4_number(float v)
{
    constexpr float borders[15] = {-115.5f, -93.5f, -74,   -57,   -42, -28.5f, -16, -4.5f,
                                   7,       19,     31.5f, 45.5f, 61,  79,     101};
    uint32_t number = 0;
#pragma unroll
    for (int k = 0; k < 15; k++)
        number += v > borders[k] ? 1u : 0u;
    return number;
}
BW_DEVICE float bw_iq4_nearest(float v)
{
    return bw_iq4_value(bw_iq4_number(v));
}

/* One candidate: the scale that explains most when values are rounded with step 1 / inverse. `nearest` gives the level.
 */
template <typename X, typename F>
BW_DEVICE void bw_try_scale(const X &x, const X &w, float inverse, F nearest, float &best, float &scale)
{
    float xl[4] = {0, 0, 0, 0}, ll[4] = {0, 0, 0, 0};
#pragma unroll X::fours
    for (int i = 0; i < X::n; i += 4)
#pragma unroll
        for (int j = 0; j < 4; j++) {
            float l = nearest(x[i + j] * inverse), wl = w[i + j] * l;
            xl[j] += wl * x[i + j];
            ll[j] += wl * l;
        }
    float sxl = bw_sum4(xl), sll = bw_sum4(ll);
    if (sll > 0 && sxl * sxl > best * sll) {
        best = sxl * sxl / sll;
        scale = sxl / sll;
    }
}

template <typename X> BW_DEVICE float bw_iq4_search(const X &x, const X &w)
{
    auto nearest = [](float v) { return bw_iq4_nearest(v); };
    float best = 0, scale = 0, inverse = bw_inverse(bw_extreme(x));
    if (inverse != 0)
#pragma unroll 1
        for (int step = -12; step <= 16; step += 4)
#pragma unroll 1
            for (int end = 0; end < 2; end++)
                bw_try_scale(x, w, (float)((end ? 113 : -127) + step) * inverse, nearest, best, scale);
#pragma unroll 1
    for (int round = 0; scale != 0 && round < 2; round++)
        bw_try_scale(x, w, bw_inverse(scale), nearest, best, scale);
    return scale;
}

/* The weighted squared error of y = scale * level. */
template <typename X, typename F> BW_DEVICE float bw_scale_error(const X &x, const X &w, float scale, F nearest)
{
    float inverse = bw_inverse(scale), error[4] = {0, 0, 0, 0};
#pragma unroll X::fours
    for (int i = 0; i < X::n; i += 4)
#pragma unroll
        for (int j = 0; j < 4; j++) {
            float off = scale * nearest(x[i + j] * inverse) - x[i + j];
            error[j] += w[i + j] * off * off;
        }
    return bw_sum4(error);
}

#endif
