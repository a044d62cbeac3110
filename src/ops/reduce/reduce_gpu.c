/* The launch of the reductions over any axes: how many results a workgroup takes, and in how many parts each. */
#include <stdio.h>

#include "bw_op_gpu.h"
#include "reduce/bw_reduce_args.h"
#include "reduce/reduce_space.h"

bw_op_gpu_kernel bw_reduce_gpu;
size_t bw_reduce_gpu_scratch(const bw_op_call *call);

enum { WORKGROUPS = 2048, LEAST_PART = 4096 }; /* as many workgroups fill any card; elements of a part at least */

/* Results side by side in memory share a workgroup, so that its threads read neighbours; so do results of few elements,
 * which would leave threads idle. */
static bw_reduce_args plan(const bw_reduce_space *space)
{
    const bw_loop *kept = &space->kept, *reduced = &space->reduced;
    int64_t kept_step = bw_loop_step(kept, 0), reduced_step = bw_loop_step(reduced, 0);
    bool by_columns =
        kept->dims[kept->n_dims - 1] >= 16 && reduced_step != 1 && kept_step < reduced_step && reduced->n > 1;
    bw_reduce_args a = {.columns = 1, .n_parts = 1, .part = reduced->n};
    if (by_columns)
        a.columns = kept->n >= WORKGROUPS * 32 ? 256 : 32;
    else if (reduced->n <= 128)
        a.columns = reduced->n <= 16 ? 256 : 32;
    int64_t groups = (kept->n + a.columns - 1) / a.columns;
    int64_t least = (int64_t)LEAST_PART * (a.columns < 32 ? 1 : 32) / a.columns; /* a thread's own share: 16 and more */
    int64_t parts = groups > 0 ? WORKGROUPS / groups : 1, most = reduced->n / least;
    parts = parts < most ? parts : most;
    parts = parts < 256 ? parts : 256;
    if (parts > 1) {
        a.part = (reduced->n + parts - 1) / parts;
        a.n_parts = (int32_t)((reduced->n + a.part - 1) / a.part);
    }
    return a;
}

size_t bw_reduce_gpu_scratch(const bw_op_call *call)
{
    bw_reduce_space space;
    bw_reduce_space_init(&space, call);
    bw_reduce_args a = plan(&space);
    return a.n_parts > 1 ? (size_t)space.kept.n * (size_t)a.n_parts * BW_REDUCE_PART_BYTES : 0;
}

bw_status bw_reduce_gpu(const bw_op_call *call, bw_device *device, bw_err *err)
{
    bw_reduce_space space;
    bw_reduce_space_init(&space, call);
    bw_reduce_args a = plan(&space);
    void *x = call->in[0]->data, *y = call->out[0]->data, *parts = call->scratch;
    void *args[] = {&space.kept, &space.reduced, &a, &x, &y, &parts};
    char name[64];
    bw_gpu_entry_name(call, name);
    enum { MOST = 1 << 23 }; /* workgroups in x: HIP counts threads in 32 bits */
    int64_t groups = (space.kept.n + a.columns - 1) / a.columns;
    for (int64_t done = 0; done < groups; done += MOST) {
        int64_t left = groups - done;
        bw_gpu_grid grid = {.blocks = {(uint32_t)(left < MOST ? left : MOST), (uint32_t)a.n_parts, 1},
                            .threads = BW_REDUCE_THREADS};
        a.first = done * a.columns;
        BW_TRY(bw_gpu_run(device, name, &grid, args, err));
    }
    if (a.n_parts == 1)
        return BW_OK;
    bw_gpu_grid grid = {.blocks = {(uint32_t)((space.kept.n + BW_REDUCE_THREADS - 1) / BW_REDUCE_THREADS), 1, 1},
                        .threads = BW_REDUCE_THREADS};
    snprintf(name, sizeof name, "%s_join_%s", bw_op_get(call->op)->name, bw_dtype_name(call->in[0]->dtype));
    return bw_gpu_run(device, name, &grid, args, err);
}
