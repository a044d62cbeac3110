/* GET_ROWS' launch. */
#include <stdio.h>

#include "bw_gpu.h"
#include "bw_op_check.h"
#include "get_rows.h"
#include "linear/bw_linear_gpu.h"
#include "linear/linear_layout.h"
#include "linear/linear_planes.h"

bool bw_get_rows_gpu_supports(const bw_op_call *call, const bw_device *device);
bw_op_gpu_kernel bw_get_rows_gpu;

bool bw_get_rows_gpu_supports(const bw_op_call *call, const bw_device *device)
{
    (void)device;
    const bw_tensor *table = call->in[0];
    bool is_known =
        table->layout == BW_LAYOUT_PLANES || (table->layout == BW_LAYOUT_PLAIN && !bw_dtype_is_quantised(table->dtype));
    return is_known && table->dims[1] <= INT32_MAX && call->out[0]->dims[0] <= INT32_MAX;
}

bw_status bw_get_rows_gpu(const bw_op_call *call, bw_device *device, bw_err *err)
{
    const bw_tensor *table = call->in[0], *y = call->out[0];
    float scale = ((const bw_get_rows_params *)call->params)->scale;
    bw_linear_args p = {.k = (int32_t)table->dims[1], .y_row = y->strides[0]};
    bw_planes planes;
    bool is_packed = table->layout && bw_planes_init(&planes, table->dtype, table->dims[1]);
    if (is_packed) {
        p.high = planes.high;
        p.sub = planes.sub;
        p.d = planes.d;
        p.w_row = planes.row_bytes;
    } else {
        p.w_row = (table->dims[0] > 1 ? table->strides[0] : table->dims[1]) * bw_dtype_block_bytes(table->dtype);
    }
    char name[64];
    snprintf(name, sizeof name, "get_rows_%s%s", is_packed ? "packed_" : "", bw_dtype_name(table->dtype));
    bw_gpu_grid grid = {.blocks = {(uint32_t)y->dims[0], 1, 1}, .threads = 256};
    void *args[] = {&p, (void *)&table->data, (void *)&call->in[1]->data, &scale, (void *)&y->data};
    return bw_gpu_run(device, name, &grid, args, err);
}
