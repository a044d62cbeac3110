/* Private to the AVX-512 and AMX files of linear: what a block of each packed type (linear_layout.h) is in AVX-512
 * registers; the twin of linear_avx2.h, with all 16 rows in one vector and every quant as an unsigned byte. For every
 * type NAME: NAME_state: the scales of a block, decoded by NAME_begin(block, state). NAME_quants(block, base, u, i):
 * elements 4i..4i+3 of sub-block base + u (u a constant), of 16 rows. NAME_add(acc, dot, x, b, state, base, u):
 * acc[row] + the integer sums over the sub-block's halves (types with a scale for each 32: over the whole, in dot[0]),
 * scaled, for activation block b. Sums in 32 bits are exact: 32 * 255 * 127 is small.
 */
#ifndef BW_LINEAR_AVX512_H
#define BW_LINEAR_AVX512_H

#include <immintrin.h>
#include <string.h>

#include "bw_inline.h"
#include "linear_layout.h"

BW_INLINE __m512i load512(const uint8_t *p)
{
    return _mm512_loadu_si512((const void *)p);
}

BW_INLINE __m512 load_f16(const uint8_t *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)p));
}

/* Shifts by a constant. Compilers disagree on whether its type is signed. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-conversion"
BW_INLINE __m512i left16(__m512i v, int n)
{
    return _mm512_slli_epi16(v, n);
}
BW_INLINE __m512i right16(__m512i v, int n)
{
    return _mm512_srli_epi16(v, n);
}
BW_INLINE __m512i left32(__m512i v, int n)
{
    return _mm512_slli_epi32(v, n);
}
BW_INLINE __m512i right32(__m512i v, int n)
{
    return _mm512_srli_epi32(v, n);
}
#pragma GCC diagnostic pop

/* acc + scale * dx * dot */
BW_INLINE __m512 add_scaled(__m512 acc, __m512i dot, __m512 scale, float dx)
{
    return _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot), _mm512_mul_ps(scale, _mm512_set1_ps(dx)), acc);
}

/* acc + o * dx * sum of x */
BW_INLINE __m512 add_offset(__m512 acc, __m512 o, float sx)
{
    return _mm512_fmadd_ps(o, _mm512_set1_ps(sx), acc);
}

BW_INLINE __m512i low_bits(__m512i v, int mask)
{
    return _mm512_and_si512(v, _mm512_set1_epi8((char)mask));
}

/* Low or high nibbles of every byte. */
BW_INLINE __m512i nibble(__m512i v, bool high)
{
    return low_bits(high ? right16(v, 4) : v, 15);
}

/* Nibbles of a block of 32: low ones are elements 0..15, high ones 16..31. */
BW_INLINE __m512i nibbles(const uint8_t *p, int i)
{
    return nibble(load512(p + 64 * (i & 3)), i >= 4);
}

/* Bit `bit` of every byte, moved to bit 4 (both constants). */
BW_INLINE __m512i fifth_bit(__m512i v, int bit)
{
    return low_bits(bit < 4 ? left16(v, 4 - bit) : right16(v, bit - 4), 16);
}

BW_INLINE __m512 negative(__m512 v)
{
    return _mm512_sub_ps(_mm512_setzero_ps(), v);
}

/* ---- blocks of 32 ----------------------------------------------------------------------------------------------- */

/* Scales of up to 8 sub-blocks: value = d * q + o. */
typedef struct scale_state {
    __m512 d[1], o[1];
} scale_state;
typedef struct scales_state {
    __m512 d[8], o[8];
} scales_state;

#define OFFSET_ADD(name)                                                                                               \
    BW_INLINE __m512 name##_add(__m512 acc, const __m512i dot[2], const bw_act_q8 *x, int64_t b,                       \
                                const name##_state *st, int base, int u)                                               \
    {                                                                                                                  \
        return add_offset(add_scaled(acc, dot[0], st->d[base + u], x->d[b]), st->o[base + u], x->s[b]);                \
    }
