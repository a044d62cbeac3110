/* AFFINE: y = x * mul + add, elementwise. */
#include "bw_op_check.h"

bw_status bw_op_affine_check(const bw_op_call *call, bw_err *err)
{
    BW_TRY(bw_op_check_counts(call, 1, 1, true, err));
    BW_TRY(bw_op_check_f32(call, call->in[0], "in0", err));
    BW_TRY(bw_op_check_f32(call, call->out[0], "out0", err));
    if (!bw_op_same_shape(call->in[0], call->out[0]))
        return bw_op_fail(call, err, "in0 and out0 must have one shape");
    return BW_OK;
}

void bw_op_affine_cost(const bw_op_call *call, bw_op_cost *cost)
{
    double n = (double)bw_tensor_elements(call->in[0]);
    *cost = (bw_op_cost){.flops = 2 * n, .bytes = 8 * n};
}

void bw_op_affine_ref(const bw_op_call *call)
{
    const bw_affine_params *params = call->params;
    bw_rows x, y;
    bw_rows_init(&x, call->in[0]);
    bw_rows_init(&y, call->out[0]);
    for (int64_t r = 0; r < x.n_rows; r++) {
        const float *src = (const float *)call->in[0]->data + bw_rows_offset(&x, r);
        float *dst = (float *)call->out[0]->data + bw_rows_offset(&y, r);
        for (int64_t i = 0; i < x.n_columns; i++)
            dst[i] = (float)((double)src[i] * (double)params->mul + (double)params->add);
    }
}
