/* The matrix tile on AMD targets (bw_tile.h): WMMA on gfx11 and gfx12, MFMA on gfx908 and later. Sources for where
 * numbers lie: AMD's "RDNA3" and "RDNA4 Instruction Set Architecture" (WMMA), "AMD Instinct MI200/MI300 Instruction Set
 * Architecture" (MFMA), and AMD's matrix instruction calculator.
 *
 * gfx11  lane l: operand row l % 16, all 16 k (both halves of the wave hold the same); results: column l % 16, row
 *        2i + l / 16
 * gfx12  lane l: operand row l % 16, k from 8 (l / 16) on; results: column l % 16, row 8 (l / 16) + i
 * MFMA   lane l: operand row l % 16, k from 4 (l / 16) on; results: column l % 16, row 4 (l / 16) + i
 *
 * gfx90a takes subnormal bf16 (below 2^-126) for 0, which shows only beside operands of more than 2^100.
 */
#ifndef BW_TILE_AMD_H
#define BW_TILE_AMD_H

#if defined(__gfx908__) || defined(__gfx90a__) || defined(__gfx942__) || defined(__GFX11__) || defined(__GFX12__)

#if defined(__GFX11__)
#define BW_FRAG_GROUPS 1
#define BW_ACC_EACH 8
#elif defined(__GFX12__)
#define BW_FRAG_GROUPS 2
#define BW_ACC_EACH 8
#else
#define BW_FRAG_GROUPS 4
#define BW_ACC_EACH 4
#endif
#define BW_TILE_IS_PLAIN false
#define BW_FRAG_ROWS 1
#define BW_FRAG_PAIRS (8 / BW_FRAG_GROUPS)
#define BW_ACC_COLUMN_LANES 16
#define BW_ACC_COLUMNS 1
#define bw_acc_column_slot(i) 0
#define BW_FRAG_GROUP_STEP 16
#define BW_FRAG_LOADS_T false

template <typename T> struct bw_frag {
    uint32_t w[BW_FRAG_PAIRS];
};
struct bw_acc {
    float x[BW_ACC_EACH];
};

#define bw_frag_word(i, j) (j)
BW_DEVICE int bw_frag_row(int i)
{
    (void)i;
    return bw_lane() % 16;
}
BW_DEVICE int bw_frag_group(void)
{
    return BW_FRAG_GROUPS == 1 ? 0 : bw_lane() / 16;
}
BW_DEVICE int bw_frag_k(int j)
{
    return bw_frag_group() * 2 * BW_FRAG_PAIRS + 2 * j;
}
BW_DEVICE int bw_acc_row(int i)
{
#if defined(__GFX11__)
    return 2 * i + bw_lane() / 16;
#else
    return bw_lane() / 16 * BW_ACC_EACH + i;
#endif
}
BW_DEVICE int bw_acc_column(int i)
{
    (void)i;
    return bw_lane() % 16;
}

template <typename T> BW_DEVICE void bw_frag_load(bw_frag<T> &f, const T *shared, int stride)
{
    const T *from = shared + bw_frag_row(0) * stride + bw_frag_k(0);
    if constexpr (BW_FRAG_PAIRS >= 4) {
#pragma unroll
        for (int j = 0; j < BW_FRAG_PAIRS; j += 4) {
            bw_16 v = bw_load16(from + 2 * j);
#pragma unroll
            for (int i = 0; i < 4; i++)
                f.w[(j + i) % BW_FRAG_PAIRS] = v.w[i];
        }
    } else {
        uint64_t v = *(const uint64_t *)from;
        f.w[0] = (uint32_t)v;
        f.w[1] = (uint32_t)(v >> 32);
    }
}
template <typename T> BW_DEVICE void bw_frag_load_t(bw_frag<T> &f, const T *shared, int stride)
{
    const uint16_t *from = (const uint16_t *)shared + bw_frag_row(0) + bw_frag_k(0) * stride;
#pragma unroll
    for (int j = 0; j < BW_FRAG_PAIRS; j++)
        f.w[j] = (uint32_t)from[(2 * j + 1) * stride] << 16 | from[2 * j * stride];
}

template <typename T> BW_DEVICE void bw_frag_of_acc(bw_frag<T> &f, const bw_acc &acc)
{
#if defined(__GFX11__)
    /* This lane has every second row, the lane 16 away the others. */
    const bool upper = bw_lane() >= 16;
#pragma unroll
    for (int i = 0; i < BW_ACC_EACH; i += 2) {
        uint32_t own = bw_pair_put<T>(acc.x[i], acc.x[i + 1]), other = bw_shuffle_xor_bits(own, 16);
        uint32_t even = upper ? other : own, odd = upper ? own : other;
        f.w[i] = bw_bytes<0x5410>(even, odd);
        f.w[i + 1] = bw_bytes<0x7632>(even, odd);
    }
#else
#pragma unroll
    for (int j = 0; j < BW_FRAG_PAIRS; j++)
        f.w[j] = bw_pair_put<T>(acc.x[2 * j], acc.x[2 * j + 1]);
#endif
}

