/* What the reductions over any axes are tried with. */
#include "bw_cases.h"

static const bw_dtype types[] = {BW_BF16, BW_F16, BW_F32, BW_F64, BW_U8, BW_U32, BW_I64};

static bool is_arg(bw_op op)
{
    return op == BW_OP_FAST_ARGMIN || op == BW_OP_FAST_ARGMAX;
}

static bool is_sum(bw_op op)
{
    return op == BW_OP_SUM || op == BW_OP_FAST_SUM;
}

static bool can(bw_op op, bw_dtype dtype)
{
    return op != BW_OP_SUM || (dtype != BW_U8 && dtype != BW_I64);
}

static void one(bw_case_sink *sink, bw_op op, bw_dtype dtype, int n_dims, const int64_t *dims, uint32_t axes,
                bw_case_layout layout, bool keeps, int n_special)
{
    int64_t out[BW_MAX_DIMS] = {0}, n_reduced = 1, n = 1;
    int n_out = 0;
    for (int d = 0; d < n_dims; d++) {
        n *= dims[d];
        if (axes >> d & 1)
            n_reduced *= dims[d];
        if (keeps || !(axes >> d & 1))
            out[n_out++] = axes >> d & 1 ? 1 : dims[d];
    }
    if ((n == 0 && !is_sum(op)) || !can(op, dtype))
        return;
    bw_case *c = bw_case_begin(sink, op, "%s, %d dims, axes 0x%x, layout %d%s", bw_dtype_name(dtype), n_dims,
                               (unsigned)axes, (int)layout, keeps ? ", kept" : "");
    bw_tensor *x = bw_case_in_layout(c, dtype, n_dims, dims, layout);
    bw_case_fill_normal(c, x, 1);
    bw_case_fill_special(c, x, n_special);
    bw_case_out(c, is_arg(op) ? BW_U32 : dtype, n_out, out);
    bw_case_params(c, &(bw_reduce_params){axes}, sizeof(bw_reduce_params));
    /* Terms of size 1; special values, up to 3e38, cancel in f64 to anything. */
    if (is_sum(op))
        bw_case_tolerance(c, n_reduced,
                          dtype != BW_F64 ? (double)n_reduced * 1e-3
                          : n_special     ? 1e40
                                          : (double)n_reduced,
                          0);
    else
        bw_case_exact(c);
    bw_case_run(c);
}

static void refuse(bw_case_sink *sink, bw_op op, const char *why, bw_dtype dtype, bw_dtype out_dtype, uint32_t axes,
                   int n_out, const int64_t *out)
{
    bw_case *c = bw_case_begin(sink, op, "%s", why);
    bw_case_in(c, dtype, 3, (int64_t[]){4, 0, 6});
    bw_case_out(c, out_dtype, n_out, out);
    bw_case_params(c, &(bw_reduce_params){axes}, sizeof(bw_reduce_params));
    bw_case_refuse(c);
}

