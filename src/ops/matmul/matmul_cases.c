/* What MATMUL is tried with. */
#include <math.h>

#include "bw_cases.h"
#include "bw_element.h"

typedef struct pair {
    bw_dtype in, out;
} pair;
static const pair pairs[] = {{BW_F32, BW_F32},  {BW_F16, BW_F16}, {BW_F16, BW_F32},     {BW_BF16, BW_BF16},
                             {BW_BF16, BW_F32}, {BW_F64, BW_F64}, {BW_F8_E4M3, BW_F32}, {BW_F8_E4M3, BW_BF16},
                             {BW_U8, BW_U8},    {BW_U32, BW_U32}, {BW_I16, BW_I16},     {BW_I32, BW_I32},
                             {BW_I64, BW_I64},  {BW_I8, BW_I32}};
enum { N_PAIRS = sizeof pairs / sizeof *pairs };

static void finish(bw_case *c, pair p, int n_dims, const int64_t *dims, bool has_gaps, int64_t k)
{
    if (has_gaps) {
        int64_t strides[BW_MAX_DIMS], step = 2;
        for (int i = n_dims - 1; i >= 0; i--) {
            strides[i] = step;
            step = step * (dims[i] > 1 ? dims[i] : 1) + 3;
        }
        bw_case_out_strided(c, p.out, n_dims, dims, strides);
    } else {
        bw_case_out(c, p.out, n_dims, dims);
    }
    /* Products of two normal values: their sum's size before it cancels is about k. */
    bw_case_tolerance(c, k, sqrt((double)k) + 1, 0);
    bw_case_run(c);
}

static void one(bw_case_sink *sink, pair p, int64_t m, int64_t n, int64_t k, bw_case_layout la, bw_case_layout lb,
                bool has_gaps)
{
    bw_case *c = bw_case_begin(sink, BW_OP_MATMUL, "%s to %s, %lld x %lld x %lld, layouts %d %d%s", bw_dtype_name(p.in),
                               bw_dtype_name(p.out), (long long)m, (long long)n, (long long)k, (int)la, (int)lb,
                               has_gaps ? ", into gaps" : "");
    bw_case_fill_normal(c, bw_case_in_layout(c, p.in, 2, (int64_t[]){m, k}, la), 1);
    bw_case_fill_normal(c, bw_case_in_layout(c, p.in, 2, (int64_t[]){k, n}, lb), 1);
    finish(c, p, 2, (int64_t[]){m, n}, has_gaps, k);
}

static void batched(bw_case_sink *sink, pair p, int n_a, const int64_t *a, int n_b, const int64_t *b, int n_c,
                    const int64_t *dims, bool has_gaps)
{
    bw_case *c = bw_case_begin(sink, BW_OP_MATMUL, "%s to %s, batched, %d by %d dims%s", bw_dtype_name(p.in),
                               bw_dtype_name(p.out), n_a, n_b, has_gaps ? ", gaps" : "");
    bw_case_layout layout = has_gaps ? BW_CASE_GAPS : BW_CASE_CONTIGUOUS;
    bw_case_fill_normal(c, bw_case_in_layout(c, p.in, n_a, a, layout), 1);
    bw_case_fill_normal(c, bw_case_in_layout(c, p.in, n_b, b, layout), 1);
    finish(c, p, n_c, dims, has_gaps, a[n_a - 1]);
}

static void fixed(bw_case_sink *sink, pair p)
{
    static const int64_t sizes[][3] = {{1, 1, 1},    {1, 7, 5},     {7, 1, 5},      {1, 130, 67}, {130, 1, 67},
                                       {2, 3, 0},    {0, 3, 4},     {3, 0, 4},      {6, 16, 8},   {5, 17, 9},
                                       {13, 33, 31}, {31, 61, 300}, {97, 101, 103}, {3, 300, 20}, {200, 9, 33}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const int64_t *s = sizes[i];
        for (int la = 0; la < BW_CASE_N_LAYOUTS; la++)
            one(sink, p, s[0], s[1], s[2], (bw_case_layout)la, (bw_case_layout)((la + (int)i) % BW_CASE_N_LAYOUTS),
                false);
        one(sink, p, s[0], s[1], s[2], BW_CASE_CONTIGUOUS, BW_CASE_TRANSPOSED, true);
        one(sink, p, s[0], s[1], s[2], BW_CASE_CONTIGUOUS, BW_CASE_CONTIGUOUS, i % 2);
    }
    for (int gaps = 0; gaps < 2; gaps++) {
        batched(sink, p, 3, (int64_t[]){3, 5, 9}, 3, (int64_t[]){3, 9, 18}, 3, (int64_t[]){3, 5, 18}, gaps);
        batched(sink, p, 2, (int64_t[]){5, 9}, 3, (int64_t[]){3, 9, 18}, 3, (int64_t[]){3, 5, 18}, gaps);
        batched(sink, p, 4, (int64_t[]){2, 1, 7, 9}, 3, (int64_t[]){3, 9, 4}, 4, (int64_t[]){2, 3, 7, 4}, gaps);
        batched(sink, p, 6, (int64_t[]){2, 1, 2, 1, 3, 4}, 6, (int64_t[]){1, 3, 1, 2, 4, 5}, 6,
                (int64_t[]){2, 3, 2, 2, 3, 5}, gaps);
        batched(sink, p, 3, (int64_t[]){2, 1, 9}, 3, (int64_t[]){2, 9, 70}, 3, (int64_t[]){2, 1, 70}, gaps);
        batched(sink, p, 3, (int64_t[]){0, 2, 9}, 3, (int64_t[]){1, 9, 7}, 3, (int64_t[]){0, 2, 7}, gaps);
    }
}

