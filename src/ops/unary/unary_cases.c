/* What the unary family is tried with. */
#include <math.h>

#include "bw_cases.h"

static const bw_dtype floats[] = {BW_F32, BW_BF16, BW_F16, BW_F64, BW_F8_E4M3};
static const bw_dtype all[] = {BW_F32, BW_BF16, BW_F16, BW_F64, BW_F8_E4M3, BW_U8, BW_U32, BW_I16, BW_I32, BW_I64};
enum { N_FLOATS = sizeof floats / sizeof *floats, N_ALL = sizeof all / sizeof *all };

/* What a function's row in unary.def says. */
typedef struct function {
    bw_op op;
    bool has_param, is_exact;
    double magnitude, step;
} function;

static bw_case *begin(bw_case_sink *sink, const function *f, const char *what, bw_dtype dtype, double param)
{
    bw_case *c = bw_case_begin(sink, f->op, "%s %s, param %g", what, bw_dtype_name(dtype), param);
    if (f->has_param)
        bw_case_params(c, &(bw_unary_params){param}, sizeof(bw_unary_params));
    if (f->is_exact)
        bw_case_exact(c);
    else
        bw_case_tolerance(c, 1, f->magnitude, f->step);
    return c;
}

static void one(bw_case_sink *sink, const function *f, bw_dtype dtype, int n_dims, const int64_t *dims,
                bw_case_layout layout, double param, double scale, int n_special)
{
    static const char *const names[] = {"contiguous", "transposed", "gaps", "broadcast"};
    bw_case *c = begin(sink, f, names[layout], dtype, param);
    bw_tensor *x = bw_case_in_layout(c, dtype, n_dims, dims, layout);
    bw_case_fill_normal(c, x, scale);
    bw_case_fill_special(c, x, n_special);
    bw_case_out(c, dtype, n_dims, dims);
    bw_case_run(c);
}

/* The function's own error: steps of 1/1000 around 0, then every magnitude of f32 with both signs. */
static void sweep(bw_case_sink *sink, const function *f, double param)
{
    enum { NEAR = 40001, N = NEAR + 2 * 4 * 280 };
    bw_case *c = begin(sink, f, "a sweep of", BW_F32, param);
    bw_tensor *x = bw_case_in(c, BW_F32, 1, (int64_t[]){N});
    float *values = x->data;
    for (int i = 0; i < NEAR; i++)
        values[i] = (float)(i - NEAR / 2) * 1e-3f;
    for (int i = NEAR; i < N; i++) {
        float v = ldexpf(1 + (float)(i / 2 % 4) * 0.2371f, (i - NEAR) / 8 - 149);
        values[i] = i % 2 ? -v : v;
    }
    bw_case_out(c, BW_F32, 1, (int64_t[]){N});
    bw_case_run(c);
}

static void refuse(bw_case_sink *sink, const function *f)
{
    bw_case *c = begin(sink, f, "other output shape", BW_F32, 1);
    bw_case_in(c, BW_F32, 1, (int64_t[]){4});
    bw_case_out(c, BW_F32, 1, (int64_t[]){5});
    bw_case_refuse(c);
    c = begin(sink, f, "other output type", BW_F32, 1);
    bw_case_in(c, BW_F32, 1, (int64_t[]){4});
    bw_case_out(c, BW_F16, 1, (int64_t[]){4});
    bw_case_refuse(c);
    c = begin(sink, f, "quantised", BW_Q8_0, 1);
    bw_case_in(c, BW_Q8_0, 1, (int64_t[]){32});
    bw_case_out(c, BW_Q8_0, 1, (int64_t[]){32});
    bw_case_refuse(c);
    c = begin(sink, f, "no input", BW_F32, 1);
    bw_case_in_absent(c);
    bw_case_out(c, BW_F32, 1, (int64_t[]){4});
    bw_case_refuse(c);
    if (f->has_param) {
        c = bw_case_begin(sink, f->op, "no params");
        bw_case_in(c, BW_F32, 1, (int64_t[]){4});
        bw_case_out(c, BW_F32, 1, (int64_t[]){4});
        bw_case_refuse(c);
    }
    if (f->op != BW_OP_UCOPY) {
        c = begin(sink, f, "integers", BW_I32, 1);
        bw_case_in(c, BW_I32, 1, (int64_t[]){4});
        bw_case_out(c, BW_I32, 1, (int64_t[]){4});
        bw_case_refuse(c);
    }
}

