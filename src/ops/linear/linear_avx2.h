/* Private to linear_avx2.c: what a block of each packed type (linear_layout.h) is in AVX2 registers. A type's block has
 * SUBS sub-blocks of 32; sub = base + u, where u is a constant of the unrolled code. For every type NAME:
 *   NAME_state: the scales of one half (8 of the 16 rows) of a block, decoded by NAME_begin(block, half, state).
 *   NAME_quants(block, base, u, i, half): elements 4i..4i+3 of the sub-block, of 8 rows.
 *   NAME_factor(state, base, u, part): what the 16-bit sums of the sub-block's first or second half are multiplied by:
 *   integer scales, the same in both 16-bit lanes of a row, or ones.
 *   NAME_add(acc, dot, x, b, state, base, u): acc[row] + those sums, scaled, for activation block b.
 * Compile only with AVX2 flags.
 */
#ifndef BW_LINEAR_AVX2_H
#define BW_LINEAR_AVX2_H

#include <immintrin.h>
#include <string.h>

#include "bw_inline.h"
#include "linear_layout.h"

/* Keeps a value in a register here, in program order: without it the compilers hoist loads and spill sums. */
#define BW_PIN(v) __asm__ volatile("" : "+x"(v))

BW_INLINE __m256i load256(const uint8_t *p)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)p);
}

BW_INLINE __m256 load_f16(const uint8_t *p)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)p));
}

/* Four activations, in every row's place. */
BW_INLINE __m256i x4(const int8_t *x)
{
    int32_t v;
    memcpy(&v, x, 4);
    return _mm256_set1_epi32(v);
}

/* A float in every lane. On Zen 3 the integer form of the broadcast is a load alone, the float form also takes a
 * floating point port. */
BW_INLINE __m256 bcast_f32(float v)
{
    __m256i i = _mm256_set1_epi32((int32_t)bw_f32_bits(v));
    __asm__("" : "+x"(i));
    return _mm256_castsi256_ps(i);
}

/* A vector's lane holds 4 elements of one row, so a 16-bit lane of maddubs holds 2 products. How many such vectors may
 * be added before a 16-bit lane can overflow, activations being in -127..127: q in 0..15: 8 * 2 * 15 * 127 = 30480;
 * 0..31: 4 * 2 * 31 * 127 = 31496; 0..63: 2 * 2 * 63 * 127 = 32004. Signed q are taken as |q| times x with q's sign: 2
 * * 128 * 127 = 32512. */
enum { RUN_U4 = 8, RUN_U4_HALF = 4, RUN_U5 = 4, RUN_U6 = 2, RUN_S8 = 1 };

/* acc + scale * dx * dot */
BW_INLINE __m256 add_scaled(__m256 acc, __m256i dot, __m256 scale, float dx)
{
    return _mm256_fmadd_ps(_mm256_cvtepi32_ps(dot), _mm256_mul_ps(scale, bcast_f32(dx)), acc);
}

/* acc + o * dx * sum of x */
BW_INLINE __m256 add_offset(__m256 acc, __m256 o, float sx)
{
    return _mm256_fmadd_ps(o, bcast_f32(sx), acc);
}

BW_INLINE __m256i low_bits(__m256i v, int mask)
{
    return _mm256_and_si256(v, _mm256_set1_epi8((char)mask));
}

/* Low or high nibbles of every byte. */
BW_INLINE __m256i nibble(__m256i v, bool high)
{
    return low_bits(high ? _mm256_srli_epi16(v, 4) : v, 15);
}

/* Nibbles of a block of 32: low ones are elements 0..15, high ones 16..31. */
BW_INLINE __m256i nibbles(const uint8_t *p, int i, int half)
{
    return nibble(load256(p + 64 * (i & 3) + 32 * half), i >= 4);
}

/* Bit `bit` of every byte, moved to bit 4 (both constants). */
BW_INLINE __m256i fifth_bit(__m256i v, int bit)
{
    return low_bits(bit < 4 ? _mm256_slli_epi16(v, 4 - bit) : _mm256_srli_epi16(v, bit - 4), 16);
}

BW_INLINE __m256i one_factor(void)
{
    return _mm256_set1_epi16(1);
}
#define NO_FACTOR(name)                                                                                                \
    BW_INLINE __m256i name##_factor(const name##_state *st, int base, int u, int part)                                 \
    {                                                                                                                  \
        (void)st, (void)base, (void)u, (void)part;                                                                     \
        return one_factor();                                                                                           \
    }

