/* The four convolutions and the column forms: checks, one form for all, definitions. */
#include "conv/conv.h"

enum { MOST = INT32_MAX }; /* of each dimension and parameter: products of two and their sums then fit in 64 bits */

static bw_status check_axis(const bw_op_call *call, const char *name, const bw_conv_axis *a, bw_err *err)
{
    if (a->kernel < 1 || a->kernel > MOST)
        return bw_op_fail(call, err, "the kernel's %s, %lld, must be 1 to 2^31 - 1", name, (long long)a->kernel);
    if (a->stride < 1 || a->stride > MOST || a->dilation < 1 || a->dilation > MOST)
        return bw_op_fail(call, err, "stride %lld and dilation %lld of the %s must be 1 to 2^31 - 1",
                          (long long)a->stride, (long long)a->dilation, name);
    if (a->padding < 0 || a->padding > MOST)
        return bw_op_fail(call, err, "padding %lld of the %s must be 0 to 2^31 - 1", (long long)a->padding, name);
    if (a->size < 0 || a->size > MOST || a->out < 0 || a->out > MOST)
        return bw_op_fail(call, err, "the %s must be below 2^31", name);
    return BW_OK;
}

/* a->out is what the output has. */
static bw_status check_forward(const bw_op_call *call, const char *name, const bw_conv_axis *a, bw_err *err)
{
    BW_TRY(check_axis(call, name, a, err));
    int64_t room = a->size + 2 * a->padding - a->dilation * (a->kernel - 1) - 1;
    if (room < 0)
        return bw_op_fail(call, err, "the kernel is larger than the padded input's %s", name);
    if (a->out != room / a->stride + 1)
        return bw_op_fail(call, err, "the output's %s must be %lld, not %lld", name, (long long)(room / a->stride + 1),
                          (long long)a->out);
    return BW_OK;
}

static bw_status check_transposed(const bw_op_call *call, const char *name, const bw_conv_axis *a,
                                  int64_t output_padding, bw_err *err)
{
    BW_TRY(check_axis(call, name, a, err));
    if (output_padding < 0 || output_padding > MOST)
        return bw_op_fail(call, err, "output padding %lld must be 0 to 2^31 - 1", (long long)output_padding);
    int64_t out = (a->size - 1) * a->stride - 2 * a->padding + a->dilation * (a->kernel - 1) + output_padding + 1;
    if (a->size < 1 || out < 1)
        return bw_op_fail(call, err, "these params leave no output %s", name);
    if (a->out != out)
        return bw_op_fail(call, err, "the output's %s must be %lld, not %lld", name, (long long)out, (long long)a->out);
    return BW_OK;
}

static bool is_transposed(const bw_op_call *call)
{
    return call->op == BW_OP_CONV_TRANSPOSE1D || call->op == BW_OP_CONV_TRANSPOSE2D;
}

static bool is_flat(const bw_op_call *call)
{
    return call->op == BW_OP_CONV1D || call->op == BW_OP_CONV_TRANSPOSE1D || call->op == BW_OP_IM2COL1D;
}

/* An axis of stride, padding, dilation and nothing else yet; along what a flat call does not have: one tap. */
static const bw_conv_axis flat = {.size = 1, .out = 1, .kernel = 1, .stride = 1, .dilation = 1};

static void get_columns(const bw_op_call *call, bw_conv *c)
{
    const bw_tensor *x = call->in[0];
    c->groups = 1;
    if (is_flat(call)) {
        const bw_im2col1d_params *p = call->params;
        c->h = flat;
        c->w = (bw_conv_axis){x->dims[2], call->out[0]->dims[1], p->kernel, p->stride, p->padding, p->dilation};
    } else {
        const bw_im2col_params *p = call->params;
        c->h = (bw_conv_axis){x->dims[2], 0, p->kernel_h, p->stride_h, p->padding_h, p->dilation_h};
        c->w = (bw_conv_axis){x->dims[3], 0, p->kernel_w, p->stride_w, p->padding_w, p->dilation_w};
        /* The output's rows count both: its height and width follow from the params. */
        if (c->h.stride > 0 && c->w.stride > 0) {
            c->h.out = (c->h.size + 2 * c->h.padding - c->h.dilation * (c->h.kernel - 1) - 1) / c->h.stride + 1;
            c->w.out = (c->w.size + 2 * c->w.padding - c->w.dilation * (c->w.kernel - 1) - 1) / c->w.stride + 1;
        }
    }
}

