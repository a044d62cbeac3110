/* COPY2D: rows from one stride to another. */
#include <string.h>

#include "bw_op_check.h"

bw_status bw_op_copy2d_check(const bw_op_call *call, bw_err *err)
{
    BW_TRY(bw_op_check_counts(call, 1, 1, false, err));
    const bw_tensor *x = call->in[0], *y = call->out[0];
    BW_TRY(bw_op_check_plain(call, x, "in0", BW_MASK_ALL, err));
    BW_TRY(bw_op_check_plain(call, y, "out0", BW_MASK(x->dtype), err));
    if (x->n_dims != 2 || !bw_op_same_shape(x, y))
        return bw_op_fail(call, err, "in0 and out0 must have one shape of two dimensions");
    if (x->dims[1] > 1 && (x->strides[1] != 1 || y->strides[1] != 1))
        return bw_op_fail(call, err, "rows must be dense");
    return BW_OK;
}

void bw_op_copy2d_cost(const bw_op_call *call, bw_op_cost *cost)
{
    double n = (double)bw_tensor_elements(call->in[0]), size = (double)bw_dtype_block_bytes(call->in[0]->dtype);
    *cost = (bw_op_cost){.bytes = 2 * size * n};
}

void bw_op_copy2d_ref(const bw_op_call *call)
{
    const bw_tensor *x = call->in[0];
    bw_tensor *y = call->out[0];
    int64_t size = bw_dtype_block_bytes(x->dtype);
    for (int64_t r = 0; r < x->dims[0] && x->dims[1] > 0; r++)
        memcpy((char *)y->data + r * y->strides[0] * size, (const char *)x->data + r * x->strides[0] * size,
               (size_t)(x->dims[1] * size));
}
