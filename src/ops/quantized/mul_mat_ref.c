/* DEQUANTIZE_MUL_MAT_VEC, MUL_MAT_VEC, MUL_MAT, INDEXED_MOE_FORWARD: products of quantised rows. */
#include <stdio.h>

#include "quantized.h"

bw_entry_fn bw_entry_dequantize_mul_mat_vec, bw_entry_mul_mat_vec, bw_entry_indexed_moe;

bw_status bw_quant_check_blocks(const bw_op_call *call, const bw_tensor *t, const char *what, int n_dims, bw_err *err)
{
    if (!t)
        return bw_op_fail(call, err, "%s is absent", what);
    if ((int)t->dtype < 0 || t->dtype >= BW_DTYPE_COUNT || t->layout != 0)
        return bw_op_fail(call, err, "%s must be in its plain layout", what);
    if (n_dims && t->n_dims != n_dims)
        return bw_op_fail(call, err, "%s must have %d dimensions", what, n_dims);
    if (t->n_dims < 1 || t->n_dims > BW_MAX_DIMS)
        return bw_op_fail(call, err, "%s must have 1 to %d dimensions", what, BW_MAX_DIMS);
    int64_t block = bw_dtype_block_elements(t->dtype), k = t->dims[t->n_dims - 1], n = bw_tensor_elements(t);
    if (n < 0 || n > INT64_MAX / 8 || bw_dtype_bytes(t->dtype, k) < 0)
        return bw_op_fail(call, err, "%s's rows must be whole blocks of %lld, and their number possible", what,
                          (long long)block);
    if (k > 1 && t->strides[t->n_dims - 1] != 1)
        return bw_op_fail(call, err, "%s's rows must be dense", what);
    for (int i = 0; i < t->n_dims - 1; i++)
        if (t->dims[i] > 1 && t->strides[i] % block != 0)
            return bw_op_fail(call, err, "%s's stride %lld is no whole number of blocks", what,
                              (long long)t->strides[i]);
    return BW_OK;
}

static bw_status check_weight(const bw_op_call *call, int n_dims, bw_err *err)
{
    BW_TRY(bw_quant_check_blocks(call, call->in[0], "in0", n_dims, err));
    if (!bw_dtype_is_quantised(call->in[0]->dtype))
        return bw_op_fail(call, err, "in0 must be of a quantised type");
    return BW_OK;
}

/* x: q8_1, n_dims dimensions, rows of at least w's length. */
static bw_status check_columns(const bw_op_call *call, int n_dims, bw_err *err)
{
    const bw_tensor *w = call->in[0], *x = call->in[1];
    BW_TRY(bw_quant_check_blocks(call, x, "in1", n_dims, err));
    if (x->dtype != BW_Q8_1)
        return bw_op_fail(call, err, "in1 must be q8_1");
    if (x->dims[n_dims - 1] < w->dims[w->n_dims - 1])
        return bw_op_fail(call, err, "in1's rows are shorter than in0's");
    return BW_OK;
}

bw_status bw_op_dequantize_mul_mat_vec_check(const bw_op_call *call, bw_err *err)
{
    BW_TRY(bw_op_check_counts(call, 2, 1, false, err));
    BW_TRY(check_weight(call, 2, err));
    BW_TRY(bw_op_check_f32(call, call->in[1], "in1", err));
    BW_TRY(bw_op_check_f32(call, call->out[0], "out0", err));
    const bw_tensor *w = call->in[0], *x = call->in[1], *y = call->out[0];
    if (x->n_dims != 1 || x->dims[0] != w->dims[1] || y->n_dims != 1 || y->dims[0] != w->dims[0])
        return bw_op_fail(call, err, "in0 [N, K], in1 [K] and out0 [N] do not fit");
    return BW_OK;
}

bw_status bw_op_mul_mat_check(const bw_op_call *call, bw_err *err)
{
    BW_TRY(bw_op_check_counts(call, 2, 1, false, err));
    BW_TRY(check_weight(call, 2, err));
    BW_TRY(check_columns(call, 2, err));
    BW_TRY(bw_op_check_f32(call, call->out[0], "out0", err));
    const bw_tensor *w = call->in[0], *x = call->in[1], *y = call->out[0];
    if (y->n_dims != 2 || y->dims[0] != x->dims[0] || y->dims[1] != w->dims[0])
        return bw_op_fail(call, err, "out0 must be [%lld, %lld]", (long long)x->dims[0], (long long)w->dims[0]);
    return BW_OK;
}

bw_status bw_op_mul_mat_vec_check(const bw_op_call *call, bw_err *err)
{
    BW_TRY(bw_op_mul_mat_check(call, err));
    if (call->in[1]->dims[0] < 1 || call->in[1]->dims[0] > 8)
        return bw_op_fail(call, err, "takes 1 to 8 rows of in1; mul_mat takes any number");
    return BW_OK;
}

bw_status bw_op_indexed_moe_forward_check(const bw_op_call *call, bw_err *err)
{
    BW_TRY(bw_op_check_counts(call, 3, 1, false, err));
    BW_TRY(check_weight(call, 3, err));
    BW_TRY(check_columns(call, 3, err));
    BW_TRY(bw_op_check_plain(call, call->in[2], "in2", BW_MASK(BW_U32), err));
    BW_TRY(bw_op_check_f32(call, call->out[0], "out0", err));
    const bw_tensor *w = call->in[0], *x = call->in[1], *ids = call->in[2], *y = call->out[0];
    if (ids->n_dims != 2 || x->dims[0] != ids->dims[0] || (x->dims[1] != 1 && x->dims[1] != ids->dims[1]))
        return bw_op_fail(call, err, "in1 must be [T, S or 1, K] and in2 [T, S]");
    if (y->n_dims != 3 || y->dims[0] != ids->dims[0] || y->dims[1] != ids->dims[1] || y->dims[2] != w->dims[1])
        return bw_op_fail(call, err, "out0 must be [%lld, %lld, %lld]", (long long)ids->dims[0],
                          (long long)ids->dims[1], (long long)w->dims[1]);
    return BW_OK;
}