static void get_axes(const bw_op_call *call, bw_conv *c)
{
    const bw_tensor *x = call->in[0], *w = call->in[1], *y = call->out[0];
    if (is_flat(call)) {
        const bw_conv1d_params *p = call->params;
        c->groups = p->groups;
        c->h = flat;
        c->w = (bw_conv_axis){x->dims[2], y->dims[2], w->dims[2], p->stride, p->padding, p->dilation};
    } else {
        const bw_conv2d_params *p = call->params;
        c->groups = p->groups;
        c->h = (bw_conv_axis){x->dims[2], y->dims[2], w->dims[2], p->stride_h, p->padding_h, p->dilation_h};
        c->w = (bw_conv_axis){x->dims[3], y->dims[3], w->dims[3], p->stride_w, p->padding_w, p->dilation_w};
    }
}

void bw_conv_get(const bw_op_call *call, bw_conv *c)
{
    const bw_tensor *x = call->in[0], *y = call->out[0];
    int last = x->n_dims - 1;
    *c = (bw_conv){.is_transposed = is_transposed(call), .batch = x->dims[0], .c_in = x->dims[1]};
    c->x_batch = x->strides[0];
    c->x_channel = x->strides[1];
    c->x_h = is_flat(call) ? 0 : x->strides[2];
    c->x_w = x->strides[last];
    c->y_batch = y->strides[0];
    c->y_channel = y->strides[1];
    if (call->n_in == 1) {
        get_columns(call, c);
        c->group_in = c->c_in;
        c->y_w = y->strides[2];
        return;
    }
    const bw_tensor *w = call->in[1];
    get_axes(call, c);
    c->y_h = is_flat(call) ? 0 : y->strides[2];
    c->y_w = y->strides[last];
    c->c_out = c->is_transposed ? w->dims[1] * c->groups : w->dims[0];
    c->group_in = c->groups > 0 ? c->c_in / c->groups : 0;
    c->group_out = c->groups > 0 ? c->c_out / c->groups : 0;
    c->w_out = w->strides[c->is_transposed ? 1 : 0];
    c->w_in = w->strides[c->is_transposed ? 0 : 1];
    c->w_group = w->strides[0] * (c->is_transposed ? c->group_in : c->group_out);
    c->w_h = is_flat(call) ? 0 : w->strides[2];
    c->w_w = w->strides[last];
}

/* The call's tensors have the right types and numbers of dimensions, and its batch fits. */
static bw_status check_tensors(const bw_op_call *call, int n_in, int n_dims, int n_out_dims, bw_err *err)
{
    BW_TRY(bw_op_check_counts(call, n_in, 1, true, err));
    BW_TRY(bw_op_check_plain(call, call->in[0], "in0", BW_MASK_F4U2, err));
    uint64_t type = BW_MASK(call->in[0]->dtype);
    if (n_in == 2)
        BW_TRY(bw_op_check_plain(call, call->in[1], "in1", type, err));
    BW_TRY(bw_op_check_plain(call, call->out[0], "out0", type, err));
    if (call->in[0]->n_dims != n_dims || (n_in == 2 && call->in[1]->n_dims != n_dims) ||
        call->out[0]->n_dims != n_out_dims)
        return bw_op_fail(call, err, "takes inputs of %d dimensions and an output of %d", n_dims, n_out_dims);
    if (call->out[0]->dims[0] != call->in[0]->dims[0])
        return bw_op_fail(call, err, "in0 and out0 must have one batch");
    return BW_OK;
}

