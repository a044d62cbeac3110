/* The launch of ASORT_ASC, ASORT_DESC and TOPK: batches of rows, for each its tiles, the passes that merge them, and
 * the results. */
#include <stdio.h>

#include "bw_op_gpu.h"
#include "sort/bw_sort_args.h"

bw_op_gpu_kernel bw_sort_gpu;
size_t bw_sort_gpu_scratch(const bw_op_call *call);

enum { BATCH = 1 << 23 }; /* elements, where rows are shorter than that */

static int item_bits(const bw_op_call *call)
{
    return bw_dtype_block_bytes(call->in[0]->dtype) == 8 ? 64 : 32;
}

static int64_t batch_rows(const bw_tensor *x, int64_t n_rows)
{
    int64_t n = x->dims[x->n_dims - 1], rows = n > 0 ? BATCH / n : 1;
    rows = rows > 0 ? rows : 1;
    return rows < n_rows ? rows : n_rows;
}

/* One side of the scratch: the passes go from one to the other. */
static size_t side_bytes(const bw_op_call *call)
{
    const bw_tensor *x = call->in[0];
    int64_t n = x->dims[x->n_dims - 1], n_rows = n > 0 ? bw_tensor_elements(x) / n : 0;
    return (size_t)(batch_rows(x, n_rows) * n) * (item_bits(call) == 64 ? 16 : 8);
}

size_t bw_sort_gpu_scratch(const bw_op_call *call)
{
    return 2 * side_bytes(call);
}

/* n threads, in grids of at most 2^31. */
static bw_status run_threads(bw_device *device, const char *name, int64_t n, bw_sort_args *a, void **args, bw_err *err)
{
    const int64_t most = (int64_t)1 << 31;
    for (a->first = 0; a->first < n; a->first += most) {
        int64_t left = n - a->first < most ? n - a->first : most;
        bw_gpu_grid grid = {.blocks = {(uint32_t)((left + BW_SORT_THREADS - 1) / BW_SORT_THREADS), 1, 1},
                            .threads = BW_SORT_THREADS};
        BW_TRY(bw_gpu_run(device, name, &grid, args, err));
    }
    return BW_OK;
}

/* The rows of one batch: x to items in `from`, merged, and the results put. */
static bw_status sort_batch(const bw_op_call *call, bw_device *device, bw_loop *rows, bw_sort_args *a, bw_err *err)
{
    bool is_topk = call->op == BW_OP_TOPK;
    bool is_down = is_topk ? !((const bw_topk_params *)call->params)->is_smallest : call->op == BW_OP_ASORT_DESC;
    const char *type = bw_dtype_name(call->in[0]->dtype);
    void *x = call->in[0]->data, *index = call->out[is_topk]->data, *values = call->out[0]->data;
    void *from = call->scratch, *to = (char *)call->scratch + side_bytes(call);
    char name[64];
    snprintf(name, sizeof name, "asort_%s_%s", is_down ? "desc" : "asc", type);
    bw_gpu_grid grid = {.blocks = {a->n_rows * a->tiles, 1, 1}, .threads = BW_SORT_THREADS};
    BW_TRY(bw_gpu_run(device, name, &grid, (void *[]){rows, a, &x, &from}, err));
    for (int64_t run = BW_SORT_TILE; run < a->n; run *= 2) {
        a->run = (uint32_t)run;
        int64_t kept = run < a->keep ? run : a->keep, runs = (a->n + run - 1) / run;
        snprintf(name, sizeof name, "sort_merge_%d", item_bits(call));
        BW_TRY(run_threads(device, name, a->n_rows * runs * kept, a, (void *[]){a, &from, &to}, err));
        void *swap = from;
        from = to;
        to = swap;
    }
    if (is_topk)
        snprintf(name, sizeof name, "topk_%s", type);
    else
        snprintf(name, sizeof name, "sort_put_%d", item_bits(call));
    return run_threads(device, name, (int64_t)a->n_rows * a->keep, a, (void *[]){rows, a, &from, &index, &x, &values},
                       err);
}

bw_status bw_sort_gpu(const bw_op_call *call, bw_device *device, bw_err *err)
{
    bw_tensor x = *call->in[0], values = *call->out[0], index = *call->out[call->n_out - 1];
    int last = x.n_dims - 1;
    if (bw_tensor_elements(&x) == 0)
        return BW_OK;
    bw_sort_args a = {.n = (uint32_t)x.dims[last],
                      .keep = (uint32_t)index.dims[last],
                      .x_step = x.strides[last],
                      .index_step = index.strides[last],
                      .value_step = values.strides[last],
                      .width = 2};
    a.tiles = (uint32_t)((x.dims[last] + BW_SORT_TILE - 1) / BW_SORT_TILE);
    while (a.width < a.n && a.width < BW_SORT_TILE)
        a.width *= 2;
    int64_t n_rows = bw_tensor_elements(&x) / x.dims[last], step = batch_rows(&x, n_rows);
    x.n_dims = values.n_dims = index.n_dims = last;
    bw_loop rows;
    bw_loop_init(&rows, last, x.dims, 3, (const bw_tensor *[]){&x, &index, &values});
    for (a.first_row = 0; a.first_row < n_rows; a.first_row += step) {
        a.n_rows = (uint32_t)(n_rows - a.first_row < step ? n_rows - a.first_row : step);
        BW_TRY(sort_batch(call, device, &rows, &a, err));
    }
    return BW_OK;
}
