/* The indexing family's launches. */
#include "bw_op_gpu.h"

bw_op_gpu_kernel bw_indexing_pick_gpu, bw_indexing_put_gpu;

/* A tensor as the loop sees it: these dimensions, with `dim` standing still. */
static bw_tensor fix(const bw_tensor *t, int n_dims, const int64_t *dims, int dim)
{
    bw_tensor view = *t;
    for (int i = 0; i < n_dims; i++)
        view.dims[i] = dims[i];
    view.strides[dim] = 0;
    return view;
}

/* The ids of IS and IA, one dimension, as a tensor of n_dims. */
static bw_tensor spread(const bw_tensor *ids, int n_dims, const int64_t *dims, int dim)
{
    if (ids->n_dims == n_dims && n_dims > 1)
        return *ids;
    bw_tensor view = *ids;
    view.n_dims = n_dims;
    for (int i = 0; i < n_dims; i++) {
        view.dims[i] = dims[i];
        view.strides[i] = i == dim ? ids->strides[0] : 0;
    }
    return view;
}

static bw_status launch(const bw_op_call *call, bw_device *device, const bw_loop *loop, void *const *steps, int n_steps,
                        bw_err *err)
{
    if (loop->n == 0)
        return BW_OK;
    if (loop->n > INT32_MAX)
        return bw_op_fail(call, err, "%lld elements are more than %s walks", (long long)loop->n, device->name);
    void *data[] = {call->in[0]->data, call->in[1]->data, call->out[0]->data}, *args[9];
    int n = 0;
    args[n++] = (void *)(uintptr_t)loop;
    for (int k = 0; k < 3; k++)
        args[n++] = &data[k];
    for (int k = 0; k < n_steps; k++)
        args[n++] = steps[k];
    char name[64];
    bw_gpu_entry_name(call, name);
    bw_gpu_grid grid = {.blocks = {(uint32_t)((loop->n + 255) / 256), 1, 1}, .threads = 256};
    return bw_gpu_run(device, name, &grid, args, err);
}

/* IS, GATHER */
bw_status bw_indexing_pick_gpu(const bw_op_call *call, bw_device *device, bw_err *err)
{
    const bw_tensor *x = call->in[0], *y = call->out[0];
    int dim = ((const bw_indexing_params *)call->params)->dim;
    bw_tensor still = fix(x, y->n_dims, y->dims, dim), ids = spread(call->in[1], y->n_dims, y->dims, dim);
    bw_loop loop;
    bw_loop_init(&loop, y->n_dims, y->dims, 3, (const bw_tensor *[]){&still, &ids, y});
    int64_t size = x->dims[dim], step = x->strides[dim];
    void *steps[] = {&size, &step};
    return launch(call, device, &loop, steps, 2, err);
}

/* IA, SA, S: the index space is the ids' (SA, S) or x's (IA), of which a lane runs along dim. */
bw_status bw_indexing_put_gpu(const bw_op_call *call, bw_device *device, bw_err *err)
{
    const bw_tensor *x = call->in[0], *y = call->out[0];
    int dim = ((const bw_indexing_params *)call->params)->dim, n_dims = x->n_dims;
    const int64_t *space = call->op == BW_OP_IA ? x->dims : call->in[1]->dims;
    int64_t lanes[BW_MAX_DIMS], n = space[dim];
    bw_tensor all_ids = spread(call->in[1], n_dims, space, dim);
    for (int i = 0; i < n_dims; i++)
        lanes[i] = i == dim ? 1 : space[i];
    bw_tensor values = fix(x, n_dims, lanes, dim), ids = fix(&all_ids, n_dims, lanes, dim),
              places = fix(y, n_dims, lanes, dim);
    bw_loop loop;
    bw_loop_init(&loop, n_dims, lanes, 3, (const bw_tensor *[]){&values, &ids, &places});
    int64_t x_step = x->strides[dim], id_step = all_ids.strides[dim], y_step = y->strides[dim], size = y->dims[dim];
    void *steps[] = {&n, &x_step, &id_step, &y_step, &size};
    return n == 0 ? BW_OK : launch(call, device, &loop, steps, 5, err);
}
