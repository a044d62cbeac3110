/* Private to matmul_avx2.c: what a block of each packed type (matmul_layout.h) is in AVX2 registers. For every type
 * NAME: NAME_state: one half (8 of the 16 rows) of a block's scales, decoded. NAME_begin(block, half, state), once per
 * block. NAME_load(block, sub, half, q): 32 quants of 8 rows; q[i] holds elements 4i..4i+3 of each row. NAME_step(acc,
 * q, x, b, state, sub): acc[row] + products with activation block b. Compile only with AVX2 flags.
 */
#ifndef BW_MATMUL_AVX2_H
#define BW_MATMUL_AVX2_H

#include <immintrin.h>
#include <string.h>

#include "matmul_layout.h"

#define BW_INLINE static inline __attribute__((always_inline))

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

/* Sums over 32 elements of q (0..15) times x, exact: a lane of the 16-bit sum stays below 8 * 2 * 15 * 127 = 30480. */
BW_INLINE __m256i dot_u4(const __m256i q[8], const int8_t *x)
{
    __m256i a = _mm256_maddubs_epi16(q[0], x4(x)), b = _mm256_maddubs_epi16(q[1], x4(x + 4));
    for (int i = 2; i < 8; i += 2) {
        a = _mm256_add_epi16(a, _mm256_maddubs_epi16(q[i], x4(x + 4 * i)));
        b = _mm256_add_epi16(b, _mm256_maddubs_epi16(q[i + 1], x4(x + 4 * i + 4)));
    }
    return _mm256_madd_epi16(_mm256_add_epi16(a, b), _mm256_set1_epi16(1));
}

/* The same for q in 0..31: 4 * 2 * 31 * 127 = 31496 per 16-bit sum. */
BW_INLINE __m256i dot_u5(const __m256i q[8], const int8_t *x)
{
    __m256i a = _mm256_maddubs_epi16(q[0], x4(x)), b = _mm256_maddubs_epi16(q[1], x4(x + 4));
    for (int i = 2; i < 8; i += 2) {
        a = _mm256_add_epi16(a, _mm256_maddubs_epi16(q[i], x4(x + 4 * i)));
        b = _mm256_add_epi16(b, _mm256_maddubs_epi16(q[i + 1], x4(x + 4 * i + 4)));
    }
    const __m256i ones = _mm256_set1_epi16(1);
    return _mm256_add_epi32(_mm256_madd_epi16(a, ones), _mm256_madd_epi16(b, ones));
}

/* Signed q, -128..127: |q| times x with q's sign; a pair stays below 2 * 128 * 127 = 32512. */
BW_INLINE __m256i dot_s8(const __m256i q[8], const int8_t *x)
{
    const __m256i ones = _mm256_set1_epi16(1);
    __m256i sum = _mm256_setzero_si256();
    for (int i = 0; i < 8; i++) {
        __m256i pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(q[i]), _mm256_sign_epi8(x4(x + 4 * i), q[i]));
        sum = _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, ones));
    }
    return sum;
}

/* acc + scale * dx * dot */
BW_INLINE __m256 add_scaled(__m256 acc, __m256i dot, __m256 scale, float dx)
{
    return _mm256_fmadd_ps(_mm256_cvtepi32_ps(dot), _mm256_mul_ps(scale, _mm256_set1_ps(dx)), acc);
}

/* 128 bytes of nibbles of 16 rows, `stride` bytes apart: low ones are elements 0..15, high ones 16..31. */
BW_INLINE void load_nibbles(const uint8_t *p, int half, __m256i q[8])
{
    const __m256i mask = _mm256_set1_epi8(15);
    for (int i = 0; i < 4; i++) {
        __m256i v = load256(p + 64 * i + 32 * half);
        q[i] = _mm256_and_si256(v, mask);
        q[i + 4] = _mm256_and_si256(_mm256_srli_epi16(v, 4), mask);
    }
}

typedef struct scale_state {
    __m256 d, o; /* value = d * q + o */
} scale_state;

/* Q4_0: d = f16; value = d * (q - 8) */
typedef scale_state q4_0_state;
BW_INLINE void q4_0_begin(const uint8_t *block, int half, q4_0_state *st)
{
    st->d = load_f16(block + 16 * half);
    st->o = _mm256_mul_ps(st->d, _mm256_set1_ps(-8));
}
BW_INLINE void q4_0_load(const uint8_t *block, int sub, int half, __m256i q[8])
{
    (void)sub;
    load_nibbles(block + 32, half, q);
}
BW_INLINE __m256 q4_0_step(__m256 acc, const __m256i q[8], const bw_act_q8 *x, int64_t b, const q4_0_state *st, int sub)
{
    (void)sub;
    acc = add_scaled(acc, dot_u4(q, x->q + 32 * b), st->d, x->d[b]);
    return _mm256_fmadd_ps(st->o, _mm256_set1_ps(x->s[b]), acc);
}

/* Q4_1: d, m = f16; value = d * q + m */
typedef scale_state q4_1_state;
BW_INLINE void q4_1_begin(const uint8_t *block, int half, q4_1_state *st)
{
    st->d = load_f16(block + 16 * half);
    st->o = load_f16(block + 32 + 16 * half);
}
BW_INLINE void q4_1_load(const uint8_t *block, int sub, int half, __m256i q[8])
{
    (void)sub;
    load_nibbles(block + 64, half, q);
}
#define q4_1_step q4_0_step

/* Q8_0: d = f16; value = d * q */
typedef scale_state q8_0_state;
BW_INLINE void q8_0_begin(const uint8_t *block, int half, q8_0_state *st)
{
    st->d = load_f16(block + 16 * half);
}
BW_INLINE void q8_0_load(const uint8_t *block, int sub, int half, __m256i q[8])
{
    (void)sub;
    for (int i = 0; i < 8; i++)
        q[i] = load256(block + 32 + 64 * i + 32 * half);
}
BW_INLINE __m256 q8_0_step(__m256 acc, const __m256i q[8], const bw_act_q8 *x, int64_t b, const q8_0_state *st, int sub)
{
    (void)sub;
    return add_scaled(acc, dot_s8(q, x->q + 32 * b), st->d, x->d[b]);
}

#endif
