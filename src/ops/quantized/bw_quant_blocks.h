/* Device code: the decoders of every quantised block type, for kernels of any family. Owns the layouts' meaning on a
 * GPU (src/tensor/decode.c and decode_iq.c have the same on the CPU, byte for byte); refuses to know how blocks are
 * spread over threads.
 *
 *     bw_quant<BW_Q4_K>::elements, ::bytes
 *     bw_quant<BW_Q4_K>::decode8(b, i, y)    y[0..8) = elements i .. i + 7 of the block at b, i a multiple of 8
 *     bw_decode<BW_Q4_K, 32>(b, i, y)        the same for 8, 16 or 32 elements, i a multiple of their number
 *
 * i may differ between threads. Values are those of bw_decode_row, bit for bit: every product here is exact in f32 but
 * the last, so a fused multiply-add changes nothing. Blocks lie at multiples of their own size from memory that is
 * aligned to 4: what is read in words relies on it. */
#ifndef BW_QUANT_BLOCKS_H
#define BW_QUANT_BLOCKS_H

#include "bw_kernel.h"

#define BW_TABLE BW_DEVICE_TABLE
#include "../tensor/iq_tables.h"

enum bw_dtype {
#define BW_DTYPE(NAME, name, gguf, block_elements, block_bytes, is_quantised) BW_##NAME,
#include "../tensor/dtypes.def"
#undef BW_DTYPE
};

/* ---- bytes ------------------------------------------------------------------------------------------------------ */

BW_DEVICE uint32_t bw_u16_at(const uint8_t *p) /* p even */
{
    return *(const uint16_t *)(const void *)p;
}
/* ALIGN: what p is a multiple of, 1, 2 or 4. */
template <int ALIGN> BW_DEVICE uint32_t bw_u32_at(const uint8_t *p)
{
    if (ALIGN >= 4)
        return *(const uint32_t *)(const void *)p;
    if (ALIGN == 2)
        return bw_u16_at(p) | bw_u16_at(p + 2) << 16;
    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}
BW_DEVICE float bw_half_of(uint32_t bits)
{
    uint16_t b = (uint16_t)bits;
    bw_f16 h;
    __builtin_memcpy(&h, &b, 2);
    return bw_get(h);
}
BW_DEVICE float bw_half_at(const uint8_t *p) /* p even */
{
    return bw_half_of(bw_u16_at(p));
}

/* Eight bytes, the first lowest. */
struct bw_bytes8 {
    uint32_t low, high;
};
template <int ALIGN> BW_DEVICE bw_bytes8 bw_bytes8_at(const uint8_t *p)
{
    bw_bytes8 r;
    r.low = bw_u32_at<ALIGN>(p);
    r.high = bw_u32_at<ALIGN>(p + 4);
    return r;
}
/* Byte j, a constant once loops are unrolled. */
BW_DEVICE uint32_t bw_byte(bw_bytes8 b, int j)
{
    return (j < 4 ? b.low : b.high) >> (j % 4 * 8) & 255u;
}
BW_DEVICE float bw_signed_byte(bw_bytes8 b, int j)
{
    return (float)(int)(int8_t)bw_byte(b, j);
}

/* ---- shared pieces ---------------------------------------------------------------------------------------------- */

/* y[j] = (q[j] - from) * d + m of eight nibbles or whole bytes. */
BW_DEVICE void bw_scale_nibbles(bw_bytes8 q, int shift, int from, float d, float m, float (&y)[8])
{
#pragma unroll
    for (int j = 0; j < 8; j++)
        y[j] = (float)((int)(bw_byte(q, j) >> shift & 15u) - from) * d + m;
}
/* With a fifth bit each, from bit 0 of `fifth` on. */
BW_DEVICE void bw_scale_five_bits(bw_bytes8 q, int shift, uint32_t fifth, int from, float d, float m, float (&y)[8])
{
#pragma unroll
    for (int j = 0; j < 8; j++)
        y[j] = (float)((int)((bw_byte(q, j) >> shift & 15u) | (fifth >> j & 1u) << 4) - from) * d + m;
}
BW_DEVICE void bw_scale_bytes(bw_bytes8 q, float d, float (&y)[8])
{
#pragma unroll
    for (int j = 0; j < 8; j++)
        y[j] = bw_signed_byte(q, j) * d;
}

