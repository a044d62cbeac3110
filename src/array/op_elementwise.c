/* Elementwise operations and products. Refuses unknown names; types and shapes are the ops' to refuse. */
#include <stdio.h>
#include <string.h>

#include "array.h"

/* Whether `op` is one of the words of a list like " add sub ". */
static bool is_in(const char *op, const char *list)
{
    char word[32];
    int n = snprintf(word, sizeof word, " %s ", op);
    return n > 2 && n < (int)sizeof word && !strchr(op, ' ') && strstr(list, word);
}

static bw_status unary(const bw_array *x, const char *op, const char *list, const void *params, bw_array **out,
                       bw_err *err)
{
    char name[32];
    *out = NULL;
    if (!is_in(op, list))
        return array_fail(err, "unary", x, "there is no operation \"%.40s\" among%s", op, list);
    snprintf(name, sizeof name, "u%s", op);
    array_call call = {.op = name, .name = op, .n_in = 1, .in = {x}, .params = params};
    return array_call_new(&call, x->t.dtype, x->t.n_dims, x->t.dims, out, err);
}

bw_status bw_array_unary(const bw_array *x, const char *op, bw_array **out, bw_err *err)
{
    return unary(x, op,
                 " neg recip exp log sin cos tanh erf ceil floor round normcdf abs sqr sqrt gelu gelu_erf relu silu "
                 "sign sigmoid ",
                 NULL, out, err);
}

bw_status bw_array_unary_param(const bw_array *x, const char *op, double param, bw_array **out, bw_err *err)
{
    return unary(x, op, " elu powf ", &(bw_unary_params){param}, out, err);
}

static bw_status binary(const bw_array *a, const char *op, const char *prefix, const char *list, const bw_array *b,
                        bw_dtype dtype, bw_array **out, bw_err *err)
{
    char name[32];
    bw_shape shape;
    *out = NULL;
    if (!is_in(op, list))
        return array_fail(err, "binary", a, "there is no operation \"%.40s\" among%s", op, list);
    BW_TRY(array_common_shape(op, a, b, &shape, err));
    snprintf(name, sizeof name, "%s%s", prefix, op);
    array_call call = {.op = name, .name = op, .n_in = 2, .in = {a, b}};
    return array_call_new(&call, dtype, shape.n_dims, shape.dims, out, err);
}

bw_status bw_array_binary(const bw_array *a, const char *op, const bw_array *b, bw_array **out, bw_err *err)
{
    return binary(a, op, "b", " add sub mul div maximum minimum ", b, a->t.dtype, out, err);
}

bw_status bw_array_compare(const bw_array *a, const char *op, const bw_array *b, bw_array **out, bw_err *err)
{
    return binary(a, op, "", " eq ne lt le gt ge ", b, BW_U8, out, err);
}

bw_status bw_array_where(const bw_array *condition, const bw_array *a, const bw_array *b, bw_array **out, bw_err *err)
{
    bw_shape shape, all;
    *out = NULL;
    BW_TRY(array_common_shape("where", a, b, &shape, err));
    bw_array values = {.t = {.dtype = a->t.dtype, .n_dims = shape.n_dims}};
    memcpy(values.t.dims, shape.dims, sizeof shape.dims);
    BW_TRY(array_common_shape("where", condition, &values, &all, err));
    array_call call = {.op = "where", .n_in = 3, .in = {condition, a, b}};
    return array_call_new(&call, a->t.dtype, all.n_dims, all.dims, out, err);
}

bw_status bw_array_affine(const bw_array *x, double mul, double add, bw_array **out, bw_err *err)
{
    array_call call = {.op = "affine", .n_in = 1, .in = {x}, .params = &(bw_affine_params){mul, add}};
    return array_call_new(&call, x->t.dtype, x->t.n_dims, x->t.dims, out, err);
}

bw_status bw_array_glu(const bw_array *gate, const char *act, const bw_array *up, bw_array **out, bw_err *err)
{
    bw_glu_params params = {BW_ACTIVATION_SILU};
    *out = NULL;
    if (strcmp(act, "gelu") == 0)
        params.activation = BW_ACTIVATION_GELU_TANH;
    else if (strcmp(act, "gelu_erf") == 0)
        params.activation = BW_ACTIVATION_GELU_ERF;
    else if (strcmp(act, "silu") != 0)
        return array_fail(err, "glu", gate, "there is no activation \"%.40s\" among silu gelu gelu_erf", act);
    array_call call = {.op = "glu", .n_in = 2, .in = {gate, up}, .params = &params};
    return array_call_new(&call, gate->t.dtype, gate->t.n_dims, gate->t.dims, out, err);
}

bw_status bw_array_matmul(const bw_array *a, const bw_array *b, bw_array **out, bw_err *err)
{
    *out = NULL;
    if (a->t.n_dims < 2 || b->t.n_dims < 2) {
        char text_a[128], text_b[128];
        return bw_fail(err, BW_E_ARG, "matmul: both need at least two dimensions; in0 %s, in1 %s",
                       bw_tensor_describe(&a->t, text_a, sizeof text_a),
                       bw_tensor_describe(&b->t, text_b, sizeof text_b));
    }
    /* the leading dimensions alone */
    bw_array leading_a = *a, leading_b = *b;
    bw_shape shape;
    leading_a.t.n_dims -= 2;
    leading_b.t.n_dims -= 2;
    BW_TRY(array_common_shape("matmul", &leading_a, &leading_b, &shape, err));
    shape.dims[shape.n_dims] = a->t.dims[a->t.n_dims - 2];
    shape.dims[shape.n_dims + 1] = b->t.dims[b->t.n_dims - 1];
    /* what cannot hold such sums gives the type that does */
    bw_dtype dtype = a->t.dtype == BW_F8_E4M3 ? BW_F32 : a->t.dtype == BW_I8 ? BW_I32 : a->t.dtype;
    array_call call = {.op = "matmul", .n_in = 2, .in = {a, b}};
    return array_call_new(&call, dtype, shape.n_dims + 2, shape.dims, out, err);
}
