/* ADD: y = a + b; b has a's shape or its trailing part, and then serves every leading index. */
#include "bw_op_check.h"

bw_status bw_op_add_check(const bw_op_call *call, bw_err *err)
{
    BW_TRY(bw_op_check_counts(call, 2, 1, false, err));
    const bw_tensor *a = call->in[0], *b = call->in[1], *y = call->out[0];
    BW_TRY(bw_op_check_f32(call, a, "in0", err));
    BW_TRY(bw_op_check_f32(call, b, "in1", err));
    BW_TRY(bw_op_check_f32(call, y, "out0", err));
    if (!bw_op_same_shape(a, y))
        return bw_op_fail(call, err, "in0 and out0 must have one shape");
    bool ok = b->n_dims <= a->n_dims;
    for (int i = 1; ok && i <= b->n_dims; i++)
        ok = b->dims[b->n_dims - i] == a->dims[a->n_dims - i];
    if (!ok)
        return bw_op_fail(call, err, "in1 must have the shape of in0 or of its trailing dimensions");
    return BW_OK;
}

void bw_op_add_cost(const bw_op_call *call, bw_op_cost *cost)
{
    double n = (double)bw_tensor_elements(call->in[0]), m = (double)bw_tensor_elements(call->in[1]);
    *cost = (bw_op_cost){.flops = n, .bytes = 8 * n + 4 * m};
}

void bw_op_add_ref(const bw_op_call *call)
{
    bw_rows a, b, y;
    bw_rows_init(&a, call->in[0]);
    bw_rows_init(&b, call->in[1]);
    bw_rows_init(&y, call->out[0]);
    for (int64_t r = 0; r < a.n_rows; r++) {
        const float *pa = (const float *)call->in[0]->data + bw_rows_offset(&a, r);
        const float *pb = (const float *)call->in[1]->data + bw_rows_offset(&b, r % b.n_rows);
        float *dst = (float *)call->out[0]->data + bw_rows_offset(&y, r);
        for (int64_t i = 0; i < a.n_columns; i++)
            dst[i] = (float)((double)pa[i] + (double)pb[i]);
    }
}
