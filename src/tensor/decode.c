/* Decoders of plain types and of the legacy and K quantised blocks; the dispatch over all types.
 * Layouts: ggml's block definitions (GGUF). Each product is rounded as ggml's scalar decoders round it. */
#include "bw_quant.h"

#include <inttypes.h>

#include "decode.h"

/* ---- 32-element blocks ---- */

static void q4_0(const uint8_t *b, float *y)
{
    float d = bw_load_f16(b);
    for (int i = 0; i < 16; i++) {
        y[i] = (float)((b[2 + i] & 15) - 8) * d;
        y[i + 16] = (float)((b[2 + i] >> 4) - 8) * d;
    }
}

static void q4_1(const uint8_t *b, float *y)
{
    float d = bw_load_f16(b), m = bw_load_f16(b + 2);
    for (int i = 0; i < 16; i++) {
        y[i] = (float)(b[4 + i] & 15) * d + m;
        y[i + 16] = (float)(b[4 + i] >> 4) * d + m;
    }
}

static void q5_0(const uint8_t *b, float *y)
{
    float d = bw_load_f16(b);
    uint32_t high = bw_load_u32(b + 2);
    for (int i = 0; i < 16; i++) {
        y[i] = (float)((int)((b[6 + i] & 15) | (high >> i & 1) << 4) - 16) * d;
        y[i + 16] = (float)((int)((b[6 + i] >> 4u) | (high >> (i + 16) & 1) << 4) - 16) * d;
    }
}

static void q5_1(const uint8_t *b, float *y)
{
    float d = bw_load_f16(b), m = bw_load_f16(b + 2);
    uint32_t high = bw_load_u32(b + 4);
    for (int i = 0; i < 16; i++) {
        y[i] = (float)((b[8 + i] & 15) | (high >> i & 1) << 4) * d + m;
        y[i + 16] = (float)((b[8 + i] >> 4u) | (high >> (i + 16) & 1) << 4) * d + m;
    }
}

static void q8_0(const uint8_t *b, float *y)
{
    float d = bw_load_f16(b);
    for (int i = 0; i < 32; i++)
        y[i] = (float)(int8_t)b[2 + i] * d;
}

/* d, d * sum, then the values: 36 bytes (two halves; the `gguf` Python package's table says 40, from an older layout
 * with two floats; ggml-common.h has two halves). */
static void q8_1(const uint8_t *b, float *y)
{
    float d = bw_load_f16(b);
    for (int i = 0; i < 32; i++)
        y[i] = (float)(int8_t)b[4 + i] * d;
}

/* ---- 256-element blocks ---- */

