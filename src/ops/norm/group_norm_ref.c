/* GROUP_NORM: groups of channels to mean 0 and variance 1 (Wu and He, arXiv:1803.08494). */
#include <math.h>

#include "norm/group_norm_view.h"

bw_status bw_op_group_norm_check(const bw_op_call *call, bw_err *err)
{
    static const char *const names[] = {"in0", "in1", "in2"};
    BW_TRY(bw_op_check_counts(call, 3, 1, true, err));
    const bw_tensor *x = call->in[0];
    const bw_group_norm_params *params = call->params;
    BW_TRY(bw_op_check_plain(call, x, "in0", BW_MASK_F4, err));
    BW_TRY(bw_op_check_plain(call, call->out[0], "out0", BW_MASK(x->dtype), err));
    if (x->n_dims < 2 || !bw_op_same_shape(x, call->out[0]))
        return bw_op_fail(call, err, "in0 and out0 must have one shape [N, C, ...]");
    if (params->n_groups < 1 || x->dims[1] % params->n_groups != 0)
        return bw_op_fail(call, err, "%d groups cannot share %lld channels", (int)params->n_groups,
                          (long long)x->dims[1]);
    if (!(params->eps >= 0) || isinf(params->eps))
        return bw_op_fail(call, err, "eps must be a number from 0 on, not %g", (double)params->eps);
    for (int i = 1; i < 3; i++) {
        if (!call->in[i])
            continue;
        BW_TRY(bw_op_check_plain(call, call->in[i], names[i], BW_MASK(x->dtype), err));
        if (call->in[i]->n_dims != 1 || call->in[i]->dims[0] != x->dims[1])
            return bw_op_fail(call, err, "%s must be [%lld]", names[i], (long long)x->dims[1]);
    }
    return BW_OK;
}

void bw_op_group_norm_cost(const bw_op_call *call, bw_op_cost *cost)
{
    const bw_tensor *x = call->in[0];
    double n = (double)bw_tensor_elements(x), size = (double)bw_dtype_block_bytes(x->dtype);
    int n_weights = (call->in[1] != NULL) + (call->in[2] != NULL);
    *cost = (bw_op_cost){.flops = 8 * n, .bytes = size * (2 * n + n_weights * (double)x->dims[1])};
}

void bw_group_norm_view_init(bw_group_norm_view *v, const bw_op_call *call)
{
    const bw_tensor *x = call->in[0], *y = call->out[0];
    bw_tensor rest_x = {.n_dims = x->n_dims - 2}, rest_y = {.n_dims = x->n_dims - 2};
    for (int d = 2; d < x->n_dims; d++) {
        rest_x.dims[d - 2] = rest_y.dims[d - 2] = x->dims[d];
        rest_x.strides[d - 2] = x->strides[d];
        rest_y.strides[d - 2] = y->strides[d];
    }
    *v = (bw_group_norm_view){.n = x->dims[0],
                              .channels = x->dims[1],
                              .groups = ((const bw_group_norm_params *)call->params)->n_groups,
                              .x_strides = {x->strides[0], x->strides[1]},
                              .y_strides = {y->strides[0], y->strides[1]}};
    bw_loop_init(&v->space, rest_x.n_dims, rest_x.dims, 2, (const bw_tensor *[]){&rest_x, &rest_y});
    v->per_group = v->channels / v->groups;
    v->n_values = v->per_group * v->space.n;
}

typedef struct group {
    const bw_op_call *call;
    const bw_group_norm_view *view;
    int64_t sample, first; /* its first channel */
} group;

/* The sum of (x - shift)^power over a group, channel by channel. */
static double moment(const group *g, double shift, int power)
{
    const bw_tensor *x = g->call->in[0];
    const bw_group_norm_view *v = g->view;
    double sum = 0;
    for (int64_t c = g->first; c < g->first + v->per_group; c++) {
        bw_loop_cursor cursor;
        bw_span span;
        bw_loop_begin(&cursor, &v->space, 0, v->space.n);
        while (bw_loop_next(&cursor, &span)) {
            int64_t at = g->sample * v->x_strides[0] + c * v->x_strides[1] + span.offset[0];
            double part = 0;
            for (int64_t i = 0; i < span.n; i++) {
                double d = bw_element_f64(x->dtype, x->data, at + i * bw_loop_step(&v->space, 0)) - shift;
                part += power == 1 ? d : d * d;
            }
            sum += part;
        }
    }
    return sum;
}

static void normalise_channel(const group *g, int64_t c, double mean, double scale)
{
    const bw_tensor *x = g->call->in[0], *y = g->call->out[0], *w = g->call->in[1], *b = g->call->in[2];
    const bw_group_norm_view *v = g->view;
    double times = w ? bw_element_f64(w->dtype, w->data, c * w->strides[0]) : 1;
    double plus = b ? bw_element_f64(b->dtype, b->data, c * b->strides[0]) : 0;
    bw_loop_cursor cursor;
    bw_span span;
    bw_loop_begin(&cursor, &v->space, 0, v->space.n);
    while (bw_loop_next(&cursor, &span))
        for (int64_t i = 0; i < span.n; i++) {
            int64_t from =
                g->sample * v->x_strides[0] + c * v->x_strides[1] + span.offset[0] + i * bw_loop_step(&v->space, 0);
            int64_t to =
                g->sample * v->y_strides[0] + c * v->y_strides[1] + span.offset[1] + i * bw_loop_step(&v->space, 1);
            double value = (bw_element_f64(x->dtype, x->data, from) - mean) * scale * times + plus;
            bw_element_set_f64(y->dtype, y->data, to, value);
        }
}

void bw_op_group_norm_ref(const bw_op_call *call)
{
    const bw_tensor *x = call->in[0];
    double eps = (double)((const bw_group_norm_params *)call->params)->eps;
    bw_group_norm_view v;
    bw_group_norm_view_init(&v, call);
    for (int64_t i = 0; v.n_values > 0 && i < v.n * v.groups; i++) {
        group g = {call, &v, i / v.groups, i % v.groups * v.per_group};
        double first = bw_element_f64(x->dtype, x->data, g.sample * v.x_strides[0] + g.first * v.x_strides[1]);
        double mean = first + moment(&g, first, 1) / (double)v.n_values; /* exact where all are equal */
        double scale = 1 / sqrt(moment(&g, mean, 2) / (double)v.n_values + eps);
        for (int64_t c = g.first; c < g.first + v.per_group; c++)
            normalise_channel(&g, c, mean, scale);
    }
}
