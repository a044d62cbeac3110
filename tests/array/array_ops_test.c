/* Operations on arrays: that each wrapper reaches its op with the right shapes, names and params. What the ops compute
 * in every type and layout is bw-conformance's to test. */
#include <math.h>

#include "array_harness.h"

static bw_err err;

static void test_elementwise(void **state)
{
    (void)state;
    bw_array *x = f32_array(DIMS(4), (float[]){-2, -0.5f, 0, 3}, 4), *y, *z, *c;
    assert_ok(bw_array_unary(x, "relu", &y, &err), err);
    expect(y, DIMS(4), 0, 0, 0, 3);
    assert_ok(bw_array_unary(x, "neg", &y, &err), err);
    expect(y, DIMS(4), 2, 0.5f, 0, -3);
    assert_ok(bw_array_unary_param(x, "elu", 2, &y, &err), err);
    expect(y, DIMS(4), -1.7293294f, -0.7869387f, 0, 3);
    assert_ok(bw_array_affine(x, 2, 1, &y, &err), err);
    expect(y, DIMS(4), -3, 0, 1, 7);
    const char *all[] = {"neg",  "recip", "exp",      "log",   "sin",     "cos",  "tanh",
                         "erf",  "ceil",  "floor",    "round", "normcdf", "abs",  "sqr",
                         "sqrt", "gelu",  "gelu_erf", "relu",  "silu",    "sign", "sigmoid"};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        assert_ok(bw_array_unary(x, all[i], &y, &err), err);
        bw_array_free(y);
    }
    expect_failure(bw_array_unary(x, "copy", &y, error), y, "there is no operation \"copy\"");
    expect_failure(bw_array_unary(x, "neg recip", &y, error), y, "there is no operation");
    expect_failure(bw_array_unary(x, "", &y, error), y, "there is no operation");
    bw_array *column = counting(DIMS(2, 1));
    assert_ok(bw_array_binary(column, "add", x, &y, &err), err);
    expect(y, DIMS(2, 4), -2, -0.5f, 0, 3, -1, 0.5f, 1, 4);
    assert_ok(bw_array_compare(x, "lt", column, &c, &err), err);
    assert_int_equal(bw_array_dtype(c), BW_U8);
    assert_memory_equal(host_bytes(c), "\1\1\0\0\1\1\1\0", 8);
    assert_ok(bw_array_where(c, x, column, &z, &err), err);
    expect(z, DIMS(2, 4), -2, -0.5f, 0, 0, -2, -0.5f, 0, 1);
    bw_array_free(c);
    bw_array *three = counting(DIMS(3)), *h;
    expect_failure(
        bw_array_binary(x, "mul", three, &y, error), y,
        "mul: the shapes cannot be broadcast to one another: dimension 1 from the end is 4 and 3; in0 f32 [4], "
        "in1 f32 [3]");
    assert_ok(bw_array_cast(x, BW_F16, &h, &err), err);
    assert_int_equal(bw_array_dtype(h), BW_F16);
    expect_failure(bw_array_binary(x, "mul", h, &y, error), y, "in1 f16 [4]");
    assert_ok(bw_array_cast(h, BW_F32, &y, &err), err);
    expect(y, DIMS(4), -2, -0.5f, 0, 3);
    assert_ok(bw_array_glu(x, "silu", x, &y, &err), err);
    expect(y, DIMS(4), 0.47681168f, 0.09438516f, 0, 8.57316711f);
    expect_failure(bw_array_glu(x, "tanh", x, &y, error), y, "there is no activation");
    bw_array_free(h);
    bw_array_free(three);
    bw_array_free(column);
    bw_array_free(x);
}

