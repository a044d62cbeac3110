/* CUMSUM's launch. */
#include <stdio.h>

#include "bw_op_gpu.h"
#include "reduce/cumsum_view.h"

bw_op_gpu_kernel bw_cumsum_gpu;

bw_status bw_cumsum_gpu(const bw_op_call *call, bw_device *device, bw_err *err)
{
    bw_cumsum_view v;
    bw_cumsum_view_init(&v, call);
    if (v.n == 0 || v.rest.n == 0)
        return BW_OK;
    int64_t first = 0, rest_step = bw_loop_step(&v.rest, 0);
    void *x = call->in[0]->data, *y = call->out[0]->data;
    void *args[] = {&v.rest, &first, &x, &y, &v.n, &v.x_step, &v.y_step};
    /* a thread for each row: rows too short for a workgroup, or neighbours enough to fill the card */
    bool by_thread = v.n <= 32 || (v.rest.n >= 8192 && rest_step < v.x_step);
    char name[64];
    snprintf(name, sizeof name, "%s_%s", by_thread ? "cumsum_columns" : "cumsum", bw_dtype_name(call->in[0]->dtype));
    enum { MOST = 1 << 23 }; /* workgroups in a grid: HIP counts threads in 32 bits */
    int64_t each = by_thread ? 256 : 1;
    for (; first < v.rest.n; first += MOST * each) {
        int64_t groups = (v.rest.n - first + each - 1) / each;
        bw_gpu_grid grid = {.blocks = {(uint32_t)(groups < MOST ? groups : MOST), 1, 1}, .threads = 256};
        BW_TRY(bw_gpu_run(device, name, &grid, args, err));
    }
    return BW_OK;
}
