/* The launch of ROPE, ROPE_I and ROPE_THD. */
#include "bw_op_gpu.h"
#include "reduce/bw_rope_args.h"
#include "reduce/rope_view.h"

bw_op_gpu_kernel bw_rope_gpu;

bw_status bw_rope_gpu(const bw_op_call *call, bw_device *device, bw_err *err)
{
    bw_rope_view v;
    bw_rope_view_init(&v, call);
    if (v.d / 2 > UINT32_MAX || v.dims[1] > UINT32_MAX || v.dims[2] > UINT32_MAX)
        return bw_op_fail(call, err, "a dimension beyond 2^32 is more than %s walks", device->name);
    bw_rope_args a = {.n_pairs = v.dims[0] * v.dims[1] * v.dims[2] * (v.d / 2),
                      .half = (uint32_t)(v.d / 2),
                      .h = (uint32_t)v.dims[1],
                      .t = (uint32_t)v.dims[2],
                      .interleaved = call->op == BW_OP_ROPE_I,
                      .x_step = v.x_step,
                      .y_step = v.y_step,
                      .cos_step = v.table_steps[0],
                      .sin_step = v.table_steps[1]};
    for (int i = 0; i < 3; i++) {
        a.x_strides[i] = v.x_strides[i];
        a.y_strides[i] = v.y_strides[i];
    }
    for (int i = 0; i < 2; i++) {
        a.cos_strides[i] = v.table_strides[0][i];
        a.sin_strides[i] = v.table_strides[1][i];
    }
    void *x = call->in[0]->data, *cosines = call->in[1]->data, *sines = call->in[2]->data, *y = call->out[0]->data;
    void *args[] = {&a, &x, &cosines, &sines, &y};
    char name[64];
    bw_gpu_entry_name(call, name);
    enum { MOST = 1 << 23 }; /* workgroups in a grid: HIP counts threads in 32 bits */
    for (; a.first < a.n_pairs; a.first += (int64_t)MOST * 256) {
        int64_t groups = (a.n_pairs - a.first + 255) / 256;
        bw_gpu_grid grid = {.blocks = {(uint32_t)(groups < MOST ? groups : MOST), 1, 1}, .threads = 256};
        BW_TRY(bw_gpu_run(device, name, &grid, args, err));
    }
    return BW_OK;
}
