/* What ASORT_ASC, ASORT_DESC and TOPK are tried with. */
#include "bw_cases.h"
#include "bw_element.h"

static const bw_dtype types[] = {BW_BF16, BW_F16, BW_F32, BW_F64, BW_U8, BW_U32, BW_I64};

/* Values: normal ones, few different ones (many ties), or rising along the row (the worst for a selection; as far as
 * the type goes). */
typedef enum values { NORMAL, FEW, RISING } values;

/* Values of rows or rising ones, in whatever layout x has. */
static void fill_rows(bw_case_sink *sink, bw_tensor *x, values v)
{
    double unit = x->dtype == BW_F64 ? 1e-300 : 1;
    int64_t n = x->dims[x->n_dims - 1], n_elements = bw_tensor_elements(x);
    for (int64_t i = 0; i < n_elements; i++) {
        int64_t at = 0, rest = i;
        for (int d = x->n_dims - 1; d >= 0; d--) {
            at += rest % x->dims[d] * x->strides[d];
            rest /= x->dims[d];
        }
        int64_t value = v == FEW ? bw_cases_between(sink, 0, 3) : i % n;
        if (bw_dtype_is_integer(x->dtype))
            bw_element_set_i64(x->dtype, x->data, at, x->dtype == BW_U8 && v == RISING ? value * 256 / n : value);
        else
            bw_element_set_f64(x->dtype, x->data, at, (double)value * unit);
    }
}

static void one(bw_case_sink *sink, bw_op op, bw_dtype dtype, int n_dims, const int64_t *dims, bw_case_layout layout,
                int64_t k, values v, int n_special)
{
    int64_t out[BW_MAX_DIMS] = {0}, n = dims[n_dims - 1];
    for (int d = 0; d < n_dims; d++)
        out[d] = dims[d];
    bw_case *c = bw_case_begin(sink, op, "%s, %d dims, D %lld, K %lld, layout %d, values %d", bw_dtype_name(dtype),
                               n_dims, (long long)n, (long long)k, (int)layout, (int)v);
    bw_tensor *x = bw_case_in_layout(c, dtype, n_dims, dims, layout);
    bw_case_fill_normal(c, x, 1);
    if (v != NORMAL)
        fill_rows(sink, x, v);
    bw_case_fill_special(c, x, n_special);
    if (op == BW_OP_TOPK) {
        out[n_dims - 1] = k;
        bw_case_out(c, dtype, n_dims, out);
        bw_case_params(c, &(bw_topk_params){(int32_t)bw_cases_between(sink, 0, 1)}, sizeof(bw_topk_params));
    }
    bw_case_out(c, BW_U32, n_dims, out);
    bw_case_exact(c);
    bw_case_run(c);
}

static void refuse(bw_case_sink *sink, bw_op op, const char *why, bw_dtype dtype, bw_dtype index, int64_t rows,
                   int64_t columns, int32_t is_smallest)
{
    bw_case *c = bw_case_begin(sink, op, "%s", why);
    bw_case_in(c, dtype, 2, (int64_t[]){3, 8});
    if (op == BW_OP_TOPK) {
        bw_case_out(c, dtype, 2, (int64_t[]){rows, columns});
        bw_case_params(c, &(bw_topk_params){is_smallest}, sizeof(bw_topk_params));
    }
    bw_case_out(c, index, 2, (int64_t[]){rows, columns});
    bw_case_refuse(c);
}