static void test_empty(void **state)
{
    (void)state;
    bw_array *x, *y, *w;
    assert_ok(bw_array_zeros(device, BW_F32, DIMS(0, 3), &x, &err), err);
    assert_ok(bw_array_unary(x, "exp", &y, &err), err);
    assert_int_equal(bw_array_elements(y), 0);
    bw_array_free(y);
    assert_ok(bw_array_softmax(x, 1, &y, &err), err);
    bw_array_free(y);
    assert_ok(bw_array_reduce(x, "sum", 1, (int[]){0}, false, &y, &err), err);
    expect(y, DIMS(3), 0, 0, 0);
    expect_failure(bw_array_reduce(x, "max", 1, (int[]){0}, false, &y, error), y, "max");
    w = counting(DIMS(3, 2));
    assert_ok(bw_array_matmul(x, w, &y, &err), err);
    assert_int_equal(bw_array_dims(y)[0], 0);
    bw_array_free(y);
    bw_array_free(w);
    assert_ok(bw_array_transpose(x, 0, 1, &w, &err), err);
    assert_ok(bw_array_matmul(w, x, &y, &err), err); /* a sum of nothing */
    expect(y, DIMS(3, 3), 0, 0, 0, 0, 0, 0, 0, 0, 0);
    assert_ok(bw_array_reshape(w, DIMS(7, 0), &y, &err), err);
    bw_array_free(y);
    expect_failure(bw_array_reshape(w, DIMS(0, -1), &y, error), y, "the size of dimension 1 does not follow");
    expect_failure(bw_array_reshape(w, DIMS(0, INT64_C(1) << 40, INT64_C(1) << 40), &y, error), y, "do not fill");
    assert_ok(bw_array_reshape(w, DIMS(-1, 7), &y, &err), err);
    assert_int_equal(bw_array_dims(y)[0], 0);
    bw_array_free(y);
    assert_ok(bw_array_binary(x, "add", x, &y, &err), err);
    assert_int_equal(bw_array_dims(y)[1], 3);
    bw_array_free(y);
    assert_ok(bw_array_fill(x, 3, &err), err);
    bw_array_free(w);
    bw_array_free(x);
}

static void test_products(void **state)
{
    (void)state;
    bw_array *a = counting(DIMS(2, 1, 2, 3)), *b = counting(DIMS(3, 2)), *y, *q, *m;
    assert_ok(bw_array_matmul(a, b, &y, &err), err);
    expect(y, DIMS(2, 1, 2, 2), 10, 13, 28, 40, 46, 67, 64, 94);
    expect_failure(bw_array_matmul(b, b, &y, error), y, "matmul");
    bw_array_free(a);
    bw_array_free(b);
    q = f32_array(DIMS(1, 1, 2, 1), (float[]){0, 0}, 2);
    b = f32_array(DIMS(1, 1, 2, 1), (float[]){2, 4}, 2);
    assert_ok(bw_array_sdpa(q, q, b, NULL, 0, 0, false, &y, &err), err);
    expect(y, DIMS(1, 1, 2, 1), 3, 3);
    assert_ok(bw_array_sdpa(q, q, b, NULL, 0, 0, true, &y, &err), err);
    expect(y, DIMS(1, 1, 2, 1), 2, 3);
    m = f32_array(DIMS(1, 1, 1, 2), (float[]){-INFINITY, 0}, 2);
    assert_ok(bw_array_sdpa(q, q, b, m, 1, 0, false, &y, &err), err);
    expect(y, DIMS(1, 1, 2, 1), 4, 4);
    bw_array_free(m);
    bw_array_free(q);
    bw_array_free(b);
}

