/* The launch of LOG_SOFTMAX, RMSNORM and LAYERNORM: one workgroup per row. */
#include <stdio.h>

#include "bw_op_gpu.h"
#include "reduce/bw_rows_args.h"

bw_op_gpu_kernel bw_rows_gpu;

/* Rows that may be read and written in packs of 16 bytes: dense, and every row begins at a multiple of 16. */
static bool has_packs(const bw_loop *rows, const bw_tensor *t, int k, int64_t step)
{
    int64_t each = 16 / bw_dtype_block_bytes(t->dtype);
    bool is_even = step == 1 && (uintptr_t)t->data % 16 == 0;
    for (int d = 0; d < rows->n_dims; d++)
        is_even = is_even && rows->strides[k][d] % each == 0;
    return is_even;
}

static bool weight_has_packs(const bw_tensor *w)
{
    return !w || (w->strides[0] == 1 && (uintptr_t)w->data % 16 == 0);
}

/* Which of an op's kernels: "" is the one for any strides. */
static const char *form_of(const bw_op_call *call, const bw_loop *rows, const bw_rows_args *a)
{
    const bw_tensor *x = call->in[0], *y = call->out[0];
    int64_t each = 16 / bw_dtype_block_bytes(x->dtype), packs = a->n / each;
    int64_t most = BW_ROWS_THREADS * (each == 8 ? BW_ROWS_PACKS / 2 : BW_ROWS_PACKS);
    if (call->op == BW_OP_LOG_SOFTMAX || a->n % each != 0 || packs > most || !has_packs(rows, x, 0, a->x_step) ||
        !has_packs(rows, y, 1, a->y_step))
        return "";
    for (int i = 1; i < call->n_in; i++)
        if (!weight_has_packs(call->in[i]))
            return "";
    return packs <= BW_ROWS_THREADS * BW_ROWS_FEW ? "packs_few_" : "packs_most_";
}

bw_status bw_rows_gpu(const bw_op_call *call, bw_device *device, bw_err *err)
{
    bw_tensor x = *call->in[0], y = *call->out[0];
    const bw_tensor *w = call->n_in > 1 ? call->in[1] : NULL, *b = call->n_in > 2 ? call->in[2] : NULL;
    int last = x.n_dims - 1;
    bw_rows_args a = {.n = x.dims[last], .x_step = x.strides[last], .y_step = y.strides[last]};
    a.w_step = w ? w->strides[0] : 0;
    a.b_step = b ? b->strides[0] : 0;
    if (call->op == BW_OP_RMSNORM)
        a.eps = ((const bw_rms_norm_params *)call->params)->eps;
    else if (call->op == BW_OP_LAYERNORM)
        a.eps = ((const bw_layernorm_params *)call->params)->eps;
    x.n_dims = y.n_dims = last;
    bw_loop rows;
    bw_loop_init(&rows, last, x.dims, 2, (const bw_tensor *[]){&x, &y});
    if (a.n == 0 || rows.n == 0)
        return BW_OK;
    const void *w_data = w ? w->data : NULL, *b_data = b ? b->data : NULL;
    void *args[] = {&rows, &a, &x.data, &w_data, &b_data, &y.data};
    char name[64];
    snprintf(name, sizeof name, "%s_%s%s", bw_op_get(call->op)->name, form_of(call, &rows, &a), bw_dtype_name(x.dtype));
    enum { MOST = 1 << 23 }; /* workgroups in a grid: HIP counts threads in 32 bits */
    for (; a.first_row < rows.n; a.first_row += MOST) {
        int64_t left = rows.n - a.first_row;
        bw_gpu_grid grid = {.blocks = {(uint32_t)(left < MOST ? left : MOST), 1, 1}, .threads = BW_ROWS_THREADS};
        BW_TRY(bw_gpu_run(device, name, &grid, args, err));
    }
    return BW_OK;
}
