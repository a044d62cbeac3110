/* QUANTIZE's and QUANTIZE_Q8_1's launches. */
#include "bw_op_gpu.h"
#include "quantized/bw_quantize_args.h"

bw_op_gpu_kernel bw_quantize_gpu, bw_quantize_q8_1_gpu;

enum { MOST_X = 1 << 23, MOST_Y = 65535 };

/* The rows of x and y, without their last dimension. */
static void rows_of(const bw_op_call *call, bw_loop *rows)
{
    bw_tensor x = *call->in[0], y = *call->out[0];
    x.n_dims--;
    y.n_dims--;
    bw_loop_init(rows, x.n_dims, x.dims, 2, (const bw_tensor *[]){&x, &y});
}

bw_status bw_quantize_gpu(const bw_op_call *call, bw_device *device, bw_err *err)
{
    const bw_tensor *x = call->in[0], *y = call->out[0];
    bool is_quantised = bw_dtype_is_quantised(y->dtype);
    int64_t elements = bw_dtype_block_elements(y->dtype);
    bw_quantize_args p = {.per_row = x->dims[x->n_dims - 1] / elements};
    rows_of(call, &p.rows);
    p.n_blocks = p.rows.n * p.per_row;
    /* Blocks in a workgroup: one per thread, or 16 or 8 threads for each (quantize_k_exact.hip). */
    int64_t threads = 256, each = 256;
    if (is_quantised && elements == 256) {
        bool has_16_groups = y->dtype == BW_Q2_K || y->dtype == BW_Q3_K || y->dtype == BW_Q6_K;
        threads = 64;
        each = has_16_groups ? 4 : 8;
    }
    void *x_data = x->data, *y_data = y->data, *importance = call->n_in == 2 && call->in[1] ? call->in[1]->data : NULL;
    void *args[] = {&p, &x_data, &importance, &y_data};
    char name[64];
    bw_gpu_entry_name(call, name);
    for (; p.first_block < p.n_blocks; p.first_block += MOST_X * each) {
        int64_t blocks = (p.n_blocks - p.first_block + each - 1) / each;
        bw_gpu_grid grid = {.blocks = {(uint32_t)(blocks < MOST_X ? blocks : MOST_X), 1, 1},
                            .threads = (uint32_t)threads};
        BW_TRY(bw_gpu_run(device, name, &grid, args, err));
    }
    return BW_OK;
}

bw_status bw_quantize_q8_1_gpu(const bw_op_call *call, bw_device *device, bw_err *err)
{
    const bw_tensor *x = call->in[0], *y = call->out[0];
    int64_t k = x->dims[x->n_dims - 1], padded = y->dims[y->n_dims - 1], first_row = 0;
    bw_loop rows;
    rows_of(call, &rows);
    void *x_data = x->data, *y_data = y->data;
    void *args[] = {&rows, &first_row, &x_data, &y_data, &k, &padded};
    if (padded / 256 > MOST_X)
        return bw_op_fail(call, err, "rows of %lld elements are more than a grid holds", (long long)k);
    for (; padded > 0 && first_row < rows.n; first_row += MOST_Y) {
        int64_t left = rows.n - first_row;
        bw_gpu_grid grid = {.blocks = {(uint32_t)(padded / 256), (uint32_t)(left < MOST_Y ? left : MOST_Y), 1},
                            .threads = 256};
        BW_TRY(bw_gpu_run(device, "quantize_q8_1", &grid, args, err));
    }
    return BW_OK;
}