static void test_reductions(void **state)
{
    (void)state;
    bw_array *x = counting(DIMS(2, 3)), *y, *w, *b;
    assert_ok(bw_array_reduce(x, "sum", 1, (int[]){-1}, true, &y, &err), err);
    expect(y, DIMS(2, 1), 3, 12);
    assert_ok(bw_array_reduce(x, "mean", 0, NULL, false, &y, &err), err);
    expect_at(__FILE__, __LINE__, y, 0, NULL, (float[]){2.5f});
    assert_ok(bw_array_reduce(x, "max", 1, (int[]){0}, false, &y, &err), err);
    expect(y, DIMS(3), 3, 4, 5);
    assert_ok(bw_array_reduce(x, "argmax", 2, (int[]){0, 1}, false, &y, &err), err);
    assert_int_equal(bw_array_dtype(y), BW_U32);
    assert_int_equal(*(const uint32_t *)host_bytes(y), 5);
    bw_array_free(y);
    expect_failure(bw_array_reduce(x, "sum", 2, (int[]){0, -2}, false, &y, error), y, "named twice");
    expect_failure(bw_array_reduce(x, "median", 0, NULL, false, &y, error), y, "there is no operation");
    assert_ok(bw_array_softmax(x, 0, &y, &err), err);
    expect(y, DIMS(2, 3), 0.04742587f, 0.04742587f, 0.04742587f, 0.95257413f, 0.95257413f, 0.95257413f);
    assert_ok(bw_array_log_softmax(x, -1, &y, &err), err);
    expect(y, DIMS(2, 3), -2.40760596f, -1.40760596f, -0.40760596f, -2.40760596f, -1.40760596f, -0.40760596f);
    assert_ok(bw_array_cumsum(x, 0, &y, &err), err);
    expect(y, DIMS(2, 3), 0, 1, 2, 3, 5, 7);
    w = f32_array(DIMS(3), (float[]){1, 2, 3}, 3);
    b = f32_array(DIMS(3), (float[]){0, 0, 1}, 3);
    assert_ok(bw_array_layer_norm(x, w, b, 0, &y, &err), err);
    expect(y, DIMS(2, 3), -1.22474487f, 0, 4.67423461f, -1.22474487f, 0, 4.67423461f);
    assert_ok(bw_array_rms_norm(x, w, 0, &y, &err), err);
    expect(y, DIMS(2, 3), 0, 1.54919334f, 4.64758002f, 0.73484692f, 1.95959179f, 3.67423461f);
    assert_ok(bw_array_rms_norm(x, NULL, 0, &y, &err), err);
    expect(y, DIMS(2, 3), 0, 0.77459667f, 1.54919334f, 0.73484692f, 0.97979590f, 1.22474487f);
    assert_ok(bw_array_group_norm(x, 1, w, b, 0, &y, &err), err);
    expect(y, DIMS(2, 3), -1.22474487f, 0, 4.67423461f, -1.22474487f, 0, 4.67423461f);
    expect_failure(bw_array_group_norm(x, 2, w, b, 0, &y, error), y, "make 2 groups");
    expect_failure(bw_array_group_norm(x, 1, x, b, 0, &y, error), y, "must be [3]");
    bw_array_free(w);
    bw_array_free(b);
    bw_array_free(x);
    x = counting(DIMS(1, 1, 1, 4));
    w = f32_array(DIMS(1, 2), (float[]){0, 1}, 2);
    b = f32_array(DIMS(1, 2), (float[]){1, 0}, 2);
    assert_ok(bw_array_rope(x, w, b, "half", &y, &err), err);
    expect(y, DIMS(1, 1, 1, 4), -2, 1, 0, 3);
    assert_ok(bw_array_rope(x, w, b, "pairs", &y, &err), err);
    expect(y, DIMS(1, 1, 1, 4), -1, 0, 2, 3);
    assert_ok(bw_array_rope(x, w, b, "thd", &y, &err), err);
    expect(y, DIMS(1, 1, 1, 4), -2, 1, 0, 3);
    expect_failure(bw_array_rope(x, w, b, "neox", &y, error), y, "there is no layout");
    bw_array_free(w);
    bw_array_free(b);
    bw_array_free(x);
}

