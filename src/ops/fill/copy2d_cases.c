/* What COPY2D is tried with. */
#include "bw_cases.h"

static const bw_dtype types[] = {BW_F32, BW_BF16, BW_F16, BW_F64, BW_F8_E4M3, BW_U8, BW_U32, BW_I16, BW_I32, BW_I64};
enum { N_TYPES = sizeof types / sizeof *types };

static void one(bw_case_sink *sink, bw_dtype dtype, int64_t d1, int64_t d2, int64_t x_stride, int64_t y_stride)
{
    int64_t dims[] = {d1, d2};
    bw_case *c = bw_case_begin(sink, BW_OP_COPY2D, "%s [%lld, %lld], strides %lld and %lld", bw_dtype_name(dtype),
                               (long long)d1, (long long)d2, (long long)x_stride, (long long)y_stride);
    bw_tensor *x = bw_case_in_strided(c, dtype, 2, dims, (int64_t[]){x_stride, 1});
    bw_case_fill_normal(c, x, 3);
    bw_case_fill_special(c, x, 5);
    bw_case_out_strided(c, dtype, 2, dims, (int64_t[]){y_stride, 1});
    bw_case_exact(c);
    bw_case_run(c);
}

static void refuse(bw_case_sink *sink, const char *name, bw_dtype from, bw_dtype to, int n_dims, int64_t n,
                   int64_t column_stride)
{
    bw_case *c = bw_case_begin(sink, BW_OP_COPY2D, "%s", name);
    int64_t dims[] = {3, 4, 32};
    bw_case_in(c, from, n_dims, dims + 3 - n_dims);
    dims[2] = n;
    if (column_stride != 1)
        bw_case_out_strided(c, to, n_dims, dims + 3 - n_dims, (int64_t[]){100, column_stride});
    else
        bw_case_out(c, to, n_dims, dims + 3 - n_dims);
    bw_case_refuse(c);
}

void bw_op_copy2d_cases(bw_case_sink *sink)
{
    for (int t = 0; t < N_TYPES; t++) {
        static const int64_t shapes[][4] = {{1, 1, 1, 1},     {5, 7, 7, 7},       {5, 7, 9, 7},   {5, 7, 7, 11},
                                            {31, 1, 4, 1},    {1, 8209, 9000, 1}, {0, 7, 7, 7},   {7, 0, 1, 1},
                                            {64, 33, 40, 50}, {1031, 3, 3, 6},    {9, 65, 0, 65}, {300, 257, 260, 300}};
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
            one(sink, types[t], shapes[i][0], shapes[i][1], shapes[i][2],
                shapes[i][3] < shapes[i][1] ? shapes[i][1] : shapes[i][3]);
        for (int i = 0; i < bw_cases_n_random(sink) / 4; i++) {
            int64_t d2 = bw_cases_between(sink, 1, 300);
            one(sink, types[t], bw_cases_between(sink, 1, 200), d2, d2 + bw_cases_between(sink, 0, 5),
                d2 + bw_cases_between(sink, 0, 5));
        }
    }
    refuse(sink, "two types", BW_F32, BW_F16, 2, 32, 1);
    refuse(sink, "other output shape", BW_F32, BW_F32, 2, 31, 1);
    refuse(sink, "three dimensions", BW_F32, BW_F32, 3, 32, 1);
    refuse(sink, "one dimension", BW_F32, BW_F32, 1, 32, 1);
    refuse(sink, "columns that are not dense", BW_F32, BW_F32, 2, 32, 2);
    refuse(sink, "quantised", BW_Q8_0, BW_Q8_0, 2, 32, 1);
    bw_case *c = bw_case_begin(sink, BW_OP_COPY2D, "no input");
    bw_case_in_absent(c);
    bw_case_out(c, BW_F32, 2, (int64_t[]){3, 4});
    bw_case_refuse(c);
}
