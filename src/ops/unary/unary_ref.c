/* The unary family: check, cost and reference of UCOPY and of every function in unary.def. */
#include <string.h>

#include "bw_op_check.h"
#include "unary/unary_f64.h"

static bw_status check(const bw_op_call *call, bool has_param, uint64_t dtypes, bw_err *err)
{
    BW_TRY(bw_op_check_counts(call, 1, 1, has_param, err));
    BW_TRY(bw_op_check_plain(call, call->in[0], "in0", dtypes, err));
    BW_TRY(bw_op_check_plain(call, call->out[0], "out0", BW_MASK(call->in[0]->dtype), err));
    if (!bw_op_same_shape(call->in[0], call->out[0]))
        return bw_op_fail(call, err, "in0 and out0 must have one shape");
    return BW_OK;
}

static void cost(const bw_op_call *call, double flops, bw_op_cost *cost_out)
{
    double n = (double)bw_tensor_elements(call->in[0]), size = (double)bw_dtype_block_bytes(call->in[0]->dtype);
    *cost_out = (bw_op_cost){.flops = flops * n, .bytes = 2 * size * n};
}

static void apply(const bw_op_call *call, double (*f)(double x, double p))
{
    const bw_unary_params *params = call->params;
    const bw_tensor *x = call->in[0];
    bw_tensor *y = call->out[0];
    double p = params ? params->param : 0;
    bw_loop loop;
    bw_loop_init(&loop, y->n_dims, y->dims, 2, (const bw_tensor *[]){x, y});
    bw_loop_cursor cursor;
    bw_span span;
    bw_loop_begin(&cursor, &loop, 0, loop.n);
    while (bw_loop_next(&cursor, &span))
        for (int64_t i = 0; i < span.n; i++)
            bw_element_set_f64(y->dtype, y->data, span.offset[1] + i * bw_loop_step(&loop, 1),
                               f(bw_element_f64(x->dtype, x->data, span.offset[0] + i * bw_loop_step(&loop, 0)), p));
}

bw_status bw_op_ucopy_check(const bw_op_call *call, bw_err *err)
{
    return check(call, false, BW_MASK_ALL, err);
}

void bw_op_ucopy_cost(const bw_op_call *call, bw_op_cost *cost_out)
{
    cost(call, 0, cost_out);
}

void bw_op_ucopy_ref(const bw_op_call *call)
{
    const bw_tensor *x = call->in[0];
    bw_tensor *y = call->out[0];
    size_t size = (size_t)bw_dtype_block_bytes(x->dtype);
    bw_loop loop;
    bw_loop_init(&loop, y->n_dims, y->dims, 2, (const bw_tensor *[]){x, y});
    bw_loop_cursor cursor;
    bw_span span;
    bw_loop_begin(&cursor, &loop, 0, loop.n);
    while (bw_loop_next(&cursor, &span))
        for (int64_t i = 0; i < span.n; i++)
            memcpy((char *)y->data + (size_t)(span.offset[1] + i * bw_loop_step(&loop, 1)) * size,
                   (const char *)x->data + (size_t)(span.offset[0] + i * bw_loop_step(&loop, 0)) * size, size);
}

#define BW_UNARY(NAME, name, has_param, f64, vector, limit, is_exact, magnitude, step, formula)                        \
    bw_status bw_op_##name##_check(const bw_op_call *call, bw_err *err)                                                \
    {                                                                                                                  \
        return check(call, has_param, BW_MASK_F5, err);                                                                \
    }                                                                                                                  \
    void bw_op_##name##_cost(const bw_op_call *call, bw_op_cost *cost_out)                                             \
    {                                                                                                                  \
        cost(call, (is_exact) ? 1 : 20, cost_out);                                                                     \
    }                                                                                                                  \
    void bw_op_##name##_ref(const bw_op_call *call)                                                                    \
    {                                                                                                                  \
        apply(call, name##_f64);                                                                                       \
    }
#include "unary/unary.def"
#undef BW_UNARY