/* A mean is a division of a sum that its type could not hold, or would round. */
static void test_means(void **state)
{
    (void)state;
    static const struct {
        bw_dtype dtype;
        int64_t n;
    } cases[] = {{BW_F32, 41}, {BW_F64, 49}, {BW_F16, 70000}, {BW_BF16, 1000}, {BW_F8_E4M3, 1000}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bw_array *x, *y, *z;
        double one = 0;
        assert_ok(bw_array_full(device, cases[i].dtype, DIMS(2, cases[i].n), 1, &x, &err), err);
        assert_ok(bw_array_reduce(x, "mean", 0, NULL, false, &y, &err), err);
        assert_int_equal(bw_array_dtype(y), cases[i].dtype);
        assert_ok(bw_array_cast(y, BW_F64, &z, &err), err);
        assert_ok(bw_array_read(z, &one, sizeof one, &err), err);
        if (one != 1)
            fail_msg("the mean of %d ones of %s is %.9g", (int)cases[i].n, bw_dtype_name(cases[i].dtype), one);
        bw_array_free(z);
        bw_array_free(y);
        assert_ok(bw_array_reduce(x, "mean", 1, (int[]){1}, true, &y, &err), err);
        assert_int_equal(bw_array_n_dims(y), 2);
        assert_int_equal(bw_array_dims(y)[1], 1);
        bw_array_free(y);
        bw_array_free(x);
    }
}

static void test_indexing(void **state)
{
    (void)state;
    bw_array *x = counting(DIMS(2, 3)), *y, *v, *ids, *grid, *src;
    assert_ok(bw_array_from_data(device, BW_U32, DIMS(2), (uint32_t[]){2, 0}, 8, &ids, &err), err);
    assert_ok(bw_array_index_select(x, 1, ids, &y, &err), err);
    expect(y, DIMS(2, 2), 2, 0, 5, 3);
    assert_ok(bw_array_from_data(device, BW_I64, DIMS(2, 1), (int64_t[]){1, 2}, 16, &grid, &err), err);
    assert_ok(bw_array_gather(x, -1, grid, &y, &err), err);
    expect(y, DIMS(2, 1), 1, 5);
    src = f32_array(DIMS(2, 1), (float[]){10, 20}, 2);
    assert_ok(bw_array_scatter(x, 1, grid, src, &y, &err), err);
    expect(y, DIMS(2, 3), 0, 10, 2, 3, 4, 20);
    assert_ok(bw_array_scatter_add(x, 1, grid, src, &y, &err), err);
    expect(y, DIMS(2, 3), 0, 11, 2, 3, 4, 25);
    bw_array_free(src);
    src = f32_array(DIMS(2, 2), (float[]){1, 2, 3, 4}, 4);
    assert_ok(bw_array_index_add(x, 1, ids, src, &y, &err), err);
    expect(y, DIMS(2, 3), 2, 1, 3, 7, 4, 8);
    expect_failure(bw_array_index_add(x, 0, ids, src, &y, error), y, "index_add: ");
    expect_failure(bw_array_index_select(x, 1, grid, &y, error), y, "one dimension");
    expect_failure(bw_array_index_select(x, 1, x, &y, error), y, "one dimension");
    expect_failure(bw_array_gather(x, 5, grid, &y, error), y, "there is no dimension 5");
    bw_array_free(src);
    bw_array_free(ids);
    bw_array_free(grid);
    bw_array_free(x);
    x = f32_array(DIMS(2, 3), (float[]){3, 1, 2, 4, 6, 5}, 6);
    assert_ok(bw_array_sort(x, false, &v, &ids, &err), err);
    expect(v, DIMS(2, 3), 1, 2, 3, 4, 5, 6);
    assert_memory_equal(host_bytes(ids), ((uint32_t[]){1, 2, 0, 0, 2, 1}), 24);
    bw_array_free(ids);
    assert_ok(bw_array_sort(x, true, &v, NULL, &err), err);
    expect(v, DIMS(2, 3), 3, 2, 1, 6, 5, 4);
    assert_ok(bw_array_topk(x, 2, false, &v, &ids, &err), err);
    bw_array_free(ids);
    expect(v, DIMS(2, 2), 3, 2, 6, 5);
    assert_ok(bw_array_topk(x, 1, true, NULL, &ids, &err), err);
    assert_memory_equal(host_bytes(ids), ((uint32_t[]){1, 0}), 8);
    bw_array_free(ids);
    expect_failure(bw_array_topk(x, 4, true, &v, NULL, error), v, "do not have 4 elements");
    bw_array_free(x);
}