static void cases(bw_case_sink *sink, bw_op op)
{
    static const int64_t lengths[] = {2, 48, 49, 255, 256, 257, 511, 513, 1500, 20011};
    int n_dims;
    int64_t dims[BW_MAX_DIMS];
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        for (int i = 0; bw_cases_shape(i, &n_dims, dims); i++)
            for (int layout = 0; layout < BW_CASE_N_LAYOUTS && n_dims > 0; layout++)
                one(sink, op, types[t], n_dims, dims, (bw_case_layout)layout,
                    bw_cases_between(sink, 0, dims[n_dims - 1]), (values)(i % 3), i % 3 * 4);
        for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
            for (int v = NORMAL; v <= RISING; v++)
                one(sink, op, types[t], 2, (int64_t[]){lengths[i] < 9999 ? 3 : 1, lengths[i]}, BW_CASE_CONTIGUOUS,
                    v == FEW      ? lengths[i] / 2
                    : v == RISING ? lengths[i] / 40
                                  : 1,
                    (values)v, 20);
        one(sink, op, types[t], 2, (int64_t[]){2, 6007}, BW_CASE_GAPS, 300, NORMAL, 500);
    }
    for (int k = 0; k < bw_cases_n_random(sink); k++) {
        int64_t n = bw_cases_between(sink, 1, 3000);
        one(sink, op, types[bw_cases_between(sink, 0, 6)], 2, (int64_t[]){bw_cases_between(sink, 1, 9), n},
            (bw_case_layout)bw_cases_between(sink, 0, BW_CASE_N_LAYOUTS - 1), bw_cases_between(sink, 0, n),
            (values)bw_cases_between(sink, 0, 2), (int)bw_cases_between(sink, 0, 50));
    }
    for (int t = 0; t < 14; t++) { /* outputs that are not contiguous */
        static const int64_t whole[] = {3, 5, 67};
        bw_case_layout layout = t % 2 ? BW_CASE_TRANSPOSED : BW_CASE_GAPS;
        bw_case *c = bw_case_begin(sink, op, "%s, a strided output %d", bw_dtype_name(types[t / 2]), t % 2);
        bw_case_fill_normal(c, bw_case_in(c, types[t / 2], 3, whole), 1);
        const int64_t *out = op == BW_OP_TOPK ? (const int64_t[]){3, 5, 9} : whole;
        if (op == BW_OP_TOPK) {
            bw_case_out_layout(c, types[t / 2], 3, out, layout);
            bw_case_params(c, &(bw_topk_params){t % 3 == 0}, sizeof(bw_topk_params));
        }
        bw_case_out_layout(c, BW_U32, 3, out, layout);
        bw_case_exact(c);
        bw_case_run(c);
    }
    refuse(sink, op, "other rows", BW_F32, BW_U32, 2, 8, 0);
    refuse(sink, op, "more columns", BW_F32, BW_U32, 3, 9, 0);
    refuse(sink, op, "indices that are no u32", BW_F32, BW_I64, 3, 8, 0);
    refuse(sink, op, "a type it has not", BW_I16, BW_U32, 3, 8, 0);
    if (op == BW_OP_TOPK)
        refuse(sink, op, "a direction that is none", BW_F32, BW_U32, 3, 8, 2);
    const int64_t empty[] = {(int64_t)1 << 40, (int64_t)1 << 40, 0};
    bw_case *c = bw_case_begin(sink, op, "no elements of impossibly many");
    bw_case_in(c, BW_F32, 3, empty);
    if (op == BW_OP_TOPK) {
        bw_case_out(c, BW_F32, 3, empty);
        bw_case_params(c, &(bw_topk_params){0}, sizeof(bw_topk_params));
    }
    bw_case_out(c, BW_U32, 3, empty);
    bw_case_run(c);
    c = bw_case_begin(sink, op, "no dimensions");
    bw_case_in(c, BW_F32, 0, NULL);
    if (op == BW_OP_TOPK)
        bw_case_out(c, BW_F32, 0, NULL);
    bw_case_out(c, BW_U32, 0, NULL);
    bw_case_params(c, &(bw_topk_params){0}, sizeof(bw_topk_params));
    bw_case_refuse(c);
}

void bw_op_asort_asc_cases(bw_case_sink *sink)
{
    cases(sink, BW_OP_ASORT_ASC);
}

void bw_op_asort_desc_cases(bw_case_sink *sink)
{
    cases(sink, BW_OP_ASORT_DESC);
}

void bw_op_topk_cases(bw_case_sink *sink)
{
    cases(sink, BW_OP_TOPK);
}
