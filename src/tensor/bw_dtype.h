/* Element types: names, sizes, GGUF numbers; single-value conversions. One list, dtypes.def, drives everything. */
#ifndef BW_DTYPE_H
#define BW_DTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "beeswax.h" /* the enum, its names */

/* By GGUF number; BW_DTYPE_COUNT when there is none. */
bw_dtype bw_dtype_from_gguf(uint32_t gguf_type);
/* The GGUF number, or -1. */
int bw_dtype_gguf(bw_dtype dtype);
/* Elements and bytes of one block; 1 and the element's size for plain types. */
int64_t bw_dtype_block_elements(bw_dtype dtype);
int64_t bw_dtype_block_bytes(bw_dtype dtype);
bool bw_dtype_is_quantised(bw_dtype dtype);
/* Bytes of n consecutive elements; -1 when n is negative, no multiple of the block, or the product overflows. */
int64_t bw_dtype_bytes(bw_dtype dtype, int64_t n);

/* IEEE 754 binary16 and bfloat16, round to nearest even; E4M3 as in OCP "8-bit floating point" (no infinity, 0x7F is
 * NaN; overflow saturates to 448). */
static inline float bw_f32_from_bits(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, 4);
    return f;
}
static inline uint32_t bw_f32_bits(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, 4);
    return bits;
}
static inline float bw_bf16_to_f32(uint16_t h)
{
    return bw_f32_from_bits((uint32_t)h << 16);
}
static inline uint16_t bw_f32_to_bf16(float f)
{
    uint32_t b = bw_f32_bits(f);
    if ((b & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)(b >> 16 | 0x40);
    return (uint16_t)((b + 0x7fffu + (b >> 16 & 1)) >> 16);
}
static inline float bw_f16_to_f32(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16, exponent = h >> 10 & 31u, mantissa = h & 0x3ffu;
    if (exponent == 31)
        return bw_f32_from_bits(sign | 0x7f800000u | mantissa << 13);
    if (exponent == 0) {
        float f = (float)mantissa * 0x1p-24f;
        return sign ? -f : f;
    }
    return bw_f32_from_bits(sign | (exponent + 112) << 23 | mantissa << 13);
}
static inline uint16_t bw_f32_to_f16(float f)
{
    uint32_t b = bw_f32_bits(f), sign = b >> 16 & 0x8000u, abs = b & 0x7fffffffu;
    if (abs > 0x7f800000u)
        return (uint16_t)(sign | 0x7e00u);
    if (abs >= 0x477ff000u)
        return (uint16_t)(sign | 0x7c00u);
    if (abs < 0x38800000u) { /* subnormal result: let the addition round */
        float r = bw_f32_from_bits(abs) + 0.5f;
        return (uint16_t)(sign | (bw_f32_bits(r) - 0x3f000000u));
    }
    return (uint16_t)(sign | ((abs - 0x38000000u + 0xfffu + (abs >> 13 & 1)) >> 13));
}
float bw_f8_e4m3_to_f32(uint8_t v);
uint8_t bw_f32_to_f8_e4m3(float f);

#endif
