/* What AFFINE is tried with. */
#include "bw_cases.h"

static void one(bw_case_sink *sink, int n_dims, const int64_t *dims, float mul, float add, int n_special)
{
    bw_case *c = bw_case_begin(sink, BW_OP_AFFINE, "%d dims, last %lld, mul %g, add %g", n_dims,
                               (long long)dims[n_dims - 1], (double)mul, (double)add);
    bw_tensor *x = bw_case_in(c, BW_F32, n_dims, dims);
    bw_case_fill_normal(c, x, 1);
    bw_case_fill_special(c, x, n_special);
    bw_case_out(c, BW_F32, n_dims, dims);
    bw_case_params(c, &(bw_affine_params){mul, add}, sizeof(bw_affine_params));
    bw_case_tolerance(c, 1, (double)(add < 0 ? -add : add), 0);
    bw_case_run(c);
}

void bw_op_affine_cases(bw_case_sink *sink)
{
    static const int64_t sizes[] = {1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 127, 1000, 8209};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        one(sink, 1, &sizes[i], 1.5f, -0.25f, 0);
    one(sink, 2, (int64_t[]){5, 576}, 27.7128f, 0, 9);
    one(sink, 4, (int64_t[]){2, 3, 5, 7}, 0, 1, 0);
    one(sink, 2, (int64_t[]){0, 64}, 2, 1, 0);
    one(sink, 2, (int64_t[]){64, 0}, 2, 1, 0);
    for (int k = 0; k < bw_cases_n_random(sink); k++)
        one(sink, 3,
            (int64_t[]){bw_cases_between(sink, 1, 9), bw_cases_between(sink, 1, 9), bw_cases_between(sink, 1, 700)},
            (float)bw_rng_normal(bw_cases_rng(sink)), (float)bw_rng_normal(bw_cases_rng(sink)),
            (int)bw_cases_between(sink, 0, 20));

    bw_case *c = bw_case_begin(sink, BW_OP_AFFINE, "strided, in place");
    bw_case_fill_normal(c, bw_case_in_strided(c, BW_F32, 2, (int64_t[]){37, 100}, (int64_t[]){300, 1}), 1);
    bw_case_out_alias(c, 0);
    bw_case_params(c, &(bw_affine_params){-2, 0.5f}, sizeof(bw_affine_params));
    bw_case_tolerance(c, 1, 1, 0);
    bw_case_run(c);

    c = bw_case_begin(sink, BW_OP_AFFINE, "other output shape");
    bw_case_in(c, BW_F32, 1, (int64_t[]){4});
    bw_case_out(c, BW_F32, 1, (int64_t[]){5});
    bw_case_params(c, &(bw_affine_params){1, 1}, sizeof(bw_affine_params));
    bw_case_refuse(c);
    c = bw_case_begin(sink, BW_OP_AFFINE, "f16 input");
    bw_case_in(c, BW_F16, 1, (int64_t[]){4});
    bw_case_out(c, BW_F32, 1, (int64_t[]){4});
    bw_case_params(c, &(bw_affine_params){1, 1}, sizeof(bw_affine_params));
    bw_case_refuse(c);
    c = bw_case_begin(sink, BW_OP_AFFINE, "no params");
    bw_case_in(c, BW_F32, 1, (int64_t[]){4});
    bw_case_out(c, BW_F32, 1, (int64_t[]){4});
    bw_case_refuse(c);
}
