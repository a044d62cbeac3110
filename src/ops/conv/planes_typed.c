/* Pooling, upsampling and the column forms for every type and stride, by loops over rows of the output. */
#include <math.h>

#include "conv/conv.h"

bw_op_kernel bw_pool_typed, bw_nearest_typed, bw_bilinear_typed, bw_im2col_typed, bw_col2im1d_typed;

#define PLAIN(x) (x)
/* Every type with what it is stored as, summed in, read and written by. */
#define TYPES(DO)                                                                                                      \
    DO(F32, f32, float, double, PLAIN, PLAIN)                                                                          \
    DO(F16, f16, uint16_t, double, bw_f16_to_f32, bw_f32_to_f16)                                                       \
    DO(BF16, bf16, uint16_t, double, bw_bf16_to_f32, bw_f32_to_bf16)                                                   \
    DO(F64, f64, double, double, PLAIN, PLAIN)                                                                         \
    DO(U8, u8, uint8_t, uint64_t, PLAIN, PLAIN)                                                                        \
    DO(U32, u32, uint32_t, uint64_t, PLAIN, PLAIN)

typedef void row_fn(const bw_op_call *call, const bw_planes *p, int64_t from, int64_t y, int64_t to);

/* fn for rows [y of plane] of the output: from where x's plane begins, to where the row does. */
static void each_row(const bw_op_call *call, bw_member *member, row_fn *fn)
{
    bw_planes p;
    bw_planes_get(call, &p);
    int64_t begin, end, rows = p.batch * p.channels * p.out_h;
    if (!bw_op_my_share(member, rows, p.out_w, 2048, &begin, &end))
        return;
    for (int64_t r = begin; r < end; r++) {
        int64_t y = r % p.out_h, c = r / p.out_h % p.channels, n = r / p.out_h / p.channels;
        fn(call, &p, n * p.x[0] + c * p.x[1], y, n * p.y[0] + c * p.y[1] + y * p.y[2]);
    }
}

static bool is_nan(double x)
{
    return isnan(x);
}

