/* Device code: 32 weights of every quantised type in the layout of planes (linear_planes.h), as bytes with their
 * scales, which is what dot products of bytes take, and as pairs of f16, which is what matrix units take.
 */
#ifndef BW_LINEAR_BLOCKS_H
#define BW_LINEAR_BLOCKS_H

#include "bw_words.h"
#include "linear/bw_linear_gpu.h"

/* How a block's scales are kept: */
enum {
    BW_SCALE_D,  /* f16 per 32: d (q - zero) */
    BW_SCALE_DM, /* two f16 per 32: d q + m */
    BW_SCALE_E8, /* an exponent per 32: 2^(e - 128) q */
    BW_SCALE_K4, /* d, dmin f16 per 256; six bits each, scale, min per 32: d scale q - dmin min */
    BW_SCALE_K2, /* d, dmin f16 per 256; nibbles scale, min per 16: the same */
    BW_SCALE_K6, /* d f16 per 256; a signed byte per 16: d scale (q - zero) */
    BW_SCALE_XS  /* d f16 per 256; a signed byte per 32: d scale q */
};
enum { BW_TABLE_NONE, BW_TABLE_IQ4, BW_TABLE_E2M1 };

/* Elements 4i..4i+3 are the bytes of w[i], the lowest first: element = d[i / 4] * (byte - zero) + o[i / 4]. */
struct bw_block32 {
    uint32_t w[8];
    float d[2], o[2];
};

