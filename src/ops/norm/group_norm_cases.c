/* What GROUP_NORM is tried with. */
#include "bw_cases.h"

static const bw_dtype types[] = {BW_BF16, BW_F16, BW_F32, BW_F64};

static void one(bw_case_sink *sink, bw_dtype dtype, int n_dims, const int64_t *dims, int32_t groups,
                bw_case_layout layout, int weights, bool in_place, int n_special)
{
    bw_case *c = bw_case_begin(sink, BW_OP_GROUP_NORM, "%s, %d dims, C %lld, G %d, layout %d, weights %d%s",
                               bw_dtype_name(dtype), n_dims, (long long)dims[1], (int)groups, (int)layout, weights,
                               in_place ? ", in place" : "");
    bw_tensor *x = bw_case_in_layout(c, dtype, n_dims, dims, layout);
    bw_case_fill_normal(c, x, 1);
    bw_case_fill_special(c, x, n_special);
    for (int i = 0; i < 2; i++) {
        if (weights >> i & 1)
            bw_case_fill_normal(c, bw_case_in_layout(c, dtype, 1, &dims[1], layout), 1);
        else
            bw_case_in_absent(c);
    }
    if (in_place)
        bw_case_out_alias(c, 0);
    else
        bw_case_out(c, dtype, n_dims, dims);
    bw_case_params(c, &(bw_group_norm_params){groups, 1e-3f}, sizeof(bw_group_norm_params));
    bw_case_tolerance(c, dtype == BW_F64 ? 1000 : 1, 4, 0);
    bw_case_run(c);
}

static void refuse(bw_case_sink *sink, const char *why, bw_dtype dtype, int n_dims, int64_t d_w, int32_t groups,
                   float eps)
{
    bw_case *c = bw_case_begin(sink, BW_OP_GROUP_NORM, "%s", why);
    bw_case_in(c, dtype, n_dims, (int64_t[]){3, 6, 5});
    bw_case_in(c, dtype, 1, &d_w);
    bw_case_in_absent(c);
    bw_case_out(c, dtype, n_dims, (int64_t[]){3, 6, 5});
    bw_case_params(c, &(bw_group_norm_params){groups, eps}, sizeof(bw_group_norm_params));
    bw_case_refuse(c);
}

void bw_op_group_norm_cases(bw_case_sink *sink)
{
    static const struct {
        int n_dims;
        int64_t dims[6];
        int32_t groups;
    } shapes[] = {{2, {3, 8}, 2},         {2, {1, 1}, 1},          {3, {2, 6, 37}, 3},         {4, {2, 32, 5, 7}, 32},
                  {4, {1, 4, 33, 65}, 2}, {5, {2, 4, 3, 2, 5}, 1}, {6, {2, 4, 1, 3, 2, 5}, 4}, {3, {0, 4, 5}, 2},
                  {3, {2, 4, 0}, 2},      {3, {2, 0, 4}, 2},       {4, {2, 320, 9, 9}, 32}};
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
            for (int layout = 0; layout < BW_CASE_N_LAYOUTS; layout++)
                one(sink, types[t], shapes[i].n_dims, shapes[i].dims, shapes[i].groups, (bw_case_layout)layout,
                    (int)(i + (size_t)layout) % 4, false, 0);
        one(sink, types[t], 4, (int64_t[]){2, 8, 9, 70}, 4, BW_CASE_CONTIGUOUS, 3, true, 0);
        one(sink, types[t], 4, (int64_t[]){2, 8, 9, 70}, 4, BW_CASE_GAPS, 3, false, 3);
    }
    for (int k = 0; k < bw_cases_n_random(sink); k++) {
        int32_t groups = (int32_t)bw_cases_between(sink, 1, 5);
        int64_t dims[] = {bw_cases_between(sink, 1, 3), groups * bw_cases_between(sink, 1, 5),
                          bw_cases_between(sink, 1, 20), bw_cases_between(sink, 1, 40)};
        one(sink, types[bw_cases_between(sink, 0, 3)], 4, dims, groups,
            (bw_case_layout)bw_cases_between(sink, 0, BW_CASE_N_LAYOUTS - 1), (int)bw_cases_between(sink, 0, 3), false,
            (int)bw_cases_between(sink, 0, 3));
    }
    static const float wild[][4] = {{1e-39f, 3e-39f, 1e-39f, 1e-39f}, {3e38f, -3e38f, -3e38f, -3e38f}};
    for (int i = 0; i < 4; i++) { /* factors that f32 does not hold, and differences; with weights and without */
        bw_case *c = bw_case_begin(sink, BW_OP_GROUP_NORM, "extreme %d", i);
        bw_tensor *x = bw_case_in(c, BW_F32, 3, (int64_t[]){2, 4, 10});
        for (int k = 0; k < 80; k++)
            ((float *)x->data)[k] = wild[i % 2][k % 4];
        for (int k = 0; k < 2; k++)
            if (i < 2)
                bw_case_in_absent(c);
            else
                bw_case_fill_normal(c, bw_case_in(c, BW_F32, 1, (int64_t[]){4}), 1);
        bw_case_out(c, BW_F32, 3, (int64_t[]){2, 4, 10});
        bw_case_params(c, &(bw_group_norm_params){2, 0}, sizeof(bw_group_norm_params));
        bw_case_tolerance(c, 20, 4, 0);
        bw_case_run(c);
    }
    for (int k = 0; k < 8; k++) { /* an output that is not contiguous */
        static const int64_t dims[] = {2, 6, 5, 37};
        bw_dtype dtype = types[k / 2];
        bw_case *c = bw_case_begin(sink, BW_OP_GROUP_NORM, "%s, a strided output %d", bw_dtype_name(dtype), k % 2);
        bw_case_fill_normal(c, bw_case_in(c, dtype, 4, dims), 1);
        bw_case_fill_normal(c, bw_case_in(c, dtype, 1, dims + 1), 1);
        bw_case_in_absent(c);
        bw_case_out_layout(c, dtype, 4, dims, k % 2 ? BW_CASE_TRANSPOSED : BW_CASE_GAPS);
        bw_case_params(c, &(bw_group_norm_params){3, 1e-3f}, sizeof(bw_group_norm_params));
        bw_case_tolerance(c, dtype == BW_F64 ? 1000 : 1, 4, 0);
        bw_case_run(c);
    }
    refuse(sink, "groups that do not divide the channels", BW_F32, 3, 6, 4, 1e-5f);
    refuse(sink, "no groups", BW_F32, 3, 6, 0, 1e-5f);
    refuse(sink, "one dimension", BW_F32, 1, 6, 1, 1e-5f);
    refuse(sink, "a weight of another length", BW_F32, 3, 5, 2, 1e-5f);
    refuse(sink, "an eps below 0", BW_F32, 3, 6, 2, -1);
    refuse(sink, "an integer", BW_I64, 3, 6, 2, 1e-5f);
}
