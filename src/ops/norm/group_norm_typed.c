/* GROUP_NORM for f64. */
#include <math.h>

#include "norm/group_norm_view.h"

bw_op_kernel bw_group_norm_typed;

/* The sum of (x - shift)^power over channels [first, first + per_group) of a sample. */
static double moment(const double *x, const bw_group_norm_view *v, double shift, int power)
{
    int64_t step = bw_loop_step(&v->space, 0);
    double sum = 0;
    for (int64_t c = 0; c < v->per_group; c++) {
        bw_loop_cursor cursor;
        bw_span span;
        bw_loop_begin(&cursor, &v->space, 0, v->space.n);
        while (bw_loop_next(&cursor, &span)) {
            double sums[4] = {0};
            for (int64_t i = 0; i < span.n; i++) {
                double d = x[c * v->x_strides[1] + span.offset[0] + i * step] - shift;
                sums[i % 4] += power == 1 ? d : d * d;
            }
            sum += (sums[0] + sums[1]) + (sums[2] + sums[3]);
        }
    }
    return sum;
}

void bw_group_norm_typed(const bw_op_call *call, bw_member *member)
{
    const bw_tensor *w = call->in[1], *b = call->in[2];
    double eps = (double)((const bw_group_norm_params *)call->params)->eps;
    bw_group_norm_view v;
    bw_group_norm_view_init(&v, call);
    int64_t begin, end, x_step = bw_loop_step(&v.space, 0), y_step = bw_loop_step(&v.space, 1);
    if (v.n_values == 0 || !bw_op_my_share(member, v.n * v.groups, v.n_values, 2048, &begin, &end))
        return;
    for (int64_t i = begin; i < end; i++) {
        int64_t sample = i / v.groups, first = i % v.groups * v.per_group;
        const double *x = (const double *)call->in[0]->data + sample * v.x_strides[0] + first * v.x_strides[1];
        double *y = (double *)call->out[0]->data + sample * v.y_strides[0] + first * v.y_strides[1];
        double mean = x[0] + moment(x, &v, x[0], 1) / (double)v.n_values; /* exact where all are equal */
        double scale = 1 / sqrt(moment(x, &v, mean, 2) / (double)v.n_values + eps);
        for (int64_t c = 0; c < v.per_group; c++) {
            double times = w ? ((const double *)w->data)[(first + c) * w->strides[0]] : 1;
            double plus = b ? ((const double *)b->data)[(first + c) * b->strides[0]] : 0;
            bw_loop_cursor cursor;
            bw_span span;
            bw_loop_begin(&cursor, &v.space, 0, v.space.n);
            while (bw_loop_next(&cursor, &span))
                for (int64_t k = 0; k < span.n; k++) {
                    double d = x[c * v.x_strides[1] + span.offset[0] + k * x_step] - mean;
                    y[c * v.y_strides[1] + span.offset[1] + k * y_step] = d * scale * times + plus;
                }
        }
    }
}