/* An operation's sentence begins with the name that its caller knows. */
static void starts_with(bw_status status, const bw_err *got, const char *name)
{
    assert_int_equal(status, BW_E_ARG);
    if (strncmp(got->text, name, strlen(name)) != 0)
        fail_msg("\"%s\" does not begin with \"%s\"", got->text, name);
}

static void test_error_names(void **state)
{
    (void)state;
    bw_array *x = counting(DIMS(2, 3)), *i, *y, *q;
    assert_ok(bw_array_zeros(device, BW_I64, DIMS(3, 3), &i, &err), err);
    assert_ok(bw_array_quantise(x, BW_Q8_0, NULL, &q, &err) == BW_E_ARG ? BW_OK : BW_E_INTERNAL, err);
    starts_with(BW_E_ARG, &err, "quantise: ");
    starts_with(bw_array_scatter(x, 1, i, i, &y, &err), &err, "scatter: ");
    starts_with(bw_array_scatter_add(x, 1, i, i, &y, &err), &err, "scatter_add: ");
    starts_with(bw_array_gather(x, 1, x, &y, &err), &err, "gather: ");
    starts_with(bw_array_unary(i, "exp", &y, &err), &err, "exp: ");
    starts_with(bw_array_binary(x, "add", i, &y, &err), &err, "add: ");
    assert_ok(bw_array_zeros(device, BW_F32, DIMS(0), &q, &err), err);
    starts_with(bw_array_reduce(q, "max", 0, NULL, false, &y, &err), &err, "max: ");
    bw_array_free(q);
    bw_array *four = counting(DIMS(1, 1, 1, 4)), *six = counting(DIMS(1, 1, 1, 1, 1, 4));
    starts_with(bw_array_sdpa(four, x, x, NULL, 0, 0, false, &y, &err), &err, "sdpa: ");
    assert_ok(bw_array_where(six, six, six, &y, &err) == BW_E_ARG ? BW_OK : BW_E_INTERNAL, err);
    starts_with(BW_E_ARG, &err, "where: "); /* with all four tensors in full */
    assert_non_null(strstr(err.text, "out0 f32 [1, 1, 1, 1, 1, 4]"));
    bw_array_free(four);
    bw_array_free(six);
    bw_array_free(i);
    bw_array_free(x);
}

