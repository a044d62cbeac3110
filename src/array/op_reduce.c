/* Reductions, normalisations, running sums and rotary positions. The ops work on the last dimension: others are turned
 * there and back as views. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "array.h"

/* x's sums by an op, of x's type or wider ones. */
static bw_status reduced(const bw_array *x, const char *op, const char *name, const bw_reduce_params *params,
                         bw_dtype dtype, const bw_shape *shape, bw_array **out, bw_err *err)
{
    array_call call = {.op = op, .name = name, .n_in = 1, .in = {x}, .params = params};
    return array_call_new(&call, dtype, shape->n_dims, shape->dims, out, err);
}

/* Sums divided by count. Short floats are added up, and divided, in f32: their own sums would overflow or lose the
 * terms. */
static bw_status mean(const bw_array *x, const bw_reduce_params *params, double count, const bw_shape *shape,
                      bw_array **out, bw_err *err)
{
    bw_dtype wide = x->t.dtype == BW_F64 ? BW_F64 : BW_F32;
    bw_array *terms = NULL, *sum = NULL, *n = NULL, *y = NULL;
    bw_status status = bw_array_cast(x, wide, &terms, err);
    if (status == BW_OK)
        status = reduced(terms, "fast_sum", "mean", params, wide, shape, &sum, err);
    if (status == BW_OK)
        status = bw_array_full(x->buffer->device, wide, 0, NULL, count, &n, err);
    if (status == BW_OK)
        status = bw_array_binary(sum, "div", n, &y, err);
    if (status == BW_OK)
        status = bw_array_cast(y, x->t.dtype, out, err);
    bw_array_free(terms);
    bw_array_free(sum);
    bw_array_free(n);
    bw_array_free(y);
    return status;
}

bw_status bw_array_reduce(const bw_array *x, const char *op, int n_dims, const int *dims, bool keep, bw_array **out,
                          bw_err *err)
{
    static const char *const names[][2] = {{"sum", "fast_sum"}, {"mean", "fast_sum"},      {"min", "fast_min"},
                                           {"max", "fast_max"}, {"argmin", "fast_argmin"}, {"argmax", "fast_argmax"}};
    bw_reduce_params params = {0};
    bw_shape shape = {0};
    const char *name = NULL;
    double count = 1;
    *out = NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(op, names[i][0]) == 0)
            name = names[i][1];
    if (!name)
        return array_fail(err, "reduce", x, "there is no operation \"%.40s\" among sum mean min max argmin argmax", op);
    bool is_mean = strcmp(op, "mean") == 0, is_index = strncmp(op, "arg", 3) == 0;
    if (is_mean && !bw_dtype_is_float(x->t.dtype))
        return array_fail(err, "mean", x, "is for float types");
    for (int i = 0; i < n_dims; i++) {
        int dim;
        BW_TRY(array_dim(op, x, x->t.n_dims, dims[i], &dim, err));
        if (params.axes >> dim & 1)
            return array_fail(err, op, x, "dimension %d is named twice", dim);
        params.axes |= 1u << dim;
    }
    if (n_dims <= 0)
        params.axes = (1u << x->t.n_dims) - 1;
    for (int d = 0; d < x->t.n_dims; d++) {
        bool is_reduced = params.axes >> d & 1;
        if (is_reduced)
            count *= (double)x->t.dims[d];
        if (!is_reduced || keep)
            shape.dims[shape.n_dims++] = is_reduced ? 1 : x->t.dims[d];
    }
    if (is_mean)
        return mean(x, &params, count, &shape, out, err);
    return reduced(x, name, op, &params, is_index ? BW_U32 : x->t.dtype, &shape, out, err);
}

/* An op over the last dimension, over any. */
static bw_status along(const bw_array *x, const char *op, int dim, bw_array **out, bw_err *err)
{
    bw_array *turned, *y;
    *out = NULL;
    BW_TRY(array_dim(op, x, x->t.n_dims, dim, &dim, err));
    BW_TRY(bw_array_transpose(x, dim, -1, &turned, err));
    array_call call = {.op = op, .n_in = 1, .in = {turned}};
    bw_status status = array_call_new(&call, x->t.dtype, turned->t.n_dims, turned->t.dims, &y, err);
    bw_array_free(turned);
    if (status == BW_OK)
        status = bw_array_transpose(y, dim, -1, out, err);
    bw_array_free(y);
    return status;
}

bw_status bw_array_softmax(const bw_array *x, int dim, bw_array **out, bw_err *err)
{
    return along(x, "softmax", dim, out, err);
}

bw_status bw_array_log_softmax(const bw_array *x, int dim, bw_array **out, bw_err *err)
{
    return along(x, "log_softmax", dim, out, err);
}

bw_status bw_array_rms_norm(const bw_array *x, const bw_array *weight, float eps, bw_array **out, bw_err *err)
{
    array_call call = {
        .op = "rmsnorm", .name = "rms_norm", .n_in = 2, .in = {x, weight}, .params = &(bw_rms_norm_params){eps}};
    return array_call_new(&call, x->t.dtype, x->t.n_dims, x->t.dims, out, err);
}

bw_status bw_array_layer_norm(const bw_array *x, const bw_array *weight, const bw_array *bias, float eps,
                              bw_array **out, bw_err *err)
{
    array_call call = {.op = "layernorm",
                       .name = "layer_norm",
                       .n_in = 3,
                       .in = {x, weight, bias},
                       .params = &(bw_layernorm_params){eps}};
    return array_call_new(&call, x->t.dtype, x->t.n_dims, x->t.dims, out, err);
}

bw_status bw_array_group_norm(const bw_array *x, int64_t n_groups, const bw_array *weight, const bw_array *bias,
                              float eps, bw_array **out, bw_err *err)
{
    *out = NULL;
    if (x->t.n_dims < 2 || n_groups < 1 || n_groups > INT32_MAX || x->t.dims[1] % n_groups != 0)
        return array_fail(err, "group_norm", x, "needs [N, C, ..] whose channels make %lld groups",
                          (long long)n_groups);
    bw_group_norm_params params = {(int32_t)n_groups, eps};
    array_call call = {.op = "group_norm", .n_in = 3, .in = {x, weight, bias}, .params = &params};
    return array_call_new(&call, x->t.dtype, x->t.n_dims, x->t.dims, out, err);
}

bw_status bw_array_cumsum(const bw_array *x, int dim, bw_array **out, bw_err *err)
{
    *out = NULL;
    BW_TRY(array_dim("cumsum", x, x->t.n_dims, dim, &dim, err));
    array_call call = {.op = "cumsum", .n_in = 1, .in = {x}, .params = &(bw_cumsum_params){dim}};
    return array_call_new(&call, x->t.dtype, x->t.n_dims, x->t.dims, out, err);
}

bw_status bw_array_rope(const bw_array *x, const bw_array *cos, const bw_array *sin, const char *layout, bw_array **out,
                        bw_err *err)
{
    array_call call = {.op = "rope", .n_in = 3, .in = {x, cos, sin}};
    *out = NULL;
    if (strcmp(layout, "pairs") == 0)
        call.op = "rope_i";
    else if (strcmp(layout, "thd") == 0)
        call.op = "rope_thd";
    else if (strcmp(layout, "half") != 0)
        return array_fail(err, "rope", x, "there is no layout \"%.40s\" among half pairs thd", layout);
    return array_call_new(&call, x->t.dtype, x->t.n_dims, x->t.dims, out, err);
}