/* scales [16] (low nibble scale, high nibble minimum), quants [64], d, dmin */
static void q2_k(const uint8_t *b, float *y)
{
    float d = bw_load_f16(b + 80), dmin = bw_load_f16(b + 82);
    for (int i = 0; i < 256; i++) {
        uint8_t scale = b[i / 16];
        int q = b[16 + i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3;
        y[i] = d * (float)(scale & 15) * (float)q - dmin * (float)(scale >> 4);
    }
}

/* high bits [32], quants [64], 16 six-bit scales [12], d */
static void q3_k(const uint8_t *b, float *y)
{
    float d = bw_load_f16(b + 108);
    int8_t scales[16];
    bw_q3_k_scales(b + 96, scales);
    for (int i = 0; i < 256; i++) {
        int low = b[32 + i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3;
        int high = b[i % 32] >> (i / 32) & 1;
        y[i] = d * (float)scales[i / 16] * (float)(low - (high ? 0 : 4));
    }
}

/* d, dmin, 8 six-bit scales and minima [12], quants [128] */
static void q4_k(const uint8_t *b, float *y)
{
    float d = bw_load_f16(b), dmin = bw_load_f16(b + 2);
    for (int g = 0; g < 8; g++) {
        uint8_t scale, min;
        bw_k4_scale_min(b + 4, g, &scale, &min);
        float ds = d * (float)scale, dm = dmin * (float)min;
        const uint8_t *q = b + 16 + g / 2 * 32;
        for (int i = 0; i < 32; i++)
            y[g * 32 + i] = ds * (float)(q[i] >> (g % 2 * 4) & 15) - dm;
    }
}

/* as q4_k with high bits [32] before the quants */
static void q5_k(const uint8_t *b, float *y)
{
    float d = bw_load_f16(b), dmin = bw_load_f16(b + 2);
    for (int g = 0; g < 8; g++) {
        uint8_t scale, min;
        bw_k4_scale_min(b + 4, g, &scale, &min);
        float ds = d * (float)scale, dm = dmin * (float)min;
        const uint8_t *q = b + 48 + g / 2 * 32, *high = b + 16;
        for (int i = 0; i < 32; i++)
            y[g * 32 + i] = ds * (float)((q[i] >> (g % 2 * 4) & 15) | (high[i] >> g & 1) << 4) - dm;
    }
}

/* low nibbles [128], high bit pairs [64], 16 int8 scales, d */
static void q6_k(const uint8_t *b, float *y)
{
    float d = bw_load_f16(b + 208);
    for (int i = 0; i < 256; i++) {
        int half = i / 128, part = i % 128 / 32, l = i % 32;
        int low = b[half * 64 + part % 2 * 32 + l] >> (part / 2 * 4) & 15;
        int high = b[128 + half * 32 + l] >> (part * 2) & 3;
        int8_t scale = (int8_t)b[192 + i / 16];
        y[i] = d * (float)scale * (float)((low | high << 4) - 32);
    }
}

/* f32 d, int8 [256], int16 sums [16] */
static void q8_k(const uint8_t *b, float *y)
{
    float d = bw_f32_from_bits(bw_load_u32(b));
    for (int i = 0; i < 256; i++)
        y[i] = d * (float)(int8_t)b[4 + i];
}

/* ---- plain types ---- */

static void plain(bw_dtype dtype, const uint8_t *p, float *y, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        switch (dtype) {
        case BW_F16:
            y[i] = bw_load_f16(p + i * 2);
            break;
        case BW_BF16:
            y[i] = bw_bf16_to_f32(bw_load_u16(p + i * 2));
            break;
        case BW_F64: {
            double v;
            memcpy(&v, p + i * 8, 8);
            y[i] = (float)v;
            break;
        }
        case BW_I8:
            y[i] = (float)(int8_t)p[i];
            break;
        case BW_U8:
            y[i] = (float)p[i];
            break;
        case BW_I16:
            y[i] = (float)(int16_t)bw_load_u16(p + i * 2);
            break;
        case BW_I32:
            y[i] = (float)(int32_t)bw_load_u32(p + i * 4);
            break;
        case BW_U32:
            y[i] = (float)bw_load_u32(p + i * 4);
            break;
        case BW_I64: {
            int64_t v;
            memcpy(&v, p + i * 8, 8);
            y[i] = (float)v;
            break;
        }
        default: /* F8_E4M3 */
            y[i] = bw_f8_e4m3_to_f32(p[i]);
        }
    }
}

static bw_block_decode_fn *const decoders[BW_DTYPE_COUNT] = {
    [BW_Q4_0] = q4_0,
    [BW_Q4_1] = q4_1,
    [BW_Q5_0] = q5_0,
    [BW_Q5_1] = q5_1,
    [BW_Q8_0] = q8_0,
    [BW_Q8_1] = q8_1,
    [BW_Q2_K] = q2_k,
    [BW_Q3_K] = q3_k,
    [BW_Q4_K] = q4_k,
    [BW_Q5_K] = q5_k,
    [BW_Q6_K] = q6_k,
    [BW_Q8_K] = q8_k,
    [BW_IQ2_XXS] = bw_decode_iq2_xxs,
    [BW_IQ2_XS] = bw_decode_iq2_xs,
    [BW_IQ2_S] = bw_decode_iq2_s,
    [BW_IQ3_XXS] = bw_decode_iq3_xxs,
    [BW_IQ3_S] = bw_decode_iq3_s,
    [BW_IQ1_S] = bw_decode_iq1_s,
    [BW_IQ1_M] = bw_decode_iq1_m,
    [BW_IQ4_NL] = bw_decode_iq4_nl,
    [BW_IQ4_XS] = bw_decode_iq4_xs,
    [BW_TQ1_0] = bw_decode_tq1_0,
    [BW_TQ2_0] = bw_decode_tq2_0,
    [BW_MXFP4] = bw_decode_mxfp4,
    [BW_NVFP4] = bw_decode_nvfp4,
    [BW_Q1_0] = bw_decode_q1_0,
    [BW_Q2_0] = bw_decode_q2_0,
};

bw_status bw_decode_row(bw_dtype dtype, const void *src, float *dst, int64_t n, bw_err *err)
{
    int64_t bytes = bw_dtype_bytes(dtype, n);
    if (bytes < 0)
        return bw_fail(err, BW_E_ARG,
                       "a row of %" PRId64 " elements cannot be %s: the length must be a multiple of %" PRId64, n,
                       bw_dtype_name(dtype), bw_dtype_block_elements(dtype));
    const uint8_t *p = src;
    if (dtype == BW_F32) {
        if (n > 0)
            memcpy(dst, p, (size_t)bytes);
    } else if (!bw_dtype_is_quantised(dtype)) {
        plain(dtype, p, dst, n);
    } else {
        if (!decoders[dtype])
            return bw_fail(err, BW_E_UNSUPPORTED, "%s has no decoder", bw_dtype_name(dtype));
        int64_t elements = bw_dtype_block_elements(dtype), block = bw_dtype_block_bytes(dtype);
        for (int64_t i = 0; i < n / elements; i++)
            decoders[dtype](p + i * block, dst + i * elements);
    }
    return BW_OK;
}