static void test_convolutions(void **state)
{
    (void)state;
    bw_array *x = counting(DIMS(1, 1, 3, 3)), *w, *b, *y, *l;
    w = f32_array(DIMS(1, 1, 2, 2), (float[]){1, 0, 0, 1}, 4);
    b = f32_array(DIMS(1), (float[]){100}, 1);
    assert_ok(bw_array_conv2d(x, w, b, NULL, &y, &err), err);
    expect(y, DIMS(1, 1, 2, 2), 104, 106, 110, 112);
    bw_conv_options options = {.stride = {2, 2}, .padding = {1, 1}};
    assert_ok(bw_array_conv2d(x, w, NULL, &options, &y, &err), err);
    expect(y, DIMS(1, 1, 2, 2), 0, 2, 6, 12);
    assert_ok(bw_array_conv_transpose2d(x, w, NULL, NULL, &y, &err), err);
    expect(y, DIMS(1, 1, 4, 4), 0, 1, 2, 0, 3, 4, 6, 2, 6, 10, 12, 5, 0, 6, 7, 8);
    options = (bw_conv_options){.dilation = {INT64_MAX, 1}};
    expect_failure(bw_array_conv2d(x, w, NULL, &options, &y, error), y, "conv2d: has no result");
    options = (bw_conv_options){.stride = {-1, 1}};
    expect_failure(bw_array_conv2d(x, w, NULL, &options, &y, error), y, "conv2d");
    expect_failure(bw_array_conv2d(x, w, x, NULL, &y, error), y, "the bias must be [1]");
    expect_failure(bw_array_conv1d(x, w, NULL, NULL, &y, error), y, "need 3 dimensions");
    bw_array_free(w);
    l = counting(DIMS(1, 1, 4));
    w = f32_array(DIMS(1, 1, 2), (float[]){1, 2}, 2);
    assert_ok(bw_array_conv1d(l, w, b, NULL, &y, &err), err);
    expect(y, DIMS(1, 1, 3), 102, 105, 108);
    assert_ok(bw_array_conv_transpose1d(l, w, NULL, NULL, &y, &err), err);
    expect(y, DIMS(1, 1, 5), 0, 1, 4, 7, 6);
    assert_ok(bw_array_im2col1d(l, 3, NULL, &y, &err), err);
    expect(y, DIMS(1, 2, 3), 0, 1, 2, 1, 2, 3);
    bw_array_free(l);
    bw_array_free(w);
    bw_array_free(b);
    assert_ok(bw_array_im2col(x, (int64_t[]){3, 2}, NULL, &y, &err), err);
    expect(y, DIMS(1, 2, 6), 0, 1, 3, 4, 6, 7, 1, 2, 4, 5, 7, 8);
    assert_ok(bw_array_pool2d(x, "max", (int64_t[]){2, 2}, (int64_t[]){1, 1}, &y, &err), err);
    expect(y, DIMS(1, 1, 2, 2), 4, 5, 7, 8);
    assert_ok(bw_array_pool2d(x, "avg", (int64_t[]){2, 2}, (int64_t[]){1, 1}, &y, &err), err);
    expect(y, DIMS(1, 1, 2, 2), 2, 3, 5, 6);
    expect_failure(bw_array_pool2d(x, "avg", (int64_t[]){4, 1}, (int64_t[]){1, 1}, &y, error), y,
                   "no windows of 4 x 1");
    expect_failure(bw_array_pool2d(x, "avg", (int64_t[]){0, 1}, (int64_t[]){1, 1}, &y, error), y,
                   "no windows of 0 x 1");
    expect_failure(bw_array_pool2d(x, "avg", (int64_t[]){1, 1}, (int64_t[]){0, 1}, &y, error), y, "no windows");
    bw_array_free(x);
    x = counting(DIMS(1, 1, 1, 2));
    assert_ok(bw_array_upsample_nearest2d(x, 1, 4, &y, &err), err);
    expect(y, DIMS(1, 1, 1, 4), 0, 0, 1, 1);
    assert_ok(bw_array_upsample_bilinear2d(x, 1, 3, true, &y, &err), err);
    expect(y, DIMS(1, 1, 1, 3), 0, 0.5f, 1);
    expect_failure(bw_array_upsample_nearest2d(x, 0, 4, &y, error), y, "upsample_nearest2d");
    bw_array_free(x);
    x = counting(DIMS(1, 2, 1, 2));
    assert_ok(bw_array_col2im1d(x, 1, &y, &err), err);
    expect(y, DIMS(1, 1, 3), 0, 3, 3);
    bw_array_free(x);
}

