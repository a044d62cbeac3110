/* Blocks of Candle's ten quantised types to groups of 32 int8 levels with scales and minima, in AVX2. What
 * d[half] * q - m[half] gives, each step rounded to f32, is what bw_decode_row gives. */
#ifndef BW_QUANT_UNPACK_AVX2_H
#define BW_QUANT_UNPACK_AVX2_H

#include "bw_vec.h"
#include "quantized.h"

/* Scale and minimum of group g (0..7) from the 12 packed bytes of q4_k and q5_k. */
BW_INLINE void unpack_scale_min(const uint8_t *p, int g, int *scale, int *min)
{
    int low = g % 4;
    *scale = g < 4 ? p[low] & 63 : (p[low + 8] & 15) | p[low] >> 6 << 4;
    *min = g < 4 ? p[low + 4] & 63 : p[low + 8] >> 4 | p[low + 4] >> 6 << 4;
}

/* Signed scale of 16 elements (0..15) from the 12 packed bytes of q3_k. */
BW_INLINE float unpack_q3_scale(const uint8_t *p, int i)
{
    int low = p[i % 8] >> (i / 8 * 4) & 15, high = p[8 + i % 4] >> (i / 4 * 2) & 3;
    return (float)((low | high << 4) - 32);
}

BW_INLINE void unpack_scales(bw_quant_group *g, float d0, float d1, float m0, float m1)
{
    g->d[0] = d0;
    g->d[1] = d1;
    g->m[0] = m0;
    g->m[1] = m1;
}

BW_INLINE __m256i unpack_load(const uint8_t *p)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)p);
}

BW_INLINE void unpack_store(bw_quant_group *g, __m256i q)
{
    _mm256_storeu_si256((__m256i *)(void *)g->q, q);
}

/* (v >> shift) & mask in each byte; shift + the mask's bits <= 8. */
BW_INLINE __m256i unpack_bits(__m256i v, int shift, int mask)
{
    return _mm256_and_si256(_mm256_srl_epi16(v, _mm_cvtsi32_si128(shift)), _mm256_set1_epi8((char)mask));
}

/* 16 bytes: their low nibbles, then their high ones. */
BW_INLINE __m256i unpack_nibbles(const uint8_t *p)
{
    __m128i v = _mm_loadu_si128((const __m128i *)(const void *)p);
    return _mm256_and_si256(_mm256_set_m128i(_mm_srli_epi16(v, 4), v), _mm256_set1_epi8(15));
}

/* 32 bits to 32 bytes of 16 or 0. */
BW_INLINE __m256i unpack_fifth(const uint8_t *p)
{
    const __m256i which = _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
    const __m256i bit = _mm256_set1_epi64x((int64_t)0x8040201008040201);
    int32_t v32;
    memcpy(&v32, p, 4);
    __m256i v = _mm256_shuffle_epi8(_mm256_set1_epi32(v32), which);
    v = _mm256_cmpeq_epi8(_mm256_and_si256(v, bit), bit);
    return _mm256_and_si256(v, _mm256_set1_epi8(16));
}

/* The blocks of 32. */
BW_INLINE void unpack_small(bw_dtype dtype, const uint8_t *b, bw_quant_group *g)
{
    float d = bw_load_f16(b), m = 0;
    __m256i q;
    if (dtype == BW_Q4_0) {
        q = _mm256_sub_epi8(unpack_nibbles(b + 2), _mm256_set1_epi8(8));
    } else if (dtype == BW_Q4_1) {
        q = unpack_nibbles(b + 4);
        m = -bw_load_f16(b + 2);
    } else if (dtype == BW_Q5_0) {
        q = _mm256_sub_epi8(_mm256_or_si256(unpack_nibbles(b + 6), unpack_fifth(b + 2)), _mm256_set1_epi8(16));
    } else if (dtype == BW_Q5_1) {
        q = _mm256_or_si256(unpack_nibbles(b + 8), unpack_fifth(b + 4));
        m = -bw_load_f16(b + 2);
    } else {
        q = unpack_load(b + 2);
    }
    unpack_store(g, q);
    unpack_scales(g, d, d, m, m);
}

BW_INLINE void unpack_q2_k(const uint8_t *b, bw_quant_group *g)
{
    float d = bw_load_f16(b + 80), dmin = bw_load_f16(b + 82);
    for (int i = 0; i < 8; i++) {
        unpack_store(&g[i], unpack_bits(unpack_load(b + 16 + i / 4 * 32), i % 4 * 2, 3));
        uint8_t s0 = b[2 * i], s1 = b[2 * i + 1];
        unpack_scales(&g[i], d * (float)(s0 & 15), d * (float)(s1 & 15), dmin * (float)(s0 >> 4),
                      dmin * (float)(s1 >> 4));
    }
}

