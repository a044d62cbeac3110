/* Checks that several ops share. */
#include "bw_op_check.h"

#include "bw_mem.h"

bw_status bw_op_check_counts(const bw_op_call *call, int n_in, int n_out, bool has_params, bw_err *err)
{
    if (call->n_in != n_in || call->n_out != n_out)
        return bw_op_fail(call, err, "takes %d inputs and %d outputs, not %d and %d", n_in, n_out, call->n_in,
                          call->n_out);
    for (int i = 0; i < n_out; i++)
        if (!call->out[i])
            return bw_op_fail(call, err, "out%d is absent", i);
    if (has_params && !call->params)
        return bw_op_fail(call, err, "its params are absent");
    return BW_OK;
}

bw_status bw_op_check_f32(const bw_op_call *call, const bw_tensor *t, const char *what, bw_err *err)
{
    if (!t)
        return bw_op_fail(call, err, "%s is absent", what);
    if (t->dtype != BW_F32 || t->layout != 0)
        return bw_op_fail(call, err, "%s must be plain f32", what);
    if (t->n_dims < 1 || t->n_dims > BW_MAX_DIMS || bw_tensor_elements(t) < 0)
        return bw_op_fail(call, err, "%s needs 1 to %d dimensions whose product is possible", what, BW_MAX_DIMS);
    if (t->dims[t->n_dims - 1] > 1 && t->strides[t->n_dims - 1] != 1)
        return bw_op_fail(call, err, "%s's last dimension must be dense, not of stride %lld", what,
                          (long long)t->strides[t->n_dims - 1]);
    return BW_OK;
}

bw_status bw_op_check_plain(const bw_op_call *call, const bw_tensor *t, const char *what, uint64_t dtypes, bw_err *err)
{
    if (!t)
        return bw_op_fail(call, err, "%s is absent", what);
    if ((int)t->dtype < 0 || t->dtype >= BW_DTYPE_COUNT || !(dtypes >> t->dtype & 1))
        return bw_op_fail(call, err, "%s cannot be of this type", what);
    if (t->layout != 0)
        return bw_op_fail(call, err, "%s must be in its plain layout", what);
    if (t->n_dims < 0 || t->n_dims > BW_MAX_DIMS || bw_tensor_elements(t) < 0)
        return bw_op_fail(call, err, "%s needs at most %d dimensions whose product is possible", what, BW_MAX_DIMS);
    return BW_OK;
}

bw_status bw_op_check_output(const bw_op_call *call, const bw_tensor *t, const char *what, bw_err *err)
{
    int order[BW_MAX_DIMS], n = 0;
    if (t->layout != 0 || t->n_dims < 1 || t->n_dims > BW_MAX_DIMS || bw_tensor_elements(t) <= 0)
        return BW_OK;
    for (int d = 0; d < t->n_dims; d++) { /* by strides, the smallest first */
        int at = n;
        if (t->dims[d] == 1)
            continue;
        for (; at > 0 && t->strides[order[at - 1]] > t->strides[d]; at--)
            order[at] = order[at - 1];
        order[at] = d;
        n++;
    }
    int64_t reach = 0; /* the farthest element of the dimensions so far */
    for (int i = 0; i < n; i++) {
        int64_t stride = t->strides[order[i]], more;
        if (stride <= reach)
            return bw_op_fail(call, err, "%s's elements overlap: stride %lld of a dimension of %lld", what,
                              (long long)stride, (long long)t->dims[order[i]]);
        if (!bw_mul_i64(stride, t->dims[order[i]] - 1, &more) || !bw_add_i64(reach, more, &reach))
            return bw_op_fail(call, err, "%s reaches further than any memory", what);
    }
    return BW_OK;
}

bw_status bw_op_check_broadcast(const bw_op_call *call, const bw_tensor *t, const bw_tensor *out, const char *what,
                                bw_err *err)
{
    bool ok = t->n_dims <= out->n_dims;
    for (int i = 1; ok && i <= t->n_dims; i++) {
        int64_t dim = t->dims[t->n_dims - i];
        ok = dim == 1 || dim == out->dims[out->n_dims - i];
    }
    return ok ? BW_OK : bw_op_fail(call, err, "%s cannot be broadcast to the output's shape", what);
}

