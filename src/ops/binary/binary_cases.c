/* What the functions of binary.def are tried with. */
#include "bw_cases.h"

static const bw_dtype types[] = {BW_F32, BW_BF16, BW_F16, BW_F64, BW_F8_E4M3, BW_U8, BW_U32, BW_I16, BW_I32, BW_I64};
enum { N_TYPES = sizeof types / sizeof *types };

static bw_tensor *fill(bw_case *c, bw_tensor *t, int n_special)
{
    bw_case_fill_normal(c, t, 2);
    bw_case_fill_special(c, t, n_special);
    return t;
}

/* Small whole numbers too, so that equal values meet. */
static void one(bw_case_sink *sink, bw_op op, bool is_compare, bw_dtype dtype, int n_dims, const int64_t *dims,
                bw_case_layout a_layout, bw_case_layout b_layout, int n_special)
{
    bw_case *c = bw_case_begin(sink, op, "%s, %d dims, layouts %d and %d", bw_dtype_name(dtype), n_dims, (int)a_layout,
                               (int)b_layout);
    bw_tensor *a = fill(c, bw_case_in_layout(c, dtype, n_dims, dims, a_layout), 0);
    bw_tensor *b = fill(c, bw_case_in_layout(c, dtype, n_dims, dims, b_layout), 0);
    if (n_special % 4 == 2) {
        bw_case_fill_uniform(c, a, 0, 3);
        bw_case_fill_uniform(c, b, 0, 3);
    }
    bw_case_fill_special(c, a, n_special);
    bw_case_fill_special(c, b, n_special);
    bw_case_out(c, is_compare ? BW_U8 : dtype, n_dims, dims);
    bw_case_equal(c);
    bw_case_run(c);
}

/* Inputs of fewer dimensions, or with dimensions of 1. */
static void broadcast(bw_case_sink *sink, bw_op op, bool is_compare, bw_dtype dtype)
{
    static const struct {
        int n_a, n_b, n_y;
        int64_t a[4], b[4], y[4];
    } shapes[] = {{3, 1, 3, {5, 3, 67}, {67}, {5, 3, 67}},
                  {3, 3, 3, {5, 1, 67}, {1, 3, 1}, {5, 3, 67}},
                  {0, 2, 2, {0}, {7, 9}, {7, 9}},
                  {2, 0, 2, {7, 900}, {0}, {7, 900}},
                  {2, 4, 4, {1, 33}, {2, 3, 1, 1}, {2, 3, 5, 33}},
                  {2, 2, 2, {1031, 1}, {1, 11}, {1031, 11}},
                  {1, 1, 3, {1}, {1}, {2, 3, 40}},
                  {2, 2, 2, {0, 1}, {1, 5}, {0, 5}}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        bw_case *c = bw_case_begin(sink, op, "%s, broadcast %d", bw_dtype_name(dtype), (int)i);
        fill(c, bw_case_in(c, dtype, shapes[i].n_a, shapes[i].a), 3);
        fill(c, bw_case_in(c, dtype, shapes[i].n_b, shapes[i].b), 3);
        bw_case_out(c, is_compare ? BW_U8 : dtype, shapes[i].n_y, shapes[i].y);
        bw_case_equal(c);
        bw_case_run(c);
    }
}

static void refuse(bw_case_sink *sink, bw_op op, const char *name, bw_dtype a, bw_dtype b, bw_dtype y, int64_t n_b,
                   int64_t n_y)
{
    bw_case *c = bw_case_begin(sink, op, "%s", name);
    bw_case_in(c, a, 2, (int64_t[]){3, 32});
    bw_case_in(c, b, 1, &n_b);
    bw_case_out(c, y, 2, (int64_t[]){3, n_y});
    bw_case_refuse(c);
}

