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

#endif
