/* ROPE, ROPE_I and ROPE_THD: rotary position embedding (Su et al., arXiv:2104.09864) by given tables. */
#include "bw_op_check.h"
#include "reduce/rope_view.h"

void bw_rope_view_init(bw_rope_view *v, const bw_op_call *call)
{
    const bw_tensor *x = call->in[0], *y = call->out[0];
    int h = call->op == BW_OP_ROPE_THD ? 2 : 1, t = 3 - h;
    int dims[3] = {0, h, t};
    *v = (bw_rope_view){.d = x->dims[3], .x_step = x->strides[3], .y_step = y->strides[3]};
    for (int i = 0; i < 3; i++) {
        v->dims[i] = x->dims[dims[i]];
        v->x_strides[i] = x->strides[dims[i]];
        v->y_strides[i] = y->strides[dims[i]];
    }
    for (int i = 0; i < 2; i++) {
        const bw_tensor *table = call->in[1 + i];
        int last = table->n_dims - 1;
        v->table_strides[i][0] = last == 2 ? table->strides[0] : 0;
        v->table_strides[i][1] = table->strides[last - 1];
        v->table_steps[i] = table->strides[last];
    }
}

void bw_rope_view_row(const bw_rope_view *v, int64_t row, bw_rope_row *r)
{
    int64_t t = row % v->dims[2], h = row / v->dims[2] % v->dims[1], b = row / v->dims[2] / v->dims[1];
    r->x = b * v->x_strides[0] + h * v->x_strides[1] + t * v->x_strides[2];
    r->y = b * v->y_strides[0] + h * v->y_strides[1] + t * v->y_strides[2];
    r->cos = b * v->table_strides[0][0] + t * v->table_strides[0][1];
    r->sin = b * v->table_strides[1][0] + t * v->table_strides[1][1];
}

static bw_status check(const bw_op_call *call, bw_err *err)
{
    static const char *const names[] = {"in0", "in1", "in2"};
    BW_TRY(bw_op_check_counts(call, 3, 1, false, err));
    const bw_tensor *x = call->in[0];
    for (int i = 0; i < 3; i++)
        BW_TRY(bw_op_check_plain(call, call->in[i], names[i], i ? BW_MASK(x->dtype) : BW_MASK_F4, err));
    BW_TRY(bw_op_check_plain(call, call->out[0], "out0", BW_MASK(x->dtype), err));
    bool thd = call->op == BW_OP_ROPE_THD;
    if (x->n_dims != 4 || x->dims[3] % 2 != 0 || !bw_op_same_shape(x, call->out[0]))
        return bw_op_fail(call, err, "in0 and out0 must both be [b, %s, d] with an even d", thd ? "t, h" : "h, t");
    int64_t t = x->dims[thd ? 1 : 2];
    for (int i = 1; i < 3; i++) {
        const bw_tensor *table = call->in[i];
        int n = table->n_dims;
        if ((n != 2 && n != 3) || table->dims[n - 1] != x->dims[3] / 2 || table->dims[n - 2] != t ||
            (n == 3 && table->dims[0] != x->dims[0]))
            return bw_op_fail(call, err, "%s must be [%lld, %lld], or that for each of %lld batches", names[i],
                              (long long)t, (long long)(x->dims[3] / 2), (long long)x->dims[0]);
    }
    return BW_OK;
}

static void cost(const bw_op_call *call, bw_op_cost *result)
{
    double n = (double)bw_tensor_elements(call->in[0]), tables = 0;
    for (int i = 1; i < 3; i++)
        tables += (double)bw_tensor_elements(call->in[i]);
    *result =
        (bw_op_cost){.flops = 3 * n, .bytes = (double)bw_dtype_block_bytes(call->in[0]->dtype) * (2 * n + tables)};
}

static void ref(const bw_op_call *call)
{
    bw_rope_view v;
    bw_rope_view_init(&v, call);
    const void *x = call->in[0]->data;
    void *y = call->out[0]->data;
    bw_dtype dtype = call->in[0]->dtype;
    for (int64_t row = 0; row < v.dims[0] * v.dims[1] * v.dims[2]; row++) {
        bw_rope_row r;
        bw_rope_view_row(&v, row, &r);
        for (int64_t i = 0; i < v.d / 2; i++) {
            int64_t first = call->op == BW_OP_ROPE_I ? 2 * i : i;
            int64_t second = call->op == BW_OP_ROPE_I ? 2 * i + 1 : i + v.d / 2;
            double a = bw_element_f64(dtype, x, r.x + first * v.x_step);
            double b = bw_element_f64(dtype, x, r.x + second * v.x_step);
            double c = bw_element_f64(dtype, call->in[1]->data, r.cos + i * v.table_steps[0]);
            double s = bw_element_f64(dtype, call->in[2]->data, r.sin + i * v.table_steps[1]);
            bw_element_set_f64(dtype, y, r.y + first * v.y_step, a * c - b * s);
            bw_element_set_f64(dtype, y, r.y + second * v.y_step, a * s + b * c);
        }
    }
}

#define ROPE(name)                                                                                                     \
    bw_status bw_op_##name##_check(const bw_op_call *call, bw_err *err)                                                \
    {                                                                                                                  \
        return check(call, err);                                                                                       \
    }                                                                                                                  \
    void bw_op_##name##_cost(const bw_op_call *call, bw_op_cost *result)                                               \
    {                                                                                                                  \
        cost(call, result);                                                                                            \
    }                                                                                                                  \
    void bw_op_##name##_ref(const bw_op_call *call)                                                                    \
    {                                                                                                                  \
        ref(call);                                                                                                     \
    }
ROPE(rope)
ROPE(rope_i)
ROPE(rope_thd)
