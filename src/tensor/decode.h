/* Little helpers that the block decoders and encoders share. Private to tensor/. */
#ifndef BW_TENSOR_DECODE_H
#define BW_TENSOR_DECODE_H

#include "bw_dtype.h"

static inline uint16_t bw_load_u16(const uint8_t *p)
{
    return (uint16_t)(p[0] | p[1] << 8);
}
static inline uint32_t bw_load_u32(const uint8_t *p)
{
    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}
static inline float bw_load_f16(const uint8_t *p)
{
    return bw_f16_to_f32(bw_load_u16(p));
}
static inline void bw_store_u16(uint8_t *p, uint16_t v)
{
    p[0] = (uint8_t)v;
    p[1] = (uint8_t)(v >> 8);
}

/* Scale and minimum, six bits each, of group g (0..7) from the 12 packed bytes of q4_k and q5_k: groups 0..3 lie in the
 * low six bits of bytes g and g + 4; of groups 4..7 the low nibbles lie in byte g + 4 and the upper two bits on top of
 * bytes g - 4 and g. */
static inline void bw_k4_scale_min(const uint8_t *p, int g, uint8_t *scale, uint8_t *min)
{
    if (g < 4) {
        *scale = p[g] & 63;
        *min = p[g + 4] & 63;
    } else {
        *scale = (uint8_t)((p[g + 4] & 15) | p[g - 4] >> 6 << 4);
        *min = (uint8_t)(p[g + 4] >> 4 | p[g] >> 6 << 4);
    }
}

/* The 16 signed scales (-32..31) of q3_k: low nibbles in bytes 0..7, upper two bits in bytes 8..11. */
static inline void bw_q3_k_scales(const uint8_t *p, int8_t scales[16])
{
    for (int j = 0; j < 16; j++) {
        int low = p[j % 8] >> (j / 8 * 4) & 15, high = p[8 + j % 4] >> (j / 4 * 2) & 3;
        scales[j] = (int8_t)((low | high << 4) - 32);
    }
}

/* 2^(e - 127), the OCP scale type E8M0, halved: the list of four-bit floats below holds twice their values. */
static inline float bw_e8m0_half(uint8_t e)
{
    return bw_f32_from_bits(e < 2 ? 0x00200000u << e : (uint32_t)(e - 1) << 23);
}

/* The 16 values of iq4_nl and iq4_xs; twice the 16 values of E2M1. */
extern const int8_t bw_iq4_values[16], bw_fp4_values[16];

/* One block each, as in dtypes.def. */
typedef void bw_block_decode_fn(const uint8_t *block, float *y);
bw_block_decode_fn bw_decode_iq2_xxs, bw_decode_iq2_xs, bw_decode_iq2_s, bw_decode_iq3_xxs, bw_decode_iq3_s;
bw_block_decode_fn bw_decode_iq1_s, bw_decode_iq1_m, bw_decode_iq4_nl, bw_decode_iq4_xs, bw_decode_tq1_0;
bw_block_decode_fn bw_decode_tq2_0, bw_decode_mxfp4, bw_decode_nvfp4, bw_decode_q1_0, bw_decode_q2_0;

#endif
