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
    return call->in[0]->layout == BW_LAYOUT_PLANES;
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
    enum { MOST = 1 << 23 }; /* workgroups in a grid: HIP counts threads in 32 bits */
    for (int64_t first = 0; first < y->dims[0]; first += MOST) {
        int64_t left = y->dims[0] - first;
        const int32_t *ids = (const int32_t *)call->in[1]->data + first;
        float *out = (float *)y->data + first * p.y_row;
        bw_gpu_grid grid = {.blocks = {(uint32_t)(left < MOST ? left : MOST), 1, 1}, .threads = 256};
        BW_TRY(bw_gpu_run(device, name, &grid, (void *[]){&p, (void *)&table->data, &ids, &scale, &out}, err));
    }
    return BW_OK;
}
