/* What WHERE is tried with: every type of condition with every type of value. */
#include "bw_cases.h"

static const bw_dtype conditions[] = {BW_U8, BW_U32, BW_I64, BW_I16, BW_I32};
static const bw_dtype types[] = {BW_F32, BW_BF16, BW_F16, BW_F64, BW_F8_E4M3, BW_U8, BW_U32, BW_I16, BW_I32, BW_I64};
enum { N_CONDITIONS = sizeof conditions / sizeof *conditions, N_TYPES = sizeof types / sizeof *types };

static void one(bw_case_sink *sink, bw_dtype condition, bw_dtype dtype, int n_dims, const int64_t *dims,
                const bw_case_layout layouts[3], int n_special)
{
    bw_case *c = bw_case_begin(sink, BW_OP_WHERE, "%s ? %s, %d dims, layouts %d %d %d", bw_dtype_name(condition),
                               bw_dtype_name(dtype), n_dims, (int)layouts[0], (int)layouts[1], (int)layouts[2]);
    bw_tensor *t = bw_case_in_layout(c, condition, n_dims, dims, layouts[0]);
    bw_case_fill_uniform(c, t, 0, 1);
    bw_case_fill_special(c, t, n_special); /* 128, INT64_MIN, ...: set too */
    for (int k = 1; k < 3; k++) {
        t = bw_case_in_layout(c, dtype, n_dims, dims, layouts[k]);
        bw_case_fill_normal(c, t, 2);
        bw_case_fill_special(c, t, n_special);
    }
    bw_case_out(c, dtype, n_dims, dims);
    bw_case_exact(c);
    bw_case_run(c);
}

/* Inputs of fewer dimensions, or with dimensions of 1. */
static void broadcast(bw_case_sink *sink, bw_dtype condition, bw_dtype dtype)
{
    static const struct {
        int n_dims[4];
        int64_t dims[4][3];
    } shapes[] = {{{3, 0, 3, 3}, {{5, 3, 67}, {0}, {5, 3, 67}, {5, 3, 67}}},
                  {{2, 3, 0, 3}, {{3, 1}, {5, 1, 67}, {0}, {5, 3, 67}}},
                  {{0, 1, 2, 2}, {{0}, {1200}, {3, 1}, {3, 1200}}},
                  {{1, 1, 1, 3}, {{1}, {1}, {1}, {2, 3, 40}}},
                  {{2, 2, 2, 2}, {{0, 1}, {1, 5}, {0, 5}, {0, 5}}}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        bw_case *c = bw_case_begin(sink, BW_OP_WHERE, "%s ? %s, broadcast %d", bw_dtype_name(condition),
                                   bw_dtype_name(dtype), (int)i);
        bw_case_fill_uniform(c, bw_case_in(c, condition, shapes[i].n_dims[0], shapes[i].dims[0]), 0, 1);
        for (int k = 1; k < 3; k++)
            bw_case_fill_normal(c, bw_case_in(c, dtype, shapes[i].n_dims[k], shapes[i].dims[k]), 2);
        bw_case_out(c, dtype, shapes[i].n_dims[3], shapes[i].dims[3]);
        bw_case_exact(c);
        bw_case_run(c);
    }
}

static void refuse(bw_case_sink *sink, const char *name, bw_dtype condition, bw_dtype a, bw_dtype b, bw_dtype y,
                   int64_t n)
{
    bw_case *c = bw_case_begin(sink, BW_OP_WHERE, "%s", name);
    bw_case_in(c, condition, 1, (int64_t[]){32});
    bw_case_in(c, a, 1, (int64_t[]){32});
    bw_case_in(c, b, 1, &n);
    bw_case_out(c, y, 1, (int64_t[]){32});
    bw_case_refuse(c);
}

/* Past the caches (bw_stream.h), in rows of odd length: some rows' first streamed block is one element. */
static void large_rows(bw_case_sink *sink)
{
    const int64_t dims[] = {9000, 1001};
    if (bw_cases_n_random(sink) == 0)
        return;
    for (int k = 0; k < 3; k++) { /* which operand has one value for each row */
        bw_case *c = bw_case_begin(sink, BW_OP_WHERE, "large rows, in%d broadcast", k);
        bw_case_fill_uniform(c, bw_case_in(c, BW_U8, 2, k == 0 ? (int64_t[]){9000, 1} : dims), 0, 1);
        for (int i = 1; i < 3; i++)
            bw_case_fill_uniform(c, bw_case_in(c, BW_F32, 2, k == i ? (int64_t[]){9000, 1} : dims), -9, 9);
        bw_case_out(c, BW_F32, 2, dims);
        bw_case_exact(c);
        bw_case_run(c);
    }
}

