/* What CUMSUM is tried with. */
#include "bw_cases.h"

static const bw_dtype types[] = {BW_BF16, BW_F16, BW_F32, BW_F64};

static void one(bw_case_sink *sink, bw_dtype dtype, int n_dims, const int64_t *dims, int axis, bw_case_layout layout,
                bool in_place)
{
    bw_case *c = bw_case_begin(sink, BW_OP_CUMSUM, "%s, %d dims, axis %d, layout %d%s", bw_dtype_name(dtype), n_dims,
                               axis, (int)layout, in_place ? ", in place" : "");
    bw_case_fill_normal(c, bw_case_in_layout(c, dtype, n_dims, dims, layout), 1);
    if (in_place)
        bw_case_out_alias(c, 0);
    else
        bw_case_out(c, dtype, n_dims, dims);
    bw_case_params(c, &(bw_cumsum_params){axis}, sizeof(bw_cumsum_params));
    /* Equal terms, where x is broadcast, are all rounded the same way in ref's order: n roundings of the same sign. */
    bool is_equal = dtype == BW_F64 && layout == BW_CASE_BROADCAST;
    bw_case_tolerance(c, is_equal ? dims[axis] * dims[axis] : 1,
                      dtype == BW_F64 ? (double)dims[axis] : (double)dims[axis] * 1e-6, 0);
    bw_case_run(c);
}

void bw_op_cumsum_cases(bw_case_sink *sink)
{
    int n_dims;
    int64_t dims[BW_MAX_DIMS];
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (int i = 0; bw_cases_shape(i, &n_dims, dims); i++)
            for (int axis = 0; axis < n_dims; axis++)
                for (int layout = 0; layout < BW_CASE_N_LAYOUTS; layout++)
                    one(sink, types[t], n_dims, dims, axis, (bw_case_layout)layout, false);
    one(sink, BW_F32, 3, (int64_t[]){7, 1100, 31}, 1, BW_CASE_CONTIGUOUS, true);
    one(sink, BW_BF16, 3, (int64_t[]){7, 31, 1100}, 1, BW_CASE_GAPS, true);
    one(sink, BW_F16, 2, (int64_t[]){7, 3100}, 1, BW_CASE_CONTIGUOUS, true);
    for (int k = 0; k < bw_cases_n_random(sink); k++)
        one(sink, types[bw_cases_between(sink, 0, 3)], 3,
            (int64_t[]){bw_cases_between(sink, 1, 9), bw_cases_between(sink, 1, 30), bw_cases_between(sink, 1, 900)},
            (int)bw_cases_between(sink, 0, 2), (bw_case_layout)bw_cases_between(sink, 0, BW_CASE_N_LAYOUTS - 1), false);

    for (int axis = 0; axis < 3; axis++) {
        const int64_t empty[] = {(int64_t)1 << 40, (int64_t)1 << 40, 0};
        bw_case *c = bw_case_begin(sink, BW_OP_CUMSUM, "no elements of impossibly many, axis %d", axis);
        bw_case_in(c, BW_F32, 3, empty);
        bw_case_out(c, BW_F32, 3, empty);
        bw_case_params(c, &(bw_cumsum_params){axis}, sizeof(bw_cumsum_params));
        bw_case_run(c);
    }
    for (int k = 0; k < 16; k++) { /* an output that is not contiguous */
        static const int64_t strided[] = {6, 70};
        bw_case *c = bw_case_begin(sink, BW_OP_CUMSUM, "%s, a strided output %d, axis %d", bw_dtype_name(types[k / 4]),
                                   k % 2, k / 2 % 2);
        bw_case_fill_normal(c, bw_case_in(c, types[k / 4], 2, strided), 1);
        bw_case_out_layout(c, types[k / 4], 2, strided, k % 2 ? BW_CASE_TRANSPOSED : BW_CASE_GAPS);
        bw_case_params(c, &(bw_cumsum_params){k / 2 % 2}, sizeof(bw_cumsum_params));
        bw_case_tolerance(c, 1, types[k / 4] == BW_F64 ? 70 : 70e-6, 0);
        bw_case_run(c);
    }
    bw_case *c = bw_case_begin(sink, BW_OP_CUMSUM, "specials");
    bw_tensor *x = bw_case_in(c, BW_F32, 2, (int64_t[]){9, 300});
    bw_case_fill_normal(c, x, 1);
    bw_case_fill_special(c, x, 20);
    bw_case_out(c, BW_F32, 2, (int64_t[]){9, 300});
    bw_case_params(c, &(bw_cumsum_params){1}, sizeof(bw_cumsum_params));
    bw_case_tolerance(c, 2, 1, 0);
    bw_case_run(c);
    for (int k = 0; k < 4; k++) {
        static const char *const why[] = {"no such axis", "an axis below 0", "another shape", "an integer"};
        bw_dtype dtype = k == 3 ? BW_I64 : BW_F32;
        c = bw_case_begin(sink, BW_OP_CUMSUM, "%s", why[k]);
        bw_case_in(c, dtype, 2, (int64_t[]){4, 6});
        bw_case_out(c, dtype, 2, (int64_t[]){4, k == 2 ? 5 : 6});
        bw_case_params(c, &(bw_cumsum_params){k == 0 ? 2 : k == 1 ? -1 : 0}, sizeof(bw_cumsum_params));
        bw_case_refuse(c);
    }
}