/* w is read `n_matrices` times. */
static void cost_of(const bw_op_call *call, double n_columns, double n_matrices, bw_op_cost *cost)
{
    const bw_tensor *w = call->in[0];
    double n = (double)w->dims[w->n_dims - 2], k = (double)w->dims[w->n_dims - 1];
    double block = (double)bw_dtype_block_bytes(w->dtype) / (double)bw_dtype_block_elements(w->dtype);
    double x_bytes = call->op == BW_OP_DEQUANTIZE_MUL_MAT_VEC ? 4 : 36.0 / 32;
    *cost = (bw_op_cost){.flops = 2 * n * k * n_columns,
                         .bytes = n_matrices * n * k * block + n_columns * (k * x_bytes + n * 4)};
}

void bw_op_dequantize_mul_mat_vec_cost(const bw_op_call *call, bw_op_cost *cost)
{
    cost_of(call, 1, 1, cost);
}
void bw_op_mul_mat_vec_cost(const bw_op_call *call, bw_op_cost *cost)
{
    cost_of(call, (double)call->in[1]->dims[0], 1, cost);
}
void bw_op_mul_mat_cost(const bw_op_call *call, bw_op_cost *cost)
{
    cost_of(call, (double)call->in[1]->dims[0], 1, cost);
}
void bw_op_indexed_moe_forward_cost(const bw_op_call *call, bw_op_cost *cost)
{
    double n_tasks = (double)bw_tensor_elements(call->in[2]), n_experts = (double)call->in[0]->dims[0];
    cost_of(call, n_tasks, n_tasks < n_experts ? n_tasks : n_experts, cost);
}

/* The product of a row of w and one of q8_1 blocks, or of f32 values. */
static double dot(bw_dtype dtype, const uint8_t *w, bool is_q8_1, const uint8_t *x, int64_t k)
{
    double sum = 0;
    float a[BW_QUANT_MOST], b[BW_QUANT_MOST];
    int64_t block = bw_dtype_block_elements(dtype), bytes = bw_dtype_block_bytes(dtype);
    for (int64_t i = 0; i < k; i += block) {
        bw_decode_row(dtype, w + i / block * bytes, a, block, NULL);
        if (is_q8_1)
            bw_decode_row(BW_Q8_1, x + i / 32 * 36, b, block, NULL);
        else
            memcpy(b, x + i * 4, (size_t)block * 4);
        for (int64_t j = 0; j < block; j++)
            sum += (double)a[j] * (double)b[j];
    }
    return sum;
}

void bw_op_dequantize_mul_mat_vec_ref(const bw_op_call *call)
{
    const bw_tensor *w = call->in[0];
    for (int64_t n = 0; n < w->dims[0]; n++)
        ((float *)call->out[0]->data)[n] =
            (float)dot(w->dtype, (const uint8_t *)w->data + bw_quant_bytes(w->dtype, n * w->strides[0]), false,
                       call->in[1]->data, w->dims[1]);
}

static void ref_rows(const bw_quant_job *job, const bw_quant_task *task, int64_t row, int64_t n_rows, void *scratch)
{
    (void)scratch;
    for (int64_t t = 0; t < job->n_columns; t++)
        for (int64_t n = row; n < row + n_rows; n++)
            task->y[t * job->y_row + n] =
                (float)dot(job->dtype, task->w + n * job->w_row, true, task->x + t * job->x_row, job->k);
}

void bw_op_mul_mat_ref(const bw_op_call *call)
{
    bw_member alone = {.rank = 0, .size = 1};
    bw_quant_job_run(call, &alone, ref_rows);
}
void bw_op_mul_mat_vec_ref(const bw_op_call *call)
{
    bw_op_mul_mat_ref(call);
}
void bw_op_indexed_moe_forward_ref(const bw_op_call *call)
{
    bw_op_mul_mat_ref(call);
}

/* ---- names: Candle's, which follow three fashions ---------------------------------------------------------------- */

static bool is_k(bw_dtype dtype)
{
    const char *name = bw_dtype_name(dtype);
    size_t n = strlen(name);
    return n > 2 && strcmp(name + n - 2, "_k") == 0;
}

void bw_entry_dequantize_mul_mat_vec(const bw_op_call *call, bw_entry *entry)
{
    bw_dtype dtype = call->in[0]->dtype;
    snprintf(entry->prefix, sizeof entry->prefix, "dequantize_mul_mat_vec_%s%s", bw_dtype_name(dtype),
             is_k(dtype) ? "" : "_cuda");
}

void bw_entry_mul_mat_vec(const bw_op_call *call, bw_entry *entry)
{
    snprintf(entry->prefix, sizeof entry->prefix, "mul_mat_vec_%s_q8_1_cuda%d", bw_dtype_name(call->in[0]->dtype),
             (int)call->in[1]->dims[0]);
}

void bw_entry_indexed_moe(const bw_op_call *call, bw_entry *entry)
{
    bw_dtype dtype = call->in[0]->dtype;
    char name[16];
    snprintf(name, sizeof name, "%s", bw_dtype_name(dtype));
    if (is_k(dtype)) /* q4k */
        memcpy(name + strlen(name) - 2, "k", 2);
    snprintf(entry->prefix, sizeof entry->prefix, "indexed_moe_forward_%s_q8_1", name);
}
