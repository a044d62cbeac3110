/* What pooling and upsampling are tried with. */
#include <math.h>

#include "bw_cases.h"
#include "bw_element.h"

static const bw_dtype types[] = {BW_F32, BW_BF16, BW_F16, BW_F64, BW_U8, BW_U32};
enum { N_TYPES = sizeof types / sizeof *types };

static bw_case *begin(bw_case_sink *sink, bw_op op, bw_dtype dtype, const int64_t *x, const int64_t *size,
                      bw_case_layout layout, int n_special)
{
    bw_case *c = bw_case_begin(sink, op, "%s %lldx%lldx%lldx%lld to %lldx%lld, layout %d", bw_dtype_name(dtype),
                               (long long)x[0], (long long)x[1], (long long)x[2], (long long)x[3], (long long)size[0],
                               (long long)size[1], (int)layout);
    bw_tensor *t = bw_case_in_layout(c, dtype, 4, x, layout);
    bw_case_fill_normal(c, t, 1);
    bw_case_fill_special(c, t, n_special);
    int64_t y[] = {x[0], x[1], size[0], size[1]};
    if (layout == BW_CASE_GAPS)
        bw_case_out_strided(
            c, dtype, 4, y,
            (int64_t[]){(y[1] + 1) * (y[2] + 1) * (y[3] * 2 + 3), (y[2] + 1) * (y[3] * 2 + 3), y[3] * 2 + 3, 2});
    else
        bw_case_out(c, dtype, 4, y);
    return c;
}

static void pool(bw_case_sink *sink, bw_op op, bw_dtype dtype, const int64_t *x, const bw_pool2d_params *p,
                 bw_case_layout layout)
{
    int64_t size[] = {(x[2] - p->kernel_h) / p->stride_h + 1, (x[3] - p->kernel_w) / p->stride_w + 1};
    bw_case *c = begin(sink, op, dtype, x, size, layout, op == BW_OP_MAX_POOL2D ? 8 : 0);
    bw_case_params(c, p, sizeof *p);
    if (op == BW_OP_MAX_POOL2D)
        bw_case_exact(c);
    else
        bw_case_tolerance(c, p->kernel_h * p->kernel_w, 1, 0);
    bw_case_run(c);
}

static void refuse(bw_case_sink *sink, bw_op op, const void *params, size_t n_bytes, const int64_t *size)
{
    bw_case *c = begin(sink, op, BW_F32, (int64_t[]){1, 2, 8, 8}, size, BW_CASE_CONTIGUOUS, 0);
    if (params)
        bw_case_params(c, params, n_bytes);
    bw_case_refuse(c);
}

static void pools(bw_case_sink *sink, bw_op op)
{
    const int64_t x[] = {2, 3, 9, 21}, empty[] = {0, 3, 4, 4}, large[] = {2, 10, 60, 61};
    static const bw_pool2d_params params[] = {{2, 2, 2, 2}, {3, 3, 1, 1}, {9, 1, 3, 5}, {1, 4, 2, 3}, {1, 1, 1, 1}};
    for (int t = 0; t < N_TYPES; t++)
        for (int layout = 0; layout < BW_CASE_N_LAYOUTS; layout++)
            for (size_t i = 0; i < sizeof params / sizeof *params; i++)
                pool(sink, op, types[t], x, &params[i], (bw_case_layout)layout);
    pool(sink, op, BW_F32, empty, &params[0], BW_CASE_CONTIGUOUS);
    pool(sink, op, BW_F32, large, &params[0], BW_CASE_CONTIGUOUS);
    pool(sink, op, BW_BF16, large, &params[1], BW_CASE_CONTIGUOUS);
    const int64_t good[] = {4, 4};
    size_t n = sizeof(bw_pool2d_params);
    refuse(sink, op, &(bw_pool2d_params){0, 2, 2, 2}, n, good);
    refuse(sink, op, &(bw_pool2d_params){9, 2, 2, 2}, n, good);
    refuse(sink, op, &(bw_pool2d_params){2, 2, 0, 2}, n, good);
    refuse(sink, op, &(bw_pool2d_params){2, 2, 2, INT64_MAX}, n, good);
    refuse(sink, op, &(bw_pool2d_params){2, 2, 2, 2}, n, (int64_t[]){4, 5});
    refuse(sink, op, NULL, 0, good);
}

