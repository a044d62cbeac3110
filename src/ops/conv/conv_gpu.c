/* The conv family's launches. Kernels count elements in 32 bits: larger calls are cut along the batch. */
#include <stdio.h>

#include "conv_gpu.h"

bw_op_gpu_kernel bw_conv_gpu, bw_planes_gpu, bw_im2col_gpu, bw_col2im1d_gpu;

enum { TILE = 64, MOST_X = 1 << 23, MOST_YZ = 65535 };

static uint32_t at_most(int64_t n, int64_t most)
{
    return (uint32_t)(n < most ? n : most);
}

/* Batch items to take at once, of `each` elements: 2^31 elements in all at most. */
static bw_status items_at_once(const bw_op_call *call, const bw_device *device, int64_t each, int64_t *items,
                               bw_err *err)
{
    if (each > INT32_MAX)
        return bw_op_fail(call, err, "%lld outputs in one item of the batch are more than %s counts", (long long)each,
                          device->name);
    *items = INT32_MAX / (each > 0 ? each : 1);
    return BW_OK;
}

static void *advance(const bw_tensor *t, int64_t item)
{
    return (char *)t->data + item * t->strides[0] * bw_dtype_block_bytes(t->dtype);
}

/* One launch form for a part of the batch: tiles of 64 x 64, or a thread per output where groups have few channels. */
static bw_status run_conv(const bw_conv_job *j, bw_err *err)
{
    enum { FEW_OUT = 12, FEW_IN = 8 };
    const bw_conv *c = j->c;
    bool is_each = c->group_out < FEW_OUT || c->group_in < FEW_IN;
    bw_entry entry;
    bw_op_get_entry(j->call, &entry);
    char name[64];
    snprintf(name, sizeof name, "%s_%s_%.15s", c->is_transposed ? "conv_transpose" : "conv", is_each ? "each" : "tiles",
             entry.dtype);
    int64_t n_pixels = c->batch * c->h.out * c->w.out, tile = is_each ? 256 : TILE, first_tile, first_y;
    int64_t tiles = (n_pixels + tile - 1) / tile, rows = is_each ? c->c_out : (c->group_out + TILE - 1) / TILE;
    int64_t n_y = is_each ? rows : c->groups; /* what first_y counts: channels (y) or groups (z) */
    bw_conv copy = *c;
    void *x = j->x, *w = j->w, *out = j->y, *args[] = {&copy, &x, &w, &out, &first_tile, &first_y};
    if (!is_each && rows > MOST_YZ)
        return bw_op_fail(j->call, err, "%lld channels in a group are more than a grid holds", (long long)c->group_out);
    for (first_tile = 0; first_tile < tiles; first_tile += MOST_X)
        for (first_y = 0; first_y < n_y; first_y += MOST_YZ) {
            uint32_t nx = at_most(tiles - first_tile, MOST_X), ny = at_most(n_y - first_y, MOST_YZ);
            bw_gpu_grid grid = {.blocks = {nx, is_each ? ny : (uint32_t)rows, is_each ? 1 : ny}, .threads = 256};
            BW_TRY(bw_gpu_run(j->device, name, &grid, args, err));
        }
    return BW_OK;
}

static bw_status run_own(const bw_conv_job *j, bw_err *err)
{
    bw_conv_gemm gemm;
    return bw_conv_gemm_init(j->call, j->c, &gemm) ? bw_conv_gemm_run(j, &gemm, err) : run_conv(j, err);
}

bw_status bw_conv_gpu(const bw_op_call *call, bw_device *device, bw_err *err)
{
    bw_conv c;
    bw_conv_get(call, &c);
    int64_t batch = c.batch, items = 1;
    BW_TRY(items_at_once(call, device, c.h.out * c.w.out, &items, err));
    for (int64_t n = 0; n < batch && c.c_out > 0 && c.h.out * c.w.out > 0; n += items) {
        c.batch = batch - n < items ? batch - n : items;
        const bw_conv_job j = {call, device, &c, advance(call->in[0], n), call->in[1]->data, advance(call->out[0], n)};
        BW_TRY(c.batch == batch ? bw_conv_run_best(&j, run_own, err) : run_own(&j, err));
    }
    return BW_OK;
}

/* A thread per element of the output. shape: the kernel's first argument; params: its last, or NULL. */
static bw_status run_elements(const bw_op_call *call, bw_device *device, void *shape, const void *params, bw_err *err)
{
    const bw_tensor *x = call->in[0], *y = call->out[0];
    int64_t all = bw_tensor_elements(y), batch = y->dims[0], items = 1;
    if (all == 0)
        return BW_OK;
    int64_t each = all / batch;
    BW_TRY(items_at_once(call, device, each, &items, err));
    char name[64];
    bw_gpu_entry_name(call, name);
    for (int64_t n = 0; n < batch; n += items) {
        int64_t part = (batch - n < items ? batch - n : items) * each;
        void *from = advance(x, n), *to = advance(y, n),
             *args[] = {shape, &part, &from, &to, (void *)(uintptr_t)params};
        bw_gpu_grid grid = {.blocks = {(uint32_t)((part + 255) / 256), 1, 1}, .threads = 256};
        BW_TRY(bw_gpu_run(device, name, &grid, args, err));
    }
    return BW_OK;
}

/* Pooling and upsampling. */
bw_status bw_planes_gpu(const bw_op_call *call, bw_device *device, bw_err *err)
{
    bw_planes p;
    bw_planes_get(call, &p);
    return run_elements(call, device, &p, call->params, err);
}

/* IM2COL, IM2COL1D */
bw_status bw_im2col_gpu(const bw_op_call *call, bw_device *device, bw_err *err)
{
    const bw_tensor *y = call->out[0];
    bw_im2col_args p = {.rows = y->dims[1], .columns = y->dims[2], .y_row = y->strides[1], .y_column = y->strides[2]};
    bw_conv_get(call, &p.c);
    return run_elements(call, device, &p, NULL, err);
}

bw_status bw_col2im1d_gpu(const bw_op_call *call, bw_device *device, bw_err *err)
{
    const bw_tensor *x = call->in[0], *y = call->out[0];
    bw_col2im1d_args p = {x->dims[1], x->dims[2], x->dims[3], y->dims[2], 0, {0}, {0}};
    p.stride = ((const bw_col2im1d_params *)call->params)->stride;
    memcpy(p.x, x->strides, sizeof p.x);
    memcpy(p.y, y->strides, sizeof p.y);
    return run_elements(call, device, &p, NULL, err);
}
