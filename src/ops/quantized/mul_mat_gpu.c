/* Launches of the products with quantised weights. */
#include <stdio.h>

#include "bw_op_gpu.h"
#include "quantized.h"
#include "quantized/bw_mul_mat_args.h"

bw_op_gpu_kernel bw_dequantize_mul_mat_vec_gpu, bw_mul_mat_gpu, bw_indexed_moe_gpu;
size_t bw_indexed_moe_gpu_scratch(const bw_op_call *call);

enum { MOST_X = 1 << 23, MOST_Y = 65535 };

/* Workgroups along x for n rows, `each` in one. */
static bw_status grid_rows(const bw_op_call *call, int64_t n, int64_t each, bw_gpu_grid *grid, bw_err *err)
{
    int64_t blocks = (n + each - 1) / each;
    if (blocks > MOST_X)
        return bw_op_fail(call, err, "%lld rows are more than a grid holds", (long long)n);
    *grid = (bw_gpu_grid){.blocks = {(uint32_t)blocks, 1, 1}, .threads = 256};
    return BW_OK;
}

bw_status bw_dequantize_mul_mat_vec_gpu(const bw_op_call *call, bw_device *device, bw_err *err)
{
    const bw_tensor *w = call->in[0];
    int64_t n = w->dims[0], k = w->dims[1], w_row = bw_quant_bytes(w->dtype, w->strides[0]);
    void *w_data = w->data, *x = call->in[1]->data, *y = call->out[0]->data;
    void *args[] = {&w_data, &x, &y, &n, &k, &w_row};
    bw_gpu_grid grid;
    BW_TRY(grid_rows(call, n, BW_QUANT_GRID_ROWS, &grid, err));
    char name[64];
    bw_gpu_entry_name(call, name);
    return n == 0 ? BW_OK : bw_gpu_run(device, name, &grid, args, err);
}

/* MUL_MAT_VEC and MUL_MAT: with few columns the kernel is MUL_MAT_VEC's. */
bw_status bw_mul_mat_gpu(const bw_op_call *call, bw_device *device, bw_err *err)
{
    enum { FEW = 8 };
    const bw_tensor *w = call->in[0], *x = call->in[1], *y = call->out[0];
    bw_mul_mat_args p = {.n = w->dims[0],
                         .k = w->dims[1],
                         .w_row = bw_quant_bytes(w->dtype, w->strides[0]),
                         .x_row = bw_quant_bytes(BW_Q8_1, x->strides[0]),
                         .y_row = y->strides[0],
                         .n_columns = x->dims[0]};
    void *w_data = w->data, *x_data = x->data, *y_data = y->data;
    void *args[] = {&p, &w_data, &x_data, &y_data};
    if (p.n == 0 || p.n_columns == 0)
        return BW_OK;
    char name[64];
    bw_gpu_grid grid;
    if (p.n_columns <= FEW) {
        snprintf(name, sizeof name, "mul_mat_vec_%s_q8_1_cuda%d", bw_dtype_name(w->dtype), (int)p.n_columns);
        BW_TRY(grid_rows(call, p.n, BW_QUANT_GRID_ROWS, &grid, err));
        return bw_gpu_run(device, name, &grid, args, err);
    }
    bw_gpu_entry_name(call, name);
    BW_TRY(grid_rows(call, p.n, BW_QUANT_TILE, &grid, err));
    int64_t tiles = (p.n_columns + BW_QUANT_TILE - 1) / BW_QUANT_TILE;
    for (; p.first_tile_row < tiles; p.first_tile_row += MOST_Y) {
        int64_t left = tiles - p.first_tile_row;
        grid.blocks[1] = (uint32_t)(left < MOST_Y ? left : MOST_Y);
        BW_TRY(bw_gpu_run(device, name, &grid, args, err));
    }
    return BW_OK;
}

/* ---- INDEXED_MOE_FORWARD ---------------------------------------------------------------------------------------- */

/* Tasks by expert (moe_grouped.hip) instead of one by one. Each task by itself reads and decodes its expert's weights
 * again, groups do so once per 64 tasks; but first comes another kernel, which sorts, and matrix units multiply 16
 * columns where there is one. From EACH tasks per expert on, in the mean, weights are read a quarter as often. Fewer
 * than LEAST_TASKS do not fill a card with groups of them. The experts are limited because each one's group reads all
 * ids: that is little beside its products only while they are not too many; the rest by what grids and 32 bits hold. */
enum { LEAST_TASKS = 32, EACH = 4, MOST_TASKS = 1 << 28, MOST_EXPERTS = 4096, MOST_K = 1 << 28 };

