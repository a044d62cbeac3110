/* What FILL and CONST_SET are tried with. */
#include <math.h>

#include "bw_cases.h"

static const bw_dtype types[] = {BW_F32, BW_BF16, BW_F16, BW_F64, BW_F8_E4M3, BW_U8, BW_U32, BW_I16, BW_I32, BW_I64};
enum { N_TYPES = sizeof types / sizeof *types };

static bw_case *begin(bw_case_sink *sink, bw_op op, const char *what, bw_dtype dtype, int k)
{
    static const double values[] = {0, 1, -0.3, 1e9, NAN, INFINITY, -1e-3};
    static const int64_t integers[] = {0, 1, -1, 300, INT64_MAX, INT64_MIN, -40000};
    k %= (int)(sizeof values / sizeof *values);
    bw_case *c = bw_case_begin(sink, op, "%s of %s, value %g, integer %lld", what, bw_dtype_name(dtype), values[k],
                               (long long)integers[k]);
    bw_case_params(c, &(bw_fill_params){values[k], integers[k]}, sizeof(bw_fill_params));
    bw_case_exact(c);
    return c;
}

static void cases(bw_case_sink *sink, bw_op op)
{
    int n_dims, k = 0;
    int64_t dims[6];
    for (int t = 0; t < N_TYPES; t++) {
        for (int i = 0; bw_cases_shape(i, &n_dims, dims); i++, k++) {
            bw_case *c = begin(sink, op, "all", types[t], k);
            bw_case_out(c, types[t], n_dims, dims);
            bw_case_run(c);
        }
        for (int i = 0; i < 3; i++, k++) {
            static const int64_t strides[][3] = {{400, 40, 1}, {1, 5, 17}, {700, 100, 3}};
            bw_case *c = begin(sink, op, "strided", types[t], k);
            bw_case_out_strided(c, types[t], 3, (int64_t[]){5, 3, 33}, strides[i]);
            bw_case_run(c);
        }
        bw_case *c = begin(sink, op, "rows", types[t], k++);
        bw_case_out_strided(c, types[t], 2, (int64_t[]){200, 301}, (int64_t[]){310, 1});
        bw_case_run(c);
    }
    if (bw_cases_n_random(sink)) { /* past the caches */
        bw_dtype dtype = op == BW_OP_FILL ? BW_F64 : BW_F32;
        bw_case *c = begin(sink, op, "32 MiB", dtype, 2);
        bw_case_out(c, dtype, 2, (int64_t[]){(1 << 12) + 7, op == BW_OP_FILL ? 1 << 10 : 1 << 11});
        bw_case_run(c);
    }
    bw_case *c = begin(sink, op, "quantised", BW_Q8_0, 0);
    bw_case_out(c, BW_Q8_0, 1, (int64_t[]){32});
    bw_case_refuse(c);
    c = bw_case_begin(sink, op, "no params");
    bw_case_out(c, BW_F32, 1, (int64_t[]){32});
    bw_case_refuse(c);
    c = begin(sink, op, "an input", BW_F32, 0);
    bw_case_in(c, BW_F32, 1, (int64_t[]){32});
    bw_case_out(c, BW_F32, 1, (int64_t[]){32});
    bw_case_refuse(c);
}

void bw_op_fill_cases(bw_case_sink *sink)
{
    cases(sink, BW_OP_FILL);
}

void bw_op_const_set_cases(bw_case_sink *sink)
{
    cases(sink, BW_OP_CONST_SET);
}
