/* ROW_ARGMAX: see bw_sample.h. */
#include "bw_op_check.h"
#include "sample/row_key.h"

bw_status bw_op_row_argmax_check(const bw_op_call *call, bw_err *err)
{
    BW_TRY(bw_op_check_counts(call, 1, 2, false, err));
    const bw_tensor *x = call->in[0];
    BW_TRY(bw_op_check_f32(call, x, "in0", err));
    if (x->n_dims != 2 || x->dims[1] < 1 || x->dims[1] > INT32_MAX)
        return bw_op_fail(call, err, "in0 must be [O, V] with V from 1 to 2^31 - 1");
    BW_TRY(bw_op_check_i32(call, call->out[0], "out0", x->dims[0], err));
    return bw_op_check_i32(call, call->out[1], "out1", x->dims[0], err);
}

void bw_op_row_argmax_cost(const bw_op_call *call, bw_op_cost *cost)
{
    double n = (double)bw_tensor_elements(call->in[0]);
    *cost = (bw_op_cost){.flops = n, .bytes = 4 * n + 8 * (double)call->in[0]->dims[0]};
}

void bw_op_row_argmax_ref(const bw_op_call *call)
{
    const bw_tensor *x = call->in[0];
    for (int64_t r = 0; r < x->dims[0]; r++) {
        const float *row = (const float *)x->data + r * x->strides[0];
        int64_t best = 0;
        bool finite = true;
        for (int64_t i = 0; i < x->dims[1]; i++) {
            best = bw_row_key(row[i]) > bw_row_key(row[best]) ? i : best;
            finite = finite && bw_row_is_finite(row[i]);
        }
        ((int32_t *)call->out[0]->data)[r] = (int32_t)best;
        ((int32_t *)call->out[1]->data)[r] = finite;
    }
}