static bool wants_groups(const bw_op_call *call, int64_t n_tasks)
{
    int64_t n_experts = call->in[0]->dims[0], n = call->in[0]->dims[1];
    return n_tasks >= LEAST_TASKS && n_tasks >= EACH * n_experts && n_tasks <= MOST_TASKS &&
           n_experts <= MOST_EXPERTS && call->in[0]->dims[2] <= MOST_K && n <= (int64_t)BW_QUANT_MOE_ROWS * MOST_Y;
}

static int64_t count_tiles(const bw_op_call *call, int64_t n_tasks)
{
    return bw_moe_first_tile(n_tasks, call->in[0]->dims[0] + 1);
}

/* The tiles, then the list of tasks; enough for fewer tasks too. */
size_t bw_indexed_moe_gpu_scratch(const bw_op_call *call)
{
    int64_t n_tasks = bw_tensor_elements(call->in[2]);
    n_tasks = n_tasks < MOST_TASKS ? n_tasks : MOST_TASKS;
    if (!wants_groups(call, n_tasks))
        return 0;
    return (size_t)count_tiles(call, n_tasks) * sizeof(bw_moe_tile) + (size_t)n_tasks * 4;
}

static bw_status run_groups(const bw_op_call *call, bw_device *device, bw_indexed_moe_args *p, bw_err *err)
{
    const bw_tensor *w = call->in[0];
    void *w_data = w->data, *x_data = call->in[1]->data, *ids = call->in[2]->data, *y = call->out[0]->data;
    uint32_t n_tasks = (uint32_t)bw_tensor_elements(call->in[2]), n_tiles = (uint32_t)count_tiles(call, n_tasks);
    void *tiles = call->scratch, *tasks = (char *)tiles + n_tiles * sizeof(bw_moe_tile);
    bw_gpu_grid grid = {.blocks = {(uint32_t)p->n_experts + 1, 1, 1}, .threads = 256};
    BW_TRY(bw_gpu_run(device, "indexed_moe_groups", &grid, (void *[]){p, &n_tasks, &ids, &tiles, &tasks}, err));
    char name[64];
    snprintf(name, sizeof name, "indexed_moe_grouped_%s", bw_dtype_name(w->dtype));
    grid.blocks[0] = n_tiles;
    grid.blocks[1] = (uint32_t)((p->n + BW_QUANT_MOE_ROWS - 1) / BW_QUANT_MOE_ROWS);
    return bw_gpu_run(device, name, &grid, (void *[]){p, &w_data, &x_data, &tiles, &tasks, &y}, err);
}

bw_status bw_indexed_moe_gpu(const bw_op_call *call, bw_device *device, bw_err *err)
{
    const bw_tensor *w = call->in[0], *x = call->in[1], *ids = call->in[2], *y = call->out[0];
    bw_indexed_moe_args p = {.n = w->dims[1],
                             .k = w->dims[2],
                             .w_row = bw_quant_bytes(w->dtype, w->strides[1]),
                             .n_experts = w->dims[0],
                             .n_slots = ids->dims[1],
                             .w_expert = bw_quant_bytes(w->dtype, w->strides[0]),
                             .x_token = bw_quant_bytes(BW_Q8_1, x->strides[0]),
                             .x_slot = x->dims[1] == 1 ? 0 : bw_quant_bytes(BW_Q8_1, x->strides[1]),
                             .y_token = y->strides[0],
                             .y_slot = y->strides[1],
                             .ids_token = ids->strides[0],
                             .ids_slot = ids->strides[1]};
    void *w_data = w->data, *x_data = x->data, *ids_data = ids->data, *y_data = y->data;
    void *args[] = {&p, &w_data, &x_data, &ids_data, &y_data};
    int64_t n_tasks = bw_tensor_elements(ids);
    if (p.n == 0 || n_tasks == 0)
        return BW_OK;
    if (wants_groups(call, n_tasks))
        return run_groups(call, device, &p, err);
    bw_gpu_grid grid;
    BW_TRY(grid_rows(call, p.n, BW_QUANT_GRID_ROWS, &grid, err));
    char name[64];
    bw_gpu_entry_name(call, name);
    for (; p.first_task < n_tasks; p.first_task += MOST_Y) {
        int64_t left = n_tasks - p.first_task;
        grid.blocks[1] = (uint32_t)(left < MOST_Y ? left : MOST_Y);
        BW_TRY(bw_gpu_run(device, name, &grid, args, err));
    }
    return BW_OK;
}