/* Scale and minimum of group g (0..7) from the 12 packed bytes of q4_k and q5_k. */
BW_DEVICE void bw_k4_scale_min(const uint8_t *p, int g, float &scale, float &min)
{
    uint32_t low = p[g & 3], middle = p[(g & 3) + 4], high = p[(g & 3) + 8];
    scale = (float)(int)(g < 4 ? low & 63u : (high & 15u) | low >> 6 << 4);
    min = (float)(int)(g < 4 ? middle & 63u : high >> 4 | middle >> 6 << 4);
}

/* The 16 values of iq4_nl and iq4_xs, -127 -104 -83 -65 -49 -35 -22 -10 1 13 25 38 53 69 89 113, as bytes of words. */
BW_DEVICE float bw_iq4_value(uint32_t q)
{
    uint32_t low = q & 4u ? 0xf6eaddcfu : 0xbfad9881u, high = q & 4u ? 0x71594535u : 0x26190d01u;
    return (float)(int)(int8_t)((q & 8u ? high : low) >> (q & 3u) * 8u);
}
/* Twice the value of an E2M1: 0 1 2 3 4 6 8 12, bit 3 the sign; 8 is +0. */
BW_DEVICE float bw_fp4_value(uint32_t q)
{
    int v = (int)(0xc8643210u >> (q & 7u) * 4u & 15u);
    return (float)(q & 8u ? -v : v);
}
BW_DEVICE void bw_scale_iq4(bw_bytes8 q, int shift, float d, float (&y)[8])
{
#pragma unroll
    for (int j = 0; j < 8; j++)
        y[j] = bw_iq4_value(bw_byte(q, j) >> shift & 15u) * d;
}
BW_DEVICE void bw_scale_fp4(bw_bytes8 q, int shift, float d, float (&y)[8])
{
#pragma unroll
    for (int j = 0; j < 8; j++)
        y[j] = bw_fp4_value(bw_byte(q, j) >> shift & 15u) * d;
}

/* Eight signs from seven bits: the eighth makes the number of minus signs even. */
BW_DEVICE uint32_t bw_even_signs(uint32_t seven)
{
    seven &= 127u;
    return seven | (0x6996u >> ((seven ^ seven >> 4) & 15u) & 1u) << 7;
}
/* A sign bit moved to where f32 has it. */
BW_DEVICE float bw_with_sign(float v, uint32_t signs, int j)
{
    return bw_from_bits(bw_bits(v) ^ (signs >> j & 1u) << 31);
}
/* Eight of the values 8 25 43 by two bits each. */
BW_DEVICE void bw_expand_iq2(float scale, uint32_t entry, uint32_t signs, float (&y)[8])
{
#pragma unroll
    for (int j = 0; j < 8; j++)
        y[j] = bw_with_sign(scale * (float)(int)(0x2b1908u >> (entry >> j * 2 & 3u) * 8u & 255u), signs, j);
}
/* Eight of the values -1 0 1 by two bits each, moved by delta. */
BW_DEVICE void bw_expand_iq1(float scale, uint32_t entry, float delta, float (&y)[8])
{
#pragma unroll
    for (int j = 0; j < 8; j++)
        y[j] = scale * ((float)((int)(entry >> j * 2 & 3u) - 1) + delta);
}
/* Digit 3 * rest / 256 of a fraction of 256 in base 3, less 1. */
BW_DEVICE float bw_ternary(uint32_t byte, uint32_t power)
{
    return (float)((int)((byte * power & 255u) * 3u >> 8) - 1);
}
BW_DEVICE uint32_t bw_power_of_3(int n) /* 0..4 */
{
    return n == 4 ? 81u : 0x1b090301u >> n * 8 & 255u;
}
/* 2^(e - 127) / 2 */
BW_DEVICE float bw_e8m0_half(uint32_t e)
{
    return bw_from_bits(e < 2 ? 0x00200000u << e : (e - 1) << 23);
}

/* ---- the types -----------------------------------------------------------------------------------------------------
 */

template <int TYPE> struct bw_quant;

