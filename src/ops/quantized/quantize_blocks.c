/* QUANTIZE: the encoders are shared with the reference; the members share the blocks. */
#include "quantized.h"

bw_op_kernel bw_quantize_plain;

void bw_quantize_plain(const bw_op_call *call, bw_member *member)
{
    const bw_tensor *x = call->in[0], *y = call->out[0];
    const float *importance = call->n_in == 2 && call->in[1] ? call->in[1]->data : NULL;
    bw_rows from, to;
    bw_rows_init(&from, x);
    bw_rows_init(&to, y);
    int64_t block = bw_dtype_is_quantised(y->dtype) ? bw_dtype_block_elements(y->dtype) : BW_QUANT_MOST;
    int64_t per_row = (from.n_columns + block - 1) / block, begin, end;
    if (!bw_op_my_share(member, from.n_rows * per_row, block, 512, &begin, &end))
        return;
    for (int64_t b = begin; b < end; b++) {
        int64_t r = b / per_row, i = b % per_row * block, n = from.n_columns - i < block ? from.n_columns - i : block;
        bw_quantize_block(y->dtype, (const float *)x->data + bw_rows_offset(&from, r) + i,
                          importance ? importance + i : NULL,
                          (char *)y->data + bw_quant_bytes(y->dtype, bw_rows_offset(&to, r) + i), n);
    }
}