static bw_status check_conv(const bw_op_call *call, bw_err *err)
{
    int n_dims = is_flat(call) ? 3 : 4;
    BW_TRY(check_tensors(call, 2, n_dims, n_dims, err));
    const bw_tensor *w = call->in[1];
    bw_conv c;
    int64_t groups = is_flat(call) ? ((const bw_conv1d_params *)call->params)->groups
                                   : ((const bw_conv2d_params *)call->params)->groups;
    if (groups < 1 || groups > MOST || call->in[0]->dims[1] > MOST || w->dims[0] > MOST || w->dims[1] > MOST)
        return bw_op_fail(call, err, "groups, %lld, must be at least 1, and they and the channels below 2^31",
                          (long long)groups);
    bw_conv_get(call, &c);
    if (c.c_in % groups != 0 || c.c_out % groups != 0)
        return bw_op_fail(call, err, "%lld groups do not divide %lld and %lld channels", (long long)groups,
                          (long long)c.c_in, (long long)c.c_out);
    if (c.is_transposed ? w->dims[0] != c.c_in : w->dims[1] != c.group_in)
        return bw_op_fail(call, err, "in1's channels do not fit in0's %lld and %lld groups", (long long)c.c_in,
                          (long long)groups);
    if (call->out[0]->dims[1] != c.c_out)
        return bw_op_fail(call, err, "out0 must have %lld channels", (long long)c.c_out);
    const bw_conv1d_params *p1 = call->params;
    const bw_conv2d_params *p2 = call->params;
    int64_t more_w = is_flat(call) ? p1->output_padding : p2->output_padding_w;
    int64_t more_h = is_flat(call) ? 0 : p2->output_padding_h;
    if (c.is_transposed) {
        BW_TRY(check_transposed(call, "height", &c.h, more_h, err));
        return check_transposed(call, is_flat(call) ? "length" : "width", &c.w, more_w, err);
    }
    if (more_w != 0 || more_h != 0)
        return bw_op_fail(call, err, "output padding belongs to transposed convolutions only");
    BW_TRY(check_forward(call, "height", &c.h, err));
    return check_forward(call, is_flat(call) ? "length" : "width", &c.w, err);
}

static bw_status check_columns(const bw_op_call *call, bw_err *err)
{
    BW_TRY(check_tensors(call, 1, is_flat(call) ? 3 : 4, 3, err));
    const bw_tensor *x = call->in[0], *y = call->out[0];
    bw_conv_axis bounds[2] = {flat, flat};
    if (is_flat(call)) {
        const bw_im2col1d_params *p = call->params;
        bounds[0] = (bw_conv_axis){x->dims[2], 0, p->kernel, p->stride, p->padding, p->dilation};
    } else {
        const bw_im2col_params *p = call->params;
        bounds[0] = (bw_conv_axis){x->dims[2], 0, p->kernel_h, p->stride_h, p->padding_h, p->dilation_h};
        bounds[1] = (bw_conv_axis){x->dims[3], 0, p->kernel_w, p->stride_w, p->padding_w, p->dilation_w};
    }
    BW_TRY(check_axis(call, is_flat(call) ? "length" : "height", &bounds[0], err));
    BW_TRY(check_axis(call, "width", &bounds[1], err));
    bw_conv c;
    bw_conv_get(call, &c);
    BW_TRY(check_forward(call, "height", &c.h, err));
    BW_TRY(check_forward(call, is_flat(call) ? "length" : "width", &c.w, err));
    int64_t rows = bw_shape_elements((int64_t[]){c.h.out, c.w.out}, 2);
    int64_t columns = bw_shape_elements((int64_t[]){c.c_in, c.h.kernel, c.w.kernel}, 3);
    if (y->dims[1] != rows || y->dims[2] != columns)
        return bw_op_fail(call, err, "out0 must be [%lld, %lld, %lld]", (long long)c.batch, (long long)rows,
                          (long long)columns);
    return BW_OK;
}

static void cost_conv(const bw_op_call *call, bw_op_cost *cost)
{
    bw_conv c;
    bw_conv_get(call, &c);
    double positions = c.is_transposed ? (double)c.h.size * (double)c.w.size : (double)c.h.out * (double)c.w.out;
    double taps = (double)c.h.kernel * (double)c.w.kernel, size = (double)bw_dtype_block_bytes(call->in[0]->dtype);
    cost->flops = 2 * (double)c.batch * (double)c.c_out * (double)c.group_in * taps * positions;
    cost->bytes = size * ((double)bw_tensor_elements(call->in[0]) + (double)bw_tensor_elements(call->in[1]) +
                          (double)bw_tensor_elements(call->out[0]));
}

static void cost_moves(const bw_op_call *call, bw_op_cost *cost)
{
    double size = (double)bw_dtype_block_bytes(call->in[0]->dtype), n = (double)bw_tensor_elements(call->out[0]);
    *cost = (bw_op_cost){.flops = 0, .bytes = size * ((double)bw_tensor_elements(call->in[0]) + n)};
}