/* ---- blocks of 32 ----------------------------------------------------------------------------------------------- */

/* Scales of up to 8 sub-blocks: value = d * q + o. */
typedef struct scale_state {
    __m256 d[1], o[1];
} scale_state;
typedef struct scales_state {
    __m256 d[8], o[8];
} scales_state;

#define SCALED_ADD(name)                                                                                               \
    BW_INLINE __m256 name##_add(__m256 acc, __m256i dot, const bw_act_q8 *x, int64_t b, const name##_state *st,        \
                                int base, int u)                                                                       \
    {                                                                                                                  \
        return add_scaled(acc, dot, st->d[base + u], x->d[b]);                                                         \
    }
#define OFFSET_ADD(name)                                                                                               \
    BW_INLINE __m256 name##_add(__m256 acc, __m256i dot, const bw_act_q8 *x, int64_t b, const name##_state *st,        \
                                int base, int u)                                                                       \
    {                                                                                                                  \
        return add_offset(add_scaled(acc, dot, st->d[base + u], x->d[b]), st->o[base + u], x->s[b]);                   \
    }

/* Q4_0: d = f16; value = d * (q - 8) */
typedef scale_state q4_0_state;
BW_INLINE void q4_0_begin(const uint8_t *block, int half, q4_0_state *st)
{
    st->d[0] = load_f16(block + 16 * half);
    st->o[0] = _mm256_mul_ps(st->d[0], _mm256_set1_ps(-8));
}
BW_INLINE __m256i q4_0_quants(const uint8_t *block, int base, int u, int i, int half)
{
    (void)base, (void)u;
    return nibbles(block + 32, i, half);
}
NO_FACTOR(q4_0)
OFFSET_ADD(q4_0)

/* Q4_1: d, m = f16; value = d * q + m */
typedef scale_state q4_1_state;
BW_INLINE void q4_1_begin(const uint8_t *block, int half, q4_1_state *st)
{
    st->d[0] = load_f16(block + 16 * half);
    st->o[0] = load_f16(block + 32 + 16 * half);
}
BW_INLINE __m256i q4_1_quants(const uint8_t *block, int base, int u, int i, int half)
{
    (void)base, (void)u;
    return nibbles(block + 64, i, half);
}
NO_FACTOR(q4_1)
OFFSET_ADD(q4_1)

/* Q5_0: d = f16, the fifth bits, nibbles; value = d * (q - 16) */
typedef scale_state q5_0_state;
BW_INLINE void q5_0_begin(const uint8_t *block, int half, q5_0_state *st)
{
    st->d[0] = load_f16(block + 16 * half);
    st->o[0] = _mm256_mul_ps(st->d[0], _mm256_set1_ps(-16));
}
BW_INLINE __m256i q5_0_quants(const uint8_t *block, int base, int u, int i, int half)
{
    (void)base, (void)u;
    return _mm256_or_si256(nibbles(block + 96, i, half), fifth_bit(load256(block + 32 + 32 * half), i));
}
NO_FACTOR(q5_0)
OFFSET_ADD(q5_0)

/* Q5_1: d, m = f16, the fifth bits, nibbles; value = d * q + m */
typedef scale_state q5_1_state;
BW_INLINE void q5_1_begin(const uint8_t *block, int half, q5_1_state *st)
{
    st->d[0] = load_f16(block + 16 * half);
    st->o[0] = load_f16(block + 32 + 16 * half);
}
BW_INLINE __m256i q5_1_quants(const uint8_t *block, int base, int u, int i, int half)
{
    (void)base, (void)u;
    return _mm256_or_si256(nibbles(block + 128, i, half), fifth_bit(load256(block + 64 + 32 * half), i));
}
NO_FACTOR(q5_1)
OFFSET_ADD(q5_1)

/* Q8_0: d = f16; value = d * q */
typedef scale_state q8_0_state;
BW_INLINE void q8_0_begin(const uint8_t *block, int half, q8_0_state *st)
{
    st->d[0] = load_f16(block + 16 * half);
}
BW_INLINE __m256i q8_0_quants(const uint8_t *block, int base, int u, int i, int half)
{
    (void)base, (void)u;
    return load256(block + 32 + 64 * i + 32 * half);
}
NO_FACTOR(q8_0)
SCALED_ADD(q8_0)