static void cases(bw_case_sink *sink, bw_op op)
{
    int n_dims;
    int64_t dims[BW_MAX_DIMS];
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        for (int i = 0; bw_cases_shape(i, &n_dims, dims); i++)
            for (int layout = 0; layout < BW_CASE_N_LAYOUTS; layout++)
                for (int k = 0; k < 3; k++) {
                    uint32_t all = (1u << n_dims) - 1;
                    uint32_t axes = k == 0 ? all : k == 1 ? (all >> 1 ^ all) : (uint32_t)bw_cases_between(sink, 0, all);
                    one(sink, op, types[t], n_dims, dims, axes, (bw_case_layout)layout, (i + k) % 2, i % 3 * 5);
                }
        /* enough for several members to share one result; without special values, beside which a sum says nothing, too
         */
        for (int special = 0; special <= 100; special += 50) {
            one(sink, op, types[t], 2, (int64_t[]){3, 60001}, 2, BW_CASE_CONTIGUOUS, true, special);
            one(sink, op, types[t], 2, (int64_t[]){40001, 17}, 1, BW_CASE_CONTIGUOUS, false, special);
            one(sink, op, types[t], 2, (int64_t[]){301, 1100}, 1, BW_CASE_GAPS, false, special);
            one(sink, op, types[t], 3, (int64_t[]){40, 50, 40}, 7, BW_CASE_TRANSPOSED, false, special);
            one(sink, op, types[t], 3, (int64_t[]){40, 50, 40}, 2, BW_CASE_CONTIGUOUS, false, special);
            one(sink, op, types[t], 3, (int64_t[]){40, 50, 40}, 5, BW_CASE_CONTIGUOUS, true, special);
        }
    }
    for (int k = 0; k < bw_cases_n_random(sink); k++)
        one(sink, op, types[bw_cases_between(sink, 0, 6)], 3,
            (int64_t[]){bw_cases_between(sink, 1, 9), bw_cases_between(sink, 1, 30), bw_cases_between(sink, 1, 300)},
            (uint32_t)bw_cases_between(sink, 0, 7), (bw_case_layout)bw_cases_between(sink, 0, BW_CASE_N_LAYOUTS - 1),
            bw_cases_between(sink, 0, 1), (int)bw_cases_between(sink, 0, 40));

    if (is_sum(op)) {
        bw_case *c = bw_case_begin(sink, op, "no elements of impossibly many");
        bw_case_in(c, BW_F32, 3, (int64_t[]){(int64_t)1 << 40, (int64_t)1 << 40, 0});
        bw_case_out(c, BW_F32, 0, NULL);
        bw_case_params(c, &(bw_reduce_params){7}, sizeof(bw_reduce_params));
        bw_case_run(c);
    }
    for (int t = 0; t < 14; t++) { /* an output that is not contiguous */
        if (!can(op, types[t / 2]))
            continue;
        static const int64_t strided[] = {5, 33, 7, 9}, kept[] = {5, 1, 7, 9};
        bw_case *c = bw_case_begin(sink, op, "%s, a strided output %d", bw_dtype_name(types[t / 2]), t % 2);
        bw_case_fill_normal(c, bw_case_in(c, types[t / 2], 4, strided), 1);
        bw_case_out_layout(c, is_arg(op) ? BW_U32 : types[t / 2], 4, kept, t % 2 ? BW_CASE_TRANSPOSED : BW_CASE_GAPS);
        bw_case_params(c, &(bw_reduce_params){2}, sizeof(bw_reduce_params));
        bw_case_tolerance(c, 33, types[t / 2] == BW_F64 ? 33 : 33e-3, 0);
        bw_case_run(c);
    }
    bw_dtype y = is_arg(op) ? BW_U32 : BW_F32;
    refuse(sink, op, "axes beyond the last", BW_F32, y, 8, 3, (int64_t[]){4, 0, 6});
    refuse(sink, op, "another shape", BW_F32, y, 4, 2, (int64_t[]){4, 1});
    refuse(sink, op, "another shape, kept", BW_F32, y, 4, 3, (int64_t[]){4, 0, 6});
    refuse(sink, op, "a type it has not", BW_I16, is_arg(op) ? BW_U32 : BW_I16, 4, 2, (int64_t[]){4, 0});
    refuse(sink, op, "another type of output", BW_F32, BW_F64, 4, 2, (int64_t[]){4, 0});
    if (!is_sum(op))
        refuse(sink, op, "nothing to choose from", BW_F32, y, 2, 2, (int64_t[]){4, 6});
}

#define BW_REDUCTION(NAME, name, KIND, kind, dtypes)                                                                   \
    void bw_op_##name##_cases(bw_case_sink *sink)                                                                      \
    {                                                                                                                  \
        cases(sink, BW_OP_##NAME);                                                                                     \
    }
#include "reduce/reduce_list.def"
#undef BW_REDUCTION
