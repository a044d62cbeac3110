/* Convolutions, pooling, upsampling. Owns the sizes of results; the ops refuse what has none. */
#include <string.h>

#include "array.h"

static int64_t or_one(int64_t v)
{
    return v == 0 ? 1 : v;
}

/* Parameters with zeros replaced. */
static bw_conv_options settle(const bw_conv_options *conv)
{
    bw_conv_options c = {0};
    if (conv)
        c = *conv;
    for (int i = 0; i < 2; i++) {
        c.stride[i] = or_one(c.stride[i]);
        c.dilation[i] = or_one(c.dilation[i]);
    }
    c.groups = or_one(c.groups);
    return c;
}

/* Sizes in i64 with overflow caught: -1 where there is no such size. */
typedef struct sum {
    int64_t v;
    bool is_bad;
} sum;

static sum times(sum a, int64_t b)
{
    a.is_bad = !bw_mul_i64(a.v, b, &a.v) || a.is_bad;
    return a;
}

static sum plus(sum a, sum b)
{
    a.is_bad = !bw_add_i64(a.v, b.v, &a.v) || a.is_bad || b.is_bad;
    return a;
}

/* (size + 2 padding - dilation (k - 1) - 1) / stride + 1 */
static int64_t conv_size(int64_t size, int64_t k, const bw_conv_options *c, int i)
{
    sum n = plus((sum){size, false}, times((sum){c->padding[i], false}, 2));
    n = plus(n, times(times((sum){k - 1, k < 1}, c->dilation[i]), -1));
    return n.is_bad || n.v < 1 || c->stride[i] < 1 ? -1 : (n.v - 1) / c->stride[i] + 1;
}

/* (size - 1) stride - 2 padding + dilation (k - 1) + output_padding + 1 */
static int64_t transposed_size(int64_t size, int64_t k, const bw_conv_options *c, int i)
{
    sum n = plus(times((sum){size - 1, size < 1}, c->stride[i]), times((sum){c->padding[i], false}, -2));
    n = plus(n, times((sum){k - 1, k < 1}, c->dilation[i]));
    n = plus(n, plus((sum){c->output_padding[i], false}, (sum){1, false}));
    return n.is_bad || n.v < 0 ? -1 : n.v;
}

static bw_status run(const bw_array *x, const bw_array *w, const bw_array *bias, const bw_conv_options *conv,
                     int n_spatial, bool is_transposed, bw_array **out, bw_err *err)
{
    static const char *const names[2][2] = {{"conv1d", "conv2d"}, {"conv_transpose1d", "conv_transpose2d"}};
    const char *name = names[is_transposed][n_spatial - 1];
    bw_conv_options c = settle(conv);
    char text[128];
    *out = NULL;
    if (x->t.n_dims != n_spatial + 2 || w->t.n_dims != n_spatial + 2)
        return array_fail(err, name, x, "x and w need %d dimensions; w %s", n_spatial + 2,
                          bw_tensor_describe(&w->t, text, sizeof text));
    int64_t dims[4] = {x->t.dims[0], w->t.dims[0]};
    if (is_transposed && !bw_mul_i64(w->t.dims[1], c.groups, &dims[1]))
        dims[1] = -1;
    for (int i = 0; i < n_spatial; i++) {
        int64_t size = x->t.dims[2 + i], k = w->t.dims[2 + i];
        dims[2 + i] = is_transposed ? transposed_size(size, k, &c, i) : conv_size(size, k, &c, i);
    }
    if (bw_shape_elements(dims, n_spatial + 2) < 0)
        return array_fail(err, name, x, "has no result with w %s and these strides, paddings and dilations",
                          bw_tensor_describe(&w->t, text, sizeof text));
    bw_conv1d_params one = {c.stride[0], c.padding[0], c.dilation[0], c.output_padding[0], c.groups};
    bw_conv2d_params two = {c.stride[0],   c.stride[1],         c.padding[0],        c.padding[1], c.dilation[0],
                            c.dilation[1], c.output_padding[0], c.output_padding[1], c.groups};
    array_call call = {.op = name, .n_in = 2, .in = {x, w}, .params = n_spatial == 1 ? (const void *)&one : &two};
    BW_TRY(array_call_new(&call, x->t.dtype, n_spatial + 2, dims, out, err));
    if (!bias)
        return BW_OK;
    bw_array *plain = *out, *column = NULL;
    *out = NULL;
    bw_status status = bias->t.n_dims == 1 && bias->t.dims[0] == dims[1]
                           ? bw_array_reshape(bias, n_spatial + 1, (int64_t[]){dims[1], 1, 1}, &column, err)
                           : array_fail(err, name, bias, "the bias must be [%lld]", (long long)dims[1]);
    if (status == BW_OK)
        status = bw_array_binary(plain, "add", column, out, err);
    bw_array_free(column);
    bw_array_free(plain);
    return status;
}

