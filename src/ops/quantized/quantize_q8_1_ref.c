/* QUANTIZE_Q8_1: f32 to the blocks of 32 that products with quantised weights take. */
#include <math.h>

#include "quantized.h"

bw_status bw_op_quantize_q8_1_check(const bw_op_call *call, bw_err *err)
{
    BW_TRY(bw_op_check_counts(call, 1, 1, false, err));
    const bw_tensor *x = call->in[0], *y = call->out[0];
    BW_TRY(bw_op_check_f32(call, x, "in0", err));
    BW_TRY(bw_quant_check_blocks(call, y, "out0", x->n_dims, err));
    if (y->dtype != BW_Q8_1)
        return bw_op_fail(call, err, "out0 must be q8_1");
    for (int i = 0; i < x->n_dims - 1; i++)
        if (x->dims[i] != y->dims[i])
            return bw_op_fail(call, err, "in0 and out0 must have as many rows");
    int64_t k = x->dims[x->n_dims - 1];
    if (k > INT64_MAX - 511 || y->dims[y->n_dims - 1] != (k + 511) / 512 * 512)
        return bw_op_fail(call, err, "out0's rows must be in0's, rounded up to a multiple of 512");
    return BW_OK;
}

void bw_op_quantize_q8_1_cost(const bw_op_call *call, bw_op_cost *cost)
{
    double n = (double)bw_tensor_elements(call->in[0]), padded = (double)bw_tensor_elements(call->out[0]);
    *cost = (bw_op_cost){.flops = 4 * n, .bytes = 4 * n + padded * 36 / 32};
}

static void put_half(uint8_t *dst, float f)
{
    uint16_t h = bw_f32_to_f16(f);
    dst[0] = (uint8_t)h;
    dst[1] = (uint8_t)(h >> 8);
}

void bw_quantize_block_q8_1(const float *src, int64_t n, uint8_t *dst)
{
    float x[32] = {0}, sums[32], most = 0;
    if (n > 0)
        memcpy(x, src, (size_t)n * 4);
    memcpy(sums, x, sizeof sums);
    for (int i = 0; i < 32; i++)
        most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
    for (int half = 16; half > 0; half /= 2)
        for (int i = 0; i < half; i++)
            sums[i] += sums[i + half];
    float d = most / 127.0f;
    for (int i = 0; i < 32; i++) {
        float q = d == 0 ? 0 : roundf(x[i] / d);
        dst[4 + i] = (uint8_t)(int8_t)(isnan(q) ? 0 : q > 127 ? 127 : q < -127 ? -127 : q);
    }
    put_half(dst, d);
    put_half(dst + 2, isnan(sums[0]) ? NAN : sums[0]);
}

void bw_op_quantize_q8_1_ref(const bw_op_call *call)
{
    const bw_tensor *x = call->in[0], *y = call->out[0];
    bw_rows from, to;
    bw_rows_init(&from, x);
    bw_rows_init(&to, y);
    for (int64_t r = 0; r < to.n_rows; r++)
        for (int64_t i = 0; i < to.n_columns; i += 32) {
            int64_t left = from.n_columns - i, n = left > 32 ? 32 : left > 0 ? left : 0;
            bw_quantize_block_q8_1(n ? (const float *)x->data + bw_rows_offset(&from, r) + i : NULL, n,
                                   (uint8_t *)y->data + bw_quant_bytes(BW_Q8_1, bw_rows_offset(&to, r) + i));
        }
}
