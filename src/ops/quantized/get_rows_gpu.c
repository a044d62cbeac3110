/* GET_ROWS' launch for tables in planes, the layout that LINEAR has on GPUs; plain ones: dequantize_gpu.c. */
#include <stdio.h>

#include "bw_gpu.h"
#include "bw_op_check.h"
#include "get_rows.h"
#include "linear/bw_linear_gpu.h"
#include "linear/linear_layout.h"
#include "linear/linear_planes.h"

bool bw_get_rows_supports_planes(const bw_op_call *call, const bw_device *device);
bw_op_gpu_kernel bw_get_rows_planes;

bool bw_get_rows_supports_planes(const bw_op_call *call, const bw_device *device)
{
    (void)device;
    return call->in[0]->layout == BW_LAYOUT_PLANES && call->out[0]->dims[0] <= INT32_MAX;
}

bw_status bw_get_rows_planes(const bw_op_call *call, bw_device *device, bw_err *err)
{
    const bw_tensor *table = call->in[0], *y = call->out[0];
    float scale = ((const bw_get_rows_params *)call->params)->scale;
    bw_planes planes;
    if (!bw_planes_init(&planes, table->dtype, table->dims[1]))
        return bw_op_fail(call, err, "in0 of this type has no planes");
    bw_linear_args p = {.k = (int32_t)table->dims[1],
                        .high = planes.high,
                        .sub = planes.sub,
                        .d = planes.d,
                        .w_row = planes.row_bytes,
                        .y_row = y->strides[0]};
    char name[64];
    snprintf(name, sizeof name, "get_rows_packed_%s", bw_dtype_name(table->dtype));
    bw_gpu_grid grid = {.blocks = {(uint32_t)y->dims[0], 1, 1}, .threads = 256};
    void *args[] = {&p, (void *)&table->data, (void *)&call->in[1]->data, &scale, (void *)&y->data};
    return bw_gpu_run(device, name, &grid, args, err);
}
