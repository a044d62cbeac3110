/* DEQUANTIZE_BLOCK's and GET_ROWS' launches. */
#include "bw_op_gpu.h"

bw_op_gpu_kernel bw_dequantize_gpu, bw_get_rows_gpu;
bool bw_get_rows_supports_gpu(const bw_op_call *call, const bw_device *device);

enum { COLUMNS = 2048, MOST = 65535 }; /* of a workgroup; rows in a grid */

/* A grid of n_rows rows of n elements, begun at *first_row, once for every MOST rows. */
static bw_status run_rows(bw_device *device, const char *name, int64_t *first_row, int64_t n_rows, int64_t n,
                          void **args, bw_err *err)
{
    for (*first_row = 0; n > 0 && *first_row < n_rows; *first_row += MOST) {
        int64_t left = n_rows - *first_row;
        bw_gpu_grid grid = {
            .blocks = {(uint32_t)((n + COLUMNS - 1) / COLUMNS), (uint32_t)(left < MOST ? left : MOST), 1},
            .threads = 256};
        BW_TRY(bw_gpu_run(device, name, &grid, args, err));
    }
    return BW_OK;
}

bw_status bw_dequantize_gpu(const bw_op_call *call, bw_device *device, bw_err *err)
{
    bw_tensor x = *call->in[0], y = *call->out[0];
    int last = x.n_dims - 1;
    int64_t n = x.dims[last], step = y.strides[last], first_row, most_columns = (int64_t)COLUMNS << 23;
    if (bw_tensor_is_contiguous(&x) && bw_tensor_is_contiguous(&y)) { /* one long row */
        n = bw_tensor_elements(&x);
        x.dims[0] = y.dims[0] = 1;
        step = 1;
        last = 0;
    }
    if (n > most_columns)
        return bw_op_fail(call, err, "rows of %lld elements are more than a grid holds", (long long)n);
    x.n_dims = y.n_dims = last;
    bw_loop rows;
    bw_loop_init(&rows, last, x.dims, 2, (const bw_tensor *[]){&x, &y});
    void *args[] = {&rows, &first_row, &x.data, &y.data, &n, &step};
    char name[64];
    bw_gpu_entry_name(call, name);
    return run_rows(device, name, &first_row, rows.n, n, args, err);
}

/* Packed layouts belong to linear. */
bool bw_get_rows_supports_gpu(const bw_op_call *call, const bw_device *device)
{
    (void)device;
    return call->in[0]->layout == 0;
}

bw_status bw_get_rows_gpu(const bw_op_call *call, bw_device *device, bw_err *err)
{
    const bw_tensor *table = call->in[0], *y = call->out[0];
    int64_t first_row, n = y->dims[1], y_row = y->strides[0];
    int64_t table_row = table->strides[0] / bw_dtype_block_elements(table->dtype) * bw_dtype_block_bytes(table->dtype);
    float scale = ((const bw_get_rows_params *)call->params)->scale;
    void *table_data = table->data, *ids = call->in[1]->data, *out = y->data;
    void *args[] = {&table_data, &ids, &out, &first_row, &n, &table_row, &y_row, &scale};
    char name[64];
    bw_gpu_entry_name(call, name);
    return run_rows(device, name, &first_row, y->dims[0], n, args, err);
}