template <int LOW, int HIGH, int SCALE, int ZERO, int TABLE> struct bw_blocks {
    static constexpr bool IS_SIGNED = LOW == 8 || TABLE != BW_TABLE_NONE;
    static constexpr bool HAS_HALVES = SCALE == BW_SCALE_K2 || SCALE == BW_SCALE_K6; /* a scale for each 16 */
    static constexpr bool HAS_OFFSET = SCALE == BW_SCALE_DM || SCALE == BW_SCALE_K4 || SCALE == BW_SCALE_K2;
    static constexpr int zero = ZERO;
    /* Workgroups that must find room on a unit where there is one row of activations: q4_k's would miss the next step
     * of occupancy by four registers. */
    static constexpr int LEAST = SCALE == BW_SCALE_K4 && HIGH == 0 ? 4 : 1;

    uint32_t low[LOW], high[HIGH ? HIGH : 1], sub, scale; /* as they lie in memory */
    uint32_t upper, shift; /* K4: the upper bits of all eight scales, and where this block's are */

    /* Block b of a row. */
    BW_DEVICE_SPECIAL void load(const uint8_t *row, const bw_linear_args &p, int b)
    {
        if constexpr (LOW == 8) { /* the first halves of all blocks, then the second ones: neighbours' loads adjoin */
            bw_16 v = bw_load16_once(row + 16 * b), u = bw_load16_once(row + p.k / 2 + 16 * b);
#pragma unroll
            for (int i = 0; i < 4; i++) {
                low[i % LOW] = v.w[i];
                low[(i + 4) % LOW] = u.w[i];
            }
        } else if constexpr (LOW == 4) {
            bw_16 v = bw_load16_once(row + 16 * b);
#pragma unroll
            for (int i = 0; i < 4; i++)
                low[i % LOW] = v.w[i];
        } else {
            low[0] = bw_load4_once(row + 8 * b);
            low[1 % LOW] = bw_load4_once(row + 8 * b + 4);
        }
#pragma unroll
        for (int i = 0; i < HIGH; i++)
            high[i] = bw_load4_once(row + p.high + (b * HIGH + i) * 4);
        if constexpr (SCALE == BW_SCALE_D) {
            scale = *(const uint16_t *)(row + p.d + 2 * b);
        } else if constexpr (SCALE == BW_SCALE_DM) {
            scale = bw_load4_once(row + p.d + 4 * b);
        } else if constexpr (SCALE == BW_SCALE_E8) {
            scale = row[p.d + b];
        } else if constexpr (SCALE == BW_SCALE_XS) {
            sub = row[p.sub + b];
            scale = *(const uint16_t *)(row + p.d + 2 * (b / 8));
        } else if constexpr (SCALE == BW_SCALE_K4) {
            const uint8_t *head = row + p.sub + b / 8 * 16;
            const uint64_t first = *(const uint64_t *)head;
            sub = head[8 + b % 8];
            scale = (uint32_t)first;
            upper = (uint32_t)(first >> 32);
            shift = (uint32_t)b % 8 * 4;
        } else {
            sub = *(const uint16_t *)(row + p.sub + 2 * b);
            if constexpr (SCALE == BW_SCALE_K6)
                scale = *(const uint16_t *)(row + p.d + 2 * (b / 8));
            else
                scale = bw_load4_once(row + p.d + 4 * (b / 8));
        }
    }

    BW_DEVICE_SPECIAL void quants(bw_block32 &b) const
    {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            if constexpr (LOW == 8) {
                b.w[i] = low[i % LOW];
                b.w[i + 4] = low[(i + 4) % LOW];
            } else if constexpr (LOW == 4) {
                b.w[i] = low[i % LOW] & 0x0f0f0f0fu;
                b.w[i + 4] = low[i % LOW] >> 4 & 0x0f0f0f0fu;
            } else {
                b.w[i] = low[0] >> 2 * i & 0x03030303u;
                b.w[i + 4] = low[1 % LOW] >> 2 * i & 0x03030303u;
            }
            if constexpr (HIGH == 1) {
                b.w[i] |= (high[0] >> i & 0x01010101u) << LOW;
                b.w[i + 4] |= (high[0] >> (i + 4) & 0x01010101u) << LOW;
            } else if constexpr (HIGH == 2) {
                b.w[i] |= (high[0] >> 2 * i & 0x03030303u) << LOW;
                b.w[i + 4] |= (high[1 % (HIGH ? HIGH : 1)] >> 2 * i & 0x03030303u) << LOW;
            }
            if constexpr (TABLE == BW_TABLE_IQ4) {
                const bw_16 t = {{0xbfad9881u, 0xf6eaddcfu, 0x26190d01u, 0x71594535u}};
                b.w[i] = bw_table16(b.w[i], t);
                b.w[i + 4] = bw_table16(b.w[i + 4], t);
            } else if constexpr (TABLE == BW_TABLE_E2M1) { /* twice the values */
                const bw_16 t = {{0x03020100u, 0x0c080604u, 0xfdfeff00u, 0xf4f8fafcu}};
                b.w[i] = bw_table16(b.w[i], t);
                b.w[i + 4] = bw_table16(b.w[i + 4], t);
            }
        }
    }

    BW_DEVICE_SPECIAL void scales(bw_block32 &b) const
    {
        b.o[0] = b.o[1] = 0;
        if constexpr (SCALE == BW_SCALE_E8) {
            b.d[0] = bw_from_bits(scale > 1 ? (scale - 1) << 23 : 0x00200000u << scale);
            b.d[1] = b.d[0];
            return;
        }
        float d = bw_pair_low<bw_f16>(scale), m = bw_pair_high<bw_f16>(scale);
        if constexpr (SCALE == BW_SCALE_D) {
            b.d[0] = b.d[1] = d;
        } else if constexpr (SCALE == BW_SCALE_DM) {
            b.d[0] = b.d[1] = d;
            b.o[0] = b.o[1] = m;
        } else if constexpr (SCALE == BW_SCALE_K4) {
            const uint32_t q = upper >> shift;
            b.d[0] = b.d[1] = d * (float)((sub & 15) | (q & 3) << 4);
            b.o[0] = b.o[1] = -m * (float)(sub >> 4 | (q & 12) << 2);
        } else if constexpr (SCALE == BW_SCALE_K2) {
            b.d[0] = d * (float)(sub & 15);
            b.d[1] = d * (float)(sub >> 8 & 15);
            b.o[0] = -m * (float)(sub >> 4 & 15);
            b.o[1] = -m * (float)(sub >> 12);
        } else if constexpr (SCALE == BW_SCALE_K6) {
            b.d[0] = d * (float)(int8_t)sub;
            b.d[1] = d * (float)(int8_t)(sub >> 8);
        } else {
            b.d[0] = b.d[1] = d * (float)(int8_t)sub;
        }
    }

    /* The 32 weights as 16 pairs of f16, each rounded once (products of two scales twice). */
    BW_DEVICE_SPECIAL void halves(uint32_t (&pairs)[16]) const
    {
        bw_block32 b;
        quants(b);
        scales(b);
#pragma unroll
        for (int i = 0; i < 8; i++) {
            uint32_t w = IS_SIGNED ? b.w[i] ^ 0x80808080u : b.w[i], d = bw_pair_both<bw_f16>(b.d[i / 4]);
            /* Around the middle of the range, where a scale's rounding matters least. */
            constexpr int middle = IS_SIGNED ? 128 : HAS_OFFSET ? (HIGH ? 16 : LOW == 4 ? 8 : 2) : ZERO;
            uint32_t first = bw_bytes_f16<0>(w, (float)middle), second = bw_bytes_f16<1>(w, (float)middle);
            if constexpr (HAS_OFFSET) {
                uint32_t o = bw_pair_both<bw_f16>(b.o[i / 4] + (float)middle * b.d[i / 4]);
                pairs[2 * i] = bw_pair_fma<bw_f16>(first, d, o);
                pairs[2 * i + 1] = bw_pair_fma<bw_f16>(second, d, o);
            } else {
                pairs[2 * i] = bw_pair_mul<bw_f16>(first, d);
                pairs[2 * i + 1] = bw_pair_mul<bw_f16>(second, d);
            }
        }
    }
};