/* d = f16 and a zero point */
#define ZERO_BEGIN(name, zero)                                                                                         \
    BW_INLINE void name##_begin(const uint8_t *block, name##_state *st)                                                \
    {                                                                                                                  \
        st->d[0] = load_f16(block);                                                                                    \
        st->o[0] = _mm512_mul_ps(st->d[0], _mm512_set1_ps(-(zero)));                                                   \
    }
/* d, m = f16 */
#define MIN_BEGIN(name)                                                                                                \
    BW_INLINE void name##_begin(const uint8_t *block, name##_state *st)                                                \
    {                                                                                                                  \
        st->d[0] = load_f16(block);                                                                                    \
        st->o[0] = load_f16(block + 32);                                                                               \
    }

/* Q4_0: value = d * (q - 8) */
typedef scale_state q4_0_state;
ZERO_BEGIN(q4_0, 8.0f)
BW_INLINE __m512i q4_0_quants(const uint8_t *block, int base, int u, int i)
{
    (void)base, (void)u;
    return nibbles(block + 32, i);
}
OFFSET_ADD(q4_0)

/* Q4_1: value = d * q + m */
typedef scale_state q4_1_state;
MIN_BEGIN(q4_1)
BW_INLINE __m512i q4_1_quants(const uint8_t *block, int base, int u, int i)
{
    (void)base, (void)u;
    return nibbles(block + 64, i);
}
OFFSET_ADD(q4_1)

/* Q5_0: d, the fifth bits, nibbles; value = d * (q - 16) */
typedef scale_state q5_0_state;
ZERO_BEGIN(q5_0, 16.0f)
BW_INLINE __m512i q5_0_quants(const uint8_t *block, int base, int u, int i)
{
    (void)base, (void)u;
    return _mm512_or_si512(nibbles(block + 96, i), fifth_bit(load512(block + 32), i));
}
OFFSET_ADD(q5_0)

/* Q5_1: d, m, the fifth bits, nibbles; value = d * q + m */
typedef scale_state q5_1_state;
MIN_BEGIN(q5_1)
BW_INLINE __m512i q5_1_quants(const uint8_t *block, int base, int u, int i)
{
    (void)base, (void)u;
    return _mm512_or_si512(nibbles(block + 128, i), fifth_bit(load512(block + 64), i));
}
OFFSET_ADD(q5_1)

/* Signed quants are taken 128 higher. 128 times the sum of x is subtracted again in integers: in floats the large
 * numbers that cancel would leave their rounding errors. */
BW_INLINE __m512i less_128(__m512i dot, const bw_act_q8 *x, int64_t b)
{
    int32_t sums;
    memcpy(&sums, x->sum16 + 2 * b, 4);
    return _mm512_sub_epi32(dot, _mm512_madd_epi16(_mm512_set1_epi32(sums), _mm512_set1_epi16(128)));
}
#define SIGNED_BEGIN(name)                                                                                             \
    BW_INLINE void name##_begin(const uint8_t *block, name##_state *st)                                                \
    {                                                                                                                  \
        st->d[0] = st->o[0] = load_f16(block);                                                                         \
    }
#define SIGNED_ADD(name)                                                                                               \
    BW_INLINE __m512 name##_add(__m512 acc, const __m512i dot[2], const bw_act_q8 *x, int64_t b,                       \
                                const name##_state *st, int base, int u)                                               \
    {                                                                                                                  \
        return add_scaled(acc, less_128(dot[0], x, b), st->d[base + u], x->d[b]);                                      \
    }

/* Q8_0: value = d * q */
typedef scale_state q8_0_state;
SIGNED_BEGIN(q8_0)
BW_INLINE __m512i q8_0_quants(const uint8_t *block, int base, int u, int i)
{
    (void)base, (void)u;
    return _mm512_xor_si512(load512(block + 32 + 64 * i), _mm512_set1_epi8(-128));
}
SIGNED_ADD(q8_0)