/* Large enough for every level of blocking. */
static void large(bw_case_sink *sink)
{
    static const int64_t sizes[][3] = {{201, 530, 260}, {52, 2100, 260}, {400, 40, 270}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int p = 0; p < 4; p += 3) {
            const int64_t *s = sizes[i];
            one(sink, pairs[p], s[0], s[1], s[2], BW_CASE_CONTIGUOUS,
                (i + (size_t)p) % 2 ? BW_CASE_TRANSPOSED : BW_CASE_CONTIGUOUS, false);
        }
    one(sink, pairs[0], 200, 300, 300, BW_CASE_TRANSPOSED, BW_CASE_GAPS, true);
    one(sink, pairs[5], 100, 100, 300, BW_CASE_CONTIGUOUS, BW_CASE_CONTIGUOUS, false);
    batched(sink, pairs[0], 3, (int64_t[]){2, 200, 260}, 2, (int64_t[]){260, 300}, 3, (int64_t[]){2, 200, 300}, false);
    static const int64_t vectors[][3] = {{1, 1099, 131}, {1099, 1, 131}, {1, 70, 17001},
                                         {5, 1099, 131}, {2203, 7, 41},  {8, 40, 2100}};
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++)
        for (int p = 0; p < 5; p++)
            for (int layout = 0; layout < 2; layout++)
                one(sink, pairs[p], vectors[i][0], vectors[i][1], vectors[i][2], (bw_case_layout)layout,
                    (bw_case_layout)layout, false);
}

/* Short floats in whole panels and beside them, and deeper than one block of any kernel. */
static void deep(bw_case_sink *sink)
{
    static const int64_t sizes[][3] = {{64, 96, 64},   {33, 65, 1025}, {70, 90, 2100},
                                       {290, 31, 129}, {16, 600, 65},  {9, 47, 1100}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int p = 1; p < 5; p++) {
            const int64_t *s = sizes[i];
            one(sink, pairs[p], s[0], s[1], s[2], BW_CASE_CONTIGUOUS, BW_CASE_CONTIGUOUS, false);
            one(sink, pairs[p], s[0], s[1], s[2], BW_CASE_CONTIGUOUS, BW_CASE_TRANSPOSED, false);
            one(sink, pairs[p], s[0], s[1], s[2], BW_CASE_TRANSPOSED, BW_CASE_CONTIGUOUS, true);
            one(sink, pairs[p], s[0], s[1], s[2], BW_CASE_GAPS, BW_CASE_GAPS, false);
        }
    for (int p = 3; p < 5; p++) {
        one(sink, pairs[p], 1060, 40, 1040, BW_CASE_CONTIGUOUS, BW_CASE_CONTIGUOUS, false);
        one(sink, pairs[p], 40, 1090, 1040, BW_CASE_CONTIGUOUS, BW_CASE_TRANSPOSED, false);
        batched(sink, pairs[p], 3, (int64_t[]){3, 50, 70}, 3, (int64_t[]){3, 70, 66}, 3, (int64_t[]){3, 50, 66}, false);
        batched(sink, pairs[p], 3, (int64_t[]){9, 40, 70}, 2, (int64_t[]){70, 66}, 3, (int64_t[]){9, 40, 66}, true);
    }
}

