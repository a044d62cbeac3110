/* What the conv family is tried with: convolutions and the column forms. Pooling and upsampling: planes_cases.c. */
#include <math.h>

#include "bw_cases.h"
#include "bw_element.h"

static const bw_dtype types[] = {BW_F32, BW_BF16, BW_F16, BW_F64, BW_U8, BW_U32};
enum { N_TYPES = sizeof types / sizeof *types };

typedef struct conv_case {
    int64_t n, c, o, h, w, kh, kw; /* o: output channels */
    bw_conv2d_params p;
    bw_case_layout layout;
    bool is_transposed, has_gaps;
} conv_case;

static int64_t out_size(bool is_transposed, int64_t size, int64_t kernel, int64_t stride, int64_t padding,
                        int64_t dilation, int64_t more)
{
    return is_transposed ? (size - 1) * stride - 2 * padding + dilation * (kernel - 1) + more + 1
                         : (size + 2 * padding - dilation * (kernel - 1) - 1) / stride + 1;
}

static void add_out(bw_case *c, bw_dtype dtype, int n_dims, const int64_t *dims, bool has_gaps)
{
    int64_t strides[BW_MAX_DIMS], step = 2;
    for (int i = n_dims - 1; i >= 0; i--) {
        strides[i] = step;
        step = step * (dims[i] > 1 ? dims[i] : 1) + 3;
    }
    if (has_gaps)
        bw_case_out_strided(c, dtype, n_dims, dims, strides);
    else
        bw_case_out(c, dtype, n_dims, dims);
}

static void one2d(bw_case_sink *sink, bw_dtype dtype, const conv_case *v)
{
    const bw_conv2d_params *p = &v->p;
    int64_t oh = out_size(v->is_transposed, v->h, v->kh, p->stride_h, p->padding_h, p->dilation_h, p->output_padding_h);
    int64_t ow = out_size(v->is_transposed, v->w, v->kw, p->stride_w, p->padding_w, p->dilation_w, p->output_padding_w);
    bw_case *c = bw_case_begin(sink, v->is_transposed ? BW_OP_CONV_TRANSPOSE2D : BW_OP_CONV2D,
                               "%s %lldx%lldx%lldx%lld to %lld, kernel %lldx%lld, groups %lld, stride %lld, layout %d",
                               bw_dtype_name(dtype), (long long)v->n, (long long)v->c, (long long)v->h, (long long)v->w,
                               (long long)v->o, (long long)v->kh, (long long)v->kw, (long long)p->groups,
                               (long long)p->stride_h, (int)v->layout);
    bw_case_fill_normal(c, bw_case_in_layout(c, dtype, 4, (int64_t[]){v->n, v->c, v->h, v->w}, v->layout), 1);
    int64_t w[] = {v->is_transposed ? v->c : v->o, v->is_transposed ? v->o / p->groups : v->c / p->groups, v->kh,
                   v->kw};
    bw_case_fill_normal(c, bw_case_in_layout(c, dtype, 4, w, v->layout), 1);
    add_out(c, dtype, 4, (int64_t[]){v->n, v->o, oh, ow}, v->has_gaps);
    bw_case_params(c, p, sizeof *p);
    int64_t terms = v->c / p->groups * v->kh * v->kw;
    bw_case_tolerance(c, terms, sqrt((double)terms) + 1, 0);
    bw_case_run(c);
}

/* Weights that are not finite: a tap that meets no input adds nothing. */
static void wild_weights(bw_case_sink *sink, bool is_transposed)
{
    for (int t = 0; t < N_TYPES; t++)
        for (int i_channels = 0; i_channels < 3; i_channels++) {
            const int channels = ((const int[]){1, 8, 100})[i_channels];
            if (types[t] == BW_U8 || types[t] == BW_U32)
                continue;
            int64_t k = 3, n = 6, out = is_transposed ? n + 2 : n;
            bw_case *c =
                bw_case_begin(sink, is_transposed ? BW_OP_CONV_TRANSPOSE1D : BW_OP_CONV1D,
                              "%s, %d channels, weights that are not finite", bw_dtype_name(types[t]), channels);
            bw_case_fill_uniform(c, bw_case_in(c, types[t], 3, (int64_t[]){1, channels, n}), 1, 2);
            bw_tensor *w = bw_case_in(c, types[t], 3, (int64_t[]){channels, channels + 5, k});
            if (!is_transposed) {
                w->dims[0] = channels + 5;
                w->dims[1] = channels;
                w->strides[0] = channels * k;
            }
            bw_case_fill_uniform(c, w, 1, 2);
            for (int i = 0; i < channels + 5; i += 3) {
                bw_element_set_f64(types[t], w->data, i * k, (double)INFINITY);
                bw_element_set_f64(types[t], w->data, (i + 1) * k + 2, (double)NAN);
            }
            bw_case_out(c, types[t], 3, (int64_t[]){1, channels + 5, out});
            bw_case_params(c, &(bw_conv1d_params){1, is_transposed ? 0 : 1, 1, 0, 1}, sizeof(bw_conv1d_params));
            bw_case_tolerance(c, channels * k, (double)(channels * k) * 4, 0);
            bw_case_run(c);
        }
}