/* The value of each nibble of IQ4_NL and IQ4_XS, 128 higher. */
BW_INLINE __m512i iq4_values(__m512i q)
{
    const __m128i t = _mm_setr_epi8(1, 24, 45, 63, 79, 93, 106, 118, -127, -115, -103, -90, -75, -59, -39, -15);
    return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(t), q);
}

/* IQ4_NL: value = d * table[q] */
typedef scale_state iq4_nl_state;
SIGNED_BEGIN(iq4_nl)
BW_INLINE __m512i iq4_nl_quants(const uint8_t *block, int base, int u, int i)
{
    (void)base, (void)u;
    return iq4_values(nibbles(block + 32, i));
}
SIGNED_ADD(iq4_nl)

/* MXFP4: an exponent; value = 2^(e - 128) * table[q], the table being twice the E2M1 values; here all are 12 higher. */
typedef scale_state mxfp4_state;
BW_INLINE void mxfp4_begin(const uint8_t *block, mxfp4_state *st)
{
    __m512i e = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)block));
    __m512i normal = left32(_mm512_sub_epi32(e, _mm512_set1_epi32(1)), 23);
    __m512i subnormal = _mm512_sllv_epi32(_mm512_set1_epi32(0x00200000), e);
    __mmask16 is_normal = _mm512_cmpgt_epi32_mask(e, _mm512_set1_epi32(1));
    st->d[0] = _mm512_castsi512_ps(_mm512_mask_blend_epi32(is_normal, subnormal, normal));
    st->o[0] = _mm512_mul_ps(st->d[0], _mm512_set1_ps(-12));
}
BW_INLINE __m512i mxfp4_quants(const uint8_t *block, int base, int u, int i)
{
    (void)base, (void)u;
    const __m128i t = _mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0);
    return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(t), nibbles(block + 16, i));
}
OFFSET_ADD(mxfp4)

/* ---- blocks of 256 with a scale for each 32 --------------------------------------------------------------------- */

/* Byte n of every 32-bit lane, as a float. */
BW_INLINE __m512 byte_f32(__m512i v, int n)
{
    return _mm512_cvtepi32_ps(_mm512_and_si512(right32(v, 8 * n), _mm512_set1_epi32(255)));
}

/* Q4_K and Q5_K: d, dmin = f16, then 8 scales and 8 minimums of 6 bits in 12 bytes; value = d * scale * q - dmin * min
 */
BW_INLINE void k45_begin(const uint8_t *block, scales_state *st)
{
    __m512 d = load_f16(block), m = negative(load_f16(block + 32));
    __m512i a = load512(block + 64), b = load512(block + 128), c = load512(block + 192);
    __m512i scales[2] = {low_bits(a, 63), _mm512_or_si512(low_bits(c, 15), low_bits(right16(a, 2), 48))};
    __m512i mins[2] = {low_bits(b, 63), _mm512_or_si512(nibble(c, true), low_bits(right16(b, 2), 48))};
    BW_UNROLL for (int i = 0; i < 8; i++)
    {
        st->d[i] = _mm512_mul_ps(d, byte_f32(scales[i / 4], i % 4));
        st->o[i] = _mm512_mul_ps(m, byte_f32(mins[i / 4], i % 4));
    }
}

typedef scales_state q4_k_state;
#define q4_k_begin k45_begin
/* Sub-blocks 2c and 2c + 1 are the low and the high nibbles of the same bytes; base is even. */
BW_INLINE __m512i q4_k_quants(const uint8_t *block, int base, int u, int i)
{
    return nibble(load512(block + 256 + 64 * (4 * base + i)), u);
}
OFFSET_ADD(q4_k)

typedef scales_state q5_k_state;
#define q5_k_begin k45_begin
/* Bit s of a byte of the fifth bits belongs to sub-block s; base is even. */
BW_INLINE __m512i q5_k_quants(const uint8_t *block, int base, int u, int i)
{
    __m512i bits = _mm512_srl_epi16(load512(block + 256 + 64 * i), _mm_cvtsi32_si128(base));
    return _mm512_or_si512(nibble(load512(block + 768 + 64 * (4 * base + i)), u), fifth_bit(bits, u));
}
OFFSET_ADD(q5_k)