/* Output element [n, group, o of the group, y, x]. */
static void ref_element(const bw_op_call *call, const bw_conv *c, int64_t n, int64_t group, int64_t o, int64_t y,
                        int64_t x)
{
    const bw_tensor *in = call->in[0], *w = call->in[1];
    bool is_integer = bw_dtype_is_integer(in->dtype);
    double sum = 0;
    uint64_t integer = 0;
    for (int64_t i = 0; i < c->group_in; i++) {
        for (int64_t ky = 0; ky < c->h.kernel; ky++) {
            int64_t iy = bw_conv_position(c, &c->h, y, ky);
            for (int64_t kx = 0; kx < c->w.kernel && iy >= 0; kx++) {
                int64_t ix = bw_conv_position(c, &c->w, x, kx);
                if (ix < 0)
                    continue;
                int64_t at_x = n * c->x_batch + (group * c->group_in + i) * c->x_channel + iy * c->x_h + ix * c->x_w;
                int64_t at_w = group * c->w_group + o * c->w_out + i * c->w_in + ky * c->w_h + kx * c->w_w;
                if (is_integer)
                    integer += (uint64_t)bw_element_i64(in->dtype, in->data, at_x) *
                               (uint64_t)bw_element_i64(w->dtype, w->data, at_w);
                else
                    sum += bw_element_f64(in->dtype, in->data, at_x) * bw_element_f64(w->dtype, w->data, at_w);
            }
        }
    }
    bw_tensor *out = call->out[0];
    int64_t at = n * c->y_batch + (group * c->group_out + o) * c->y_channel + y * c->y_h + x * c->y_w;
    if (is_integer)
        bw_element_set_i64(out->dtype, out->data, at, (int64_t)integer);
    else
        bw_element_set_f64(out->dtype, out->data, at, sum);
}

static void ref_conv(const bw_op_call *call)
{
    bw_conv c;
    bw_conv_get(call, &c);
    for (int64_t n = 0; n < c.batch; n++)
        for (int64_t group = 0; group < c.groups; group++)
            for (int64_t o = 0; o < c.group_out; o++)
                for (int64_t y = 0; y < c.h.out; y++)
                    for (int64_t x = 0; x < c.w.out; x++)
                        ref_element(call, &c, n, group, o, y, x);
}

/* Elements are copied as they are. */
static void ref_columns(const bw_op_call *call)
{
    bw_conv c;
    bw_conv_get(call, &c);
    const bw_tensor *x = call->in[0];
    bw_tensor *y = call->out[0];
    int64_t taps = c.h.kernel * c.w.kernel;
    size_t size = (size_t)bw_dtype_block_bytes(x->dtype);
    for (int64_t n = 0; n < c.batch; n++)
        for (int64_t row = 0; row < y->dims[1]; row++)
            for (int64_t column = 0; column < y->dims[2]; column++) {
                int64_t channel = column / taps, tap = column % taps;
                int64_t iy = bw_conv_position(&c, &c.h, row / c.w.out, tap / c.w.kernel);
                int64_t ix = bw_conv_position(&c, &c.w, row % c.w.out, tap % c.w.kernel);
                int64_t from = n * c.x_batch + channel * c.x_channel + iy * c.x_h + ix * c.x_w;
                char *dst =
                    (char *)y->data + (size_t)(n * y->strides[0] + row * y->strides[1] + column * y->strides[2]) * size;
                if (iy < 0 || ix < 0)
                    memset(dst, 0, size);
                else
                    memcpy(dst, (const char *)x->data + (size_t)from * size, size);
            }
}

#define CONV(name, check, cost, ref)                                                                                   \
    bw_status bw_op_##name##_check(const bw_op_call *call, bw_err *err)                                                \
    {                                                                                                                  \
        return check(call, err);                                                                                       \
    }                                                                                                                  \
    void bw_op_##name##_cost(const bw_op_call *call, bw_op_cost *c)                                                    \
    {                                                                                                                  \
        cost(call, c);                                                                                                 \
    }                                                                                                                  \
    void bw_op_##name##_ref(const bw_op_call *call)                                                                    \
    {                                                                                                                  \
        ref(call);                                                                                                     \
    }
CONV(conv1d, check_conv, cost_conv, ref_conv)
CONV(conv2d, check_conv, cost_conv, ref_conv)
CONV(conv_transpose1d, check_conv, cost_conv, ref_conv)
CONV(conv_transpose2d, check_conv, cost_conv, ref_conv)
CONV(im2col, check_columns, cost_moves, ref_columns)
CONV(im2col1d, check_columns, cost_moves, ref_columns)
