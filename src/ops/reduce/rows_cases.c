/* What SOFTMAX, LOG_SOFTMAX, RMSNORM and LAYERNORM are tried with. */
#include "bw_cases.h"
#include "bw_element.h"

static const bw_dtype types[] = {BW_BF16, BW_F16, BW_F32, BW_F64};

/* What a case varies besides op, type and shape. */
typedef struct how {
    bw_case_layout layout;
    double scale, offset; /* x = offset + normal * scale */
    float eps;
    int n_special;
    bool has_w, has_b, in_place;
} how;

static bool is_norm(bw_op op)
{
    return op == BW_OP_RMSNORM || op == BW_OP_LAYERNORM;
}

static void set_tolerance(bw_case *c, bw_op op, bw_dtype dtype, int64_t d, const how *h)
{
    bool wide = dtype == BW_F64;
    if (op == BW_OP_SOFTMAX) /* e^-80 carries 80 times the rounding of x - max; what f32 holds as subnormal becomes 0 */
        bw_case_tolerance(c, d + 2000, 0, wide ? 0 : 1.2e-38);
    else if (op == BW_OP_LOG_SOFTMAX)
        bw_case_tolerance(c, 1, 20, 0);
    else if (op == BW_OP_RMSNORM)
        bw_case_tolerance(c, wide ? d : 1, 0, 0); /* in f32 9 * 2^-23 of each element, whatever D is */
    else if (wide)                                /* x - mean and + b cancel */
        bw_case_tolerance(c, d, 4 + h->offset / (h->scale > 0 ? h->scale : 1), 0);
    else
        bw_case_tolerance(c, 1, 4, 0);
}

static void one(bw_case_sink *sink, bw_op op, bw_dtype dtype, int n_dims, const int64_t *dims, how h)
{
    int64_t d = dims[n_dims - 1];
    bw_case *c = bw_case_begin(sink, op, "%s, %d dims, D %lld, layout %d, scale %g, offset %g%s%s%s",
                               bw_dtype_name(dtype), n_dims, (long long)d, (int)h.layout, h.scale, h.offset,
                               h.has_w ? ", w" : "", h.has_b ? ", b" : "", h.in_place ? ", in place" : "");
    bw_tensor *x = bw_case_in_layout(c, dtype, n_dims, dims, h.layout);
    if (h.offset != 0)
        bw_case_fill_uniform(c, x, h.offset - h.scale, h.offset + h.scale);
    else
        bw_case_fill_normal(c, x, h.scale);
    bw_case_fill_special(c, x, h.n_special);
    for (int i = 1; is_norm(op) && i < (op == BW_OP_LAYERNORM ? 3 : 2); i++) {
        if (i == 1 ? h.has_w : h.has_b)
            bw_case_fill_normal(c, bw_case_in_layout(c, dtype, 1, &d, h.layout), 1);
        else
            bw_case_in_absent(c);
    }
    if (h.in_place)
        bw_case_out_alias(c, 0);
    else
        bw_case_out(c, dtype, n_dims, dims);
    if (is_norm(op))
        bw_case_params(c, &h.eps, sizeof h.eps);
    set_tolerance(c, op, dtype, d, &h);
    bw_case_run(c);
}

