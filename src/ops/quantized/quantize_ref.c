/* QUANTIZE: f32 to the blocks of any type that has an encoder. */
#include <math.h>

#include "quantized.h"

bw_status bw_op_quantize_check(const bw_op_call *call, bw_err *err)
{
    BW_TRY(bw_op_check_counts(call, call->n_in == 2 ? 2 : 1, 1, false, err));
    const bw_tensor *x = call->in[0], *importance = call->n_in == 2 ? call->in[1] : NULL, *y = call->out[0];
    BW_TRY(bw_op_check_f32(call, x, "in0", err));
    BW_TRY(bw_quant_check_blocks(call, y, "out0", 0, err));
    if (!bw_can_encode(y->dtype))
        return bw_op_fail(call, err, "out0's type can be read but not written");
    if (!bw_op_same_shape(x, y))
        return bw_op_fail(call, err, "in0 and out0 must have one shape");
    if (!importance)
        return BW_OK;
    BW_TRY(bw_op_check_f32(call, importance, "in1", err));
    if (importance->n_dims != 1 || importance->dims[0] != x->dims[x->n_dims - 1])
        return bw_op_fail(call, err, "in1 must be [%lld]", (long long)x->dims[x->n_dims - 1]);
    return BW_OK;
}

void bw_op_quantize_cost(const bw_op_call *call, bw_op_cost *cost)
{
    const bw_tensor *y = call->out[0];
    double n = (double)bw_tensor_elements(y);
    double block = (double)bw_dtype_block_bytes(y->dtype) / (double)bw_dtype_block_elements(y->dtype);
    *cost = (bw_op_cost){.flops = 4 * n, .bytes = n * (4 + block)};
}

void bw_quantize_block(bw_dtype dtype, const float *src, const float *importance, void *dst, int64_t n)
{
    if (!bw_dtype_is_quantised(dtype)) {
        for (int64_t i = 0; i < n; i++)
            bw_element_set_f64(dtype, dst, i, (double)src[i]);
        return;
    }
    float x[BW_QUANT_MOST], w[BW_QUANT_MOST];
    for (int64_t i = 0; i < n; i++) {
        x[i] = isnan(src[i]) ? 0 : src[i] > 65504.0f ? 65504.0f : src[i] < -65504.0f ? -65504.0f : src[i];
        if (importance)
            w[i] = importance[i] > 1e30f ? 1e30f : importance[i] > 0 ? importance[i] : 0;
    }
    bw_encode_row(dtype, x, dst, n, importance ? w : NULL, NULL); /* such values are never refused */
}

void bw_op_quantize_ref(const bw_op_call *call)
{
    const bw_tensor *x = call->in[0], *y = call->out[0];
    const float *importance = call->n_in == 2 && call->in[1] ? call->in[1]->data : NULL;
    bw_rows from, to;
    bw_rows_init(&from, x);
    bw_rows_init(&to, y);
    int64_t block = bw_dtype_block_elements(y->dtype);
    for (int64_t r = 0; r < from.n_rows; r++)
        for (int64_t i = 0; i < from.n_columns; i += block)
            bw_quantize_block(y->dtype, (const float *)x->data + bw_rows_offset(&from, r) + i,
                              importance ? importance + i : NULL,
                              (char *)y->data + bw_quant_bytes(y->dtype, bw_rows_offset(&to, r) + i), block);
}