static void one1d(bw_case_sink *sink, bw_dtype dtype, const conv_case *v)
{
    const bw_conv1d_params p = {v->p.stride_w, v->p.padding_w, v->p.dilation_w, v->p.output_padding_w, v->p.groups};
    int64_t l = out_size(v->is_transposed, v->w, v->kw, p.stride, p.padding, p.dilation, p.output_padding);
    bw_case *c = bw_case_begin(sink, v->is_transposed ? BW_OP_CONV_TRANSPOSE1D : BW_OP_CONV1D,
                               "%s %lldx%lldx%lld to %lld, kernel %lld, groups %lld, stride %lld, layout %d",
                               bw_dtype_name(dtype), (long long)v->n, (long long)v->c, (long long)v->w, (long long)v->o,
                               (long long)v->kw, (long long)p.groups, (long long)p.stride, (int)v->layout);
    bw_case_fill_normal(c, bw_case_in_layout(c, dtype, 3, (int64_t[]){v->n, v->c, v->w}, v->layout), 1);
    int64_t w[] = {v->is_transposed ? v->c : v->o, v->is_transposed ? v->o / p.groups : v->c / p.groups, v->kw};
    bw_case_fill_normal(c, bw_case_in_layout(c, dtype, 3, w, v->layout), 1);
    add_out(c, dtype, 3, (int64_t[]){v->n, v->o, l}, v->has_gaps);
    bw_case_params(c, &p, sizeof p);
    int64_t terms = v->c / p.groups * v->kw;
    bw_case_tolerance(c, terms, sqrt((double)terms) + 1, 0);
    bw_case_run(c);
}

typedef void one_fn(bw_case_sink *sink, bw_dtype dtype, const conv_case *v);

/* What goes to a GPU's matrix units: more than a tile in each direction, sizes that end within a tile or within 16
 * bytes, k in parts, every kind of step, groups, and those that must go elsewhere. */
