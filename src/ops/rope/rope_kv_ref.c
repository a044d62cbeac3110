/* ROPE_KV: rotary position embedding (Su et al., arXiv:2104.09864) of q and k, and k and v appended to the paged cache.
 * A pair (a, b) at angle t = position * inv_freq[i] becomes (a cos t - b sin t, b cos t + a sin t), cos and sin times
 * `magnitude`. q8_0 rows are blocks of 32 along D: an f16 scale of max |x| / 127, then the rounded quotients. */
#include <math.h>
#include <string.h>

#include "bw_op_check.h"

bw_status bw_op_rope_kv_check(const bw_op_call *call, bw_err *err)
{
    static const char *const names[] = {"in0", "in1", "in2"};
    BW_TRY(bw_op_check_counts(call, 6, 3, true, err));
    for (int i = 0; i < 3; i++) {
        BW_TRY(bw_op_check_f32(call, call->in[i], names[i], err));
        if (call->in[i]->n_dims != 3 || call->in[i]->dims[0] != call->in[0]->dims[0])
            return bw_op_fail(call, err, "in0, in1 and in2 must be [T, heads, D] of one T");
    }
    const bw_tensor *q = call->in[0], *k = call->in[1], *v = call->in[2];
    BW_TRY(bw_op_check_f32(call, call->out[0], "out0", err));
    if (!bw_op_same_shape(q, call->out[0]))
        return bw_op_fail(call, err, "in0 and out0 must have one shape");
    if (k->dims[2] != q->dims[2] || v->dims[1] != k->dims[1])
        return bw_op_fail(call, err, "q and k must have one D, k and v one number of heads");
    BW_TRY(bw_op_check_i32(call, call->in[3], "in3", q->dims[0], err));
    BW_TRY(bw_op_check_i32(call, call->in[4], "in4", q->dims[0], err));
    const bw_rope_kv_params *params = call->params;
    if (params->n_rot < 0 || params->n_rot % 2 != 0 || params->n_rot > q->dims[2])
        return bw_op_fail(call, err, "n_rot must be even, from 0 to D, not %d", params->n_rot);
    const bw_tensor *f = call->in[5];
    if (params->n_rot > 0) {
        BW_TRY(bw_op_check_f32(call, f, "in5", err));
        if (f->n_dims != 1 || f->dims[0] != params->n_rot / 2)
            return bw_op_fail(call, err, "in5 must be [%d]", params->n_rot / 2);
    }
    BW_TRY(bw_op_check_cache(call, call->out[1], "out1", k->dims[1], k->dims[2], err));
    BW_TRY(bw_op_check_cache(call, call->out[2], "out2", v->dims[1], v->dims[2], err));
    if (call->out[1]->dims[0] != call->out[2]->dims[0] || call->out[1]->dims[2] != call->out[2]->dims[2])
        return bw_op_fail(call, err, "out1 and out2 must have the same pages");
    return BW_OK;
}

void bw_op_rope_kv_cost(const bw_op_call *call, bw_op_cost *cost)
{
    double q = (double)bw_tensor_elements(call->in[0]), k = (double)bw_tensor_elements(call->in[1]);
    double v = (double)bw_tensor_elements(call->in[2]);
    double bytes = 0;
    for (int i = 1; i < 3; i++) {
        const bw_tensor *t = call->out[i];
        bytes += (i == 1 ? k : v) / (double)bw_dtype_block_elements(t->dtype) * (double)bw_dtype_block_bytes(t->dtype);
    }
    *cost = (bw_op_cost){.flops = 3 * (q + k), .bytes = 8 * q + 4 * (k + v) + bytes};
}

static void rotate(const bw_op_call *call, const float *src, float *dst, int64_t d, double position)
{
    const bw_rope_kv_params *params = call->params;
    int64_t half = params->n_rot / 2;
    const float *inv_freq = half ? call->in[5]->data : NULL;
    for (int64_t i = params->n_rot; i < d; i++)
        dst[i] = src[i];
    for (int64_t i = 0; i < half; i++) {
        int64_t ia = params->interleaved ? 2 * i : i, ib = params->interleaved ? 2 * i + 1 : i + half;
        double angle = position * (double)inv_freq[i], a = (double)src[ia], b = (double)src[ib];
        double c = cos(angle) * (double)params->magnitude, s = sin(angle) * (double)params->magnitude;
        dst[ia] = (float)(a * c - b * s);
        dst[ib] = (float)(b * c + a * s);
    }
}

