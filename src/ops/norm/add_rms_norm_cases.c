/* What ADD_RMS_NORM is tried with. */
#include <math.h>

#include "bw_cases.h"

static void one(bw_case_sink *sink, int64_t t, int64_t d, bool has_inner_norm, bool in_place, double scale,
                int n_special)
{
    bw_case *c = bw_case_begin(sink, BW_OP_ADD_RMS_NORM, "[%lld, %lld]%s%s, scale %g", (long long)t, (long long)d,
                               has_inner_norm ? ", inner norm" : "", in_place ? ", in place" : "", scale);
    int64_t dims[] = {t, d};
    bw_tensor *x = bw_case_in(c, BW_F32, 2, dims), *r = bw_case_in(c, BW_F32, 2, dims);
    bw_case_fill_normal(c, x, scale);
    bw_case_fill_normal(c, r, scale);
    bw_case_fill_special(c, x, n_special);
    bw_case_fill_normal(c, bw_case_in(c, BW_F32, 1, &d), 1);
    if (has_inner_norm)
        bw_case_fill_normal(c, bw_case_in(c, BW_F32, 1, &d), 1);
    else
        bw_case_in_absent(c);
    if (in_place)
        bw_case_out_alias(c, 0);
    else
        bw_case_out(c, BW_F32, 2, dims);
    bw_case_out(c, BW_F32, 2, dims);
    bw_case_params(c, &(bw_rms_norm_params){1e-5f}, sizeof(bw_rms_norm_params));
    bw_case_tolerance(c, 1, has_inner_norm ? 3 : 0, 0); /* x and the normed r may cancel */
    bw_case_run(c);
}

void bw_op_add_rms_norm_cases(bw_case_sink *sink)
{
    static const int64_t sizes[] = {1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 127, 576, 2048};
    for (int inner = 0; inner < 2; inner++) {
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            one(sink, 1, sizes[i], inner, i % 2, 1, 0);
        one(sink, 33, 640, inner, true, 1, 0);
        one(sink, 5, 576, inner, false, 1e-3, 0);
        one(sink, 0, 64, inner, false, 1, 0);
        one(sink, 9, 64, inner, false, 1, 7);
        for (int k = 0; k < bw_cases_n_random(sink); k++)
            one(sink, bw_cases_between(sink, 1, 40), bw_cases_between(sink, 1, 2000), inner,
                bw_cases_between(sink, 0, 1), 1, (int)bw_cases_between(sink, 0, 3));
    }
    for (int i = 0; i < 8; i++) { /* factors that f32 does not hold */
        bw_case *c = bw_case_begin(sink, BW_OP_ADD_RMS_NORM, "extreme %d", i);
        for (int k = 0; k < 2; k++) {
            bw_tensor *t = bw_case_in(c, BW_F32, 2, (int64_t[]){3, 20});
            for (int j = 0; j < 60; j++)
                ((float *)t->data)[j] = (k == 0 ? i & 1 : i >> 1 & 1) ? 1e38f : (float)(j % 3 + 1) * 1e-39f;
        }
        bw_case_fill_normal(c, bw_case_in(c, BW_F32, 1, (int64_t[]){20}), 1);
        if (i & 4)
            bw_case_fill_normal(c, bw_case_in(c, BW_F32, 1, (int64_t[]){20}), 1);
        else
            bw_case_in_absent(c);
        bw_case_out(c, BW_F32, 2, (int64_t[]){3, 20});
        bw_case_out(c, BW_F32, 2, (int64_t[]){3, 20});
        bw_case_params(c, &(bw_rms_norm_params){0}, sizeof(bw_rms_norm_params));
        bw_case_tolerance(c, 20, 0, 0);
        bw_case_run(c);
    }
    for (int i = 0; i < 3; i++) {
        const float eps = i == 0 ? -1e-5f : i == 1 ? NAN : INFINITY;
        bw_case *c = bw_case_begin(sink, BW_OP_ADD_RMS_NORM, "eps %g", (double)eps);
        bw_case_in(c, BW_F32, 2, (int64_t[]){2, 8});
        bw_case_in(c, BW_F32, 2, (int64_t[]){2, 8});
        bw_case_in(c, BW_F32, 1, (int64_t[]){8});
        bw_case_in_absent(c);
        bw_case_out(c, BW_F32, 2, (int64_t[]){2, 8});
        bw_case_out(c, BW_F32, 2, (int64_t[]){2, 8});
        bw_case_params(c, &eps, sizeof eps);
        bw_case_refuse(c);
    }
    bw_case *c = bw_case_begin(sink, BW_OP_ADD_RMS_NORM, "r of another shape");
    bw_case_in(c, BW_F32, 2, (int64_t[]){2, 8});
    bw_case_in(c, BW_F32, 2, (int64_t[]){3, 8});
    bw_case_in(c, BW_F32, 1, (int64_t[]){8});
    bw_case_in_absent(c);
    bw_case_out(c, BW_F32, 2, (int64_t[]){2, 8});
    bw_case_out(c, BW_F32, 2, (int64_t[]){2, 8});
    bw_case_params(c, &(bw_rms_norm_params){1e-5f}, sizeof(bw_rms_norm_params));
    bw_case_refuse(c);
    c = bw_case_begin(sink, BW_OP_ADD_RMS_NORM, "three inputs");
    bw_case_in(c, BW_F32, 2, (int64_t[]){2, 8});
    bw_case_in(c, BW_F32, 2, (int64_t[]){2, 8});
    bw_case_in(c, BW_F32, 1, (int64_t[]){8});
    bw_case_out(c, BW_F32, 2, (int64_t[]){2, 8});
    bw_case_out(c, BW_F32, 2, (int64_t[]){2, 8});
    bw_case_params(c, &(bw_rms_norm_params){1e-5f}, sizeof(bw_rms_norm_params));
    bw_case_refuse(c);
}
