/* DEQUANTIZE_BLOCK: y = what x's blocks stand for. */
#include "quantized.h"

bw_status bw_op_dequantize_block_check(const bw_op_call *call, bw_err *err)
{
    BW_TRY(bw_op_check_counts(call, 1, 1, false, err));
    BW_TRY(bw_quant_check_blocks(call, call->in[0], "in0", 0, err));
    BW_TRY(bw_op_check_plain(call, call->out[0], "out0", BW_MASK(BW_F32) | BW_MASK_HALVES, err));
    if (!bw_op_same_shape(call->in[0], call->out[0]))
        return bw_op_fail(call, err, "in0 and out0 must have one shape");
    return BW_OK;
}

void bw_op_dequantize_block_cost(const bw_op_call *call, bw_op_cost *cost)
{
    const bw_tensor *x = call->in[0];
    double n = (double)bw_tensor_elements(x);
    double block = (double)bw_dtype_block_bytes(x->dtype) / (double)bw_dtype_block_elements(x->dtype);
    *cost = (bw_op_cost){.flops = 2 * n, .bytes = n * (block + (double)bw_dtype_block_bytes(call->out[0]->dtype))};
}

void bw_op_dequantize_block_ref(const bw_op_call *call)
{
    const bw_tensor *x = call->in[0];
    bw_tensor *y = call->out[0];
    bw_rows from, to;
    bw_rows_init(&from, x);
    bw_rows_init(&to, y);
    int64_t block = bw_dtype_block_elements(x->dtype), step = y->strides[y->n_dims - 1];
    float values[BW_QUANT_MOST];
    for (int64_t r = 0; r < from.n_rows; r++)
        for (int64_t i = 0; i < from.n_columns; i += block) {
            const char *src = (const char *)x->data + bw_quant_bytes(x->dtype, bw_rows_offset(&from, r) + i);
            bw_decode_row(x->dtype, src, values, block, NULL);
            for (int64_t j = 0; j < block; j++)
                bw_element_set_f64(y->dtype, y->data, bw_rows_offset(&to, r) + (i + j) * step, (double)values[j]);
        }
}
