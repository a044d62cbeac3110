/* What ROPE, ROPE_I and ROPE_THD are tried with. */
#include "bw_cases.h"

static const bw_dtype types[] = {BW_BF16, BW_F16, BW_F32, BW_F64};

typedef struct shape {
    int64_t b, h, t, d;
} shape;

static void one(bw_case_sink *sink, bw_op op, bw_dtype dtype, shape s, bw_case_layout layout, bool is_batched,
                bool in_place)
{
    bool thd = op == BW_OP_ROPE_THD;
    int64_t dims[] = {s.b, thd ? s.t : s.h, thd ? s.h : s.t, s.d}, table[] = {s.b, s.t, s.d / 2};
    bw_case *c = bw_case_begin(sink, op, "%s [%lld, %lld, %lld, %lld], layout %d%s%s", bw_dtype_name(dtype),
                               (long long)dims[0], (long long)dims[1], (long long)dims[2], (long long)s.d, (int)layout,
                               is_batched ? ", batched" : "", in_place ? ", in place" : "");
    bw_tensor *x = bw_case_in_layout(c, dtype, 4, dims, layout);
    bw_case_fill_normal(c, x, 1);
    for (int i = 0; i < 2; i++)
        bw_case_fill_uniform(c,
                             is_batched ? bw_case_in_layout(c, dtype, 3, table, layout)
                                        : bw_case_in_layout(c, dtype, 2, table + 1, layout),
                             -1, 1);
    if (in_place)
        bw_case_out_alias(c, 0);
    else
        bw_case_out(c, dtype, 4, dims);
    bw_case_tolerance(c, 2, 3, 0);
    bw_case_run(c);
}

static void refuse(bw_case_sink *sink, bw_op op, const char *why, int n_dims, int64_t d, int64_t t, int64_t half,
                   int64_t b)
{
    int64_t dims[] = {2, 4, 4, d};
    bw_case *c = bw_case_begin(sink, op, "%s", why);
    bw_case_in(c, BW_F32, n_dims, dims + 4 - n_dims);
    bw_case_in(c, BW_F32, 3, (int64_t[]){b, t, half});
    bw_case_in(c, BW_F32, 2, (int64_t[]){t, half});
    bw_case_out(c, BW_F32, n_dims, dims + 4 - n_dims);
    bw_case_refuse(c);
}

static void cases(bw_case_sink *sink, bw_op op)
{
    static const shape shapes[] = {{1, 1, 1, 2},   {1, 1, 1, 0}, {2, 3, 5, 6},    {2, 4, 7, 64},  {1, 9, 33, 48},
                                   {3, 2, 1, 130}, {0, 2, 3, 8}, {2, 2, 3, 1100}, {1, 2, 40, 14}, {2, 3, 0, 8}};
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
            for (int layout = 0; layout < BW_CASE_N_LAYOUTS; layout++)
                one(sink, op, types[t], shapes[i], (bw_case_layout)layout, (i + (size_t)layout) % 2, false);
        one(sink, op, types[t], (shape){2, 3, 17, 128}, BW_CASE_CONTIGUOUS, false, true);
        one(sink, op, types[t], (shape){2, 3, 17, 70}, BW_CASE_GAPS, true, true);
    }
    for (int k = 0; k < bw_cases_n_random(sink); k++)
        one(sink, op, types[bw_cases_between(sink, 0, 3)],
            (shape){bw_cases_between(sink, 1, 3), bw_cases_between(sink, 1, 9), bw_cases_between(sink, 1, 20),
                    2 * bw_cases_between(sink, 1, 150)},
            (bw_case_layout)bw_cases_between(sink, 0, BW_CASE_N_LAYOUTS - 1), bw_cases_between(sink, 0, 1), false);
    for (int k = 0; k < 8; k++) { /* an output that is not contiguous */
        static const int64_t dims[] = {2, 5, 5, 34}, table[] = {5, 17};
        bw_dtype dtype = types[k / 2];
        bw_case *c = bw_case_begin(sink, op, "%s, a strided output %d", bw_dtype_name(dtype), k % 2);
        bw_case_fill_normal(c, bw_case_in(c, dtype, 4, dims), 1);
        bw_case_fill_uniform(c, bw_case_in(c, dtype, 2, table), -1, 1);
        bw_case_fill_uniform(c, bw_case_in(c, dtype, 2, table), -1, 1);
        bw_case_out_layout(c, dtype, 4, dims, k % 2 ? BW_CASE_TRANSPOSED : BW_CASE_GAPS);
        bw_case_tolerance(c, 2, 3, 0);
        bw_case_run(c);
    }
    refuse(sink, op, "an odd d", 4, 7, 4, 3, 2);
    refuse(sink, op, "three dimensions", 3, 8, 4, 4, 2);
    refuse(sink, op, "tables of another length", 4, 8, 5, 4, 2);
    refuse(sink, op, "tables of another width", 4, 8, 4, 8, 2);
    refuse(sink, op, "tables of more batches", 4, 8, 4, 4, 3);
}

void bw_op_rope_cases(bw_case_sink *sink)
{
    cases(sink, BW_OP_ROPE);
}

void bw_op_rope_i_cases(bw_case_sink *sink)
{
    cases(sink, BW_OP_ROPE_I);
}

void bw_op_rope_thd_cases(bw_case_sink *sink)
{
    cases(sink, BW_OP_ROPE_THD);
}