#define POOL(NAME, name, type, sum_type, load, store)                                                                  \
    static void avg_##name(const bw_op_call *call, const bw_planes *p, int64_t from, int64_t y, int64_t to)            \
    {                                                                                                                  \
        const bw_pool2d_params *v = call->params;                                                                      \
        const sum_type n = (sum_type)(v->kernel_h * v->kernel_w);                                                      \
        for (int64_t x = 0; x < p->out_w; x++) {                                                                       \
            sum_type sum = 0;                                                                                          \
            for (int64_t i = 0; i < v->kernel_h; i++) {                                                                \
                const type *row = (const type *)call->in[0]->data + from + (y * v->stride_h + i) * p->x[2] +           \
                                  x * v->stride_w * p->x[3];                                                           \
                for (int64_t j = 0; j < v->kernel_w; j++) {                                                            \
                    const sum_type one = (sum_type)load(row[j * p->x[3]]);                                             \
                    sum += one;                                                                                        \
                }                                                                                                      \
            }                                                                                                          \
            ((type *)call->out[0]->data)[to + x * p->y[3]] = (type)store((STORED_##name)(sum / n));                    \
        }                                                                                                              \
    }                                                                                                                  \
    static void max_##name(const bw_op_call *call, const bw_planes *p, int64_t from, int64_t y, int64_t to)            \
    {                                                                                                                  \
        const bw_pool2d_params *v = call->params;                                                                      \
        for (int64_t x = 0; x < p->out_w; x++) {                                                                       \
            const type *corner =                                                                                       \
                (const type *)call->in[0]->data + from + y * v->stride_h * p->x[2] + x * v->stride_w * p->x[3];        \
            type most = corner[0];                                                                                     \
            for (int64_t i = 0; i < v->kernel_h; i++)                                                                  \
                for (int64_t j = 0; j < v->kernel_w; j++) {                                                            \
                    const type one = corner[i * p->x[2] + j * p->x[3]];                                                \
                    if (load(one) > load(most) || is_nan((double)load(one)))                                           \
                        most = one;                                                                                    \
                }                                                                                                      \
            ((type *)call->out[0]->data)[to + x * p->y[3]] = most;                                                     \
        }                                                                                                              \
    }                                                                                                                  \
    static void bilinear_##name(const bw_op_call *call, const bw_planes *p, int64_t from, int64_t y, int64_t to)       \
    {                                                                                                                  \
        const bw_upsample_bilinear2d_params *v = call->params;                                                         \
        bool align = v->align_corners != 0;                                                                            \
        bw_bilinear r = bw_bilinear_find(y, p->h, p->out_h, v->scale_h, align);                                        \
        const type *low = (const type *)call->in[0]->data + from + r.low * p->x[2];                                    \
        const type *high = (const type *)call->in[0]->data + from + r.high * p->x[2];                                  \
        for (int64_t x = 0; x < p->out_w; x++) {                                                                       \
            bw_bilinear c = bw_bilinear_find(x, p->w, p->out_w, v->scale_w, align);                                    \
            int64_t a = c.low * p->x[3], b = c.high * p->x[3];                                                         \
            double top = (double)load(low[a]) * (1 - c.weight) + (double)load(low[b]) * c.weight;                      \
            double bottom = (double)load(high[a]) * (1 - c.weight) + (double)load(high[b]) * c.weight;                 \
            double value = top * (1 - r.weight) + bottom * r.weight;                                                   \
            ((type *)call->out[0]->data)[to + x * p->y[3]] = (type)store((STORED_##name)value);                        \
        }                                                                                                              \
    }
/* What a value is before it is stored: the short floats' rounding takes f32. */
typedef float STORED_f32, STORED_f16, STORED_bf16;
typedef double STORED_f64;
typedef uint8_t STORED_u8;
typedef uint32_t STORED_u32;
TYPES(POOL)

#define AVG_CASE(NAME, name, ...)                                                                                      \
    case BW_##NAME:                                                                                                    \
        return avg_##name;
#define MAX_CASE(NAME, name, ...)                                                                                      \
    case BW_##NAME:                                                                                                    \
        return max_##name;
#define BILINEAR_CASE(NAME, name, ...)                                                                                 \
    case BW_##NAME:                                                                                                    \
        return bilinear_##name;

static row_fn *find_row_fn(const bw_op_call *call)
{
    if (call->op == BW_OP_AVG_POOL2D)
        switch (call->in[0]->dtype) {
            TYPES(AVG_CASE)
        default:
            return NULL;
        }
    if (call->op == BW_OP_MAX_POOL2D)
        switch (call->in[0]->dtype) {
            TYPES(MAX_CASE)
        default:
            return NULL;
        }
    switch (call->in[0]->dtype) {
        TYPES(BILINEAR_CASE)
    default:
        return NULL;
    }
}

void bw_pool_typed(const bw_op_call *call, bw_member *member)
{
    each_row(call, member, find_row_fn(call));
}

void bw_bilinear_typed(const bw_op_call *call, bw_member *member)
{
    each_row(call, member, find_row_fn(call));
}

/* Copies by the size of an element. */
#define NEAREST(type)                                                                                                  \
    static void nearest_##type(const bw_op_call *call, const bw_planes *p, int64_t from, int64_t y, int64_t to)        \
    {                                                                                                                  \
        const bw_upsample_nearest2d_params *v = call->params;                                                          \
        const type *row =                                                                                              \
            (const type *)call->in[0]->data + from + bw_nearest_find(y, p->h, p->out_h, v->step_h) * p->x[2];          \
        type *out = (type *)call->out[0]->data + to;                                                                   \
        if (p->out_w == 2 * p->w && v->step_w <= 0) { /* twice as wide */                                              \
            for (int64_t x = 0; x < p->w; x++)                                                                         \
                out[2 * x * p->y[3]] = out[(2 * x + 1) * p->y[3]] = row[x * p->x[3]];                                  \
            return;                                                                                                    \
        }                                                                                                              \
        for (int64_t x = 0; x < p->out_w; x++)                                                                         \
            out[x * p->y[3]] = row[bw_nearest_find(x, p->w, p->out_w, v->step_w) * p->x[3]];                           \
    }
NEAREST(uint8_t)
NEAREST(uint16_t)
NEAREST(uint32_t)
NEAREST(uint64_t)

void bw_nearest_typed(const bw_op_call *call, bw_member *member)
{
    switch (bw_dtype_block_bytes(call->in[0]->dtype)) {
    case 1:
        each_row(call, member, nearest_uint8_t);
        break;
    case 2:
        each_row(call, member, nearest_uint16_t);
        break;
    case 4:
        each_row(call, member, nearest_uint32_t);
        break;
    default:
        each_row(call, member, nearest_uint64_t);
        break;
    }
}

/* Row (y, x) of batch item n. */
#define COLUMNS(type)                                                                                                  \
    static void columns_##type(const bw_op_call *call, const bw_conv *c, int64_t n, int64_t y, int64_t x)              \
    {                                                                                                                  \
        const bw_tensor *out = call->out[0];                                                                           \
        const type *in = (const type *)call->in[0]->data + n * c->x_batch;                                             \
        type *to = (type *)out->data + n * c->y_batch + (y * c->w.out + x) * out->strides[1];                          \
        int64_t x0 = x * c->w.stride - c->w.padding;                                                                   \
        for (int64_t i = 0; i < c->c_in; i++)                                                                          \
            for (int64_t ky = 0; ky < c->h.kernel; ky++) {                                                             \
                int64_t iy = bw_conv_position(c, &c->h, y, ky);                                                        \
                const type *row = in + i * c->x_channel + (iy < 0 ? 0 : iy) * c->x_h;                                  \
                for (int64_t kx = 0; kx < c->w.kernel; kx++, to += c->y_w) {                                           \
                    int64_t ix = x0 + kx * c->w.dilation;                                                              \
                    *to = iy >= 0 && ix >= 0 && ix < c->w.size ? row[ix * c->x_w] : 0;                                 \
                }                                                                                                      \
            }                                                                                                          \
    }
COLUMNS(uint8_t)
COLUMNS(uint16_t)
COLUMNS(uint32_t)
COLUMNS(uint64_t)

void bw_im2col_typed(const bw_op_call *call, bw_member *member)
{
    bw_conv c;
    bw_conv_get(call, &c);
    int64_t begin, end, rows = c.h.out * c.w.out;
    if (!bw_op_my_share(member, c.batch * rows, call->out[0]->dims[2], 4096, &begin, &end))
        return;
    for (int64_t r = begin; r < end; r++) {
        int64_t n = r / rows, y = r % rows / c.w.out, x = r % c.w.out;
        switch (bw_dtype_block_bytes(call->in[0]->dtype)) {
        case 1:
            columns_uint8_t(call, &c, n, y, x);
            break;
        case 2:
            columns_uint16_t(call, &c, n, y, x);
            break;
        case 4:
            columns_uint32_t(call, &c, n, y, x);
            break;
        default:
            columns_uint64_t(call, &c, n, y, x);
            break;
        }
    }
}

/* Positions [begin, end) of channel c of batch item n. */
#define FOLD(NAME, name, type, sum_type, load, store)                                                                  \
    static void fold_##name(const bw_op_call *call, int64_t n, int64_t c, int64_t begin, int64_t end)                  \
    {                                                                                                                  \
        const bw_tensor *x = call->in[0], *y = call->out[0];                                                           \
        int64_t stride = ((const bw_col2im1d_params *)call->params)->stride;                                           \
        const type *from = (const type *)x->data + n * x->strides[0] + c * x->strides[2];                              \
        type *to = (type *)y->data + n * y->strides[0] + c * y->strides[1];                                            \
        for (int64_t at = begin; at < end; at++) {                                                                     \
            sum_type sum = 0;                                                                                          \
            int64_t l = at / stride;                                                                                   \
            l = l < x->dims[1] ? l : x->dims[1] - 1;                                                                   \
            for (; l >= 0 && at - l * stride < x->dims[3]; l--) {                                                      \
                const sum_type one = (sum_type)load(from[l * x->strides[1] + (at - l * stride) * x->strides[3]]);      \
                sum += one;                                                                                            \
            }                                                                                                          \
            to[at * y->strides[2]] = (type)store((STORED_##name)sum);                                                  \
        }                                                                                                              \
    }
TYPES(FOLD)

#define FOLD_CASE(NAME, name, ...)                                                                                     \
    case BW_##NAME:                                                                                                    \
        fold_##name(call, n, c, l0, l1);                                                                               \
        break;

void bw_col2im1d_typed(const bw_op_call *call, bw_member *member)
{
    const bw_tensor *y = call->out[0];
    enum { STRIP = 256 };
    int64_t n_strips = (y->dims[2] + STRIP - 1) / STRIP, begin, end;
    if (!bw_op_my_share(member, y->dims[0] * y->dims[1] * n_strips, STRIP, 2048, &begin, &end))
        return;
    for (int64_t t = begin; t < end; t++) {
        int64_t l0 = t % n_strips * STRIP, l1 = l0 + STRIP < y->dims[2] ? l0 + STRIP : y->dims[2];
        int64_t c = t / n_strips % y->dims[1], n = t / n_strips / y->dims[1];
        switch (call->in[0]->dtype) {
            TYPES(FOLD_CASE)
        default:
            break;
        }
    }
}