static void matrix_cases(bw_case_sink *sink, one_fn *one)
{
    static const conv_case cases[] = {
        {1, 72, 150, 9, 13, 3, 3, {1, 1, 1, 1, 1, 1, 0, 0, 1}, BW_CASE_CONTIGUOUS, false, false},
        {1, 64, 24, 5, 6, 3, 3, {1, 1, 1, 1, 1, 1, 0, 0, 1}, BW_CASE_CONTIGUOUS, false, false}, /* parts of k */
        {2, 107, 20, 5, 7, 3, 3, {2, 2, 1, 1, 1, 1, 0, 0, 1}, BW_CASE_CONTIGUOUS, false, false},
        {1, 40, 200, 20, 21, 3, 3, {1, 1, 1, 1, 1, 1, 0, 0, 1}, BW_CASE_CONTIGUOUS, false, false},
        {2, 33, 65, 17, 19, 3, 3, {2, 2, 1, 1, 1, 1, 0, 0, 1}, BW_CASE_CONTIGUOUS, false, false},
        {1, 24, 40, 16, 31, 3, 5, {1, 1, 2, 4, 2, 2, 0, 0, 1}, BW_CASE_CONTIGUOUS, false, false},
        {2, 64, 96, 9, 40, 1, 1, {1, 1, 0, 0, 1, 1, 0, 0, 1}, BW_CASE_CONTIGUOUS, false, false},
        {1, 70, 66, 9, 40, 1, 1, {2, 2, 0, 0, 1, 1, 0, 0, 1}, BW_CASE_CONTIGUOUS, false, false},
        {1, 48, 60, 11, 12, 3, 3, {1, 1, 1, 1, 1, 1, 0, 0, 3}, BW_CASE_CONTIGUOUS, false, false},
        {2, 256, 32, 6, 5, 3, 3, {1, 1, 1, 1, 1, 1, 0, 0, 2}, BW_CASE_CONTIGUOUS, false, false}, /* groups and parts */
        {1, 40, 40, 12, 17, 3, 3, {1, 1, 1, 1, 1, 1, 0, 0, 40}, BW_CASE_CONTIGUOUS, false, false},
        {1, 3, 64, 30, 31, 7, 7, {2, 2, 3, 3, 1, 1, 0, 0, 1}, BW_CASE_CONTIGUOUS, false, false},
        {1, 2, 20, 8, 40, 2, 17, {1, 1, 1, 8, 1, 1, 0, 0, 1}, BW_CASE_CONTIGUOUS, false, false}, /* too many taps */
        {1, 96, 4, 24, 23, 3, 3, {1, 1, 1, 1, 1, 1, 0, 0, 1}, BW_CASE_CONTIGUOUS, false, false},
        {1, 8, 130, 95, 97, 1, 3, {1, 1, 0, 1, 1, 1, 0, 0, 1}, BW_CASE_CONTIGUOUS, false, false}, /* many tiles */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int has_gaps = 0; has_gaps < 2; has_gaps++) {
            conv_case v = cases[i];
            v.has_gaps = has_gaps;
            if (has_gaps && v.h > 90)
                continue;
            if (has_gaps)
                v.layout = BW_CASE_GAPS;
            one(sink, BW_F16, &v);
            one(sink, BW_BF16, &v);
            if (!has_gaps && v.h < 90)
                one(sink, BW_F32, &v);
        }
}

