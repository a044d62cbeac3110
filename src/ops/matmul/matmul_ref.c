/* MATMUL: definition, checks, and where a batch item's matrices lie. */
#include "matmul/matmul.h"

static uint64_t out_types(bw_dtype dtype)
{
    switch (dtype) {
    case BW_F16:
    case BW_BF16:
        return BW_MASK(dtype) | BW_MASK(BW_F32);
    case BW_F8_E4M3:
        return BW_MASK(BW_F32) | BW_MASK(BW_BF16);
    case BW_I8:
        return BW_MASK(BW_I32);
    default:
        return BW_MASK(dtype);
    }
}

bw_status bw_op_matmul_check(const bw_op_call *call, bw_err *err)
{
    BW_TRY(bw_op_check_counts(call, 2, 1, false, err));
    const bw_tensor *a = call->in[0], *b = call->in[1], *c = call->out[0];
    BW_TRY(bw_op_check_plain(call, a, "in0", BW_MASK_ALL | BW_MASK(BW_I8), err));
    BW_TRY(bw_op_check_plain(call, b, "in1", BW_MASK(a->dtype), err));
    BW_TRY(bw_op_check_plain(call, c, "out0", out_types(a->dtype), err));
    if (a->n_dims < 2 || b->n_dims < 2 || c->n_dims < 2)
        return bw_op_fail(call, err, "takes matrices: 2 dimensions at least");
    if (c->n_dims < a->n_dims || c->n_dims < b->n_dims)
        return bw_op_fail(call, err, "out0 has fewer dimensions than an input");
    const int64_t *a_end = a->dims + a->n_dims, *b_end = b->dims + b->n_dims, *c_end = c->dims + c->n_dims;
    if (a_end[-1] != b_end[-2])
        return bw_op_fail(call, err, "in0's last dimension, %lld, is not in1's last but one, %lld",
                          (long long)a_end[-1], (long long)b_end[-2]);
    if (c_end[-2] != a_end[-2] || c_end[-1] != b_end[-1])
        return bw_op_fail(call, err, "out0 must end in [%lld, %lld]", (long long)a_end[-2], (long long)b_end[-1]);
    for (int i = 3; i <= c->n_dims; i++) {
        int64_t da = i <= a->n_dims ? a_end[-i] : 1, db = i <= b->n_dims ? b_end[-i] : 1, dc = c_end[-i];
        if ((da != 1 && da != dc) || (db != 1 && db != dc))
            return bw_op_fail(call, err, "the inputs' leading dimensions cannot be broadcast to the output's");
    }
    return BW_OK;
}

void bw_matmul_get_shape(const bw_op_call *call, bw_matmul_shape *s)
{
    const bw_tensor *a = call->in[0], *b = call->in[1], *c = call->out[0];
    const int64_t *as = a->strides + a->n_dims, *bs = b->strides + b->n_dims, *cs = c->strides + c->n_dims;
    *s = (bw_matmul_shape){.m = c->dims[c->n_dims - 2], .n = c->dims[c->n_dims - 1], .k = a->dims[a->n_dims - 1]};
    s->n_batch = bw_shape_elements(c->dims, c->n_dims - 2);
    s->a_m = as[-2];
    s->a_k = as[-1];
    s->b_k = bs[-2];
    s->b_n = bs[-1];
    s->c_m = cs[-2];
    s->c_n = cs[-1];
}

static int64_t step(const bw_tensor *t, int from_end)
{
    return from_end > t->n_dims || t->dims[t->n_dims - from_end] == 1 ? 0 : t->strides[t->n_dims - from_end];
}

void bw_matmul_find(const bw_op_call *call, int64_t item, int64_t *a, int64_t *b, int64_t *c)
{
    *a = *b = *c = 0;
    const bw_tensor *out = call->out[0];
    for (int i = 3; i <= out->n_dims; i++) {
        int64_t dim = out->dims[out->n_dims - i], index = item % dim;
        item /= dim;
        *a += index * step(call->in[0], i);
        *b += index * step(call->in[1], i);
        *c += index * step(out, i);
    }
}

void bw_op_matmul_cost(const bw_op_call *call, bw_op_cost *cost)
{
    bw_matmul_shape s;
    bw_matmul_get_shape(call, &s);
    double m = (double)s.m, n = (double)s.n, k = (double)s.k, n_batch = (double)s.n_batch;
    cost->flops = 2 * m * n * k * n_batch;
    cost->bytes = (double)bw_tensor_elements(call->in[0]) * (double)bw_dtype_block_bytes(call->in[0]->dtype) +
                  (double)bw_tensor_elements(call->in[1]) * (double)bw_dtype_block_bytes(call->in[1]->dtype) +
                  m * n * n_batch * (double)bw_dtype_block_bytes(call->out[0]->dtype);
}

void bw_op_matmul_ref(const bw_op_call *call)
{
    const bw_tensor *a = call->in[0], *b = call->in[1];
    bw_tensor *c = call->out[0];
    bw_matmul_shape s;
    bw_matmul_get_shape(call, &s);
    for (int64_t item = 0; item < s.n_batch; item++) {
        int64_t at_a, at_b, at_c;
        bw_matmul_find(call, item, &at_a, &at_b, &at_c);
        for (int64_t i = 0; i < s.m; i++) {
            for (int64_t j = 0; j < s.n; j++) {
                double sum = 0;
                uint64_t integer = 0;
                for (int64_t p = 0; p < s.k; p++) {
                    int64_t ia = at_a + i * s.a_m + p * s.a_k, ib = at_b + p * s.b_k + j * s.b_n;
                    if (bw_dtype_is_integer(a->dtype))
                        integer += (uint64_t)bw_element_i64(a->dtype, a->data, ia) *
                                   (uint64_t)bw_element_i64(b->dtype, b->data, ib);
                    else
                        sum += bw_element_f64(a->dtype, a->data, ia) * bw_element_f64(b->dtype, b->data, ib);
                }
                int64_t ic = at_c + i * s.c_m + j * s.c_n;
                if (bw_dtype_is_integer(a->dtype))
                    bw_element_set_i64(c->dtype, c->data, ic, (int64_t)integer);
                else
                    bw_element_set_f64(c->dtype, c->data, ic, sum);
            }
        }
    }
}
