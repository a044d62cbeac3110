/* GET_ROWS: y[t,:] = scale * table[ids[t],:], the embedding lookup. The table may be of any dtype or in a linear
 * layout. */
#include "bw_op_check.h"
#include "bw_quant.h"
#include "get_rows.h"

bw_status bw_op_get_rows_check(const bw_op_call *call, bw_err *err)
{
    BW_TRY(bw_op_check_counts(call, 2, 1, true, err));
    const bw_tensor *table = call->in[0], *y = call->out[0];
    BW_TRY(bw_op_check_f32(call, y, "out0", err));
    if (!table)
        return bw_op_fail(call, err, "in0 is absent");
    if (table->n_dims != 2 || y->n_dims != 2 || table->dims[1] != y->dims[1])
        return bw_op_fail(call, err, "in0 must be [N, D] and out0 [T, D]");
    if ((int)table->dtype < 0 || table->dtype >= BW_DTYPE_COUNT || bw_dtype_bytes(table->dtype, table->dims[1]) < 0)
        return bw_op_fail(call, err, "a row of in0 is not a whole number of blocks");
    if (table->layout && bw_linear_layout_bytes(table->layout, table->dtype, table->dims[0], table->dims[1]) < 0)
        return bw_op_fail(call, err, "in0 of this type cannot have layout %u", (unsigned)table->layout);
    if (table->layout == 0 && table->dims[1] > 1 && table->strides[1] != 1)
        return bw_op_fail(call, err, "in0's rows must be dense");
    if (table->layout == 0 && table->dims[0] > 1 && table->strides[0] % bw_dtype_block_elements(table->dtype) != 0)
        return bw_op_fail(call, err, "in0's stride %lld is no whole number of blocks", (long long)table->strides[0]);
    return bw_op_check_i32(call, call->in[1], "in1", y->dims[0], err);
}

void bw_op_get_rows_cost(const bw_op_call *call, bw_op_cost *cost)
{
    const bw_tensor *table = call->in[0], *y = call->out[0];
    double t = (double)y->dims[0], d = (double)y->dims[1];
    double row = (double)bw_dtype_bytes(table->dtype, table->dims[1]);
    *cost = (bw_op_cost){.flops = t * d, .bytes = t * (row + 4 * d + 4)};
}

void bw_get_rows_one(const bw_op_call *call, int64_t t)
{
    const bw_tensor *table = call->in[0], *y = call->out[0];
    int64_t id = ((const int32_t *)call->in[1]->data)[t], d = y->dims[1];
    float *dst = (float *)y->data + t * y->strides[0];
    if (table->layout != 0) {
        bw_linear_decode_row(table, id, dst);
    } else {
        int64_t block = bw_dtype_block_elements(table->dtype);
        const char *src =
            (const char *)table->data + id * (table->strides[0] / block) * bw_dtype_block_bytes(table->dtype);
        bw_decode_row(table->dtype, src, dst, d, NULL); /* check has seen that it can be decoded */
    }
}

void bw_op_get_rows_ref(const bw_op_call *call)
{
    const bw_tensor *y = call->out[0];
    double scale = (double)((const bw_get_rows_params *)call->params)->scale;
    for (int64_t t = 0; t < y->dims[0]; t++) {
        float *dst = (float *)y->data + t * y->strides[0];
        bw_get_rows_one(call, t);
        for (int64_t i = 0; i < y->dims[1]; i++)
            dst[i] = (float)((double)dst[i] * scale);
    }
}