/* The value of each nibble of IQ4_NL and IQ4_XS. */
BW_INLINE __m256i iq4_values(__m256i q)
{
    const __m128i t = _mm_setr_epi8(-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113);
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(t), q);
}

/* IQ4_NL: d = f16; value = d * table[q] */
typedef scale_state iq4_nl_state;
BW_INLINE void iq4_nl_begin(const uint8_t *block, int half, iq4_nl_state *st)
{
    st->d[0] = load_f16(block + 16 * half);
}
BW_INLINE __m256i iq4_nl_quants(const uint8_t *block, int base, int u, int i, int half)
{
    (void)base, (void)u;
    return iq4_values(nibbles(block + 32, i, half));
}
NO_FACTOR(iq4_nl)
SCALED_ADD(iq4_nl)

/* MXFP4: an exponent; value = 2^(e - 128) * table[q], the table being twice the E2M1 values; here all are 12 higher. */
typedef scale_state mxfp4_state;
BW_INLINE void mxfp4_begin(const uint8_t *block, int half, mxfp4_state *st)
{
    int64_t exponents;
    memcpy(&exponents, block + 8 * half, 8);
    __m256i e = _mm256_cvtepu8_epi32(_mm_cvtsi64_si128(exponents));
    __m256i normal = _mm256_slli_epi32(_mm256_sub_epi32(e, _mm256_set1_epi32(1)), 23);
    __m256i subnormal = _mm256_sllv_epi32(_mm256_set1_epi32(0x00200000), e);
    __m256i is_normal = _mm256_cmpgt_epi32(e, _mm256_set1_epi32(1));
    st->d[0] = _mm256_castsi256_ps(_mm256_blendv_epi8(subnormal, normal, is_normal));
    st->o[0] = _mm256_mul_ps(st->d[0], _mm256_set1_ps(-12));
}
BW_INLINE __m256i mxfp4_quants(const uint8_t *block, int base, int u, int i, int half)
{
    (void)base, (void)u;
    const __m128i t = _mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0);
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(t), nibbles(block + 16, i, half));
}
NO_FACTOR(mxfp4)
OFFSET_ADD(mxfp4)

/* ---- blocks of 256 with a scale for each 32 --------------------------------------------------------------------- */

/* Byte n of every 32-bit lane, as a float. */
BW_INLINE __m256 byte_f32(__m256i v, int n)
{
    v = n == 3 ? _mm256_srli_epi32(v, 24) : _mm256_and_si256(_mm256_srli_epi32(v, 8 * n), _mm256_set1_epi32(255));
    return _mm256_cvtepi32_ps(v);
}

/* Q4_K and Q5_K: d, dmin = f16, then 8 scales and 8 minimums of 6 bits in 12 bytes; value = d * scale * q - dmin * min
 */
BW_INLINE void k45_begin(const uint8_t *block, int half, scales_state *st)
{
    __m256 d = load_f16(block + 16 * half);
    __m256 m = _mm256_xor_ps(load_f16(block + 32 + 16 * half), _mm256_set1_ps(-0.0f));
    __m256i a = load256(block + 64 + 32 * half), b = load256(block + 128 + 32 * half);
    __m256i c = load256(block + 192 + 32 * half);
    __m256i scales[2] = {low_bits(a, 63), _mm256_or_si256(low_bits(c, 15), low_bits(_mm256_srli_epi16(a, 2), 48))};
    __m256i mins[2] = {low_bits(b, 63), _mm256_or_si256(nibble(c, true), low_bits(_mm256_srli_epi16(b, 2), 48))};
    BW_UNROLL for (int i = 0; i < 8; i++)
    {
        st->d[i] = _mm256_mul_ps(d, byte_f32(scales[i / 4], i % 4));
        st->o[i] = _mm256_mul_ps(m, byte_f32(mins[i / 4], i % 4));
    }
}

typedef scales_state q4_k_state;
#define q4_k_begin k45_begin
/* Sub-blocks 2c and 2c + 1 are the low and the high nibbles of the same bytes; base is even. */
BW_INLINE __m256i q4_k_quants(const uint8_t *block, int base, int u, int i, int half)
{
    return nibble(load256(block + 256 + 64 * (4 * base + i) + 32 * half), u);
}
NO_FACTOR(q4_k)
OFFSET_ADD(q4_k)