void bw_op_avg_pool2d_cases(bw_case_sink *sink)
{
    pools(sink, BW_OP_AVG_POOL2D);
}

void bw_op_max_pool2d_cases(bw_case_sink *sink)
{
    pools(sink, BW_OP_MAX_POOL2D);
}

static const int64_t sizes[][2] = {{18, 42}, {9, 21}, {5, 8}, {1, 1}, {31, 40}, {10, 22}};
enum { N_SIZES = sizeof sizes / sizeof *sizes };

void bw_op_upsample_nearest2d_cases(bw_case_sink *sink)
{
    const int64_t x[] = {2, 3, 9, 21}, empty[] = {0, 3, 4, 4};
    static const double steps[] = {0, 0.5, 1.3};
    for (int t = 0; t < N_TYPES; t++)
        for (int layout = 0; layout < BW_CASE_N_LAYOUTS; layout++)
            for (int i = 0; i < N_SIZES; i++) {
                bw_case *c = begin(sink, BW_OP_UPSAMPLE_NEAREST2D, types[t], x, sizes[i], (bw_case_layout)layout, 8);
                bw_case_params(c, &(bw_upsample_nearest2d_params){steps[i % 3], steps[(i + t) % 3]},
                               sizeof(bw_upsample_nearest2d_params));
                bw_case_exact(c);
                bw_case_run(c);
            }
    bw_case *c = begin(sink, BW_OP_UPSAMPLE_NEAREST2D, BW_F32, empty, sizes[0], BW_CASE_CONTIGUOUS, 0);
    bw_case_params(c, &(bw_upsample_nearest2d_params){0, 0}, sizeof(bw_upsample_nearest2d_params));
    bw_case_run(c);
    size_t n = sizeof(bw_upsample_nearest2d_params);
    refuse(sink, BW_OP_UPSAMPLE_NEAREST2D, &(bw_upsample_nearest2d_params){-1, 0}, n, sizes[0]);
    refuse(sink, BW_OP_UPSAMPLE_NEAREST2D, &(bw_upsample_nearest2d_params){0, NAN}, n, sizes[0]);
    refuse(sink, BW_OP_UPSAMPLE_NEAREST2D, &(bw_upsample_nearest2d_params){0, INFINITY}, n, sizes[0]);
    refuse(sink, BW_OP_UPSAMPLE_NEAREST2D, &(bw_upsample_nearest2d_params){0, 0}, n, (int64_t[]){0, 4});
    refuse(sink, BW_OP_UPSAMPLE_NEAREST2D, NULL, 0, sizes[0]);
}

void bw_op_upsample_bilinear2d_cases(bw_case_sink *sink)
{
    const int64_t x[] = {2, 3, 9, 21};
    static const double scales[] = {0, 2, 1.03};
    for (int t = 0; t < N_TYPES; t++)
        for (int layout = 0; layout < BW_CASE_N_LAYOUTS; layout++)
            for (int i = 0; i < N_SIZES * 2; i++) {
                bw_case *c =
                    begin(sink, BW_OP_UPSAMPLE_BILINEAR2D, types[t], x, sizes[i / 2], (bw_case_layout)layout, 0);
                bw_case_params(c, &(bw_upsample_bilinear2d_params){scales[i % 3], scales[(i + t) % 3], i % 2, 0},
                               sizeof(bw_upsample_bilinear2d_params));
                bw_case_tolerance(c, 4, 1, 0);
                bw_case_run(c);
            }
    size_t n = sizeof(bw_upsample_bilinear2d_params);
    refuse(sink, BW_OP_UPSAMPLE_BILINEAR2D, &(bw_upsample_bilinear2d_params){-1, 0, 0, 0}, n, sizes[0]);
    refuse(sink, BW_OP_UPSAMPLE_BILINEAR2D, &(bw_upsample_bilinear2d_params){0, NAN, 0, 0}, n, sizes[0]);
    refuse(sink, BW_OP_UPSAMPLE_BILINEAR2D, &(bw_upsample_bilinear2d_params){0, 0, 0, 0}, n, (int64_t[]){4, 0});
    refuse(sink, BW_OP_UPSAMPLE_BILINEAR2D, NULL, 0, sizes[0]);
}