/* NaN and infinities among ordinary values, in every type that has them: what each row and column makes of them. */
static void not_finite(bw_case_sink *sink)
{
    static const double values[] = {NAN, INFINITY, -INFINITY, INFINITY};
    for (int p = 0; p < 6; p++)
        for (int layout = 0; layout < 2; layout++) {
            bw_case *c = bw_case_begin(sink, BW_OP_MATMUL, "%s to %s, not finite, layout %d",
                                       bw_dtype_name(pairs[p].in), bw_dtype_name(pairs[p].out), layout);
            bw_tensor *a = bw_case_in_layout(c, pairs[p].in, 2, (int64_t[]){45, 70}, (bw_case_layout)layout),
                      *b = bw_case_in_layout(c, pairs[p].in, 2, (int64_t[]){70, 51}, (bw_case_layout)layout);
            bw_case_fill_normal(c, a, 1);
            bw_case_fill_normal(c, b, 1);
            for (int i = 0; i < 4; i++) {
                bw_element_set_f64(a->dtype, a->data, (i * 11 + 2) * a->strides[0] + (i * 19) * a->strides[1],
                                   values[i]);
                bw_element_set_f64(b->dtype, b->data, (i * 17 + 5) * b->strides[0] + (i * 13) * b->strides[1],
                                   values[3 - i]);
            }
            finish(c, pairs[p], 2, (int64_t[]){45, 51}, false, 70);
        }
}

static void special(bw_case_sink *sink)
{
    for (int p = 0; p < N_PAIRS; p++) {
        if (pairs[p].in == BW_F8_E4M3) /* sums beyond f32 cannot arise, and its NaN is in the normal cases' reach */
            continue;
        bw_case *c = bw_case_begin(sink, BW_OP_MATMUL, "%s, special values", bw_dtype_name(pairs[p].in));
        bw_tensor *a = bw_case_in(c, pairs[p].in, 2, (int64_t[]){40, 1}),
                  *b = bw_case_in(c, pairs[p].in, 2, (int64_t[]){1, 50});
        bw_case_fill_normal(c, a, 1);
        bw_case_fill_normal(c, b, 1);
        bw_case_fill_special(c, a, 20);
        bw_case_fill_special(c, b, 20);
        bw_case_out(c, pairs[p].out, 2, (int64_t[]){40, 50});
        bw_case_tolerance(c, 2, 0, 0);
        bw_case_run(c);
    }
}

static void refuse(bw_case_sink *sink, const char *what, bw_dtype a_type, int n_a, const int64_t *a, bw_dtype b_type,
                   int n_b, const int64_t *b, bw_dtype c_type, int n_c, const int64_t *dims)
{
    bw_case *c = bw_case_begin(sink, BW_OP_MATMUL, "%s", what);
    bw_case_in(c, a_type, n_a, a);
    bw_case_in(c, b_type, n_b, b);
    bw_case_out(c, c_type, n_c, dims);
    bw_case_refuse(c);
}

static void refusals(bw_case_sink *sink)
{
    const int64_t a[] = {2, 3}, b[] = {3, 4}, c[] = {2, 4}, wrong[] = {4, 4}, batch[] = {5, 3, 4}, out3[] = {6, 2, 4};
    refuse(sink, "inner dimensions differ", BW_F32, 2, a, BW_F32, 2, wrong, BW_F32, 2, c);
    refuse(sink, "another output shape", BW_F32, 2, a, BW_F32, 2, b, BW_F32, 2, wrong);
    refuse(sink, "types differ", BW_F32, 2, a, BW_F16, 2, b, BW_F32, 2, c);
    refuse(sink, "f32 to f16", BW_F32, 2, a, BW_F32, 2, b, BW_F16, 2, c);
    refuse(sink, "f8 to f8", BW_F8_E4M3, 2, a, BW_F8_E4M3, 2, b, BW_F8_E4M3, 2, c);
    refuse(sink, "i8 to i8", BW_I8, 2, a, BW_I8, 2, b, BW_I8, 2, c);
    refuse(sink, "a vector", BW_F32, 1, a, BW_F32, 2, b, BW_F32, 2, c);
    refuse(sink, "batches that do not fit", BW_F32, 2, a, BW_F32, 3, batch, BW_F32, 3, out3);
    refuse(sink, "an output without the batch", BW_F32, 2, a, BW_F32, 3, batch, BW_F32, 2, c);
    refuse(sink, "quantised", BW_Q8_0, 2, (int64_t[]){2, 32}, BW_Q8_0, 2, (int64_t[]){32, 32}, BW_F32, 2,
           (int64_t[]){2, 32});
}

void bw_op_matmul_cases(bw_case_sink *sink)
{
    for (int p = 0; p < N_PAIRS; p++)
        fixed(sink, pairs[p]);
    large(sink);
    deep(sink);
    not_finite(sink);
    special(sink);
    refusals(sink);
    for (int i = 0; i < bw_cases_n_random(sink); i++)
        one(sink, pairs[bw_cases_between(sink, 0, N_PAIRS - 1)], bw_cases_between(sink, 1, 90),
            bw_cases_between(sink, 1, 150), bw_cases_between(sink, 0, 600),
            (bw_case_layout)bw_cases_between(sink, 0, BW_CASE_N_LAYOUTS - 1),
            (bw_case_layout)bw_cases_between(sink, 0, BW_CASE_N_LAYOUTS - 1), bw_cases_between(sink, 0, 3) == 0);
}
