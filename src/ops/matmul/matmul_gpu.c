/* MATMUL's launch. */
#include <stdio.h>

#include "bw_gpu.h"
#include "bw_op_check.h"
#include "matmul/bw_matmul_args.h"

bw_op_gpu_kernel bw_matmul_gpu;

/* The last two dimensions' strides, and the tensor without them. */
static bw_tensor take_matrix(const bw_tensor *t, int64_t *row, int64_t *column)
{
    bw_tensor batch = *t;
    batch.n_dims -= 2;
    *row = t->strides[batch.n_dims];
    *column = t->strides[batch.n_dims + 1];
    return batch;
}

bw_status bw_matmul_gpu(const bw_op_call *call, bw_device *device, bw_err *err)
{
    enum { TILE = 64, MOST_X = 1 << 23, MOST_YZ = 65535 };
    bw_matmul_args p = {0};
    bw_tensor a = take_matrix(call->in[0], &p.a_row, &p.a_column), b = take_matrix(call->in[1], &p.b_row, &p.b_column);
    bw_tensor out = take_matrix(call->out[0], &p.out_row, &p.out_column);
    p.m = out.dims[out.n_dims];
    p.n = out.dims[out.n_dims + 1];
    p.k = call->in[0]->dims[a.n_dims + 1];
    bw_loop_init(&p.batch, out.n_dims, out.dims, 3, (const bw_tensor *[]){&a, &b, &out});
    int64_t rows = (p.m + TILE - 1) / TILE, columns = (p.n + TILE - 1) / TILE;
    if (columns > MOST_X)
        return bw_op_fail(call, err, "%lld columns are more than a grid holds", (long long)p.n);
    void *args[] = {&p, &a.data, &b.data, &out.data};
    char name[64];
    snprintf(name, sizeof name, "matmul_%s_%s", bw_dtype_name(a.dtype), bw_dtype_name(out.dtype));
    for (p.first_batch = 0; p.first_batch < p.batch.n; p.first_batch += MOST_YZ)
        for (p.first_tile_row = 0; p.first_tile_row < rows; p.first_tile_row += MOST_YZ) {
            int64_t z = p.batch.n - p.first_batch, y = rows - p.first_tile_row;
            bw_gpu_grid grid = {.blocks = {(uint32_t)columns, (uint32_t)(y < MOST_YZ ? y : MOST_YZ),
                                           (uint32_t)(z < MOST_YZ ? z : MOST_YZ)},
                                .threads = 256};
            BW_TRY(bw_gpu_run(device, name, &grid, args, err));
        }
    return BW_OK;
}