/* IQ4_XS: d = f16, 8 scales of 6 bits (two upper bits each in a 16-bit word, nibbles in 4 bytes); value = d * (scale -
 * 32) * table[q] */
typedef scales_state iq4_xs_state;
BW_INLINE void iq4_xs_begin(const uint8_t *block, scales_state *st)
{
    __m512 d = load_f16(block);
    __m512i high = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)(block + 32)));
    __m512i low = load512(block + 64);
    BW_UNROLL for (int i = 0; i < 8; i++)
    {
        __m512i l = _mm512_and_si512(right32(low, 4 * i), _mm512_set1_epi32(15));
        __m512i h = left32(right32(high, 2 * i), 4);
        __m512i scale = _mm512_or_si512(l, _mm512_and_si512(h, _mm512_set1_epi32(48)));
        st->d[i] = _mm512_mul_ps(d, _mm512_cvtepi32_ps(_mm512_sub_epi32(scale, _mm512_set1_epi32(32))));
        st->o[i] = st->d[i];
    }
}
BW_INLINE __m512i iq4_xs_quants(const uint8_t *block, int base, int u, int i)
{
    return iq4_values(nibbles(block + 128 + 256 * (base + u), i));
}
SIGNED_ADD(iq4_xs)

/* ---- blocks of 256 with a scale for each 16 --------------------------------------------------------------------- */

/* The scales of 16 (and minimums, or the scales again in types with a zero point): 16 bytes for each row; those of the
 * sub-block's two halves are bytes 2 * (sub % 2) and the next one in a row's lane of vector sub / 2. */
typedef struct halves_state {
    __m512 d, o;
    __m512i scales[4], mins[4];
} halves_state;

/* Signed byte `byte` of every 32-bit lane, widened. */
BW_INLINE __m512i byte_i32(__m512i v, int byte)
{
    return _mm512_srai_epi32(left32(v, 24 - 8 * byte), 24);
}

/* The sums of x over each half of the sub-block, times their minimums. */
BW_INLINE __m512i min_sums(const halves_state *st, const bw_act_q8 *x, int64_t b, int base, int u)
{
    int32_t sums;
    memcpy(&sums, x->sum16 + 2 * b, 4);
    __m512i v = st->mins[base / 2 + u / 2];
    /* bytes 2 * (u % 2) and the next one, signed, as two 16-bit lanes */
    __m512i low = right32(left32(v, 24 - 16 * (u & 1)), 16);
    __m512i high = left32(right32(v, 8 + 16 * (u & 1)), 24);
    low = _mm512_and_si512(low, _mm512_set1_epi32(0xff00));
    __m512i mins = _mm512_srai_epi16(_mm512_or_si512(low, high), 8);
    return _mm512_madd_epi16(mins, _mm512_set1_epi32(sums));
}

BW_INLINE __m512i halves_sum(const __m512i dot[2], const halves_state *st, int base, int u)
{
    __m512i v = st->scales[base / 2 + u / 2];
    return _mm512_add_epi32(_mm512_mullo_epi32(dot[0], byte_i32(v, 2 * (u & 1))),
                            _mm512_mullo_epi32(dot[1], byte_i32(v, 2 * (u & 1) + 1)));
}

/* value = d * scale * (q - 2^zero) */
#define ZERO_ADD(name, zero)                                                                                           \
    BW_INLINE __m512 name##_add(__m512 acc, const __m512i dot[2], const bw_act_q8 *x, int64_t b,                       \
                                const halves_state *st, int base, int u)                                               \
    {                                                                                                                  \
        __m512i sums = left32(min_sums(st, x, b, base, u), zero);                                                      \
        return add_scaled(acc, _mm512_sub_epi32(halves_sum(dot, st, base, u), sums), st->d, x->d[b]);                  \
    }

