/* GROUP_NORM's launch. */
#include "bw_op_gpu.h"
#include "norm/bw_group_norm_args.h"
#include "norm/group_norm_view.h"

bw_op_gpu_kernel bw_group_norm_gpu;

bw_status bw_group_norm_gpu(const bw_op_call *call, bw_device *device, bw_err *err)
{
    const bw_tensor *w = call->in[1], *b = call->in[2];
    bw_group_norm_view v;
    bw_group_norm_view_init(&v, call);
    if (v.n_values == 0 || v.n == 0)
        return BW_OK;
    if (v.channels > INT32_MAX || v.n_values > INT32_MAX)
        return bw_op_fail(call, err, "%lld channels, %lld values in a group: more than %s walks", (long long)v.channels,
                          (long long)v.n_values, device->name);
    bw_group_norm_args a = {.n_values = (uint32_t)v.n_values,
                            .x_strides = {v.x_strides[0], v.x_strides[1]},
                            .y_strides = {v.y_strides[0], v.y_strides[1]},
                            .w_step = w ? w->strides[0] : 0,
                            .b_step = b ? b->strides[0] : 0,
                            .groups = (uint32_t)v.groups,
                            .per_group = (uint32_t)v.per_group,
                            .eps = ((const bw_group_norm_params *)call->params)->eps};
    void *x = call->in[0]->data, *y = call->out[0]->data;
    const void *w_data = w ? w->data : NULL, *b_data = b ? b->data : NULL;
    void *args[] = {&v.space, &a, &x, &w_data, &b_data, &y};
    char name[64];
    bw_gpu_entry_name(call, name);
    enum { MOST = 1 << 23 }; /* workgroups in a grid: HIP counts threads in 32 bits */
    for (; a.first < v.n * v.groups; a.first += MOST) {
        int64_t left = v.n * v.groups - a.first;
        bw_gpu_grid grid = {.blocks = {(uint32_t)(left < MOST ? left : MOST), 1, 1}, .threads = 256};
        BW_TRY(bw_gpu_run(device, name, &grid, args, err));
    }
    return BW_OK;
}