static void cases(bw_case_sink *sink, const function *f, int n_types, const bw_dtype *types)
{
    static const double params[] = {1, 0.5, 2, -1.5, 3, 0, 0.3};
    enum { N_PARAMS = sizeof params / sizeof *params };
    int n_dims, k = 0;
    int64_t dims[6];
    for (int t = 0; t < n_types; t++)
        for (int i = 0; bw_cases_shape(i, &n_dims, dims); i++)
            for (int layout = 0; layout < BW_CASE_N_LAYOUTS; layout++, k++)
                one(sink, f, types[t], n_dims, dims, (bw_case_layout)layout, params[k % N_PARAMS], 2, i * 2);
    for (int i = 0; i < bw_cases_n_random(sink); i++)
        one(sink, f, types[bw_cases_between(sink, 0, n_types - 1)], 3,
            (int64_t[]){bw_cases_between(sink, 1, 9), bw_cases_between(sink, 1, 9), bw_cases_between(sink, 1, 700)},
            (bw_case_layout)bw_cases_between(sink, 0, BW_CASE_N_LAYOUTS - 1), bw_rng_normal(bw_cases_rng(sink)) * 2,
            bw_rng_f64(bw_cases_rng(sink)) * 30, (int)bw_cases_between(sink, 0, 20));
    for (int i = 0; i < (f->has_param ? N_PARAMS : 1); i++)
        sweep(sink, f, params[i]);

    bw_case *c = begin(sink, f, "into gaps", BW_BF16, 2);
    bw_case_fill_normal(c, bw_case_in(c, BW_BF16, 2, (int64_t[]){37, 101}), 1);
    bw_case_out_strided(c, BW_BF16, 2, (int64_t[]){37, 101}, (int64_t[]){2, 80});
    bw_case_run(c);
    if (f->op != BW_OP_UCOPY) {
        c = begin(sink, f, "strided, in place", BW_F32, 2);
        bw_case_fill_normal(c, bw_case_in_strided(c, BW_F32, 2, (int64_t[]){37, 100}, (int64_t[]){300, 1}), 1);
        bw_case_out_alias(c, 0);
        bw_case_run(c);
        c = begin(sink, f, "large values, in place", BW_F32, 2);
        bw_tensor *x = bw_case_in(c, BW_F32, 1, (int64_t[]){9001});
        bw_case_fill_normal(c, x, 2e6);
        bw_case_fill_special(c, x, 90);
        bw_case_out_alias(c, 0);
        bw_case_run(c);
    }
    refuse(sink, f);
}

/* Permuted inputs with edges around the sizes of tiles, and copies that go past the caches. */
static void copies(bw_case_sink *sink)
{
    static const struct {
        int64_t dims[4], strides[4];
    } shapes[] = {{{1, 1, 65, 129}, {0, 0, 1, 65}},         {{1, 1, 200, 9}, {0, 0, 1, 200}},
                  {{3, 2, 64, 64}, {8192, 4096, 1, 64}},    {{2, 70, 3, 67}, {70, 1, 9380, 140}},
                  {{5, 1, 8, 31}, {1, 1, 155, 5}},          {{33, 17, 10, 11}, {1, 33, 561, 5610}},
                  {{2, 3, 130, 70}, {27300, 9100, 0, 130}}, {{9, 1, 65, 64}, {4160, 1, 2, 260}}};
    for (int t = 0; t < N_ALL; t++)
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
            bw_case *c = bw_case_begin(sink, BW_OP_UCOPY, "permuted %d %s", (int)i, bw_dtype_name(all[t]));
            bw_case_fill_normal(c, bw_case_in_strided(c, all[t], 4, shapes[i].dims, shapes[i].strides), 50);
            const int64_t *d = shapes[i].dims, row = d[3] + 5, plane = row * d[2];
            if (i % 2)
                bw_case_out_strided(c, all[t], 4, d, (int64_t[]){plane * d[1] + 3, plane, row, 1});
            else
                bw_case_out(c, all[t], 4, shapes[i].dims);
            bw_case_exact(c);
            bw_case_run(c);
        }
    for (int64_t step = 1; step < 3 && bw_cases_n_random(sink); step++) {
        static const int64_t dims[] = {(1 << 12) + 7, 1 << 10};
        bw_case *c = bw_case_begin(sink, BW_OP_UCOPY, "32 MiB, step %d", (int)step);
        bw_tensor *x = bw_case_in_strided(c, BW_F64, 2, dims, (int64_t[]){0, step});
        bw_case_fill_uniform(c, x, -9, 9);
        bw_case_out(c, BW_F64, 2, dims);
        bw_case_exact(c);
        bw_case_run(c);
    }
}

void bw_op_ucopy_cases(bw_case_sink *sink)
{
    cases(sink, &(function){BW_OP_UCOPY, false, true, 0, 0}, N_ALL, all);
    copies(sink);
}

#define BW_UNARY(NAME, name, has_param, f64, vector, limit, is_exact, magnitude, step, formula)                        \
    void bw_op_##name##_cases(bw_case_sink *sink)                                                                      \
    {                                                                                                                  \
        cases(sink, &(function){BW_OP_##NAME, has_param, is_exact, magnitude, step}, N_FLOATS, floats);                \
    }
#include "unary/unary.def"
#undef BW_UNARY
