/* Encoders of plain types and of the legacy 32-element blocks, and the dispatch over all types.
 *
 * The legacy kinds follow ggml's reference quantisation operation by operation, so that the bytes are equal: the scale
 * comes from the extreme values, without a search. Weights play no part in them. */
#include "bw_quant.h"

#include <inttypes.h>
#include <math.h>

#include "encode.h"

/* The value of the largest magnitude, the first of equals. */
static float extreme(const float *x)
{
    float most = 0, value = 0;
    for (int i = 0; i < 32; i++)
        if (fabsf(x[i]) > most) {
            most = fabsf(x[i]);
            value = x[i];
        }
    return value;
}

static void range(const float *x, float *low, float *high)
{
    *low = *high = x[0];
    for (int i = 1; i < 32; i++) {
        *low = x[i] < *low ? x[i] : *low;
        *high = x[i] > *high ? x[i] : *high;
    }
}

static uint8_t level(float f, int top)
{
    int q = (int)f;
    return (uint8_t)bw_clamp_int(q, 0, top);
}

static void pack_fifth_bits(const uint8_t *q, uint8_t *out)
{
    for (int i = 0; i < 4; i++) {
        out[i] = 0;
        for (int j = 0; j < 8; j++)
            out[i] = (uint8_t)(out[i] | (q[i * 8 + j] >> 4) << j);
    }
}

static bool symmetric(const float *x, int half, uint8_t *out, uint8_t *q)
{
    float d = extreme(x) / (float)-half, inverse = bw_inverse(d), stored;
    for (int i = 0; i < 32; i++)
        q[i] = level(x[i] * inverse + ((float)half + 0.5f), 2 * half - 1);
    return bw_store_f16(out, d, &stored);
}

static bool affine(const float *x, int top, uint8_t *out, uint8_t *q)
{
    float low, high, stored;
    range(x, &low, &high);
    float d = (high - low) / (float)top, inverse = bw_inverse(d);
    for (int i = 0; i < 32; i++)
        q[i] = level((x[i] - low) * inverse + 0.5f, top);
    bool fits = bw_store_f16(out, d, &stored);
    return bw_store_f16(out + 2, low, &stored) && fits;
}

static bool q4_0(const float *x, const float *w, uint8_t *out)
{
    (void)w;
    uint8_t q[32];
    bool fits = symmetric(x, 8, out, q);
    bw_pack_nibbles(q, out + 2);
    return fits;
}

static bool q4_1(const float *x, const float *w, uint8_t *out)
{
    (void)w;
    uint8_t q[32];
    bool fits = affine(x, 15, out, q);
    bw_pack_nibbles(q, out + 4);
    return fits;
}

static bool q5_0(const float *x, const float *w, uint8_t *out)
{
    (void)w;
    uint8_t q[32];
    bool fits = symmetric(x, 16, out, q);
    pack_fifth_bits(q, out + 2);
    bw_pack_nibbles(q, out + 6);
    return fits;
}

static bool q5_1(const float *x, const float *w, uint8_t *out)
{
    (void)w;
    uint8_t q[32];
    bool fits = affine(x, 31, out, q);
    pack_fifth_bits(q, out + 4);
    bw_pack_nibbles(q, out + 8);
    return fits;
}

static bool q8_0(const float *x, const float *w, uint8_t *out)
{
    (void)w;
    float d = fabsf(extreme(x)) / 127, inverse = bw_inverse(d), stored;
    for (int i = 0; i < 32; i++)
        out[2 + i] = (uint8_t)(int8_t)bw_clamp_int((int)roundf(x[i] * inverse), -127, 127);
    return bw_store_f16(out, d, &stored);
}

static bw_block_encode_fn *const encoders[BW_DTYPE_COUNT] = {
    [BW_Q4_0] = q4_0,
    [BW_Q4_1] = q4_1,
    [BW_Q5_0] = q5_0,
    [BW_Q5_1] = q5_1,
    [BW_Q8_0] = q8_0,
    [BW_Q2_K] = bw_encode_q2_k,
    [BW_Q3_K] = bw_encode_q3_k,
    [BW_Q4_K] = bw_encode_q4_k,
    [BW_Q5_K] = bw_encode_q5_k,
    [BW_Q6_K] = bw_encode_q6_k,
    [BW_IQ4_NL] = bw_encode_iq4_nl,
    [BW_IQ4_XS] = bw_encode_iq4_xs,
    [BW_MXFP4] = bw_encode_mxfp4,
};