bw_status bw_array_conv1d(const bw_array *x, const bw_array *w, const bw_array *bias, const bw_conv_options *conv,
                          bw_array **out, bw_err *err)
{
    return run(x, w, bias, conv, 1, false, out, err);
}

bw_status bw_array_conv2d(const bw_array *x, const bw_array *w, const bw_array *bias, const bw_conv_options *conv,
                          bw_array **out, bw_err *err)
{
    return run(x, w, bias, conv, 2, false, out, err);
}

bw_status bw_array_conv_transpose1d(const bw_array *x, const bw_array *w, const bw_array *bias,
                                    const bw_conv_options *conv, bw_array **out, bw_err *err)
{
    return run(x, w, bias, conv, 1, true, out, err);
}

bw_status bw_array_conv_transpose2d(const bw_array *x, const bw_array *w, const bw_array *bias,
                                    const bw_conv_options *conv, bw_array **out, bw_err *err)
{
    return run(x, w, bias, conv, 2, true, out, err);
}

/* x must have n_dims dimensions; the last two (or one) become sizes. */
static bw_status need_dims(const char *name, const bw_array *x, int n_dims, bw_err *err)
{
    return x->t.n_dims == n_dims ? BW_OK : array_fail(err, name, x, "needs %d dimensions", n_dims);
}

bw_status bw_array_pool2d(const bw_array *x, const char *op, const int64_t kernel[2], const int64_t stride[2],
                          bw_array **out, bw_err *err)
{
    bool is_avg = strcmp(op, "avg") == 0;
    *out = NULL;
    if (!is_avg && strcmp(op, "max") != 0)
        return array_fail(err, "pool2d", x, "there is no operation \"%.40s\" among avg max", op);
    const char *name = is_avg ? "avg_pool2d" : "max_pool2d";
    BW_TRY(need_dims(name, x, 4, err));
    bw_conv_options c = {.stride = {stride[0], stride[1]}, .dilation = {1, 1}};
    int64_t dims[4] = {x->t.dims[0], x->t.dims[1], conv_size(x->t.dims[2], kernel[0], &c, 0),
                       conv_size(x->t.dims[3], kernel[1], &c, 1)};
    if (bw_shape_elements(dims, 4) < 0)
        return array_fail(err, name, x, "has no windows of %lld x %lld at steps of %lld x %lld", (long long)kernel[0],
                          (long long)kernel[1], (long long)stride[0], (long long)stride[1]);
    bw_pool2d_params params = {kernel[0], kernel[1], stride[0], stride[1]};
    array_call call = {.op = name, .n_in = 1, .in = {x}, .params = &params};
    return array_call_new(&call, x->t.dtype, 4, dims, out, err);
}

