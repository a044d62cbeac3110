/* SOFTMAX's and LOG_SOFTMAX's launch. */
#include "bw_op_gpu.h"

bw_op_gpu_kernel bw_softmax_gpu;

bw_status bw_softmax_gpu(const bw_op_call *call, bw_device *device, bw_err *err)
{
    bw_tensor x = *call->in[0], y = *call->out[0];
    int last = x.n_dims - 1;
    int64_t n = x.dims[last], x_step = x.strides[last], y_step = y.strides[last];
    x.n_dims = y.n_dims = last;
    bw_loop rows;
    bw_loop_init(&rows, last, x.dims, 2, (const bw_tensor *[]){&x, &y});
    if (n == 0 || rows.n == 0)
        return BW_OK;
    int64_t first_row = 0;
    void *args[] = {&rows, &first_row, &x.data, &y.data, &n, &x_step, &y_step};
    char name[64];
    bw_gpu_entry_name(call, name);
    enum { MOST = 1 << 23 }; /* workgroups in a grid: HIP counts threads in 32 bits */
    for (; first_row < rows.n; first_row += MOST) {
        int64_t left = rows.n - first_row;
        bw_gpu_grid grid = {.blocks = {(uint32_t)(left < MOST ? left : MOST), 1, 1}, .threads = 256};
        BW_TRY(bw_gpu_run(device, name, &grid, args, err));
    }
    return BW_OK;
}
