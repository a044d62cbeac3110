/* FILL and CONST_SET: y = value. */
#include "bw_op_check.h"

static bw_status check(const bw_op_call *call, bw_err *err)
{
    BW_TRY(bw_op_check_counts(call, 0, 1, true, err));
    return bw_op_check_plain(call, call->out[0], "out0", BW_MASK_ALL, err);
}

static void cost(const bw_op_call *call, bw_op_cost *cost_out)
{
    double n = (double)bw_tensor_elements(call->out[0]);
    *cost_out = (bw_op_cost){.bytes = n * (double)bw_dtype_block_bytes(call->out[0]->dtype)};
}

static void apply(const bw_op_call *call)
{
    const bw_fill_params *params = call->params;
    bw_tensor *y = call->out[0];
    bw_loop loop;
    bw_loop_init(&loop, y->n_dims, y->dims, 1, (const bw_tensor *[]){y});
    bw_loop_cursor cursor;
    bw_span span;
    bw_loop_begin(&cursor, &loop, 0, loop.n);
    while (bw_loop_next(&cursor, &span))
        for (int64_t i = 0; i < span.n; i++) {
            int64_t at = span.offset[0] + i * bw_loop_step(&loop, 0);
            if (bw_dtype_is_integer(y->dtype))
                bw_element_set_i64(y->dtype, y->data, at, params->integer);
            else
                bw_element_set_f64(y->dtype, y->data, at, params->value);
        }
}

bw_status bw_op_fill_check(const bw_op_call *call, bw_err *err)
{
    return check(call, err);
}

void bw_op_fill_cost(const bw_op_call *call, bw_op_cost *cost_out)
{
    cost(call, cost_out);
}

void bw_op_fill_ref(const bw_op_call *call)
{
    apply(call);
}

bw_status bw_op_const_set_check(const bw_op_call *call, bw_err *err)
{
    return check(call, err);
}

void bw_op_const_set_cost(const bw_op_call *call, bw_op_cost *cost_out)
{
    cost(call, cost_out);
}

void bw_op_const_set_ref(const bw_op_call *call)
{
    apply(call);
}