typedef float bw_acc_vector __attribute__((ext_vector_type(BW_ACC_EACH)));
typedef _Float16 bw_frag_f16 __attribute__((ext_vector_type(2 * BW_FRAG_PAIRS)));
typedef int16_t bw_frag_bf16 __attribute__((ext_vector_type(2 * BW_FRAG_PAIRS)));
typedef uint32_t bw_frag_words __attribute__((ext_vector_type(BW_FRAG_PAIRS)));

template <typename V, typename T> BW_DEVICE V bw_frag_vector(const bw_frag<T> &f)
{
    bw_frag_words w;
#pragma unroll
    for (int j = 0; j < BW_FRAG_PAIRS; j++)
        w[j] = f.w[j];
    return __builtin_bit_cast(V, w);
}
#if !defined(__gfx90a__)
BW_DEVICE bw_acc_vector bw_mma_vector(const bw_frag<bw_f16> &a, const bw_frag<bw_f16> &b, bw_acc_vector c)
{
    bw_frag_f16 x = bw_frag_vector<bw_frag_f16>(a), y = bw_frag_vector<bw_frag_f16>(b);
#if defined(__GFX11__)
    return __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(x, y, c);
#elif defined(__GFX12__)
    return __builtin_amdgcn_wmma_f32_16x16x16_f16_w32_gfx12(x, y, c);
#else
    return __builtin_amdgcn_mfma_f32_16x16x16f16(x, y, c, 0, 0, 0);
#endif
}
#endif
BW_DEVICE bw_acc_vector bw_mma_vector(const bw_frag<bw_bf16> &a, const bw_frag<bw_bf16> &b, bw_acc_vector c)
{
#if defined(__gfx908__)
    /* Two of 8 k: pair 0 of every group, then pair 1. */
    typedef int16_t pair __attribute__((ext_vector_type(2)));
#pragma unroll
    for (int j = 0; j < 2; j++)
        c = __builtin_amdgcn_mfma_f32_16x16x8bf16(__builtin_bit_cast(pair, a.w[j]), __builtin_bit_cast(pair, b.w[j]), c,
                                                  0, 0, 0);
    return c;
#else
    bw_frag_bf16 x = bw_frag_vector<bw_frag_bf16>(a), y = bw_frag_vector<bw_frag_bf16>(b);
#if defined(__GFX11__)
    return __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32(x, y, c);
#elif defined(__GFX12__)
    return __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32_gfx12(x, y, c);
#else
    return __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(x, y, c, 0, 0, 0);
#endif
#endif
}
#if defined(__gfx90a__)
/* gfx90a's matrix units take subnormal operands for 0, which trained f16 weights have many of. bf16's smallest normal
 * number is 2^-126, so there an f16 is the sum of two normal bf16 (or zeros): its first 8 bits, and the other 3. Four
 * products of those are exact. Of infinity and NaN only the first product may see anything, so the others take the
 * number brought to what f16 can hold. */
struct bw_frag_split {
    bw_frag<bw_bf16> first, first_finite, rest;
};
/* The upper halves of both: numbers of 8 bits to a pair of bf16. */
BW_DEVICE uint32_t bw_upper_halves(float low, float high)
{
    return bw_bytes<0x7632>(bw_bits(low), bw_bits(high));
}
BW_DEVICE float bw_beyond_upper_half(float x)
{
    return x - bw_from_bits(bw_bits(x) & 0xffff0000u);
}
BW_DEVICE void bw_frag_split_f16(bw_frag_split &s, const bw_frag<bw_f16> &f)
{
    constexpr float MOST = 65504;
#pragma unroll
    for (int j = 0; j < BW_FRAG_PAIRS; j++) {
        float low = bw_f16_of_bits((uint16_t)f.w[j]), high = bw_f16_of_bits((uint16_t)(f.w[j] >> 16));
        s.first.w[j] = bw_upper_halves(low, high);
        low = __builtin_amdgcn_fmed3f(low, -MOST, MOST);
        high = __builtin_amdgcn_fmed3f(high, -MOST, MOST);
        s.first_finite.w[j] = bw_upper_halves(low, high);
        s.rest.w[j] = bw_upper_halves(bw_beyond_upper_half(low), bw_beyond_upper_half(high));
    }
}
BW_DEVICE bw_acc_vector bw_mma_vector(const bw_frag<bw_f16> &a, const bw_frag<bw_f16> &b, bw_acc_vector c)
{
    bw_frag_split x, y;
    bw_frag_split_f16(x, a);
    bw_frag_split_f16(y, b);
    c = bw_mma_vector(x.rest, y.rest, c);
    c = bw_mma_vector(x.rest, y.first_finite, c);
    c = bw_mma_vector(x.first_finite, y.rest, c);
    return bw_mma_vector(x.first, y.first, c);
}
#endif
template <typename T> BW_DEVICE void bw_mma(bw_acc &acc, const bw_frag<T> &a, const bw_frag<T> &b)
{
    bw_acc_vector c;
#pragma unroll
    for (int i = 0; i < BW_ACC_EACH; i++)
        c[i] = acc.x[i];
    c = bw_mma_vector(a, b, c);
#pragma unroll
    for (int i = 0; i < BW_ACC_EACH; i++)
        acc.x[i] = c[i];
}

#else
#include "bw_tile_plain.h"
#endif

#endif
