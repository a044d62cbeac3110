/* Pooling, upsampling and COL2IM1D: checks and definitions. */
#include <math.h>

#include "conv/conv.h"

enum { MOST = INT32_MAX };

static bw_status check_pair(const bw_op_call *call, int n_in_dims, int n_out_dims, bw_err *err)
{
    BW_TRY(bw_op_check_counts(call, 1, 1, true, err));
    BW_TRY(bw_op_check_plain(call, call->in[0], "in0", BW_MASK_F4U2, err));
    BW_TRY(bw_op_check_plain(call, call->out[0], "out0", BW_MASK(call->in[0]->dtype), err));
    if (call->in[0]->n_dims != n_in_dims || call->out[0]->n_dims != n_out_dims)
        return bw_op_fail(call, err, "takes an input of %d dimensions and an output of %d", n_in_dims, n_out_dims);
    for (int i = 0; i < n_in_dims; i++)
        if (call->in[0]->dims[i] > MOST)
            return bw_op_fail(call, err, "in0's dimensions must be below 2^31");
    for (int i = 0; i < n_out_dims; i++)
        if (call->out[0]->dims[i] > MOST)
            return bw_op_fail(call, err, "out0's dimensions must be below 2^31");
    if (call->in[0]->dims[0] != call->out[0]->dims[0])
        return bw_op_fail(call, err, "in0 and out0 must have one batch");
    return BW_OK;
}

static bw_status check_planes(const bw_op_call *call, bw_err *err)
{
    BW_TRY(check_pair(call, 4, 4, err));
    if (call->in[0]->dims[1] != call->out[0]->dims[1])
        return bw_op_fail(call, err, "in0 and out0 must have the same channels");
    return BW_OK;
}

static bw_status check_pool(const bw_op_call *call, bw_err *err)
{
    BW_TRY(check_planes(call, err));
    const bw_pool2d_params *p = call->params;
    const bw_tensor *x = call->in[0], *y = call->out[0];
    int64_t h = x->dims[2], w = x->dims[3];
    if (p->kernel_h < 1 || p->kernel_w < 1 || p->kernel_h > h || p->kernel_w > w)
        return bw_op_fail(call, err, "a window of %lld x %lld must be 1 at least and fit into the input",
                          (long long)p->kernel_h, (long long)p->kernel_w);
    if (p->stride_h < 1 || p->stride_w < 1 || p->stride_h > MOST || p->stride_w > MOST)
        return bw_op_fail(call, err, "strides %lld, %lld must be 1 to 2^31 - 1", (long long)p->stride_h,
                          (long long)p->stride_w);
    int64_t out_h = (h - p->kernel_h) / p->stride_h + 1, out_w = (w - p->kernel_w) / p->stride_w + 1;
    if (y->dims[2] != out_h || y->dims[3] != out_w)
        return bw_op_fail(call, err, "out0's height and width must be %lld and %lld", (long long)out_h,
                          (long long)out_w);
    return BW_OK;
}

static bw_status check_upsample(const bw_op_call *call, double scale_h, double scale_w, bw_err *err)
{
    if (!(scale_h >= 0) || !(scale_w >= 0) || !isfinite(scale_h) || !isfinite(scale_w))
        return bw_op_fail(call, err, "scales %g and %g must be finite and not negative", scale_h, scale_w);
    const bw_tensor *x = call->in[0], *y = call->out[0];
    if (x->dims[2] < 1 || x->dims[3] < 1 || y->dims[2] < 1 || y->dims[3] < 1)
        return bw_op_fail(call, err, "heights and widths must be 1 at least");
    return BW_OK;
}

bw_status bw_op_avg_pool2d_check(const bw_op_call *call, bw_err *err)
{
    return check_pool(call, err);
}

bw_status bw_op_max_pool2d_check(const bw_op_call *call, bw_err *err)
{
    return check_pool(call, err);
}

bw_status bw_op_upsample_nearest2d_check(const bw_op_call *call, bw_err *err)
{
    BW_TRY(check_planes(call, err));
    const bw_upsample_nearest2d_params *p = call->params;
    return check_upsample(call, p->step_h, p->step_w, err);
}

bw_status bw_op_upsample_bilinear2d_check(const bw_op_call *call, bw_err *err)
{
    BW_TRY(check_planes(call, err));
    const bw_upsample_bilinear2d_params *p = call->params;
    return check_upsample(call, p->scale_h, p->scale_w, err);
}