/* X(name, type) */
#define BW_LINEAR_BLOCKS(X)                                                                                            \
    X(q4_0, (bw_blocks<4, 0, BW_SCALE_D, 8, BW_TABLE_NONE>))                                                           \
    X(q4_1, (bw_blocks<4, 0, BW_SCALE_DM, 0, BW_TABLE_NONE>))                                                          \
    X(q5_0, (bw_blocks<4, 1, BW_SCALE_D, 16, BW_TABLE_NONE>))                                                          \
    X(q5_1, (bw_blocks<4, 1, BW_SCALE_DM, 0, BW_TABLE_NONE>))                                                          \
    X(q8_0, (bw_blocks<8, 0, BW_SCALE_D, 0, BW_TABLE_NONE>))                                                           \
    X(iq4_nl, (bw_blocks<4, 0, BW_SCALE_D, 0, BW_TABLE_IQ4>))                                                          \
    X(mxfp4, (bw_blocks<4, 0, BW_SCALE_E8, 0, BW_TABLE_E2M1>))                                                         \
    X(q4_k, (bw_blocks<4, 0, BW_SCALE_K4, 0, BW_TABLE_NONE>))                                                          \
    X(q5_k, (bw_blocks<4, 1, BW_SCALE_K4, 0, BW_TABLE_NONE>))                                                          \
    X(iq4_xs, (bw_blocks<4, 0, BW_SCALE_XS, 0, BW_TABLE_IQ4>))                                                         \
    X(q2_k, (bw_blocks<2, 0, BW_SCALE_K2, 0, BW_TABLE_NONE>))                                                          \
    X(q3_k, (bw_blocks<2, 1, BW_SCALE_K6, 4, BW_TABLE_NONE>))                                                          \
    X(q6_k, (bw_blocks<4, 2, BW_SCALE_K6, 32, BW_TABLE_NONE>))

#define BW_UNPAREN(...) __VA_ARGS__

#endif