void bw_op_where_cases(bw_case_sink *sink)
{
    int n_dims, k = 0;
    int64_t dims[6];
    for (int a = 0; a < N_CONDITIONS; a++)
        for (int b = 0; b < N_TYPES; b++) {
            for (int i = 0; bw_cases_shape(i, &n_dims, dims); i++, k++)
                one(sink, conditions[a], types[b], n_dims, dims,
                    (bw_case_layout[]){(bw_case_layout)(k % 4), (bw_case_layout)(k / 4 % 4),
                                       (bw_case_layout)(k / 16 % 4)},
                    i);
            broadcast(sink, conditions[a], types[b]);
        }
    for (int i = 0; i < bw_cases_n_random(sink); i++)
        one(sink, conditions[bw_cases_between(sink, 0, N_CONDITIONS - 1)],
            types[bw_cases_between(sink, 0, N_TYPES - 1)], 3,
            (int64_t[]){bw_cases_between(sink, 1, 9), bw_cases_between(sink, 1, 9), bw_cases_between(sink, 1, 1500)},
            (bw_case_layout[]){(bw_case_layout)bw_cases_between(sink, 0, 3),
                               (bw_case_layout)bw_cases_between(sink, 0, 3),
                               (bw_case_layout)bw_cases_between(sink, 0, 3)},
            (int)bw_cases_between(sink, 0, 20));

    for (int large = 0; large < (bw_cases_n_random(sink) ? 2 : 1); large++) {
        int64_t n = large ? (4 << 20) + 77 : 3001; /* large: past the caches */
        bw_case *c = bw_case_begin(sink, BW_OP_WHERE, "%s", large ? "32 MiB" : "in place");
        bw_case_fill_uniform(c, bw_case_in(c, BW_U8, 1, &n), 0, 1);
        bw_case_fill_uniform(c, bw_case_in(c, BW_I64, 1, &n), -9, 9);
        bw_case_fill_uniform(c, bw_case_in(c, BW_I64, 1, &n), -9, 9);
        if (large)
            bw_case_out(c, BW_I64, 1, &n);
        else
            bw_case_out_alias(c, 1);
        bw_case_run(c);
    }
    bw_case *c = bw_case_begin(sink, BW_OP_WHERE, "into gaps");
    bw_case_fill_uniform(c, bw_case_in(c, BW_U8, 2, (int64_t[]){37, 601}), 0, 1);
    bw_case_fill_normal(c, bw_case_in(c, BW_F16, 2, (int64_t[]){37, 601}), 1);
    bw_case_fill_normal(c, bw_case_in(c, BW_F16, 2, (int64_t[]){37, 601}), 1);
    bw_case_out_strided(c, BW_F16, 2, (int64_t[]){37, 601}, (int64_t[]){1300, 2});
    bw_case_exact(c);
    bw_case_run(c);

    large_rows(sink);

    refuse(sink, "float condition", BW_F32, BW_F32, BW_F32, BW_F32, 32);
    refuse(sink, "two types", BW_U8, BW_F32, BW_F16, BW_F32, 32);
    refuse(sink, "other output type", BW_U8, BW_F32, BW_F32, BW_F16, 32);
    refuse(sink, "quantised", BW_U8, BW_Q8_0, BW_Q8_0, BW_Q8_0, 32);
    refuse(sink, "shape that does not broadcast", BW_U8, BW_F32, BW_F32, BW_F32, 31);
    c = bw_case_begin(sink, BW_OP_WHERE, "no condition");
    bw_case_in_absent(c);
    bw_case_in(c, BW_F32, 1, (int64_t[]){32});
    bw_case_in(c, BW_F32, 1, (int64_t[]){32});
    bw_case_out(c, BW_F32, 1, (int64_t[]){32});
    bw_case_refuse(c);
}
