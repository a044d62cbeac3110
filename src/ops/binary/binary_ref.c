/* The functions of binary.def: check, cost, reference. */
#include "binary/binary_scalar.h"
#include "bw_op_check.h"

static bw_status check(const bw_op_call *call, bool is_compare, bw_err *err)
{
    BW_TRY(bw_op_check_counts(call, 2, 1, false, err));
    const bw_tensor *a = call->in[0], *b = call->in[1], *y = call->out[0];
    BW_TRY(bw_op_check_plain(call, a, "in0", BW_MASK_ALL, err));
    BW_TRY(bw_op_check_plain(call, b, "in1", BW_MASK(a->dtype), err));
    BW_TRY(bw_op_check_plain(call, y, "out0", is_compare ? BW_MASK(BW_U8) : BW_MASK(a->dtype), err));
    BW_TRY(bw_op_check_broadcast(call, a, y, "in0", err));
    return bw_op_check_broadcast(call, b, y, "in1", err);
}

static void cost(const bw_op_call *call, bw_op_cost *cost_out)
{
    double n = (double)bw_tensor_elements(call->out[0]), size = (double)bw_dtype_block_bytes(call->in[0]->dtype);
    double n_in = (double)bw_tensor_elements(call->in[0]) + (double)bw_tensor_elements(call->in[1]);
    *cost_out = (bw_op_cost){.flops = n, .bytes = n_in * size + n * (double)bw_dtype_block_bytes(call->out[0]->dtype)};
}

static void apply(const bw_op_call *call, double (*f)(double, double), int64_t (*g)(int64_t, int64_t))
{
    const bw_tensor *a = call->in[0], *b = call->in[1];
    bw_tensor *y = call->out[0];
    bool is_integer = bw_dtype_is_integer(a->dtype);
    bw_loop loop;
    bw_loop_init(&loop, y->n_dims, y->dims, 3, (const bw_tensor *[]){a, b, y});
    bw_loop_cursor cursor;
    bw_span span;
    bw_loop_begin(&cursor, &loop, 0, loop.n);
    while (bw_loop_next(&cursor, &span))
        for (int64_t i = 0; i < span.n; i++) {
            int64_t at[3];
            for (int k = 0; k < 3; k++)
                at[k] = span.offset[k] + i * bw_loop_step(&loop, k);
            if (is_integer)
                bw_element_set_i64(
                    y->dtype, y->data, at[2],
                    g(bw_element_i64(a->dtype, a->data, at[0]), bw_element_i64(b->dtype, b->data, at[1])));
            else
                bw_element_set_f64(
                    y->dtype, y->data, at[2],
                    f(bw_element_f64(a->dtype, a->data, at[0]), bw_element_f64(b->dtype, b->data, at[1])));
        }
}

#define BW_BINARY(NAME, name, is_compare, f64, i64, vector, formula)                                                   \
    bw_status bw_op_##name##_check(const bw_op_call *call, bw_err *err)                                                \
    {                                                                                                                  \
        return check(call, is_compare, err);                                                                           \
    }                                                                                                                  \
    void bw_op_##name##_cost(const bw_op_call *call, bw_op_cost *cost_out)                                             \
    {                                                                                                                  \
        cost(call, cost_out);                                                                                          \
    }                                                                                                                  \
    void bw_op_##name##_ref(const bw_op_call *call)                                                                    \
    {                                                                                                                  \
        apply(call, name##_f64, name##_i64);                                                                           \
    }
#include "binary/binary.def"
#undef BW_BINARY