#define BW_BLOCK(NAME, n_elements, n_bytes)                                                                            \
    template <> struct bw_quant<BW_##NAME> {                                                                           \
        static constexpr int elements = n_elements, bytes = n_bytes;                                                   \
        BW_DEVICE void decode8(const uint8_t *b, int i, float (&y)[8]);                                                \
    };                                                                                                                 \
    BW_DEVICE_SPECIAL void bw_quant<BW_##NAME>::decode8(const uint8_t *b, int i, float(&y)[8])

BW_BLOCK(Q4_0, 32, 18)
{
    bw_scale_nibbles(bw_bytes8_at<2>(b + 2 + i % 16), i / 16 * 4, 8, bw_half_at(b), 0, y);
}
BW_BLOCK(Q4_1, 32, 20)
{
    bw_scale_nibbles(bw_bytes8_at<4>(b + 4 + i % 16), i / 16 * 4, 0, bw_half_at(b), bw_half_at(b + 2), y);
}
BW_BLOCK(Q5_0, 32, 22)
{
    bw_scale_five_bits(bw_bytes8_at<2>(b + 6 + i % 16), i / 16 * 4, b[2 + i / 8], 16, bw_half_at(b), 0, y);
}
BW_BLOCK(Q5_1, 32, 24)
{
    bw_scale_five_bits(bw_bytes8_at<4>(b + 8 + i % 16), i / 16 * 4, b[4 + i / 8], 0, bw_half_at(b), bw_half_at(b + 2),
                       y);
}
BW_BLOCK(Q8_0, 32, 34)
{
    bw_scale_bytes(bw_bytes8_at<2>(b + 2 + i), bw_half_at(b), y);
}
BW_BLOCK(Q8_1, 32, 36)
{
    bw_scale_bytes(bw_bytes8_at<4>(b + 4 + i), bw_half_at(b), y);
}
/* scales [16] (low nibble scale, high nibble minimum), quants [64], d, dmin */
BW_BLOCK(Q2_K, 256, 84)
{
    float d = bw_half_at(b + 80), dmin = bw_half_at(b + 82);
    uint32_t scale = b[i / 16];
    float ds = d * (float)(int)(scale & 15u), dm = dmin * (float)(int)(scale >> 4);
    bw_bytes8 q = bw_bytes8_at<4>(b + 16 + i / 128 * 32 + i % 32);
    int shift = i % 128 / 32 * 2;
#pragma unroll
    for (int j = 0; j < 8; j++)
        y[j] = ds * (float)(int)(bw_byte(q, j) >> shift & 3u) - dm;
}
/* high bits [32], quants [64], 16 six-bit scales [12], d */
BW_BLOCK(Q3_K, 256, 110)
{
    int g = i / 16, shift = i % 128 / 32 * 2;
    uint32_t low = b[96 + g % 8] >> (g / 8 * 4) & 15u, top = b[104 + g % 4] >> (g / 4 * 2) & 3u;
    float ds = bw_half_at(b + 108) * (float)((int)(low | top << 4) - 32);
    bw_bytes8 q = bw_bytes8_at<2>(b + 32 + i / 128 * 32 + i % 32), high = bw_bytes8_at<2>(b + i % 32);
#pragma unroll
    for (int j = 0; j < 8; j++)
        y[j] = ds * (float)((int)((bw_byte(q, j) >> shift & 3u) | (bw_byte(high, j) >> (i / 32) & 1u) << 2) - 4);
}
/* d, dmin, 8 six-bit scales and minima [12], quants [128] */
BW_BLOCK(Q4_K, 256, 144)
{
    float scale, min;
    bw_k4_scale_min(b + 4, i / 32, scale, min);
    bw_scale_nibbles(bw_bytes8_at<4>(b + 16 + i / 64 * 32 + i % 32), i / 32 % 2 * 4, 0, bw_half_at(b) * scale,
                     -(bw_half_at(b + 2) * min), y);
}
/* as q4_k with high bits [32] before the quants */
BW_BLOCK(Q5_K, 256, 176)
{
    float scale, min;
    int g = i / 32;
    bw_k4_scale_min(b + 4, g, scale, min);
    float ds = bw_half_at(b) * scale, dm = bw_half_at(b + 2) * min;
    bw_bytes8 q = bw_bytes8_at<4>(b + 48 + i / 64 * 32 + i % 32), high = bw_bytes8_at<4>(b + 16 + i % 32);
#pragma unroll
    for (int j = 0; j < 8; j++)
        y[j] = ds * (float)(int)((bw_byte(q, j) >> (g % 2 * 4) & 15u) | (bw_byte(high, j) >> g & 1u) << 4) - dm;
}
/* low nibbles [128], high bit pairs [64], 16 int8 scales, d */
BW_BLOCK(Q6_K, 256, 210)
{
    int half = i / 128, part = i % 128 / 32, l = i % 32;
    float ds = bw_half_at(b + 208) * (float)(int)(int8_t)b[192 + i / 16];
    bw_bytes8 low = bw_bytes8_at<2>(b + half * 64 + part % 2 * 32 + l), high = bw_bytes8_at<2>(b + 128 + half * 32 + l);
#pragma unroll
    for (int j = 0; j < 8; j++)
        y[j] =
            ds *
            (float)((int)((bw_byte(low, j) >> (part / 2 * 4) & 15u) | (bw_byte(high, j) >> (part * 2) & 3u) << 4) - 32);
}
/* f32 d, int8 [256], int16 sums [16] */
BW_BLOCK(Q8_K, 256, 292)
{
    bw_scale_bytes(bw_bytes8_at<4>(b + 4 + i), bw_from_bits(bw_u32_at<4>(b)), y);
}
/* d, then per 32: four grid indices (bytes), four times seven sign bits and a four-bit scale */
BW_BLOCK(IQ2_XXS, 256, 66)
{
    const uint8_t *q = b + 2 + i / 32 * 8;
    uint32_t signs = bw_u32_at<2>(q + 4), k = (uint32_t)i / 8u % 4u;
    float scale = bw_half_at(b) * (0.5f + (float)(int)(signs >> 28)) * 0.25f;
    bw_expand_iq2(scale, iq2_xxs_grid[q[k]], bw_even_signs(signs >> 7u * k), y);
}
/* d, 32 words (nine bits of grid index, seven sign bits), 16 four-bit scales */
BW_BLOCK(IQ2_XS, 256, 74)
{
    int k = i / 8;
    uint32_t q = bw_u16_at(b + 2 + k * 2), s = b[66 + k / 4] >> (k / 2 % 2 * 4) & 15u;
    float scale = bw_half_at(b) * (0.5f + (float)(int)s) * 0.25f;
    bw_expand_iq2(scale, iq2_xs_grid[q & 511u], bw_even_signs(q >> 9), y);
}
/* d, grid indices [64], then per 32: four times seven sign bits and a four-bit scale */
BW_BLOCK(IQ3_XXS, 256, 98)
{
    uint32_t word = bw_u32_at<2>(b + 66 + i / 32 * 4), q = bw_u16_at(b + 2 + i / 4);
    float scale = bw_half_at(b) * (0.5f + (float)(int)(word >> 28)) * 0.5f;
    uint32_t signs = bw_even_signs(word >> i / 8 % 4 * 7), low = iq3_xxs_grid[q & 255u], high = iq3_xxs_grid[q >> 8];
#pragma unroll
    for (int j = 0; j < 8; j++) {
        int v = (int)((j < 4 ? low : high) >> j % 4 * 4 & 15u); /* 4 12 20 28 36 44 52 62 */
        y[j] = bw_with_sign(scale * (float)(v * 8 + (v == 7 ? 6 : 4)), signs, j);
    }
}
/* d, low index bytes [32], then per 32 a word: four times three high index bits, a three-bit scale, the delta's sign */
BW_BLOCK(IQ1_S, 256, 50)
{
    int k = i / 8;
    uint32_t word = bw_u16_at(b + 34 + k / 4 * 2);
    float scale = bw_half_at(b) * (float)(int)(2 * (word >> 12 & 7u) + 1);
    bw_expand_iq1(scale, iq1_grid[b[2 + k] | (word >> k % 4 * 3 & 7u) << 8], word & 0x8000u ? -0.125f : 0.125f, y);
}
BW_BLOCK(IQ4_NL, 32, 18)
{
    bw_scale_iq4(bw_bytes8_at<2>(b + 2 + i % 16), i / 16 * 4, bw_half_at(b), y);
}
/* d, low index bytes [64], high index bits [8], sign bytes [32], 8 four-bit scales */
BW_BLOCK(IQ3_S, 256, 110)
{
    int k = i / 8;
    uint32_t q = bw_u16_at(b + 2 + k * 2), high = b[66 + k / 4] >> (k % 4 * 2), signs = b[74 + k];
    float scale = bw_half_at(b) * (float)(int)(1 + 2 * (b[106 + k / 8] >> (k / 4 % 2 * 4) & 15u));
    uint32_t first = iq3_s_grid[(q & 255u) | (high & 1u) << 8], second = iq3_s_grid[q >> 8 | (high >> 1 & 1u) << 8];
#pragma unroll
    for (int j = 0; j < 8; j++)
        y[j] = bw_with_sign(scale * (float)(int)(2 * ((j < 4 ? first : second) >> j % 4 * 4 & 15u) + 1), signs, j);
}
/* d, low index bytes [32], sign bytes [32], high index bits [8], 16 four-bit scales */
BW_BLOCK(IQ2_S, 256, 82)
{
    int k = i / 8;
    uint32_t s = b[74 + k / 4] >> (k / 2 % 2 * 4) & 15u, index = b[2 + k] | (b[66 + k / 4] >> (k % 4 * 2) & 3u) << 8;
    bw_expand_iq2(bw_half_at(b) * (0.5f + (float)(int)s) * 0.25f, iq2_s_grid[index], b[34 + k], y);
}
/* d, upper scale bits (word), lower scale nibbles [4], nibbles [128] */
BW_BLOCK(IQ4_XS, 256, 136)
{
    int g = i / 32;
    uint32_t s = (b[4 + g / 2] >> (g % 2 * 4) & 15u) | (bw_u16_at(b + 2) >> g * 2 & 3u) << 4;
    bw_scale_iq4(bw_bytes8_at<4>(b + 8 + g * 16 + i % 16), i % 32 / 16 * 4, bw_half_at(b) * (float)((int)s - 32), y);
}
/* low index bytes [32], nibbles [16] of three high index bits and the delta's sign, four words of four three-bit scales
 * each, whose upper nibbles together are d */
