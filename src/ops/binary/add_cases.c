/* What ADD is tried with. */
#include "bw_cases.h"

/* b is a's last n_dims_b dimensions. */
static void one(bw_case_sink *sink, int n_dims, const int64_t *dims, int n_dims_b, bool in_place, int n_special)
{
    bw_case *c = bw_case_begin(sink, BW_OP_ADD, "%d dims, last %lld, b %d dims%s", n_dims, (long long)dims[n_dims - 1],
                               n_dims_b, in_place ? ", in place" : "");
    bw_tensor *a = bw_case_in(c, BW_F32, n_dims, dims);
    bw_tensor *b = bw_case_in(c, BW_F32, n_dims_b, dims + n_dims - n_dims_b);
    bw_case_fill_normal(c, a, 1);
    bw_case_fill_normal(c, b, 1);
    bw_case_fill_special(c, a, n_special);
    bw_case_fill_special(c, b, n_special);
    if (in_place)
        bw_case_out_alias(c, 0);
    else
        bw_case_out(c, BW_F32, n_dims, dims);
    bw_case_tolerance(c, 1, 0, 0);
    bw_case_run(c);
}

static void refuse(bw_case_sink *sink, const char *name, int64_t a, int64_t b, int64_t y)
{
    bw_case *c = bw_case_begin(sink, BW_OP_ADD, "%s", name);
    bw_case_in(c, BW_F32, 2, (int64_t[]){3, a});
    bw_case_in(c, BW_F32, 1, &b);
    bw_case_out(c, BW_F32, 2, (int64_t[]){3, y});
    bw_case_refuse(c);
}

void bw_op_add_cases(bw_case_sink *sink)
{
    static const int64_t sizes[] = {1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 127, 576, 8209};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        one(sink, 1, &sizes[i], 1, false, 0);
    one(sink, 2, (int64_t[]){7, 576}, 1, false, 5);
    one(sink, 2, (int64_t[]){7, 577}, 1, true, 0);
    one(sink, 3, (int64_t[]){5, 3, 64}, 2, false, 0);
    one(sink, 3, (int64_t[]){31, 11, 67}, 3, true, 9);
    one(sink, 2, (int64_t[]){0, 8}, 1, false, 0);
    for (int k = 0; k < bw_cases_n_random(sink); k++)
        one(sink, 3,
            (int64_t[]){bw_cases_between(sink, 1, 9), bw_cases_between(sink, 1, 9), bw_cases_between(sink, 1, 900)},
            (int)bw_cases_between(sink, 1, 3), bw_cases_between(sink, 0, 1), (int)bw_cases_between(sink, 0, 9));

    bw_case *c = bw_case_begin(sink, BW_OP_ADD, "all strided");
    int64_t dims[] = {13, 5, 33};
    bw_case_fill_normal(c, bw_case_in_strided(c, BW_F32, 3, dims, (int64_t[]){400, 40, 1}), 1);
    bw_case_fill_normal(c, bw_case_in_strided(c, BW_F32, 2, dims + 1, (int64_t[]){50, 1}), 1);
    bw_case_out_strided(c, BW_F32, 3, dims, (int64_t[]){500, 35, 1});
    bw_case_run(c);

    refuse(sink, "b too short", 8, 7, 8);
    refuse(sink, "b of one element", 8, 1, 8);
    refuse(sink, "other output", 8, 8, 7);
}