BW_INLINE void unpack_q3_k(const uint8_t *b, bw_quant_group *g)
{
    float d = bw_load_f16(b + 108);
    const __m256i high = unpack_load(b);
    for (int i = 0; i < 8; i++) {
        __m256i q = unpack_bits(unpack_load(b + 32 + i / 4 * 32), i % 4 * 2, 3);
        __m256i h = _mm256_slli_epi16(unpack_bits(high, i, 1), 2);
        unpack_store(&g[i], _mm256_sub_epi8(_mm256_or_si256(q, h), _mm256_set1_epi8(4)));
        unpack_scales(&g[i], d * unpack_q3_scale(b + 96, 2 * i), d * unpack_q3_scale(b + 96, 2 * i + 1), 0, 0);
    }
}

/* q4_k and, with a fifth bit, q5_k */
BW_INLINE void unpack_q45_k(bool is_q5, const uint8_t *b, bw_quant_group *g)
{
    float d = bw_load_f16(b), dmin = bw_load_f16(b + 2);
    for (int i = 0; i < 8; i++) {
        int scale, min;
        unpack_scale_min(b + 4, i, &scale, &min);
        float ds = d * (float)scale, dm = dmin * (float)min;
        __m256i q = unpack_bits(unpack_load(b + (is_q5 ? 48 : 16) + i / 2 * 32), i % 2 * 4, 15);
        if (is_q5)
            q = _mm256_or_si256(q, _mm256_slli_epi16(unpack_bits(unpack_load(b + 16), i, 1), 4));
        unpack_store(&g[i], q);
        unpack_scales(&g[i], ds, ds, dm, dm);
    }
}

BW_INLINE void unpack_q6_k(const uint8_t *b, bw_quant_group *g)
{
    float d = bw_load_f16(b + 208);
    const int8_t *scales = (const int8_t *)b + 192;
    for (int i = 0; i < 8; i++) {
        int half = i / 4, part = i % 4;
        __m256i low = unpack_bits(unpack_load(b + half * 64 + part % 2 * 32), part / 2 * 4, 15);
        __m256i high = _mm256_slli_epi16(unpack_bits(unpack_load(b + 128 + half * 32), part * 2, 3), 4);
        unpack_store(&g[i], _mm256_sub_epi8(_mm256_or_si256(low, high), _mm256_set1_epi8(32)));
        unpack_scales(&g[i], d * (float)scales[2 * i], d * (float)scales[2 * i + 1], 0, 0);
    }
}

/* n elements (whole blocks) to n / 32 groups. dtype is a constant where it is called. */
BW_INLINE void unpack_as(bw_dtype dtype, const uint8_t *b, int64_t n, bw_quant_group *g)
{
    int64_t block = bw_dtype_block_elements(dtype), bytes = bw_dtype_block_bytes(dtype);
    for (int64_t i = 0; i < n; i += block, b += bytes, g += block / 32)
        if (dtype == BW_Q2_K)
            unpack_q2_k(b, g);
        else if (dtype == BW_Q3_K)
            unpack_q3_k(b, g);
        else if (dtype == BW_Q4_K || dtype == BW_Q5_K)
            unpack_q45_k(dtype == BW_Q5_K, b, g);
        else if (dtype == BW_Q6_K)
            unpack_q6_k(b, g);
        else
            unpack_small(dtype, b, g);
}

BW_INLINE void unpack_groups(bw_dtype dtype, const uint8_t *b, int64_t n, bw_quant_group *g)
{
    switch (dtype) {
#define BW_UNPACK(type)                                                                                                \
    case type:                                                                                                         \
        unpack_as(type, b, n, g);                                                                                      \
        break;
        BW_UNPACK(BW_Q4_0)
        BW_UNPACK(BW_Q4_1)
        BW_UNPACK(BW_Q5_0)
        BW_UNPACK(BW_Q5_1)
        BW_UNPACK(BW_Q2_K)
        BW_UNPACK(BW_Q3_K)
        BW_UNPACK(BW_Q4_K)
        BW_UNPACK(BW_Q5_K)
        BW_UNPACK(BW_Q6_K)
#undef BW_UNPACK
    default:
        unpack_as(BW_Q8_0, b, n, g);
    }
}

#endif
