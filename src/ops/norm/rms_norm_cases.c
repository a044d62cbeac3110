/* What RMS_NORM is tried with. */
#include "bw_cases.h"

static void one(bw_case_sink *sink, int n_dims, const int64_t *dims, const int64_t *strides, double scale, float eps,
                int n_special)
{
    int64_t d = dims[n_dims - 1];
    bw_case *c = bw_case_begin(sink, BW_OP_RMS_NORM, "%d dims, D %lld, scale %g%s", n_dims, (long long)d, scale,
                               strides ? ", strided" : "");
    bw_tensor *x = strides ? bw_case_in_strided(c, BW_F32, n_dims, dims, strides) : bw_case_in(c, BW_F32, n_dims, dims);
    bw_tensor *w = bw_case_in(c, BW_F32, 1, &d);
    bw_case_fill_normal(c, x, scale);
    bw_case_fill_normal(c, w, 1);
    bw_case_fill_special(c, x, n_special);
    bw_case_out(c, BW_F32, n_dims, dims);
    bw_case_params(c, &(bw_rms_norm_params){eps}, sizeof(bw_rms_norm_params));
    bw_case_tolerance(c, 1, 0, 0); /* 9 * 2^-23 of each element, whatever D is */
    bw_case_run(c);
}

void bw_op_rms_norm_cases(bw_case_sink *sink)
{
    static const int64_t sizes[] = {1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 127, 576, 2048, 8191};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        one(sink, 2, (int64_t[]){1, sizes[i]}, NULL, 1, 1e-5f, 0);
    one(sink, 2, (int64_t[]){33, 576}, NULL, 1, 1e-5f, 0);
    one(sink, 2, (int64_t[]){5, 576}, NULL, 1e15, 1e-5f, 0); /* squares beyond f32 */
    one(sink, 2, (int64_t[]){5, 576}, NULL, 1e-18, 1e-6f, 0);
    one(sink, 2, (int64_t[]){5, 576}, NULL, 0, 1e-6f, 0);
    one(sink, 2, (int64_t[]){9, 64}, NULL, 1, 1e-6f, 7);
    one(sink, 1, (int64_t[]){100}, NULL, 1, 1e-6f, 0);
    one(sink, 2, (int64_t[]){0, 64}, NULL, 1, 1e-6f, 0);
    one(sink, 3, (int64_t[]){7, 4, 256}, NULL, 1, 1e-6f, 0);
    one(sink, 3, (int64_t[]){29, 3, 64}, (int64_t[]){960, 64, 1}, 1, 1e-6f, 0); /* heads inside a wider row */
    one(sink, 3, (int64_t[]){5, 3, 30}, (int64_t[]){300, 37, 1}, 1, 1e-6f, 0);
    for (int k = 0; k < bw_cases_n_random(sink); k++)
        one(sink, 2, (int64_t[]){bw_cases_between(sink, 1, 50), bw_cases_between(sink, 1, 3000)}, NULL, 3, 1e-5f,
            (int)bw_cases_between(sink, 0, 3));

    bw_case *c = bw_case_begin(sink, BW_OP_RMS_NORM, "in place");
    bw_case_fill_normal(c, bw_case_in(c, BW_F32, 2, (int64_t[]){6, 100}), 1);
    bw_case_fill_normal(c, bw_case_in(c, BW_F32, 1, (int64_t[]){100}), 1);
    bw_case_out_alias(c, 0);
    bw_case_params(c, &(bw_rms_norm_params){1e-5f}, sizeof(bw_rms_norm_params));
    bw_case_run(c);
    c = bw_case_begin(sink, BW_OP_RMS_NORM, "a weight of another length");
    bw_case_in(c, BW_F32, 2, (int64_t[]){2, 8});
    bw_case_in(c, BW_F32, 1, (int64_t[]){9});
    bw_case_out(c, BW_F32, 2, (int64_t[]){2, 8});
    bw_case_params(c, &(bw_rms_norm_params){1e-5f}, sizeof(bw_rms_norm_params));
    bw_case_refuse(c);
    c = bw_case_begin(sink, BW_OP_RMS_NORM, "a last dimension with gaps");
    bw_case_in(c, BW_F32, 2, (int64_t[]){8, 8})->strides[1] = 2;
    bw_case_in(c, BW_F32, 1, (int64_t[]){8});
    bw_case_out(c, BW_F32, 2, (int64_t[]){8, 8});
    bw_case_params(c, &(bw_rms_norm_params){1e-5f}, sizeof(bw_rms_norm_params));
    bw_case_refuse(c);
}