static void conv_cases(bw_case_sink *sink, one_fn *one, bool is_transposed)
{
    static const conv_case fixed[] = {
        {1, 3, 5, 7, 9, 3, 3, {1, 1, 1, 1, 1, 1, 0, 0, 1}, BW_CASE_CONTIGUOUS, false, false},
        {2, 4, 6, 8, 20, 3, 2, {2, 1, 1, 0, 1, 2, 0, 0, 2}, BW_CASE_CONTIGUOUS, false, false},
        {2, 4, 6, 6, 37, 1, 1, {1, 1, 0, 0, 1, 1, 0, 0, 1}, BW_CASE_CONTIGUOUS, false, false},
        {1, 4, 6, 6, 37, 1, 1, {2, 2, 0, 0, 1, 1, 0, 0, 1}, BW_CASE_CONTIGUOUS, false, false},
        {1, 6, 6, 9, 35, 3, 3, {1, 1, 1, 1, 1, 1, 0, 0, 6}, BW_CASE_CONTIGUOUS, false, false},
        {2, 3, 6, 9, 21, 3, 5, {2, 3, 2, 1, 2, 1, 0, 0, 3}, BW_CASE_CONTIGUOUS, false, false},
        {1, 2, 3, 5, 6, 5, 6, {1, 1, 4, 7, 1, 1, 0, 0, 1}, BW_CASE_CONTIGUOUS, false, false},
        {0, 2, 3, 5, 6, 2, 2, {1, 1, 0, 0, 1, 1, 0, 0, 1}, BW_CASE_CONTIGUOUS, false, false},
        {1, 0, 3, 5, 6, 2, 2, {1, 1, 0, 0, 1, 1, 0, 0, 1}, BW_CASE_CONTIGUOUS, false, false},
        {1, 2, 0, 5, 6, 2, 2, {1, 1, 0, 0, 1, 1, 0, 0, 1}, BW_CASE_CONTIGUOUS, false, false},
    };
    for (int t = 0; t < N_TYPES; t++)
        for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++)
            for (int layout = 0; layout < BW_CASE_N_LAYOUTS; layout++) {
                conv_case v = fixed[i];
                v.is_transposed = is_transposed;
                if (is_transposed) {
                    v.p.padding_h = v.p.padding_w = v.p.padding_h > 1;
                    v.p.output_padding_h = v.p.stride_h - 1;
                    v.p.output_padding_w = v.p.stride_w - 1;
                }
                v.layout = (bw_case_layout)layout;
                v.has_gaps = layout == BW_CASE_GAPS;
                one(sink, types[t], &v);
            }
    /* Work that is shared by batch items, groups, channels and rows, with every kind of edge. */
    static const conv_case shared[] = {
        {3, 8, 24, 11, 13, 3, 3, {1, 1, 1, 1, 1, 1, 0, 0, 1}, BW_CASE_CONTIGUOUS, false, false},
        {1, 12, 18, 13, 29, 3, 3, {2, 2, 1, 1, 1, 1, 0, 0, 6}, BW_CASE_CONTIGUOUS, false, false},
        {1, 16, 100, 7, 9, 3, 2, {1, 1, 1, 1, 1, 1, 0, 0, 1}, BW_CASE_CONTIGUOUS, false, false},
        {1, 5, 7, 40, 45, 3, 5, {1, 2, 2, 4, 2, 2, 0, 0, 1}, BW_CASE_CONTIGUOUS, false, false},
        {2, 32, 17, 29, 31, 1, 1, {1, 1, 0, 0, 1, 1, 0, 0, 1}, BW_CASE_CONTIGUOUS, false, false},
        {1, 24, 24, 30, 33, 3, 3, {2, 1, 1, 1, 1, 1, 0, 0, 24}, BW_CASE_CONTIGUOUS, false, false},
    };
    for (size_t i = 0; i < sizeof shared / sizeof *shared; i++)
        for (int has_gaps = 0; has_gaps < 2; has_gaps++) {
            conv_case v = shared[i];
            v.is_transposed = is_transposed;
            v.has_gaps = has_gaps;
            v.p.output_padding_h = is_transposed && v.p.stride_h > 1;
            one(sink, BW_F32, &v);
            one(sink, BW_BF16, &v);
        }
    /* Beyond one block in every direction. */
    conv_case large = {1, 24, 70, 20, 36, 3, 4, {1, 1, 1, 2, 1, 1, 0, 0, 1}, BW_CASE_CONTIGUOUS, is_transposed, false};
    one(sink, BW_F32, &large);
    one(sink, BW_BF16, &large);
    large = (conv_case){1, 2, 220, 6, 6, 2, 2, {1, 1, 0, 0, 1, 1, 0, 0, 1}, BW_CASE_CONTIGUOUS, is_transposed, false};
    one(sink, BW_F32, &large);
    if (!is_transposed)
        matrix_cases(sink, one);
    for (int i = 0; i < bw_cases_n_random(sink); i++) {
        int64_t groups = bw_cases_between(sink, 1, 3);
        conv_case v = {bw_cases_between(sink, 1, 2),
                       groups * bw_cases_between(sink, 1, 5),
                       groups * bw_cases_between(sink, 1, 9),
                       bw_cases_between(sink, 7, 12),
                       bw_cases_between(sink, 7, 40),
                       bw_cases_between(sink, 1, 4),
                       bw_cases_between(sink, 1, 4),
                       {bw_cases_between(sink, 1, 3), bw_cases_between(sink, 1, 3), bw_cases_between(sink, 0, 2),
                        bw_cases_between(sink, 0, 2), bw_cases_between(sink, 1, 2), bw_cases_between(sink, 1, 2), 0, 0,
                        groups},
                       (bw_case_layout)bw_cases_between(sink, 0, BW_CASE_N_LAYOUTS - 1),
                       is_transposed,
                       bw_cases_between(sink, 0, 3) == 0};
        one(sink, types[bw_cases_between(sink, 0, N_TYPES - 1)], &v);
    }
}

/* A call that differs from a good one in one thing. */
static void refuse2d(bw_case_sink *sink, bw_op op, const char *what, const bw_conv2d_params *p, int64_t w_channels,
                     int64_t kernel, int64_t out_channels, int64_t out_h)
{
    bw_case *c = bw_case_begin(sink, op, "%s", what);
    bw_case_in(c, BW_F32, 4, (int64_t[]){1, 4, 8, 8});
    bw_case_in(c, BW_F32, 4, (int64_t[]){4, w_channels, kernel, kernel});
    bw_case_out(c, BW_F32, 4, (int64_t[]){1, out_channels, out_h, out_h});
    bw_case_params(c, p, sizeof *p);
    bw_case_refuse(c);
}