static void test_blocks(void **state)
{
    (void)state;
    float row[64], back[64];
    for (int i = 0; i < 64; i++)
        row[i] = (float)(i % 16 - 8);
    bw_array *x = f32_array(DIMS(2, 32), row, 64), *q, *y, *ids, *x3, *q3;
    assert_ok(bw_array_quantise(x, BW_Q8_0, NULL, &q, &err), err);
    assert_int_equal(bw_array_bytes(q), 68);
    assert_ok(bw_array_dequantise(q, BW_F32, &y, &err), err);
    assert_ok(bw_array_read(y, back, sizeof back, &err), err);
    for (int i = 0; i < 64; i++)
        assert_true(fabsf(back[i] - row[i]) < 0.05f);
    bw_array_free(y);
    assert_ok(bw_array_quantised_matmul(x, q, &y, &err), err);
    assert_ok(bw_array_read(y, back, 16, &err), err);
    for (int i = 0; i < 4; i++)
        assert_true(fabsf(back[i] - 688) < 7);
    bw_array_free(y);
    assert_ok(bw_array_from_data(device, BW_I32, DIMS(1), (int32_t[]){1}, 4, &ids, &err), err);
    assert_ok(bw_array_get_rows(q, ids, &y, &err), err);
    assert_int_equal(bw_array_dims(y)[1], 32);
    bw_array_free(y);
    assert_ok(bw_array_write(ids, (int32_t[]){2}, 4, &err), err);
    expect_failure(bw_array_get_rows(q, ids, &y, error), y, "id 0 is 2, outside the table");
    bw_array_free(ids);
    assert_ok(bw_array_from_data(device, BW_U32, DIMS(2, 1), (uint32_t[]){1, 0}, 8, &ids, &err), err);
    assert_ok(bw_array_reshape(q, DIMS(2, 1, 32), &q3, &err), err);
    assert_ok(bw_array_reshape(x, DIMS(2, 1, 32), &x3, &err), err);
    assert_ok(bw_array_indexed_moe(x3, q3, ids, &y, &err), err);
    assert_int_equal(bw_array_n_dims(y), 3);
    assert_ok(bw_array_read(y, back, 8, &err), err);
    assert_true(fabsf(back[0] - 688) < 7);
    bw_array_free(y);
    expect_failure(bw_array_quantise(x, BW_F16, NULL, &y, error), y, "f16 is no block type");
    expect_failure(bw_array_quantised_matmul(x3, q3, &y, error), y, "of a block type");
    bw_array_free(x3);
    bw_array_free(q3);
    bw_array_free(ids);
    bw_array_free(q);
    bw_array_free(x);
}

/* The operations on block types take plain arrays too, of any strides. */
static void test_blocks_strides(void **state)
{
    (void)state;
    bw_array *x = counting(DIMS(2, 3)), *t, *y, *ids, *some, *h;
    assert_ok(bw_array_transpose(x, 0, 1, &t, &err), err);
    assert_ok(bw_array_from_data(device, BW_I32, DIMS(4), (int32_t[]){2, 0, 1, 0}, 16, &ids, &err), err);
    assert_ok(bw_array_get_rows(t, ids, &y, &err), err);
    expect(y, DIMS(4, 2), 2, 5, 0, 3, 1, 4, 0, 3);
    bw_array *pairs, *column;
    assert_ok(bw_array_reshape(ids, DIMS(2, 2), &pairs, &err), err);
    assert_ok(bw_array_narrow(pairs, 1, 0, 1, &column, &err), err);
    assert_ok(bw_array_squeeze(column, 1, &some, &err), err); /* 2, 1 */
    assert_int_equal(bw_array_strides(some)[0], 2);
    assert_ok(bw_array_get_rows(t, some, &y, &err), err);
    expect(y, DIMS(2, 2), 2, 5, 1, 4);
    assert_ok(bw_array_cast(t, BW_F16, &h, &err), err);
    assert_ok(bw_array_dequantise(t, BW_F32, &y, &err), err);
    expect(y, DIMS(3, 2), 0, 3, 1, 4, 2, 5);
    assert_ok(bw_array_dequantise(h, BW_F32, &y, &err), err);
    expect(y, DIMS(3, 2), 0, 3, 1, 4, 2, 5);
    bw_array *i8;
    assert_ok(bw_array_from_data(device, BW_I8, DIMS(3), "\1\377\177", 3, &i8, &err), err);
    assert_ok(bw_array_dequantise(i8, BW_F32, &y, &err), err);
    expect(y, DIMS(3), 1, -1, 127);
    expect_failure(bw_array_cast(i8, BW_F32, &y, error), y, "cast: ");
    bw_array *const all[] = {x, t, ids, pairs, column, some, h, i8};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        bw_array_free(all[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_elementwise),    cmocka_unit_test(test_empty),        cmocka_unit_test(test_products),
        cmocka_unit_test(test_reductions),     cmocka_unit_test(test_means),        cmocka_unit_test(test_indexing),
        cmocka_unit_test(test_convolutions),   cmocka_unit_test(test_error_names),  cmocka_unit_test(test_blocks),
        cmocka_unit_test(test_blocks_strides), cmocka_unit_test(test_nothing_left),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