bool bw_can_encode(bw_dtype dtype)
{
    return dtype == BW_F32 || dtype == BW_F16 || dtype == BW_BF16 ||
           ((unsigned)dtype < BW_DTYPE_COUNT && encoders[dtype] != NULL);
}

static bw_status encode_plain(bw_dtype dtype, const float *src, uint8_t *dst, int64_t n, bw_err *err)
{
    if (dtype == BW_F32 && n > 0)
        memcpy(dst, src, (size_t)n * 4);
    for (int64_t i = 0; dtype != BW_F32 && i < n; i++) {
        uint16_t h = dtype == BW_F16 ? bw_f32_to_f16(src[i]) : bw_f32_to_bf16(src[i]);
        if (dtype == BW_F16 && (h & 0x7c00) == 0x7c00)
            return bw_fail(err, BW_E_RANGE, "element %" PRId64 " is %g, too large for f16 (65504 at most)", i,
                           (double)src[i]);
        bw_store_u16(dst + i * 2, h);
    }
    return BW_OK;
}

/* Importances scaled to a largest of 1, so that sums of squares stay in range; all 1 when there are none. */
static void block_weights(const float *importance, int n, float *weights)
{
    float most = 0;
    for (int i = 0; importance && i < n; i++)
        most = importance[i] > most ? importance[i] : most;
    for (int i = 0; i < n; i++)
        weights[i] = most > 0 ? importance[i] / most : 1;
}

/* No kind with a half-precision scale reaches 3e8 (65504 * 128 * 32 is the most); below it squares stay in range. */
static bool block_in_range(bw_dtype dtype, const float *x, int n)
{
    for (int i = 0; i < n; i++)
        if (dtype != BW_MXFP4 && fabsf(x[i]) > 3e8f)
            return false;
    return true;
}

bw_status bw_encode_row(bw_dtype dtype, const float *src, void *dst, int64_t n, const float *importance, bw_err *err)
{
    if (!bw_can_encode(dtype))
        return bw_fail(err, BW_E_UNSUPPORTED, "%s can be read but not written", bw_dtype_name(dtype));
    int64_t block = bw_dtype_block_elements(dtype), bytes = bw_dtype_block_bytes(dtype);
    if (bw_dtype_bytes(dtype, n) < 0)
        return bw_fail(err, BW_E_ARG,
                       "a row of %" PRId64 " elements cannot be %s: the length must be a multiple of %" PRId64, n,
                       bw_dtype_name(dtype), block);
    for (int64_t i = 0; i < n; i++) {
        if (src[i] - src[i] != 0)
            return bw_fail(err, BW_E_FORMAT, "element %" PRId64 " is %g: only finite numbers can be quantised", i,
                           (double)src[i]);
        if (importance && !(importance[i] >= 0 && importance[i] <= 1e30f))
            return bw_fail(err, BW_E_ARG, "the importance of element %" PRId64 " is %g; 0 to 1e30 are allowed", i,
                           (double)importance[i]);
    }
    if (!encoders[dtype])
        return encode_plain(dtype, src, dst, n, err);
    for (int64_t i = 0; i < n / block; i++) {
        float weights[256];
        block_weights(importance ? importance + i * block : NULL, (int)block, weights);
        if (!block_in_range(dtype, src + i * block, (int)block) ||
            !encoders[dtype](src + i * block, weights, (uint8_t *)dst + i * bytes))
            return bw_fail(err, BW_E_RANGE,
                           "elements %" PRId64 " to %" PRId64 " are too large for the half-precision "
                           "scale of %s",
                           i * block, (i + 1) * block - 1, bw_dtype_name(dtype));
    }
    return BW_OK;
}