typedef scales_state q5_k_state;
#define q5_k_begin k45_begin
/* Bit s of a byte of the fifth bits belongs to sub-block s; base is even. */
BW_INLINE __m256i q5_k_quants(const uint8_t *block, int base, int u, int i, int half)
{
    __m256i bits = _mm256_srl_epi16(load256(block + 256 + 64 * i + 32 * half), _mm_cvtsi32_si128(base));
    return _mm256_or_si256(nibble(load256(block + 768 + 64 * (4 * base + i) + 32 * half), u), fifth_bit(bits, u));
}
NO_FACTOR(q5_k)
OFFSET_ADD(q5_k)

/* IQ4_XS: d = f16, 8 scales of 6 bits (two upper bits each in a 16-bit word, nibbles in 4 bytes); value = d * (scale -
 * 32) * table[q] */
typedef scales_state iq4_xs_state;
BW_INLINE void iq4_xs_begin(const uint8_t *block, int half, iq4_xs_state *st)
{
    __m256 d = load_f16(block + 16 * half);
    __m256i high = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(const void *)(block + 32 + 16 * half)));
    __m256i low = load256(block + 64 + 32 * half);
    BW_UNROLL for (int i = 0; i < 8; i++)
    {
        __m256i l = _mm256_and_si256(_mm256_srli_epi32(low, 4 * i), _mm256_set1_epi32(15));
        __m256i h = _mm256_and_si256(_mm256_slli_epi32(_mm256_srli_epi32(high, 2 * i), 4), _mm256_set1_epi32(48));
        __m256i scale = _mm256_sub_epi32(_mm256_or_si256(l, h), _mm256_set1_epi32(32));
        st->d[i] = _mm256_mul_ps(d, _mm256_cvtepi32_ps(scale));
    }
}
BW_INLINE __m256i iq4_xs_quants(const uint8_t *block, int base, int u, int i, int half)
{
    return iq4_values(nibbles(block + 128 + 256 * (base + u), i, half));
}
NO_FACTOR(iq4_xs)
SCALED_ADD(iq4_xs)

/* ---- blocks of 256 with a scale for each 16 --------------------------------------------------------------------- */

/* The scales of 16 (and minimums, or the scales again in types with a zero point): 16 bytes for each row; those of the
 * sub-block's two halves are bytes 2 * (sub % 2) and the next one in a row's lane of vector sub / 2. */
typedef struct halves_state {
    __m256 d, o;
    __m256i scales[4], mins[4];
} halves_state;

/* Two signed bytes of every 32-bit lane, widened to its two 16-bit lanes. */
BW_INLINE __m256i byte_pair(__m256i v, int first, int second)
{
    int32_t lane = first << 8 | (int32_t)((uint32_t)second << 24) | 0x00800080;
    __m256i where = _mm256_add_epi8(_mm256_set1_epi32(lane), _mm256_setr_epi32(0, 0x04000400, 0x08000800, 0x0c000c00, 0,
                                                                               0x04000400, 0x08000800, 0x0c000c00));
    return _mm256_srai_epi16(_mm256_shuffle_epi8(v, where), 8);
}

/* The sums of x over each half of the sub-block, times their minimums. */
BW_INLINE __m256i min_sums(const halves_state *st, const bw_act_q8 *x, int64_t b, int base, int u)
{
    int32_t sums;
    memcpy(&sums, x->sum16 + 2 * b, 4);
    __m256i mins = byte_pair(st->mins[base / 2 + u / 2], 2 * (u & 1), 2 * (u & 1) + 1);
    return _mm256_madd_epi16(mins, _mm256_set1_epi32(sums));
}

#define HALVES_FACTOR(name)                                                                                            \
    BW_INLINE __m256i name##_factor(const halves_state *st, int base, int u, int part)                                 \
    {                                                                                                                  \
        return byte_pair(st->scales[base / 2 + u / 2], 2 * (u & 1) + part, 2 * (u & 1) + part);                        \
    }
/* value = d * scale * (q - 2^zero) */
#define ZERO_ADD(name, zero)                                                                                           \
    BW_INLINE __m256 name##_add(__m256 acc, __m256i dot, const bw_act_q8 *x, int64_t b, const halves_state *st,        \
                                int base, int u)                                                                       \
    {                                                                                                                  \
        __m256i sums = _mm256_slli_epi32(min_sums(st, x, b, base, u), zero);                                           \
        return add_scaled(acc, _mm256_sub_epi32(dot, sums), st->d, x->d[b]);                                           \
    }