static void refusals(bw_case_sink *sink, bw_op op)
{
    static const bw_conv2d_params good = {1, 1, 1, 1, 1, 1, 0, 0, 1};
    bw_conv2d_params p = good;
    refuse2d(sink, op, "another output size", &p, 4, 3, 4, 7);
    refuse2d(sink, op, "other output channels", &p, 4, 3, 5, 8);
    refuse2d(sink, op, "a kernel of no taps", &p, 4, 0, 4, 11);
    if (op == BW_OP_CONV2D) {
        refuse2d(sink, op, "channels that do not fit", &p, 3, 3, 4, 8);
        refuse2d(sink, op, "a kernel larger than the input", &p, 4, 11, 4, 0);
        p.output_padding_h = 1;
        refuse2d(sink, op, "output padding", &p, 4, 3, 4, 8);
    }
    p = good;
    p.groups = 3;
    refuse2d(sink, op, "groups that do not divide", &p, 4, 3, 12, 8);
    p.groups = 0;
    refuse2d(sink, op, "no groups", &p, 4, 3, 4, 8);
    p.groups = INT64_MAX;
    refuse2d(sink, op, "far too many groups", &p, 4, 3, 4, 8);
    p = good;
    p.stride_w = 0;
    refuse2d(sink, op, "stride 0", &p, 4, 3, 4, 8);
    p = good;
    p.dilation_h = 0;
    refuse2d(sink, op, "dilation 0", &p, 4, 3, 4, 8);
    p = good;
    p.padding_h = -1;
    refuse2d(sink, op, "negative padding", &p, 4, 3, 4, 8);
    p.padding_h = INT64_MAX;
    refuse2d(sink, op, "padding beyond reason", &p, 4, 3, 4, 8);
    p = good;
    p.output_padding_w = -1;
    refuse2d(sink, op, "negative output padding", &p, 4, 3, 4, 8);
    bw_case *c = bw_case_begin(sink, op, "three dimensions");
    bw_case_in(c, BW_F32, 3, (int64_t[]){4, 8, 8});
    bw_case_in(c, BW_F32, 3, (int64_t[]){4, 3, 3});
    bw_case_out(c, BW_F32, 3, (int64_t[]){4, 8, 8});
    bw_case_params(c, &good, sizeof good);
    bw_case_refuse(c);
    c = bw_case_begin(sink, op, "types that differ");
    bw_case_in(c, BW_F32, 4, (int64_t[]){1, 4, 8, 8});
    bw_case_in(c, BW_F16, 4, (int64_t[]){4, 4, 3, 3});
    bw_case_out(c, BW_F32, 4, (int64_t[]){1, 4, 8, 8});
    bw_case_params(c, &good, sizeof good);
    bw_case_refuse(c);
    c = bw_case_begin(sink, op, "no params");
    bw_case_in(c, BW_F32, 4, (int64_t[]){1, 4, 8, 8});
    bw_case_in(c, BW_F32, 4, (int64_t[]){4, 4, 3, 3});
    bw_case_out(c, BW_F32, 4, (int64_t[]){1, 4, 8, 8});
    bw_case_refuse(c);
}

/* The same for one dimension. */
static void refuse1d(bw_case_sink *sink, bw_op op, const char *what, const bw_conv1d_params *p, int64_t out)
{
    bw_case *c = bw_case_begin(sink, op, "%s", what);
    bw_case_in(c, BW_F16, 3, (int64_t[]){2, 4, 8});
    bw_case_in(c, BW_F16, 3, (int64_t[]){4, 4, 3});
    bw_case_out(c, BW_F16, 3, (int64_t[]){2, 4, out});
    bw_case_params(c, p, sizeof *p);
    bw_case_refuse(c);
}

static void refusals1d(bw_case_sink *sink, bw_op op)
{
    refuse1d(sink, op, "another output size", &(bw_conv1d_params){1, 1, 1, 0, 1}, 9);
    refuse1d(sink, op, "stride 0", &(bw_conv1d_params){0, 1, 1, 0, 1}, 8);
    refuse1d(sink, op, "no groups", &(bw_conv1d_params){1, 1, 1, 0, 0}, 8);
    refuse1d(sink, op, "impossible dilation", &(bw_conv1d_params){1, 1, INT64_MAX, 0, 1}, 8);
}