/* Element i of head h at a slot. */
static void store_plain(const bw_tensor *cache, int64_t row, int64_t i, float x)
{
    if (cache->dtype == BW_F32) {
        ((float *)cache->data)[row * cache->dims[3] + i] = x;
        return;
    }
    uint16_t *dst = (uint16_t *)cache->data + row * cache->dims[3] + i;
    *dst = cache->dtype == BW_F16 ? bw_f32_to_f16(x) : bw_f32_to_bf16(x);
}

static void store_q8_0(const bw_tensor *cache, int64_t row, int64_t block, const float x[32])
{
    uint8_t *dst = (uint8_t *)cache->data + (row * (cache->dims[3] / 32) + block) * 34;
    float most = 0;
    for (int i = 0; i < 32; i++)
        most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
    float scale = most / 127, inverse = scale > 0 ? 1 / scale : 0;
    uint16_t scale_f16 = bw_f32_to_f16(scale);
    memcpy(dst, &scale_f16, 2);
    for (int i = 0; i < 32; i++) {
        float quotient = roundf(x[i] * inverse);
        int8_t quant = (int8_t)(quotient > 127 ? 127 : quotient >= -128 ? quotient : -128);
        memcpy(dst + 2 + i, &quant, 1);
    }
}

/* One value of k (rotated) or v, found anew for each element so that no buffer is needed. */
static void append(const bw_op_call *call, int which, int64_t t)
{
    const bw_tensor *src = call->in[which], *cache = call->out[which];
    const bw_rope_kv_params *params = call->params;
    int64_t d = src->dims[2], half = params->n_rot / 2, page_tokens = cache->dims[2];
    int64_t slot = ((const int32_t *)call->in[4]->data)[t];
    double position = ((const int32_t *)call->in[3]->data)[t];
    for (int64_t h = 0; h < src->dims[1]; h++) {
        const float *x = (const float *)src->data + t * src->strides[0] + h * src->strides[1];
        int64_t row = (slot / page_tokens * src->dims[1] + h) * page_tokens + slot % page_tokens;
        float block[32];
        for (int64_t i = 0; i < d; i++) {
            double y = (double)x[i];
            if (which == 1 && i < params->n_rot) {
                int64_t pair = params->interleaved ? i / 2 : i % half;
                bool second = params->interleaved ? i % 2 : i >= half;
                int64_t step = params->interleaved ? 1 : half;
                double angle = position * (double)((const float *)call->in[5]->data)[pair];
                double c = cos(angle) * (double)params->magnitude, s = sin(angle) * (double)params->magnitude;
                y = second ? y * c + (double)x[i - step] * s : y * c - (double)x[i + step] * s;
            }
            block[i % 32] = (float)y;
            if (cache->dtype != BW_Q8_0)
                store_plain(cache, row, i, (float)y);
            else if (i % 32 == 31)
                store_q8_0(cache, row, i / 32, block);
        }
    }
}

void bw_op_rope_kv_ref(const bw_op_call *call)
{
    const bw_tensor *q = call->in[0], *y = call->out[0];
    for (int64_t t = 0; t < q->dims[0]; t++) {
        double position = ((const int32_t *)call->in[3]->data)[t];
        append(call, 1, t);
        append(call, 2, t);
        for (int64_t h = 0; h < q->dims[1]; h++)
            rotate(call, (const float *)q->data + t * q->strides[0] + h * q->strides[1],
                   (float *)y->data + t * y->strides[0] + h * y->strides[1], q->dims[2], position);
    }
}

/* For the kernels: cos and sin of one token, and one rotated row. */
size_t bw_rope_kv_scratch(const bw_op_call *call)
{
    const bw_rope_kv_params *params = call->params;
    return ((size_t)params->n_rot * 2 + (size_t)call->in[1]->dims[2] + 64) * sizeof(float);
}
