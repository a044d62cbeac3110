/* What ROW_ARGMAX and ROW_TOP_K are tried with. */
#include "bw_cases.h"

typedef enum values { NORMAL, FEW, RISING, FALLING, EQUAL } values;

/* Rows as a model gives them, with many ties, in order, or all alike. */
static bw_tensor *logits(bw_case_sink *sink, bw_case *c, int64_t rows, int64_t n, int64_t stride, values v,
                         int n_special)
{
    bw_tensor *x = bw_case_in_strided(c, BW_F32, 2, (int64_t[]){rows, n}, (int64_t[]){stride, 1});
    bw_case_fill_normal(c, x, 4);
    for (int64_t r = 0; r < rows && v != NORMAL; r++)
        for (int64_t i = 0; i < n; i++) {
            int64_t few = bw_cases_between(sink, -2, 2);
            float few_value = few == 0 && bw_cases_between(sink, 0, 1) ? -0.0f : (float)few;
            ((float *)x->data)[r * stride + i] = v == FEW      ? few_value
                                                 : v == RISING ? (float)i * 1e-3f
                                                 : v == EQUAL  ? -3.5f
                                                               : (float)-i * 1e-3f;
        }
    bw_case_fill_special(c, x, n_special);
    return x;
}

static void argmax(bw_case_sink *sink, int64_t rows, int64_t n, int64_t gap, values v, int n_special)
{
    bw_case *c = bw_case_begin(sink, BW_OP_ROW_ARGMAX, "[%lld, %lld], gap %lld, values %d, %d special", (long long)rows,
                               (long long)n, (long long)gap, (int)v, n_special);
    logits(sink, c, rows, n, n + gap, v, n_special);
    bw_case_out(c, BW_I32, 1, &rows);
    bw_case_out(c, BW_I32, 1, &rows);
    bw_case_exact(c);
    bw_case_run(c);
}

void bw_op_row_argmax_cases(bw_case_sink *sink)
{
    static const int64_t sizes[] = {1, 2, 3, 31, 64, 255, 257, 4096, 4097, 10000, 49152};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int v = NORMAL; v <= EQUAL; v++)
            argmax(sink, 1 + (int64_t)i % 3, sizes[i], v == FEW ? 3 : 0, (values)v, 0);
    argmax(sink, 2, 128256, 0, NORMAL, 0);
    argmax(sink, 0, 100, 0, NORMAL, 0);
    for (int k = 0; k < 6; k++)
        argmax(sink, 3, k % 2 ? 9000 : 40, k, (values)(k % 2), 1 + k);
    for (int k = 0; k < bw_cases_n_random(sink); k++)
        argmax(sink, bw_cases_between(sink, 1, 5), bw_cases_between(sink, 1, 20000), bw_cases_between(sink, 0, 4),
               (values)bw_cases_between(sink, NORMAL, FEW), (int)bw_cases_between(sink, 0, 1));
    static const bw_dtype types[] = {BW_F16, BW_F32};
    for (int k = 0; k < 4; k++) {
        bw_case *c = bw_case_begin(sink, BW_OP_ROW_ARGMAX, "refusal %d", k);
        bw_case_in(c, types[k != 0], 2, (int64_t[]){3, k == 1 ? 0 : 8});
        bw_case_out(c, BW_I32, 1, (int64_t[]){k == 2 ? 4 : 3});
        bw_case_out(c, k == 3 ? BW_U32 : BW_I32, 1, (int64_t[]){3});
        bw_case_refuse(c);
    }
}

static void top_k(bw_case_sink *sink, int64_t rows, int64_t n, int64_t k, int64_t gap, values v, int n_special)
{
    bw_case *c = bw_case_begin(sink, BW_OP_ROW_TOP_K, "[%lld, %lld], K %lld, gap %lld, values %d, %d special",
                               (long long)rows, (long long)n, (long long)k, (long long)gap, (int)v, n_special);
    logits(sink, c, rows, n, n + gap, v, n_special);
    bw_case_fill_uniform(c, bw_case_in(c, BW_F32, 1, &rows), 0.3, 2);
    bw_case_out(c, BW_F32, 2, (int64_t[]){rows, k});
    bw_case_out(c, BW_I32, 2, (int64_t[]){rows, k});
    bw_case_out(c, BW_F32, 2, (int64_t[]){rows, BW_ROW_SUMS});
    bw_case_tolerance(c, n, 0, 0);
    bw_case_run(c);
}

static void refuse(bw_case_sink *sink, const char *name, int64_t k, bw_dtype tokens, int64_t temperatures, int64_t sums)
{
    bw_case *c = bw_case_begin(sink, BW_OP_ROW_TOP_K, "%s", name);
    bw_case_in(c, BW_F32, 2, (int64_t[]){3, 8});
    bw_case_in(c, BW_F32, 1, (int64_t[]){temperatures});
    bw_case_out(c, BW_F32, 2, (int64_t[]){3, k});
    bw_case_out(c, tokens, 2, (int64_t[]){3, k});
    bw_case_out(c, BW_F32, 2, (int64_t[]){3, sums});
    bw_case_refuse(c);
}

void bw_op_row_top_k_cases(bw_case_sink *sink)
{
    static const int64_t sizes[] = {1, 2, 31, 64, 257, 4096, 4097, 9000, 20000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int v = NORMAL; v <= EQUAL; v++) {
            int64_t n = sizes[i], k = v == NORMAL ? 64 : v == FEW ? 200 : v == RISING ? 17 : v == EQUAL ? 256 : 1;
            top_k(sink, 1 + v % 2, n, k < n ? k : n, v == FEW ? 3 : 0, (values)v, 0);
        }
    top_k(sink, 2, 128256, 40, 0, NORMAL, 0);
    top_k(sink, 0, 100, 5, 0, NORMAL, 0);
    for (int k = 0; k < 4; k++)
        top_k(sink, 3, k % 2 ? 9000 : 40, 20, k, (values)(k % 2), 1 + k);
    for (int i = 0; i < bw_cases_n_random(sink); i++) {
        int64_t n = bw_cases_between(sink, 1, 12000), k = bw_cases_between(sink, 1, 256);
        top_k(sink, bw_cases_between(sink, 1, 4), n, k < n ? k : n, bw_cases_between(sink, 0, 4),
              (values)bw_cases_between(sink, NORMAL, FEW), 0);
    }
    refuse(sink, "K is 0", 0, BW_I32, 3, BW_ROW_SUMS);
    refuse(sink, "K above V", 9, BW_I32, 3, BW_ROW_SUMS);
    refuse(sink, "tokens u32", 4, BW_U32, 3, BW_ROW_SUMS);
    refuse(sink, "two temperatures", 4, BW_I32, 2, BW_ROW_SUMS);
    refuse(sink, "three sums", 4, BW_I32, 3, 3);
}
