/* CAST: y = x in another type. */
#include <string.h>

#include "bw_op_check.h"
#include "cast/cast_scalar.h"

bw_status bw_op_cast_check(const bw_op_call *call, bw_err *err)
{
    BW_TRY(bw_op_check_counts(call, 1, 1, false, err));
    BW_TRY(bw_op_check_plain(call, call->in[0], "in0", BW_MASK_ALL, err));
    BW_TRY(bw_op_check_plain(call, call->out[0], "out0", BW_MASK_ALL, err));
    if (!bw_op_same_shape(call->in[0], call->out[0]))
        return bw_op_fail(call, err, "in0 and out0 must have one shape");
    return BW_OK;
}

void bw_op_cast_cost(const bw_op_call *call, bw_op_cost *cost)
{
    double n = (double)bw_tensor_elements(call->in[0]);
    double size = (double)(bw_dtype_block_bytes(call->in[0]->dtype) + bw_dtype_block_bytes(call->out[0]->dtype));
    *cost = (bw_op_cost){.flops = n, .bytes = size * n};
}

static void convert(const bw_tensor *x, int64_t from, bw_tensor *y, int64_t to)
{
    if (x->dtype == y->dtype) {
        size_t size = (size_t)bw_dtype_block_bytes(x->dtype);
        memcpy((char *)y->data + (size_t)to * size, (const char *)x->data + (size_t)from * size, size);
    } else if (!bw_dtype_is_integer(x->dtype)) {
        bw_element_set_f64(y->dtype, y->data, to, bw_element_f64(x->dtype, x->data, from));
    } else {
        int64_t v = bw_element_i64(x->dtype, x->data, from);
        if (bw_dtype_is_integer(y->dtype))
            bw_element_set_i64(y->dtype, y->data, to, v);
        else
            bw_element_set_f64(y->dtype, y->data, to, y->dtype == BW_F64 ? (double)v : bw_cast_i64_sticky(v));
    }
}

void bw_op_cast_ref(const bw_op_call *call)
{
    const bw_tensor *x = call->in[0];
    bw_tensor *y = call->out[0];
    bw_loop loop;
    bw_loop_init(&loop, y->n_dims, y->dims, 2, (const bw_tensor *[]){x, y});
    bw_loop_cursor cursor;
    bw_span span;
    bw_loop_begin(&cursor, &loop, 0, loop.n);
    while (bw_loop_next(&cursor, &span))
        for (int64_t i = 0; i < span.n; i++)
            convert(x, span.offset[0] + i * bw_loop_step(&loop, 0), y, span.offset[1] + i * bw_loop_step(&loop, 1));
}