bw_status bw_array_upsample_nearest2d(const bw_array *x, int64_t height, int64_t width, bw_array **out, bw_err *err)
{
    *out = NULL;
    BW_TRY(need_dims("upsample_nearest2d", x, 4, err));
    array_call call = {
        .op = "upsample_nearest2d", .n_in = 1, .in = {x}, .params = &(bw_upsample_nearest2d_params){0, 0}};
    return array_call_new(&call, x->t.dtype, 4, (int64_t[]){x->t.dims[0], x->t.dims[1], height, width}, out, err);
}

bw_status bw_array_upsample_bilinear2d(const bw_array *x, int64_t height, int64_t width, bool align_corners,
                                       bw_array **out, bw_err *err)
{
    bw_upsample_bilinear2d_params params = {.align_corners = align_corners};
    *out = NULL;
    BW_TRY(need_dims("upsample_bilinear2d", x, 4, err));
    array_call call = {.op = "upsample_bilinear2d", .n_in = 1, .in = {x}, .params = &params};
    return array_call_new(&call, x->t.dtype, 4, (int64_t[]){x->t.dims[0], x->t.dims[1], height, width}, out, err);
}

bw_status bw_array_im2col1d(const bw_array *x, int64_t kernel, const bw_conv_options *conv, bw_array **out, bw_err *err)
{
    bw_conv_options c = settle(conv);
    *out = NULL;
    BW_TRY(need_dims("im2col1d", x, 3, err));
    int64_t dims[3] = {x->t.dims[0], conv_size(x->t.dims[2], kernel, &c, 0)};
    if (!bw_mul_i64(x->t.dims[1], kernel, &dims[2]) || bw_shape_elements(dims, 3) < 0)
        return array_fail(err, "im2col1d", x, "has no windows of %lld", (long long)kernel);
    bw_im2col1d_params params = {kernel, c.stride[0], c.padding[0], c.dilation[0]};
    array_call call = {.op = "im2col1d", .n_in = 1, .in = {x}, .params = &params};
    return array_call_new(&call, x->t.dtype, 3, dims, out, err);
}

bw_status bw_array_im2col(const bw_array *x, const int64_t kernel[2], const bw_conv_options *conv, bw_array **out,
                          bw_err *err)
{
    bw_conv_options c = settle(conv);
    *out = NULL;
    BW_TRY(need_dims("im2col", x, 4, err));
    int64_t height = conv_size(x->t.dims[2], kernel[0], &c, 0), width = conv_size(x->t.dims[3], kernel[1], &c, 1);
    int64_t dims[3] = {x->t.dims[0], bw_shape_elements((int64_t[]){height, width}, 2),
                       bw_shape_elements((int64_t[]){x->t.dims[1], kernel[0], kernel[1]}, 3)};
    if (bw_shape_elements(dims, 3) < 0)
        return array_fail(err, "im2col", x, "has no windows of %lld x %lld", (long long)kernel[0],
                          (long long)kernel[1]);
    bw_im2col_params params = {kernel[0],    kernel[1],    c.stride[0],   c.stride[1],
                               c.padding[0], c.padding[1], c.dilation[0], c.dilation[1]};
    array_call call = {.op = "im2col", .n_in = 1, .in = {x}, .params = &params};
    return array_call_new(&call, x->t.dtype, 3, dims, out, err);
}

bw_status bw_array_col2im1d(const bw_array *columns, int64_t stride, bw_array **out, bw_err *err)
{
    *out = NULL;
    BW_TRY(need_dims("col2im1d", columns, 4, err));
    bw_conv_options c = {.stride = {stride, 1}, .dilation = {1, 1}};
    const int64_t *dims = columns->t.dims;
    int64_t length = stride < 1 ? -1 : transposed_size(dims[1], dims[3], &c, 0);
    if (length < 0)
        return array_fail(err, "col2im1d", columns, "has no result at steps of %lld", (long long)stride);
    array_call call = {.op = "col2im1d", .n_in = 1, .in = {columns}, .params = &(bw_col2im1d_params){stride}};
    return array_call_new(&call, columns->t.dtype, 3, (int64_t[]){dims[0], dims[2], length}, out, err);
}
