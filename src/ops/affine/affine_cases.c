/* What AFFINE is tried with. */
#include "bw_cases.h"
#include "bw_element.h"

static const bw_dtype types[] = {BW_BF16, BW_F16, BW_F32, BW_F64, BW_U8, BW_U32, BW_I16, BW_I32, BW_F8_E4M3, BW_I64};
enum { N_TYPES = sizeof types / sizeof *types };

static void one(bw_case_sink *sink, bw_dtype dtype, int n_dims, const int64_t *dims, bw_case_layout layout, double mul,
                double add, int n_special)
{
    bw_case *c = bw_case_begin(sink, BW_OP_AFFINE, "%s, %d dims, layout %d, mul %g, add %g", bw_dtype_name(dtype),
                               n_dims, (int)layout, mul, add);
    bw_tensor *x = bw_case_in_layout(c, dtype, n_dims, dims, layout);
    bw_case_fill_normal(c, x, 1);
    bw_case_fill_special(c, x, n_special);
    bw_case_out(c, dtype, n_dims, dims);
    bw_case_params(c, &(bw_affine_params){mul, add}, sizeof(bw_affine_params));
    bw_case_tolerance(c, 1, add < 0 ? -add : add, 0);
    bw_case_run(c);
}

void bw_op_affine_cases(bw_case_sink *sink)
{
    int n_dims;
    int64_t dims[6];
    for (int t = 0; t < N_TYPES; t++)
        for (int i = 0; bw_cases_shape(i, &n_dims, dims); i++)
            for (int layout = 0; layout < BW_CASE_N_LAYOUTS; layout++)
                one(sink, types[t], n_dims, dims, (bw_case_layout)layout, 1.5, -0.25, i * 2);
    for (int k = 0; k < bw_cases_n_random(sink); k++)
        one(sink, types[bw_cases_between(sink, 0, N_TYPES - 1)], 3,
            (int64_t[]){bw_cases_between(sink, 1, 9), bw_cases_between(sink, 1, 9), bw_cases_between(sink, 1, 700)},
            (bw_case_layout)bw_cases_between(sink, 0, BW_CASE_N_LAYOUTS - 1), bw_rng_normal(bw_cases_rng(sink)) * 10,
            bw_rng_normal(bw_cases_rng(sink)) * 10, (int)bw_cases_between(sink, 0, 20));

    /* beyond f32, below it, and not in it */
    static const double wild[] = {1e39, -1e39, 1e-50, 0.1, 1 + 0x1p-30};
    for (int t = 0; t < N_TYPES; t++)
        for (size_t i = 0; i < sizeof wild / sizeof *wild; i++) {
            if (bw_dtype_is_integer(types[t]))
                continue;
            one(sink, types[t], 1, (int64_t[]){67}, BW_CASE_CONTIGUOUS, wild[i], 0, 9);
            one(sink, types[t], 1, (int64_t[]){67}, BW_CASE_CONTIGUOUS, 0, wild[i], 0);
        }

    bw_case *c = bw_case_begin(sink, BW_OP_AFFINE, "strided, in place");
    bw_case_fill_normal(c, bw_case_in_strided(c, BW_F32, 2, (int64_t[]){37, 100}, (int64_t[]){300, 1}), 1);
    bw_case_out_alias(c, 0);
    bw_case_params(c, &(bw_affine_params){-2, 0.5}, sizeof(bw_affine_params));
    bw_case_tolerance(c, 1, 1, 0);
    bw_case_run(c);

    c = bw_case_begin(sink, BW_OP_AFFINE, "into gaps");
    bw_case_fill_normal(c, bw_case_in(c, BW_BF16, 2, (int64_t[]){37, 101}), 1);
    bw_case_out_strided(c, BW_BF16, 2, (int64_t[]){37, 101}, (int64_t[]){2, 80});
    bw_case_params(c, &(bw_affine_params){-2, 0.5}, sizeof(bw_affine_params));
    bw_case_tolerance(c, 1, 1, 0);
    bw_case_run(c);

    c = bw_case_begin(sink, BW_OP_AFFINE, "no elements of impossibly many");
    bw_case_in(c, BW_F32, 3, (int64_t[]){(int64_t)1 << 40, (int64_t)1 << 40, 0});
    bw_case_out(c, BW_F32, 3, (int64_t[]){(int64_t)1 << 40, (int64_t)1 << 40, 0});
    bw_case_params(c, &(bw_affine_params){-2, 0.5}, sizeof(bw_affine_params));
    bw_case_run(c);

    static const int64_t overlapping[][2] = {{0, 1}, {1, 1}, {4, 2}, {1, 0}};
    for (size_t i = 0; i < sizeof overlapping / sizeof *overlapping; i++) {
        c = bw_case_begin(sink, BW_OP_AFFINE, "output of strides %d, %d", (int)overlapping[i][0],
                          (int)overlapping[i][1]);
        bw_case_in(c, BW_F32, 2, (int64_t[]){4, 5});
        bw_case_out_strided(c, BW_F32, 2, (int64_t[]){4, 5}, overlapping[i]);
        bw_case_params(c, &(bw_affine_params){-2, 0.5}, sizeof(bw_affine_params));
        bw_case_refuse(c);
    }
    c = bw_case_begin(sink, BW_OP_AFFINE, "dimensions of 1, whatever their strides");
    bw_case_fill_normal(c, bw_case_in(c, BW_F32, 4, (int64_t[]){1, 3, 1, 700}), 1);
    bw_case_out_strided(c, BW_F32, 4, (int64_t[]){1, 3, 1, 700}, (int64_t[]){0, 2, 1, 7});
    bw_case_params(c, &(bw_affine_params){-2, 0.5}, sizeof(bw_affine_params));
    bw_case_tolerance(c, 1, 1, 0);
    bw_case_run(c);

    c = bw_case_begin(sink, BW_OP_AFFINE, "other output shape");
    bw_case_in(c, BW_F32, 1, (int64_t[]){4});
    bw_case_out(c, BW_F32, 1, (int64_t[]){5});
    bw_case_params(c, &(bw_affine_params){1, 1}, sizeof(bw_affine_params));
    bw_case_refuse(c);
    c = bw_case_begin(sink, BW_OP_AFFINE, "other output type");
    bw_case_in(c, BW_F16, 1, (int64_t[]){4});
    bw_case_out(c, BW_F32, 1, (int64_t[]){4});
    bw_case_params(c, &(bw_affine_params){1, 1}, sizeof(bw_affine_params));
    bw_case_refuse(c);
    c = bw_case_begin(sink, BW_OP_AFFINE, "quantised");
    bw_case_in(c, BW_Q8_0, 1, (int64_t[]){32});
    bw_case_out(c, BW_Q8_0, 1, (int64_t[]){32});
    bw_case_params(c, &(bw_affine_params){1, 1}, sizeof(bw_affine_params));
    bw_case_refuse(c);
    c = bw_case_begin(sink, BW_OP_AFFINE, "no params");
    bw_case_in(c, BW_F32, 1, (int64_t[]){4});
    bw_case_out(c, BW_F32, 1, (int64_t[]){4});
    bw_case_refuse(c);
}
