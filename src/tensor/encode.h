/* What the block encoders share. Private to tensor/. */
#ifndef BW_TENSOR_ENCODE_H
#define BW_TENSOR_ENCODE_H

#include "decode.h"

/* One block: x f32 [block], w weights of the squared errors [block], out the block's bytes. x is finite, w finite and
 * not negative. false: a value is too large for the type's half-precision scale. */
typedef bool bw_block_encode_fn(const float *x, const float *w, uint8_t *out);
bw_block_encode_fn bw_encode_q2_k, bw_encode_q3_k, bw_encode_q4_k, bw_encode_q5_k, bw_encode_q6_k;
bw_block_encode_fn bw_encode_iq4_nl, bw_encode_iq4_xs, bw_encode_mxfp4;

/* To the nearest integer, ties to even; |f| must be below 2^22. */
static inline float bw_round_near(float f)
{
    return (f + 12582912.0f) - 12582912.0f;
}
static inline float bw_clamp(float f, float low, float high)
{
    return f < low ? low : f > high ? high : f;
}
static inline int bw_clamp_int(int v, int low, int high)
{
    return v < low ? low : v > high ? high : v;
}
/* Levels of 32 elements as nibbles: the first 16 low, the others high. */
static inline void bw_pack_nibbles(const uint8_t *q, uint8_t *out)
{
    for (int i = 0; i < 16; i++)
        out[i] = (uint8_t)((q[i] & 15) | q[i + 16] << 4);
}
/* Four floats at once (a vector extension that gcc and clang share): sums run in four lanes, added up in a fixed order.
 */
typedef float bw_f4 __attribute__((vector_size(16)));
typedef int32_t bw_i4 __attribute__((vector_size(16)));

static inline bw_f4 bw_f4_load(const float *p)
{
    bw_f4 v;
    memcpy(&v, p, sizeof v);
    return v;
}
static inline void bw_f4_store(float *p, bw_f4 v)
{
    memcpy(p, &v, sizeof v);
}
static inline bw_f4 bw_f4_all(float f)
{
    return (bw_f4){f, f, f, f};
}
/* a where the mask is set (-1), else b */
static inline bw_f4 bw_f4_pick(bw_i4 mask, bw_f4 a, bw_f4 b)
{
    return (bw_f4)(((bw_i4)a & mask) | ((bw_i4)b & ~mask));
}
/* The nearest integer from low to high, both below 2^22 in magnitude. */
static inline bw_f4 bw_f4_level(bw_f4 f, float low, float high)
{
    bw_f4 l = bw_f4_all(low), h = bw_f4_all(high), magic = bw_f4_all(12582912.0f);
    f = bw_f4_pick(f < l, l, f);
    f = bw_f4_pick(f > h, h, f);
    return (f + magic) - magic;
}
static inline float bw_f4_sum(bw_f4 v)
{
    return (v[0] + v[2]) + (v[1] + v[3]);
}
/* 1 / f, or 0 where that is no finite number. */
static inline float bw_inverse(float f)
{
    float r = f != 0 ? 1.0f / f : 0;
    return r - r == 0 ? r : 0;
}
/* As a half; false when it becomes infinite. *rounded is the value stored. */
static inline bool bw_store_f16(uint8_t *out, float f, float *rounded)
{
    uint16_t h = bw_f32_to_f16(f);
    bw_store_u16(out, h);
    *rounded = bw_f16_to_f32(h);
    return (h & 0x7c00) != 0x7c00;
}

#endif
