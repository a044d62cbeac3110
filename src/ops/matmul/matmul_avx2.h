/* Private to matmul_avx2.c: what a block of each packed type (matmul_layout.h) is in AVX2 registers. For every type
 * NAME: NAME_state: one half (8 of the 16 rows) of a block's scales, decoded. NAME_begin(block, half, state), once per
 * block. NAME_quants(block, sub, i, half): elements 4i..4i+3 of the sub-block of 32, of 8 rows. NAME_add(acc, dot, x,
 * b, state, sub): acc[row] + the integer sums, scaled, for activation block b. Compile only with AVX2 flags.
 */
#ifndef BW_MATMUL_AVX2_H
#define BW_MATMUL_AVX2_H

#include <immintrin.h>
#include <string.h>

#include "matmul_layout.h"

#define BW_INLINE static inline __attribute__((always_inline))
#if defined(__clang__)
#define BW_UNROLL _Pragma("clang loop unroll(full)")
#else
#define BW_UNROLL _Pragma("GCC unroll 8")
#endif
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
enum { RUN_U4 = 8, RUN_U5 = 4, RUN_U6 = 2, RUN_S8 = 1 };

/* acc + scale * dx * dot */
BW_INLINE __m256 add_scaled(__m256 acc, __m256i dot, __m256 scale, float dx)
{
    return _mm256_fmadd_ps(_mm256_cvtepi32_ps(dot), _mm256_mul_ps(scale, bcast_f32(dx)), acc);
}

/* Nibbles of 16 rows, 64 bytes each step: low ones are elements 0..15 of a block, high ones 16..31. */
BW_INLINE __m256i nibbles(const uint8_t *p, int i, int half)
{
    __m256i v = load256(p + 64 * (i & 3) + 32 * half);
    return _mm256_and_si256(i < 4 ? v : _mm256_srli_epi16(v, 4), _mm256_set1_epi8(15));
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
BW_INLINE __m256i q4_0_quants(const uint8_t *block, int sub, int i, int half)
{
    (void)sub;
    return nibbles(block + 32, i, half);
}
BW_INLINE __m256 q4_0_add(__m256 acc, __m256i dot, const bw_act_q8 *x, int64_t b, const q4_0_state *st, int sub)
{
    (void)sub;
    acc = add_scaled(acc, dot, st->d, x->d[b]);
    return _mm256_fmadd_ps(st->o, bcast_f32(x->s[b]), acc);
}

/* Q4_1: d, m = f16; value = d * q + m */
typedef scale_state q4_1_state;
BW_INLINE void q4_1_begin(const uint8_t *block, int half, q4_1_state *st)
{
    st->d = load_f16(block + 16 * half);
    st->o = load_f16(block + 32 + 16 * half);
}
BW_INLINE __m256i q4_1_quants(const uint8_t *block, int sub, int i, int half)
{
    (void)sub;
    return nibbles(block + 64, i, half);
}
#define q4_1_add q4_0_add

/* Q8_0: d = f16; value = d * q */
typedef scale_state q8_0_state;
BW_INLINE void q8_0_begin(const uint8_t *block, int half, q8_0_state *st)
{
    st->d = load_f16(block + 16 * half);
}
BW_INLINE __m256i q8_0_quants(const uint8_t *block, int sub, int i, int half)
{
    (void)sub;
    return load256(block + 32 + 64 * i + 32 * half);
}
BW_INLINE __m256 q8_0_add(__m256 acc, __m256i dot, const bw_act_q8 *x, int64_t b, const q8_0_state *st, int sub)
{
    (void)sub;
    return add_scaled(acc, dot, st->d, x->d[b]);
}

#endif