bw_status bw_op_col2im1d_check(const bw_op_call *call, bw_err *err)
{
    BW_TRY(check_pair(call, 4, 3, err));
    const bw_col2im1d_params *p = call->params;
    const bw_tensor *x = call->in[0], *y = call->out[0];
    if (p->stride < 1 || p->stride > MOST)
        return bw_op_fail(call, err, "stride %lld must be 1 to 2^31 - 1", (long long)p->stride);
    if (x->dims[1] < 1 || x->dims[3] < 1)
        return bw_op_fail(call, err, "needs a position and a tap at least");
    int64_t out = (x->dims[1] - 1) * p->stride + x->dims[3];
    if (y->dims[1] != x->dims[2] || y->dims[2] != out)
        return bw_op_fail(call, err, "out0 must be [%lld, %lld, %lld]", (long long)x->dims[0], (long long)x->dims[2],
                          (long long)out);
    return BW_OK;
}

void bw_planes_get(const bw_op_call *call, bw_planes *p)
{
    const bw_tensor *x = call->in[0], *y = call->out[0];
    *p = (bw_planes){x->dims[0], x->dims[1], x->dims[2], x->dims[3], y->dims[2], y->dims[3], {0}, {0}};
    memcpy(p->x, x->strides, sizeof p->x);
    memcpy(p->y, y->strides, sizeof p->y);
}

bw_bilinear bw_bilinear_find(int64_t at, int64_t size, int64_t out, double scale, bool align_corners)
{
    double s;
    if (align_corners)
        s = (out > 1 ? (double)(size - 1) / (double)(out - 1) : 0.0) * (double)at;
    else
        s = (scale > 0 ? 1 / scale : (double)size / (double)out) * ((double)at + 0.5) - 0.5;
    if (!(s > 0))
        s = 0;
    if (s > (double)(size - 1))
        s = (double)(size - 1);
    int64_t low = (int64_t)s;
    return (bw_bilinear){low, low + 1 < size ? low + 1 : size - 1, s - (double)low};
}

int64_t bw_nearest_find(int64_t at, int64_t size, int64_t out, double step)
{
    double s = (double)at * (step > 0 ? step : (double)size / (double)out);
    return s < (double)(size - 1) ? (int64_t)s : size - 1;
}

static void cost(const bw_op_call *call, double flops, bw_op_cost *c)
{
    double size = (double)bw_dtype_block_bytes(call->in[0]->dtype), n = (double)bw_tensor_elements(call->out[0]);
    *c = (bw_op_cost){.flops = flops * n, .bytes = size * (n + (double)bw_tensor_elements(call->in[0]))};
}

void bw_op_avg_pool2d_cost(const bw_op_call *call, bw_op_cost *c)
{
    const bw_pool2d_params *p = call->params;
    cost(call, (double)p->kernel_h * (double)p->kernel_w, c);
}

void bw_op_max_pool2d_cost(const bw_op_call *call, bw_op_cost *c)
{
    const bw_pool2d_params *p = call->params;
    cost(call, (double)p->kernel_h * (double)p->kernel_w, c);
}

void bw_op_upsample_nearest2d_cost(const bw_op_call *call, bw_op_cost *c)
{
    cost(call, 0, c);
}

void bw_op_upsample_bilinear2d_cost(const bw_op_call *call, bw_op_cost *c)
{
    cost(call, 8, c);
}

void bw_op_col2im1d_cost(const bw_op_call *call, bw_op_cost *c)
{
    cost(call, (double)call->in[0]->dims[3] / (double)((const bw_col2im1d_params *)call->params)->stride, c);
}

/* The op's value for one element: plane is where x's plane begins, in elements. */
typedef void ref_fn(const bw_op_call *call, const bw_planes *p, int64_t plane, int64_t y, int64_t x, int64_t to);

static void ref_planes(const bw_op_call *call, ref_fn *fn)
{
    bw_planes p;
    bw_planes_get(call, &p);
    for (int64_t n = 0; n < p.batch; n++)
        for (int64_t c = 0; c < p.channels; c++)
            for (int64_t y = 0; y < p.out_h; y++)
                for (int64_t x = 0; x < p.out_w; x++)
                    fn(call, &p, n * p.x[0] + c * p.x[1], y, x, n * p.y[0] + c * p.y[1] + y * p.y[2] + x * p.y[3]);
}

static void avg_element(const bw_op_call *call, const bw_planes *p, int64_t plane, int64_t y, int64_t x, int64_t to)
{
    const bw_pool2d_params *params = call->params;
    const bw_tensor *in = call->in[0];
    double sum = 0;
    uint64_t integer = 0; /* of unsigned elements: at most 2^31 x 2^31 of 32 bits would not fit, but nor into memory */
    for (int64_t i = 0; i < params->kernel_h; i++)
        for (int64_t j = 0; j < params->kernel_w; j++) {
            int64_t at = plane + (y * params->stride_h + i) * p->x[2] + (x * params->stride_w + j) * p->x[3];
            if (bw_dtype_is_integer(in->dtype))
                integer += (uint64_t)bw_element_i64(in->dtype, in->data, at);
            else
                sum += bw_element_f64(in->dtype, in->data, at);
        }
    int64_t n = params->kernel_h * params->kernel_w;
    if (bw_dtype_is_integer(in->dtype))
        bw_element_set_i64(in->dtype, call->out[0]->data, to, (int64_t)(integer / (uint64_t)n));
    else
        bw_element_set_f64(in->dtype, call->out[0]->data, to, sum / (double)n);
}

