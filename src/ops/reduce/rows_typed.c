/* SOFTMAX, LOG_SOFTMAX, RMSNORM and LAYERNORM for f64. */
#include <math.h>

#include "bw_op_check.h"

bw_op_kernel bw_softmax_typed, bw_log_softmax_typed, bw_rmsnorm_typed, bw_layernorm_typed;

/* One row: x, y with their steps; w, b may be NULL. */
typedef struct row {
    const double *x, *w, *b;
    double *y;
    int64_t x_step, y_step, w_step, b_step, n;
    double eps;
} row;

typedef void row_fn(const row *r);

static void each_row(const bw_op_call *call, const bw_member *member, double eps, row_fn *fn)
{
    const bw_tensor *x = call->in[0], *y = call->out[0];
    bw_rows x_rows, y_rows;
    int64_t begin, end;
    bw_rows_init(&x_rows, x);
    bw_rows_init(&y_rows, y);
    row r = {
        .x_step = x->strides[x->n_dims - 1], .y_step = y->strides[y->n_dims - 1], .n = x_rows.n_columns, .eps = eps};
    if (call->n_in > 1 && call->in[1]) {
        r.w = call->in[1]->data;
        r.w_step = call->in[1]->strides[0];
    }
    if (call->n_in > 2 && call->in[2]) {
        r.b = call->in[2]->data;
        r.b_step = call->in[2]->strides[0];
    }
    if (!bw_op_my_share(member, x_rows.n_rows, r.n, 1024, &begin, &end))
        return;
    for (int64_t i = begin; i < end; i++) {
        r.x = (const double *)x->data + bw_rows_offset(&x_rows, i);
        r.y = (double *)y->data + bw_rows_offset(&y_rows, i);
        fn(&r);
    }
}

static double greatest(const row *r)
{
    double most = -(double)INFINITY;
    for (int64_t i = 0; i < r->n; i++)
        most = r->x[i * r->x_step] > most ? r->x[i * r->x_step] : most;
    return most;
}

static void softmax_row(const row *r)
{
    double most = greatest(r), sum = 0;
    for (int64_t i = 0; i < r->n; i++) {
        double e = exp(r->x[i * r->x_step] - most);
        sum += e;
        r->y[i * r->y_step] = e;
    }
    for (int64_t i = 0; i < r->n; i++)
        r->y[i * r->y_step] /= sum;
}

static void log_softmax_row(const row *r)
{
    double most = greatest(r), sum = 0;
    for (int64_t i = 0; i < r->n; i++)
        sum += exp(r->x[i * r->x_step] - most);
    double log_sum = log(sum);
    for (int64_t i = 0; i < r->n; i++)
        r->y[i * r->y_step] = r->x[i * r->x_step] - most - log_sum;
}

/* y = (x - mean) * scale * w + b */
static void finish(const row *r, double mean, double scale)
{
    for (int64_t i = 0; i < r->n; i++)
        r->y[i * r->y_step] = (r->x[i * r->x_step] - mean) * scale * (r->w ? r->w[i * r->w_step] : 1.0) +
                              (r->b ? r->b[i * r->b_step] : 0.0);
}

/* The sum of (x - mean)^power, power 1 or 2, by four accumulators over blocks: equal terms would all be rounded the
 * same way. */
static double moment(const row *r, double mean, int power)
{
    double sum = 0;
    for (int64_t i = 0; i < r->n;) {
        double sums[4] = {0};
        int64_t last = r->n - i < 256 ? r->n : i + 256;
        for (; i < last; i++) {
            double d = r->x[i * r->x_step] - mean;
            sums[i % 4] += power == 1 ? d : d * d;
        }
        sum += (sums[0] + sums[1]) + (sums[2] + sums[3]);
    }
    return sum;
}

static void rmsnorm_row(const row *r)
{
    finish(r, 0, 1 / sqrt(moment(r, 0, 2) / (double)r->n + r->eps));
}

static void layernorm_row(const row *r)
{
    if (r->n == 0)
        return;
    double mean = r->x[0] + moment(r, r->x[0], 1) / (double)r->n; /* exact where all are equal */
    finish(r, mean, 1 / sqrt(moment(r, mean, 2) / (double)r->n + r->eps));
}

void bw_softmax_typed(const bw_op_call *call, bw_member *member)
{
    each_row(call, member, 0, softmax_row);
}

void bw_log_softmax_typed(const bw_op_call *call, bw_member *member)
{
    each_row(call, member, 0, log_softmax_row);
}

void bw_rmsnorm_typed(const bw_op_call *call, bw_member *member)
{
    each_row(call, member, (double)((const bw_rms_norm_params *)call->params)->eps, rmsnorm_row);
}

void bw_layernorm_typed(const bw_op_call *call, bw_member *member)
{
    each_row(call, member, (double)((const bw_layernorm_params *)call->params)->eps, layernorm_row);
}