static void cases(bw_case_sink *sink, bw_op op, bool is_compare)
{
    int n_dims, k = 0;
    int64_t dims[6];
    for (int t = 0; t < N_TYPES; t++) {
        for (int i = 0; bw_cases_shape(i, &n_dims, dims); i++)
            for (int a = 0; a < BW_CASE_N_LAYOUTS; a++, k++)
                one(sink, op, is_compare, types[t], n_dims, dims, (bw_case_layout)a,
                    (bw_case_layout)(k % BW_CASE_N_LAYOUTS), i * 2);
        broadcast(sink, op, is_compare, types[t]);
    }
    for (int i = 0; i < bw_cases_n_random(sink); i++)
        one(sink, op, is_compare, types[bw_cases_between(sink, 0, N_TYPES - 1)], 3,
            (int64_t[]){bw_cases_between(sink, 1, 9), bw_cases_between(sink, 1, 9), bw_cases_between(sink, 1, 700)},
            (bw_case_layout)bw_cases_between(sink, 0, BW_CASE_N_LAYOUTS - 1),
            (bw_case_layout)bw_cases_between(sink, 0, BW_CASE_N_LAYOUTS - 1), (int)bw_cases_between(sink, 0, 20));

    for (int alias = 0; alias < 2 && !is_compare; alias++)
        for (int wide = 0; wide < 2; wide++) {
            bw_dtype dtype = wide ? BW_I64 : BW_F32;
            bw_case *c = bw_case_begin(sink, op, "%s in place of in%d", bw_dtype_name(dtype), alias);
            fill(c, bw_case_in(c, dtype, 2, (int64_t[]){31, 577}), 9);
            fill(c, bw_case_in(c, dtype, 2, (int64_t[]){31, 577}), 9);
            bw_case_out_alias(c, alias);
            bw_case_equal(c);
            bw_case_run(c);
        }
    if (op == BW_OP_BADD && bw_cases_n_random(sink)) { /* past the caches */
        static const int64_t shape[] = {(1 << 12) + 7, 1 << 11};
        bw_case *large = bw_case_begin(sink, op, "32 MiB");
        bw_case_fill_uniform(large, bw_case_in(large, BW_F32, 2, shape), -9, 9);
        bw_case_fill_uniform(large, bw_case_in(large, BW_F32, 1, shape + 1), -9, 9);
        bw_case_out(large, BW_F32, 2, shape);
        bw_case_equal(large);
        bw_case_run(large);
        /* rows of odd length, one value for each: some rows' first streamed block is one element */
        static const int64_t odd[] = {9000, 1001};
        large = bw_case_begin(sink, op, "large rows, in1 broadcast");
        bw_case_fill_uniform(large, bw_case_in(large, BW_F32, 2, odd), -9, 9);
        bw_case_fill_uniform(large, bw_case_in(large, BW_F32, 2, (int64_t[]){9000, 1}), -9, 9);
        bw_case_out(large, BW_F32, 2, odd);
        bw_case_equal(large);
        bw_case_run(large);
    }
    bw_case *c = bw_case_begin(sink, op, "into gaps");
    fill(c, bw_case_in(c, BW_BF16, 2, (int64_t[]){37, 101}), 9);
    fill(c, bw_case_in(c, BW_BF16, 2, (int64_t[]){37, 101}), 9);
    bw_case_out_strided(c, is_compare ? BW_U8 : BW_BF16, 2, (int64_t[]){37, 101}, (int64_t[]){2, 80});
    bw_case_equal(c);
    bw_case_run(c);

    bw_dtype y = is_compare ? BW_U8 : BW_F32;
    refuse(sink, op, "in1 too short", BW_F32, BW_F32, y, 31, 32);
    refuse(sink, op, "other output shape", BW_F32, BW_F32, y, 32, 31);
    refuse(sink, op, "two input types", BW_F32, BW_F16, y, 32, 32);
    refuse(sink, op, "other output type", BW_F32, BW_F32, BW_I32, 32, 32);
    refuse(sink, op, "quantised", BW_Q8_0, BW_Q8_0, BW_Q8_0, 32, 32);
    c = bw_case_begin(sink, op, "no in1");
    bw_case_in(c, BW_F32, 1, (int64_t[]){4});
    bw_case_in_absent(c);
    bw_case_out(c, y, 1, (int64_t[]){4});
    bw_case_refuse(c);
}

#define BW_BINARY(NAME, name, is_compare, f64, i64, vector, formula)                                                   \
    void bw_op_##name##_cases(bw_case_sink *sink)                                                                      \
    {                                                                                                                  \
        cases(sink, BW_OP_##NAME, is_compare);                                                                         \
    }
#include "binary/binary.def"
#undef BW_BINARY