void bw_op_conv1d_cases(bw_case_sink *sink)
{
    conv_cases(sink, one1d, false);
    wild_weights(sink, false);
    refusals1d(sink, BW_OP_CONV1D);
}

void bw_op_conv2d_cases(bw_case_sink *sink)
{
    conv_cases(sink, one2d, false);
    refusals(sink, BW_OP_CONV2D);
}

void bw_op_conv_transpose1d_cases(bw_case_sink *sink)
{
    conv_cases(sink, one1d, true);
    wild_weights(sink, true);
    refusals1d(sink, BW_OP_CONV_TRANSPOSE1D);
}

void bw_op_conv_transpose2d_cases(bw_case_sink *sink)
{
    conv_cases(sink, one2d, true);
    refusals(sink, BW_OP_CONV_TRANSPOSE2D);
}

static void im2col(bw_case_sink *sink, bw_dtype dtype, const int64_t *x, const bw_im2col_params *p,
                   bw_case_layout layout, bool is_bad)
{
    bw_case *c = bw_case_begin(sink, BW_OP_IM2COL, "%s kernel %lldx%lld, layout %d", bw_dtype_name(dtype),
                               (long long)p->kernel_h, (long long)p->kernel_w, (int)layout);
    bw_tensor *t = bw_case_in_layout(c, dtype, 4, x, layout);
    bw_case_fill_normal(c, t, 1);
    bw_case_fill_special(c, t, 4);
    int64_t h = is_bad ? 1 : out_size(false, x[2], p->kernel_h, p->stride_h, p->padding_h, p->dilation_h, 0);
    int64_t w = is_bad ? 1 : out_size(false, x[3], p->kernel_w, p->stride_w, p->padding_w, p->dilation_w, 0);
    add_out(c, dtype, 3, (int64_t[]){x[0], h * w, x[1] * (is_bad ? 1 : p->kernel_h * p->kernel_w)},
            layout == BW_CASE_GAPS);
    bw_case_params(c, p, sizeof *p);
    bw_case_exact(c);
    if (is_bad)
        bw_case_refuse(c);
    else
        bw_case_run(c);
}

void bw_op_im2col_cases(bw_case_sink *sink)
{
    const int64_t x[] = {2, 3, 8, 11}, empty[] = {0, 3, 8, 11}, large[] = {1, 20, 30, 40};
    for (int t = 0; t < N_TYPES; t++)
        for (int layout = 0; layout < BW_CASE_N_LAYOUTS; layout++) {
            im2col(sink, types[t], x, &(bw_im2col_params){3, 3, 1, 1, 1, 1, 1, 1}, (bw_case_layout)layout, false);
            im2col(sink, types[t], x, &(bw_im2col_params){2, 3, 2, 3, 0, 5, 2, 1}, (bw_case_layout)layout, false);
            im2col(sink, types[t], x, &(bw_im2col_params){1, 1, 1, 1, 0, 0, 1, 1}, (bw_case_layout)layout, false);
            im2col(sink, types[t], empty, &(bw_im2col_params){1, 2, 1, 1, 0, 0, 1, 1}, (bw_case_layout)layout, false);
        }
    im2col(sink, BW_F32, large, &(bw_im2col_params){3, 3, 1, 1, 1, 1, 1, 1}, BW_CASE_CONTIGUOUS, false);
    im2col(sink, BW_F32, x, &(bw_im2col_params){0, 3, 1, 1, 1, 1, 1, 1}, BW_CASE_CONTIGUOUS, true);
    im2col(sink, BW_F32, x, &(bw_im2col_params){3, 3, 0, 1, 1, 1, 1, 1}, BW_CASE_CONTIGUOUS, true);
    im2col(sink, BW_F32, x, &(bw_im2col_params){3, 3, 1, 1, 1, -1, 1, 1}, BW_CASE_CONTIGUOUS, true);
    im2col(sink, BW_F32, x, &(bw_im2col_params){9, 3, 1, 1, 0, 1, 1, 1}, BW_CASE_CONTIGUOUS, true);
    im2col(sink, BW_F32, x, &(bw_im2col_params){3, 3, 1, 1, 1, 1, 1, 1}, BW_CASE_CONTIGUOUS, true);
}