static void max_element(const bw_op_call *call, const bw_planes *p, int64_t plane, int64_t y, int64_t x, int64_t to)
{
    const bw_pool2d_params *params = call->params;
    const bw_tensor *in = call->in[0];
    double most = 0; /* every type here is exact in f64 */
    for (int64_t i = 0; i < params->kernel_h; i++)
        for (int64_t j = 0; j < params->kernel_w; j++) {
            int64_t at = plane + (y * params->stride_h + i) * p->x[2] + (x * params->stride_w + j) * p->x[3];
            double v = bw_element_f64(in->dtype, in->data, at);
            if ((i == 0 && j == 0) || v > most || isnan(v))
                most = v;
            if (isnan(v))
                i = params->kernel_h, j = params->kernel_w;
        }
    bw_element_set_f64(in->dtype, call->out[0]->data, to, most);
}

static void nearest_element(const bw_op_call *call, const bw_planes *p, int64_t plane, int64_t y, int64_t x, int64_t to)
{
    const bw_upsample_nearest2d_params *params = call->params;
    int64_t iy = bw_nearest_find(y, p->h, p->out_h, params->step_h);
    int64_t ix = bw_nearest_find(x, p->w, p->out_w, params->step_w);
    size_t size = (size_t)bw_dtype_block_bytes(call->in[0]->dtype);
    memcpy((char *)call->out[0]->data + (size_t)to * size,
           (const char *)call->in[0]->data + (size_t)(plane + iy * p->x[2] + ix * p->x[3]) * size, size);
}

static void bilinear_element(const bw_op_call *call, const bw_planes *p, int64_t plane, int64_t y, int64_t x,
                             int64_t to)
{
    const bw_upsample_bilinear2d_params *params = call->params;
    const bw_tensor *in = call->in[0];
    bw_bilinear r = bw_bilinear_find(y, p->h, p->out_h, params->scale_h, params->align_corners != 0);
    bw_bilinear c = bw_bilinear_find(x, p->w, p->out_w, params->scale_w, params->align_corners != 0);
    double v[2];
    for (int i = 0; i < 2; i++) {
        int64_t row = plane + (i ? r.high : r.low) * p->x[2];
        v[i] = bw_element_f64(in->dtype, in->data, row + c.low * p->x[3]) * (1 - c.weight) +
               bw_element_f64(in->dtype, in->data, row + c.high * p->x[3]) * c.weight;
    }
    bw_element_set_f64(in->dtype, call->out[0]->data, to, v[0] * (1 - r.weight) + v[1] * r.weight);
}

void bw_op_avg_pool2d_ref(const bw_op_call *call)
{
    ref_planes(call, avg_element);
}

void bw_op_max_pool2d_ref(const bw_op_call *call)
{
    ref_planes(call, max_element);
}

void bw_op_upsample_nearest2d_ref(const bw_op_call *call)
{
    ref_planes(call, nearest_element);
}

void bw_op_upsample_bilinear2d_ref(const bw_op_call *call)
{
    ref_planes(call, bilinear_element);
}

void bw_op_col2im1d_ref(const bw_op_call *call)
{
    const bw_tensor *x = call->in[0];
    bw_tensor *y = call->out[0];
    int64_t stride = ((const bw_col2im1d_params *)call->params)->stride, taps = x->dims[3];
    for (int64_t n = 0; n < y->dims[0]; n++)
        for (int64_t c = 0; c < y->dims[1]; c++)
            for (int64_t at = 0; at < y->dims[2]; at++) {
                double sum = 0;
                uint64_t integer = 0;
                for (int64_t l = at / stride; l >= 0 && at - l * stride < taps; l--) {
                    if (l >= x->dims[1])
                        continue;
                    int64_t from =
                        n * x->strides[0] + l * x->strides[1] + c * x->strides[2] + (at - l * stride) * x->strides[3];
                    if (bw_dtype_is_integer(x->dtype))
                        integer += (uint64_t)bw_element_i64(x->dtype, x->data, from);
                    else
                        sum += bw_element_f64(x->dtype, x->data, from);
                }
                int64_t to = n * y->strides[0] + c * y->strides[1] + at * y->strides[2];
                if (bw_dtype_is_integer(x->dtype))
                    bw_element_set_i64(y->dtype, y->data, to, (int64_t)integer);
                else
                    bw_element_set_f64(y->dtype, y->data, to, sum);
            }
}