/* Four elements' 2-bit fields u of 16-byte-interleaved dwords: sub-block 4h + u of 256 (base = 4h). */
BW_INLINE __m256i two_bits(const uint8_t *p, int base, int u, int i, int half)
{
    __m256i v = load256(p + 64 * (2 * base + i) + 32 * half);
    return low_bits(u ? _mm256_srli_epi16(v, 2 * u) : v, 3);
}

/* Q2_K: d, dmin = f16, 16 bytes of a scale (low) and a minimum of 4 bits; value = d * scale * q - dmin * min */
typedef halves_state q2_k_state;
BW_INLINE void q2_k_begin(const uint8_t *block, int half, q2_k_state *st)
{
    st->d = load_f16(block + 16 * half);
    st->o = _mm256_xor_ps(load_f16(block + 32 + 16 * half), _mm256_set1_ps(-0.0f));
    for (int i = 0; i < 4; i++) {
        __m256i v = load256(block + 64 + 64 * i + 32 * half);
        st->scales[i] = nibble(v, false);
        st->mins[i] = nibble(v, true);
    }
}
BW_INLINE __m256i q2_k_quants(const uint8_t *block, int base, int u, int i, int half)
{
    return two_bits(block + 320, base, u, i, half);
}
HALVES_FACTOR(q2_k)
BW_INLINE __m256 q2_k_add(__m256 acc, __m256i dot, const bw_act_q8 *x, int64_t b, const halves_state *st, int base,
                          int u)
{
    return add_scaled(add_scaled(acc, dot, st->d, x->d[b]), min_sums(st, x, b, base, u), st->o, x->d[b]);
}

/* Q3_K: d = f16, 16 scales of 6 bits in 12 bytes, the third bits (set: no 4 is subtracted), 2-bit fields; value = d *
 * (scale - 32) * (q - 4) */
typedef halves_state q3_k_state;
BW_INLINE void q3_k_begin(const uint8_t *block, int half, q3_k_state *st)
{
    st->d = load_f16(block + 16 * half);
    __m256i low[2] = {load256(block + 32 + 32 * half), load256(block + 96 + 32 * half)};
    __m256i high = load256(block + 160 + 32 * half);
    BW_UNROLL for (int i = 0; i < 4; i++)
    {
        __m256i h = _mm256_slli_epi16(low_bits(_mm256_srli_epi16(high, 2 * i), 3), 4);
        __m256i scale = _mm256_or_si256(nibble(low[i % 2], i >= 2), h);
        st->scales[i] = st->mins[i] = _mm256_sub_epi8(scale, _mm256_set1_epi8(32));
    }
}
BW_INLINE __m256i q3_k_quants(const uint8_t *block, int base, int u, int i, int half)
{
    __m256i bits = _mm256_srl_epi16(load256(block + 224 + 64 * i + 32 * half), _mm_cvtsi32_si128(base));
    bits = low_bits(u < 2 ? _mm256_slli_epi16(bits, 2 - u) : _mm256_srli_epi16(bits, u - 2), 4);
    return _mm256_or_si256(two_bits(block + 736, base, u, i, half), bits);
}
HALVES_FACTOR(q3_k)
ZERO_ADD(q3_k, 2)

/* Q6_K: d = f16, 16 signed bytes of scales, the two upper bits, nibbles; value = d * scale * (q - 32). In each half of
 * the block, sub-blocks 0 and 2 share bytes 0..31 of the nibbles (low, high), 1 and 3 bytes 32..63. */
typedef halves_state q6_k_state;
BW_INLINE void q6_k_begin(const uint8_t *block, int half, q6_k_state *st)
{
    st->d = load_f16(block + 16 * half);
    for (int i = 0; i < 4; i++)
        st->scales[i] = st->mins[i] = load256(block + 32 + 64 * i + 32 * half);
}
BW_INLINE __m256i q6_k_quants(const uint8_t *block, int base, int u, int i, int half)
{
    __m256i low = nibble(load256(block + 1312 + 64 * (4 * base + 8 * (u & 1) + i) + 32 * half), u >= 2);
    __m256i v = load256(block + 288 + 64 * (2 * base + i) + 32 * half);
    v = low_bits(u < 2 ? _mm256_slli_epi16(v, 4 - 2 * u) : u == 2 ? v : _mm256_srli_epi16(v, 2), 48);
    return _mm256_or_si256(low, v);
}
HALVES_FACTOR(q6_k)
ZERO_ADD(q6_k, 5)

#endif