BW_BLOCK(IQ1_M, 256, 56)
{
    int k = i / 8;
    bw_bytes8 words = bw_bytes8_at<4>(b + 48);
    uint32_t d =
        (words.low >> 12 & 15u) | (words.low >> 28) << 4 | (words.high >> 12 & 15u) << 8 | (words.high >> 28) << 12;
    uint32_t high = b[32 + k / 2] >> (k % 2 * 4) & 15u, s = bw_u16_at(b + 48 + k / 8 * 2) >> k / 2 % 4 * 3 & 7u;
    bw_expand_iq1(bw_half_of(d) * (float)(int)(2 * s + 1), iq1_grid[b[k] | (high & 7u) << 8],
                  high & 8u ? -0.125f : 0.125f, y);
}
/* bytes [48] of five digits (as 32 and 16), bytes [4] of four digits, d */
BW_BLOCK(TQ1_0, 256, 54)
{
    float d = bw_half_at(b + 52);
    int digit = i < 160 ? i / 32 : (i - 160) / 16;
    const uint8_t *p = i < 160 ? b + i % 32 : b + 32 + i % 16;
    if (i < 240) {
        bw_bytes8 q = bw_bytes8_at<2>(p);
#pragma unroll
        for (int j = 0; j < 8; j++)
            y[j] = d * bw_ternary(bw_byte(q, j), bw_power_of_3(digit));
    } else {
        digit = (i - 240) / 4;
#pragma unroll
        for (int j = 0; j < 8; j++)
            y[j] = d * bw_ternary(b[48 + j % 4], bw_power_of_3(digit + j / 4));
    }
}
/* bit pairs [64], d */
BW_BLOCK(TQ2_0, 256, 66)
{
    float d = bw_half_at(b + 64);
    bw_bytes8 q = bw_bytes8_at<2>(b + i / 128 * 32 + i % 32);
    int shift = i % 128 / 32 * 2;
#pragma unroll
    for (int j = 0; j < 8; j++)
        y[j] = d * (float)((int)(bw_byte(q, j) >> shift & 3u) - 1);
}
/* an exponent (E8M0), 32 nibbles (E2M1) */
BW_BLOCK(MXFP4, 32, 17)
{
    bw_scale_fp4(bw_bytes8_at<1>(b + 1 + i % 16), i / 16 * 4, bw_e8m0_half(b[0]), y);
}
/* four scales (E4M3, unsigned; 0x7f counts as zero), four times 16 nibbles (E2M1) */
BW_BLOCK(NVFP4, 64, 36)
{
    uint32_t scale = b[i / 16], e = scale >> 3 & 15u, m = scale & 7u;
    float d = e ? bw_from_bits((e + 119) << 23 | m << 20) : (float)(int)m * 0x1p-10f; /* half the scale */
    bw_scale_fp4(bw_bytes8_at<4>(b + 4 + i / 16 * 8), i % 16 / 8 * 4, scale == 0x7fu ? 0.0f : d, y);
}
/* d, then a sign bit each: 1 is +d */
BW_BLOCK(Q1_0, 128, 18)
{
    float d = bw_half_at(b);
    uint32_t q = b[2 + i / 8];
#pragma unroll
    for (int j = 0; j < 8; j++)
        y[j] = q >> j & 1u ? d : -d;
}
/* d, then bit pairs: -d, 0, d, 2d */
BW_BLOCK(Q2_0, 64, 18)
{
    float d = bw_half_at(b);
    uint32_t q = bw_u16_at(b + 2 + i / 4);
#pragma unroll
    for (int j = 0; j < 8; j++)
        y[j] = (float)((int)(q >> j * 2 & 3u) - 1) * d;
}
#undef BW_BLOCK