static void im2col1d(bw_case_sink *sink, bw_dtype dtype, const int64_t *x, const bw_im2col1d_params *p,
                     bw_case_layout layout, bool is_bad)
{
    bw_case *c = bw_case_begin(sink, BW_OP_IM2COL1D, "%s kernel %lld, layout %d", bw_dtype_name(dtype),
                               (long long)p->kernel, (int)layout);
    bw_case_fill_normal(c, bw_case_in_layout(c, dtype, 3, x, layout), 1);
    int64_t l = is_bad ? 1 : out_size(false, x[2], p->kernel, p->stride, p->padding, p->dilation, 0);
    add_out(c, dtype, 3, (int64_t[]){x[0], l, x[1] * (is_bad ? 1 : p->kernel)}, layout == BW_CASE_GAPS);
    bw_case_params(c, p, sizeof *p);
    bw_case_exact(c);
    if (is_bad)
        bw_case_refuse(c);
    else
        bw_case_run(c);
}

void bw_op_im2col1d_cases(bw_case_sink *sink)
{
    const int64_t x[] = {2, 3, 31}, large[] = {1, 50, 700};
    for (int t = 0; t < N_TYPES; t++)
        for (int layout = 0; layout < BW_CASE_N_LAYOUTS; layout++) {
            im2col1d(sink, types[t], x, &(bw_im2col1d_params){3, 1, 1, 1}, (bw_case_layout)layout, false);
            im2col1d(sink, types[t], x, &(bw_im2col1d_params){5, 3, 7, 2}, (bw_case_layout)layout, false);
        }
    im2col1d(sink, BW_F32, large, &(bw_im2col1d_params){3, 1, 1, 1}, BW_CASE_CONTIGUOUS, false);
    im2col1d(sink, BW_F32, x, &(bw_im2col1d_params){0, 1, 1, 1}, BW_CASE_CONTIGUOUS, true);
    im2col1d(sink, BW_F32, x, &(bw_im2col1d_params){3, 1, 1, 0}, BW_CASE_CONTIGUOUS, true);
    im2col1d(sink, BW_F32, x, &(bw_im2col1d_params){3, 1, 1, 1}, BW_CASE_CONTIGUOUS, true);
}

static void col2im1d(bw_case_sink *sink, bw_dtype dtype, const int64_t *x, int64_t stride, int64_t more,
                     bw_case_layout layout)
{
    bw_case *c = bw_case_begin(sink, BW_OP_COL2IM1D, "%s %lld taps, stride %lld, layout %d", bw_dtype_name(dtype),
                               (long long)x[3], (long long)stride, (int)layout);
    bw_case_fill_normal(c, bw_case_in_layout(c, dtype, 4, x, layout), 1);
    add_out(c, dtype, 3, (int64_t[]){x[0], x[2], (x[1] - 1) * stride + x[3] + more}, layout == BW_CASE_GAPS);
    bw_case_params(c, &(bw_col2im1d_params){stride}, sizeof(bw_col2im1d_params));
    bw_case_tolerance(c, x[3], 2, 0);
    if (more || stride < 1)
        bw_case_refuse(c);
    else
        bw_case_run(c);
}

void bw_op_col2im1d_cases(bw_case_sink *sink)
{
    for (int t = 0; t < N_TYPES; t++)
        for (int layout = 0; layout < BW_CASE_N_LAYOUTS; layout++) {
            col2im1d(sink, types[t], (int64_t[]){2, 7, 3, 4}, 1, 0, (bw_case_layout)layout);
            col2im1d(sink, types[t], (int64_t[]){1, 9, 4, 5}, 2, 0, (bw_case_layout)layout);
            col2im1d(sink, types[t], (int64_t[]){2, 5, 3, 2}, 4, 0, (bw_case_layout)layout);
        }
    col2im1d(sink, BW_F32, (int64_t[]){1, 300, 40, 8}, 4, 0, BW_CASE_CONTIGUOUS);
    col2im1d(sink, BW_F32, (int64_t[]){0, 3, 4, 8}, 4, 0, BW_CASE_CONTIGUOUS);
    col2im1d(sink, BW_F32, (int64_t[]){1, 3, 4, 8}, 4, 1, BW_CASE_CONTIGUOUS);
    col2im1d(sink, BW_F32, (int64_t[]){1, 3, 4, 8}, 0, 0, BW_CASE_CONTIGUOUS);
}
