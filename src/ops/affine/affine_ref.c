/* AFFINE: y = x * mul + add, elementwise. */
#include "bw_op_check.h"

bw_status bw_op_affine_check(const bw_op_call *call, bw_err *err)
{
    BW_TRY(bw_op_check_counts(call, 1, 1, true, err));
    BW_TRY(bw_op_check_plain(call, call->in[0], "in0", BW_MASK_ALL, err));
    BW_TRY(bw_op_check_plain(call, call->out[0], "out0", BW_MASK(call->in[0]->dtype), err));
    if (!bw_op_same_shape(call->in[0], call->out[0]))
        return bw_op_fail(call, err, "in0 and out0 must have one shape");
    return BW_OK;
}

void bw_op_affine_cost(const bw_op_call *call, bw_op_cost *cost)
{
    double n = (double)bw_tensor_elements(call->in[0]), size = (double)bw_dtype_block_bytes(call->in[0]->dtype);
    *cost = (bw_op_cost){.flops = 2 * n, .bytes = 2 * size * n};
}

void bw_op_affine_ref(const bw_op_call *call)
{
    const bw_affine_params *params = call->params;
    const bw_tensor *x = call->in[0];
    bw_tensor *y = call->out[0];
    bool is_short = x->dtype != BW_F64; /* of the floats */
    double mul = is_short ? (double)(float)params->mul : params->mul;
    double add = is_short ? (double)(float)params->add : params->add;
    bw_loop loop;
    bw_loop_init(&loop, y->n_dims, y->dims, 2, (const bw_tensor *[]){x, y});
    bw_loop_cursor cursor;
    bw_span span;
    bw_loop_begin(&cursor, &loop, 0, loop.n);
    while (bw_loop_next(&cursor, &span))
        for (int64_t i = 0; i < span.n; i++) {
            int64_t from = span.offset[0] + i * bw_loop_step(&loop, 0),
                    to = span.offset[1] + i * bw_loop_step(&loop, 1);
            if (bw_dtype_is_integer(x->dtype)) {
                uint64_t v = (uint64_t)bw_element_i64(x->dtype, x->data, from);
                v = v * (uint64_t)bw_f64_to_i64(params->mul) + (uint64_t)bw_f64_to_i64(params->add);
                bw_element_set_i64(y->dtype, y->data, to, (int64_t)v);
            } else {
                double v = bw_element_f64(x->dtype, x->data, from);
                bw_element_set_f64(y->dtype, y->data, to, v * mul + add);
            }
        }
}