/* 2-bit fields u of sub-block base + u (base 0 or 4). */
BW_INLINE __m512i two_bits(const uint8_t *p, int base, int u, int i)
{
    return low_bits(right16(load512(p + 64 * (2 * base + i)), 2 * u), 3);
}

/* Q2_K: d, dmin = f16, 16 bytes of a scale (low) and a minimum of 4 bits; value = d * scale * q - dmin * min */
typedef halves_state q2_k_state;
BW_INLINE void q2_k_begin(const uint8_t *block, q2_k_state *st)
{
    st->d = load_f16(block);
    st->o = negative(load_f16(block + 32));
    BW_UNROLL for (int i = 0; i < 4; i++)
    {
        __m512i v = load512(block + 64 + 64 * i);
        st->scales[i] = nibble(v, false);
        st->mins[i] = nibble(v, true);
    }
}
BW_INLINE __m512i q2_k_quants(const uint8_t *block, int base, int u, int i)
{
    return two_bits(block + 320, base, u, i);
}
BW_INLINE __m512 q2_k_add(__m512 acc, const __m512i dot[2], const bw_act_q8 *x, int64_t b, const halves_state *st,
                          int base, int u)
{
    acc = add_scaled(acc, halves_sum(dot, st, base, u), st->d, x->d[b]);
    return add_scaled(acc, min_sums(st, x, b, base, u), st->o, x->d[b]);
}

/* Q3_K: d = f16, 16 scales of 6 bits in 12 bytes, the third bits (set: no 4 is subtracted), 2-bit fields; value = d *
 * (scale - 32) * (q - 4) */
typedef halves_state q3_k_state;
BW_INLINE void q3_k_begin(const uint8_t *block, q3_k_state *st)
{
    st->d = st->o = load_f16(block);
    __m512i low[2] = {load512(block + 32), load512(block + 96)}, high = load512(block + 160);
    BW_UNROLL for (int i = 0; i < 4; i++)
    {
        __m512i h = left16(low_bits(right16(high, 2 * i), 3), 4);
        __m512i scale = _mm512_or_si512(nibble(low[i % 2], i >= 2), h);
        st->scales[i] = st->mins[i] = _mm512_sub_epi8(scale, _mm512_set1_epi8(32));
    }
}
BW_INLINE __m512i q3_k_quants(const uint8_t *block, int base, int u, int i)
{
    __m512i bits = _mm512_srl_epi16(load512(block + 224 + 64 * i), _mm_cvtsi32_si128(base));
    bits = low_bits(u < 2 ? left16(bits, 2 - u) : right16(bits, u - 2), 4);
    return _mm512_or_si512(two_bits(block + 736, base, u, i), bits);
}
ZERO_ADD(q3_k, 2)

/* Q6_K: d = f16, 16 signed bytes of scales, the two upper bits, nibbles; value = d * scale * (q - 32). In each half of
 * the block, sub-blocks 0 and 2 share bytes 0..31 of the nibbles (low, high), 1 and 3 bytes 32..63. */
typedef halves_state q6_k_state;
BW_INLINE void q6_k_begin(const uint8_t *block, q6_k_state *st)
{
    st->d = st->o = load_f16(block);
    BW_UNROLL for (int i = 0; i < 4; i++) st->scales[i] = st->mins[i] = load512(block + 32 + 64 * i);
}
BW_INLINE __m512i q6_k_quants(const uint8_t *block, int base, int u, int i)
{
    __m512i low = nibble(load512(block + 1312 + 64 * (4 * base + 8 * (u & 1) + i)), u >= 2);
    __m512i v = load512(block + 288 + 64 * (2 * base + i));
    v = low_bits(u < 2 ? left16(v, 4 - 2 * u) : u == 2 ? v : right16(v, 2), 48);
    return _mm512_or_si512(low, v);
}
ZERO_ADD(q6_k, 5)

#endif
