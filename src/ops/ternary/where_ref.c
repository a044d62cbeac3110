/* WHERE: y = c ? a : b. */
#include <string.h>

#include "bw_op_check.h"

bw_status bw_op_where_check(const bw_op_call *call, bw_err *err)
{
    const uint64_t conditions = BW_MASK_IDS | BW_MASK(BW_I16) | BW_MASK(BW_I32);
    BW_TRY(bw_op_check_counts(call, 3, 1, false, err));
    const bw_tensor *c = call->in[0], *a = call->in[1], *b = call->in[2], *y = call->out[0];
    BW_TRY(bw_op_check_plain(call, c, "in0", conditions, err));
    BW_TRY(bw_op_check_plain(call, a, "in1", BW_MASK_ALL, err));
    BW_TRY(bw_op_check_plain(call, b, "in2", BW_MASK(a->dtype), err));
    BW_TRY(bw_op_check_plain(call, y, "out0", BW_MASK(a->dtype), err));
    BW_TRY(bw_op_check_broadcast(call, c, y, "in0", err));
    BW_TRY(bw_op_check_broadcast(call, a, y, "in1", err));
    return bw_op_check_broadcast(call, b, y, "in2", err);
}

void bw_op_where_cost(const bw_op_call *call, bw_op_cost *cost)
{
    double bytes = 0;
    for (int k = 0; k < 4; k++) {
        const bw_tensor *t = k < 3 ? call->in[k] : call->out[0];
        bytes += (double)bw_tensor_elements(t) * (double)bw_dtype_block_bytes(t->dtype);
    }
    *cost = (bw_op_cost){.flops = (double)bw_tensor_elements(call->out[0]), .bytes = bytes};
}

void bw_op_where_ref(const bw_op_call *call)
{
    const bw_tensor *c = call->in[0];
    bw_tensor *y = call->out[0];
    size_t size = (size_t)bw_dtype_block_bytes(y->dtype);
    bw_loop loop;
    bw_loop_init(&loop, y->n_dims, y->dims, 4, (const bw_tensor *[]){c, call->in[1], call->in[2], y});
    bw_loop_cursor cursor;
    bw_span span;
    bw_loop_begin(&cursor, &loop, 0, loop.n);
    while (bw_loop_next(&cursor, &span))
        for (int64_t i = 0; i < span.n; i++) {
            bool is_set = bw_element_i64(c->dtype, c->data, span.offset[0] + i * bw_loop_step(&loop, 0)) != 0;
            int k = is_set ? 1 : 2;
            memcpy((char *)y->data + (size_t)(span.offset[3] + i * bw_loop_step(&loop, 3)) * size,
                   (const char *)call->in[k]->data + (size_t)(span.offset[k] + i * bw_loop_step(&loop, k)) * size,
                   size);
        }
}