bw_status bw_op_check_i32(const bw_op_call *call, const bw_tensor *t, const char *what, int64_t n, bw_err *err)
{
    if (!t)
        return bw_op_fail(call, err, "%s is absent", what);
    if (t->dtype != BW_I32 || t->n_dims != 1 || t->dims[0] != n || t->layout != 0 || !bw_tensor_is_contiguous(t))
        return bw_op_fail(call, err, "%s must be i32 [%lld]", what, (long long)n);
    return BW_OK;
}

bool bw_op_same_shape(const bw_tensor *a, const bw_tensor *b)
{
    if (a->n_dims != b->n_dims)
        return false;
    for (int i = 0; i < a->n_dims; i++)
        if (a->dims[i] != b->dims[i])
            return false;
    return true;
}

bw_status bw_op_check_cache(const bw_op_call *call, const bw_tensor *t, const char *what, int64_t n_heads, int64_t d,
                            bw_err *err)
{
    if (!t)
        return bw_op_fail(call, err, "%s is absent", what);
    if (t->n_dims != 4 || t->layout != 0 || !bw_tensor_is_contiguous(t))
        return bw_op_fail(call, err, "%s must be contiguous [pages, heads, page_tokens, D]", what);
    if (t->dtype != BW_F16 && t->dtype != BW_BF16 && t->dtype != BW_Q8_0 && t->dtype != BW_F32)
        return bw_op_fail(call, err, "%s must be f32, f16, bf16 or q8_0, not %s", what, bw_dtype_name(t->dtype));
    if (t->dims[1] != n_heads || t->dims[3] != d)
        return bw_op_fail(call, err, "%s must have %lld heads of %lld", what, (long long)n_heads, (long long)d);
    if (t->dims[2] < 8 || t->dims[2] % 8 != 0)
        return bw_op_fail(call, err, "%s's pages must hold a multiple of 8 tokens, not %lld", what,
                          (long long)t->dims[2]);
    if (bw_dtype_bytes(t->dtype, d) < 0)
        return bw_op_fail(call, err, "%s cannot hold heads of %lld in %s", what, (long long)d, bw_dtype_name(t->dtype));
    return BW_OK;
}

bool bw_variant_avx2(const bw_op_call *call, const bw_cpu_features *cpu)
{
    (void)call;
    return cpu->avx2;
}

bool bw_variant_avx512(const bw_op_call *call, const bw_cpu_features *cpu)
{
    (void)call;
    return cpu->avx512;
}

bool bw_variant_f32(const bw_op_call *call, const bw_cpu_features *cpu)
{
    (void)cpu;
    return (BW_MASK_HALVES | BW_MASK(BW_F32) | BW_MASK(BW_F8_E4M3)) >> call->in[0]->dtype & 1;
}

bool bw_variant_f32_avx2(const bw_op_call *call, const bw_cpu_features *cpu)
{
    return cpu->avx2 && bw_variant_f32(call, cpu);
}

bool bw_variant_f32_avx512(const bw_op_call *call, const bw_cpu_features *cpu)
{
    return cpu->avx512 && bw_variant_f32(call, cpu);
}

bool bw_variant_not_f32(const bw_op_call *call, const bw_cpu_features *cpu)
{
    return !bw_variant_f32(call, cpu);
}

void bw_rows_init(bw_rows *rows, const bw_tensor *t)
{
    *rows = (bw_rows){.n_rows = 1, .n_columns = t->dims[t->n_dims - 1], .n_dims = 0};
    if (bw_shape_elements(t->dims, t->n_dims) == 0) { /* beside a 0 the others' product need not be possible */
        rows->n_rows = 0;
        rows->n_dims = 1;
        return;
    }
    for (int i = 0; i < t->n_dims - 1; i++) {
        int64_t dim = t->dims[i], stride = t->strides[i];
        rows->n_rows *= dim;
        if (dim == 1)
            continue;
        int last = rows->n_dims - 1;
        if (last >= 0 && rows->strides[last] == dim * stride) {
            rows->dims[last] *= dim;
            rows->strides[last] = stride;
        } else {
            rows->dims[rows->n_dims] = dim;
            rows->strides[rows->n_dims++] = stride;
        }
    }
    if (rows->n_dims == 0) {
        rows->n_dims = 1;
        rows->dims[0] = 1;
        rows->strides[0] = rows->n_columns;
    }
}