static void shapes(bw_case_sink *sink, bw_op op, bw_dtype dtype)
{
    static const int64_t sizes[] = {1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 127, 512, 513, 576, 2048, 8191};
    int n_dims;
    int64_t dims[BW_MAX_DIMS];
    how h = {.scale = 1, .eps = 1e-5f};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        h.has_w = i % 2;
        h.has_b = i % 3 == 0;
        h.in_place = i % 4 == 3;
        one(sink, op, dtype, 2, (int64_t[]){3, sizes[i]}, h);
    }
    for (int i = 0; bw_cases_shape(i, &n_dims, dims); i++)
        for (int layout = 0; layout < BW_CASE_N_LAYOUTS && n_dims > 0; layout++)
            one(sink, op, dtype, n_dims, dims,
                (how){.layout = (bw_case_layout)layout, .scale = 1, .eps = 1e-3f, .has_w = i % 3 != 0, .has_b = i % 2});
    one(sink, op, dtype, 2, (int64_t[]){33, 576}, (how){.scale = 1, .eps = 1e-5f, .has_w = true, .has_b = true});
    one(sink, op, dtype, 2, (int64_t[]){9, 64}, (how){.scale = 1, .eps = 1e-6f, .n_special = 7, .has_w = true});
    one(sink, op, dtype, 2, (int64_t[]){5, 576}, (how){.scale = 0, .eps = 1e-6f});
    one(sink, op, dtype, 2, (int64_t[]){9, 700}, (how){.scale = 1, .offset = 30, .eps = 1e-5f});
    for (int k = 0; k < bw_cases_n_random(sink); k++)
        one(sink, op, dtype, 2, (int64_t[]){bw_cases_between(sink, 1, 50), bw_cases_between(sink, 1, 3000)},
            (how){.layout = (bw_case_layout)bw_cases_between(sink, 0, 2),
                  .scale = 3,
                  .eps = 1e-5f,
                  .n_special = (int)bw_cases_between(sink, 0, 3),
                  .has_w = bw_cases_between(sink, 0, 1),
                  .has_b = bw_cases_between(sink, 0, 1)});
}

/* A 0 beside dimensions whose product is impossible. */
static void nothing(bw_case_sink *sink, bw_op op)
{
    const int64_t dims[] = {(int64_t)1 << 40, (int64_t)1 << 40, 0};
    for (int wide = 0; wide < 2; wide++) {
        bw_dtype dtype = wide ? BW_F64 : BW_F32;
        bw_case *c = bw_case_begin(sink, op, "%s, no elements of impossibly many", bw_dtype_name(dtype));
        bw_case_in(c, dtype, 3, dims);
        for (int i = 1; is_norm(op) && i < (op == BW_OP_LAYERNORM ? 3 : 2); i++)
            bw_case_in_absent(c);
        bw_case_out(c, dtype, 3, dims);
        if (is_norm(op))
            bw_case_params(c, &(float){1e-5f}, sizeof(float));
        bw_case_run(c);
    }
}

static void refuse(bw_case_sink *sink, bw_op op, const char *why, bw_dtype dtype, int64_t d_out, int64_t d_w, float eps)
{
    bw_case *c = bw_case_begin(sink, op, "%s", why);
    bw_case_in(c, dtype, 2, (int64_t[]){2, 8});
    for (int i = 1; is_norm(op) && i < (op == BW_OP_LAYERNORM ? 3 : 2); i++)
        bw_case_in(c, dtype, 1, (int64_t[]){d_w});
    bw_case_out(c, dtype, 2, (int64_t[]){2, d_out});
    if (is_norm(op))
        bw_case_params(c, &eps, sizeof eps);
    bw_case_refuse(c);
}