/* N elements from i on, N = 8, 16 or 32 and a divisor of i. */
template <int TYPE, int N> BW_DEVICE void bw_decode(const uint8_t *b, int i, float (&y)[N])
{
#pragma unroll
    for (int k = 0; k < N / 8; k++) {
        float part[8];
        bw_quant<TYPE>::decode8(b, i + k * 8, part);
#pragma unroll
        for (int j = 0; j < 8; j++)
            y[k * 8 + j] = part[j];
    }
}

/* BW_QUANT_TYPES(ROW): ROW(name, NAME) for every quantised type. */
/* clang-format off */
#define BW_QUANT_TYPES_BUT_K(ROW)                                                                                      \
    ROW(q4_0, Q4_0)                                                                                                    \
    ROW(q4_1, Q4_1)                                                                                                    \
    ROW(q5_0, Q5_0)                                                                                                    \
    ROW(q5_1, Q5_1)                                                                                                    \
    ROW(q8_0, Q8_0)                                                                                                    \
    ROW(q8_1, Q8_1)                                                                                                    \
    ROW(iq2_xxs, IQ2_XXS)                                                                                              \
    ROW(iq2_xs, IQ2_XS)                                                                                                \
    ROW(iq3_xxs, IQ3_XXS)                                                                                              \
    ROW(iq1_s, IQ1_S)                                                                                                  \
    ROW(iq4_nl, IQ4_NL)                                                                                                \
    ROW(iq3_s, IQ3_S)                                                                                                  \
    ROW(iq2_s, IQ2_S)                                                                                                  \
    ROW(iq4_xs, IQ4_XS)                                                                                                \
    ROW(iq1_m, IQ1_M)                                                                                                  \
    ROW(tq1_0, TQ1_0)                                                                                                  \
    ROW(tq2_0, TQ2_0)                                                                                                  \
    ROW(mxfp4, MXFP4)                                                                                                  \
    ROW(nvfp4, NVFP4)                                                                                                  \
    ROW(q1_0, Q1_0)                                                                                                    \
    ROW(q2_0, Q2_0)
#define BW_QUANT_TYPES_K(ROW)                                                                                          \
    ROW(q2_k, Q2_K)                                                                                                    \
    ROW(q3_k, Q3_K)                                                                                                    \
    ROW(q4_k, Q4_K)                                                                                                    \
    ROW(q5_k, Q5_K)                                                                                                    \
    ROW(q6_k, Q6_K)                                                                                                    \
    ROW(q8_k, Q8_K)
/* clang-format on */
#define BW_QUANT_TYPES(ROW) BW_QUANT_TYPES_BUT_K(ROW) BW_QUANT_TYPES_K(ROW)

#endif