static void cases(bw_case_sink *sink, bw_op op)
{
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        shapes(sink, op, types[t]);
    nothing(sink, op);
    for (int k = 0; k < 8; k++) { /* an output that is not contiguous */
        static const int64_t dims[] = {3, 7, 67};
        how h = {.scale = 1, .eps = 1e-5f, .has_w = true};
        bw_case *c = bw_case_begin(sink, op, "%s, a strided output %d", bw_dtype_name(types[k / 2]), k % 2);
        bw_case_fill_normal(c, bw_case_in(c, types[k / 2], 3, dims), 1);
        if (is_norm(op))
            bw_case_fill_normal(c, bw_case_in(c, types[k / 2], 1, dims + 2), 1);
        if (op == BW_OP_LAYERNORM)
            bw_case_in_absent(c);
        bw_case_out_layout(c, types[k / 2], 3, dims, k % 2 ? BW_CASE_TRANSPOSED : BW_CASE_GAPS);
        if (is_norm(op))
            bw_case_params(c, &h.eps, sizeof h.eps);
        set_tolerance(c, op, types[k / 2], 67, &h);
        bw_case_run(c);
    }
    refuse(sink, op, "another shape", BW_F32, 7, 8, 1e-5f);
    refuse(sink, op, "an integer", BW_I64, 8, 8, 1e-5f);
    if (!is_norm(op))
        return;
    refuse(sink, op, "a weight of another length", BW_F32, 8, 9, 1e-5f);
    refuse(sink, op, "an eps below 0", BW_F32, 8, 8, -1);
    /* factors that f32 does not hold, and differences */
    static const float wild[][4] = {{1e-39f, 1e-39f, 1e-39f, 1e-39f},
                                    {1e-39f, -3e-39f, 1e-45f, 0},
                                    {3e38f, -3e38f, -3e38f, -3e38f},
                                    {1e38f, -3e38f, 2e38f, 3e38f}};
    for (size_t i = 0; i < sizeof wild / sizeof *wild; i++)
        for (int t = 0; t < 3; t++) {
            bw_dtype dtype = t == 0 ? BW_F32 : t == 1 ? BW_BF16 : BW_F64;
            bw_case *c = bw_case_begin(sink, op, "%s, extreme %d", bw_dtype_name(dtype), (int)i);
            bw_tensor *x = bw_case_in(c, dtype, 2, (int64_t[]){3, 20});
            for (int64_t k = 0; k < 60; k++)
                bw_element_set_f64(dtype, x->data, k, (double)wild[i][k % 4]);
            bw_case_fill_normal(c, bw_case_in(c, dtype, 1, (int64_t[]){20}), 1);
            if (op == BW_OP_LAYERNORM)
                bw_case_fill_normal(c, bw_case_in(c, dtype, 1, (int64_t[]){20}), 1);
            bw_case_out(c, dtype, 2, (int64_t[]){3, 20});
            bw_case_params(c, &(float){0}, sizeof(float));
            bw_case_tolerance(c, 20, op == BW_OP_LAYERNORM ? 4 : 0, 0);
            bw_case_run(c);
        }
    how h = {.eps = 1e-6f, .has_w = true, .has_b = true};
    for (int k = 0; k < 3; k++) {
        h.scale = k == 0 ? 1e15 : k == 1 ? 1e-18 : 1e-3; /* squares beyond f32, below it */
        one(sink, op, BW_F32, 2, (int64_t[]){5, 576}, h);
        one(sink, op, BW_F64, 2, (int64_t[]){5, 576}, h);
    }
    /* heads inside a wider row; rows no stride joins */
    static const int64_t dims[2][3] = {{29, 3, 64}, {5, 3, 30}}, strides[2][3] = {{960, 64, 1}, {300, 37, 1}};
    for (int k = 0; k < 2; k++) {
        bw_case *c = bw_case_begin(sink, op, "strided %d", k);
        bw_case_fill_normal(c, bw_case_in_strided(c, BW_F32, 3, dims[k], strides[k]), 1);
        bw_case_fill_normal(c, bw_case_in(c, BW_F32, 1, &dims[k][2]), 1);
        if (op == BW_OP_LAYERNORM)
            bw_case_in_absent(c);
        bw_case_out(c, BW_F32, 3, dims[k]);
        bw_case_params(c, &(float){1e-5f}, sizeof(float));
        bw_case_tolerance(c, 1, op == BW_OP_LAYERNORM ? 4 : 0, 0);
        bw_case_run(c);
    }
}

void bw_op_softmax_cases(bw_case_sink *sink)
{
    cases(sink, BW_OP_SOFTMAX);
}

void bw_op_log_softmax_cases(bw_case_sink *sink)
{
    cases(sink, BW_OP_LOG_SOFTMAX);
}

void bw_op_rmsnorm_cases(bw_case_sink *sink)
{
    cases(sink, BW_OP_RMSNORM);
}

void bw_op_layernorm_cases(bw_case_sink *sink)
{
    cases(sink, BW_OP_LAYERNORM);
}
