/* SOFTMAX, LOG_SOFTMAX, RMSNORM and LAYERNORM, over the last dimension. RMSNORM: Zhang and Sennrich, arXiv:1910.07467;
 * LAYERNORM: Ba, Kiros and Hinton, arXiv:1607.06450. */
#include <math.h>

#include "bw_op_check.h"

/* x and y of one float type and shape, of one dimension at least. */
static bw_status check_rows(const bw_op_call *call, int n_in, bool has_params, bw_err *err)
{
    BW_TRY(bw_op_check_counts(call, n_in, 1, has_params, err));
    BW_TRY(bw_op_check_plain(call, call->in[0], "in0", BW_MASK_F4, err));
    BW_TRY(bw_op_check_plain(call, call->out[0], "out0", BW_MASK(call->in[0]->dtype), err));
    if (call->in[0]->n_dims == 0)
        return bw_op_fail(call, err, "in0 has no last dimension");
    if (!bw_op_same_shape(call->in[0], call->out[0]))
        return bw_op_fail(call, err, "in0 and out0 must have one shape");
    return BW_OK;
}

/* An optional [D] of x's type. */
static bw_status check_weight(const bw_op_call *call, int i, const char *what, bw_err *err)
{
    const bw_tensor *x = call->in[0], *w = call->in[i];
    if (!w)
        return BW_OK;
    BW_TRY(bw_op_check_plain(call, w, what, BW_MASK(x->dtype), err));
    if (w->n_dims != 1 || w->dims[0] != x->dims[x->n_dims - 1])
        return bw_op_fail(call, err, "%s must be [%lld]", what, (long long)x->dims[x->n_dims - 1]);
    return BW_OK;
}

bw_status bw_op_softmax_check(const bw_op_call *call, bw_err *err)
{
    return check_rows(call, 1, false, err);
}

bw_status bw_op_log_softmax_check(const bw_op_call *call, bw_err *err)
{
    return check_rows(call, 1, false, err);
}

static bw_status check_eps(const bw_op_call *call, float eps, bw_err *err)
{
    if (!(eps >= 0) || isinf(eps))
        return bw_op_fail(call, err, "eps must be a number from 0 on, not %g", (double)eps);
    return BW_OK;
}

bw_status bw_op_rmsnorm_check(const bw_op_call *call, bw_err *err)
{
    BW_TRY(check_rows(call, 2, true, err));
    BW_TRY(check_weight(call, 1, "in1", err));
    return check_eps(call, ((const bw_rms_norm_params *)call->params)->eps, err);
}

bw_status bw_op_layernorm_check(const bw_op_call *call, bw_err *err)
{
    BW_TRY(check_rows(call, 3, true, err));
    BW_TRY(check_weight(call, 1, "in1", err));
    BW_TRY(check_weight(call, 2, "in2", err));
    return check_eps(call, ((const bw_layernorm_params *)call->params)->eps, err);
}

static void count(const bw_op_call *call, double flops, bw_op_cost *cost)
{
    const bw_tensor *x = call->in[0];
    double n = (double)bw_tensor_elements(x), size = (double)bw_dtype_block_bytes(x->dtype), weights = 0;
    for (int i = 1; i < call->n_in; i++)
        weights += call->in[i] ? (double)call->in[i]->dims[0] : 0;
    *cost = (bw_op_cost){.flops = flops * n, .bytes = size * (2 * n + weights)};
}

void bw_op_softmax_cost(const bw_op_call *call, bw_op_cost *cost)
{
    count(call, 5, cost);
}

void bw_op_log_softmax_cost(const bw_op_call *call, bw_op_cost *cost)
{
    count(call, 5, cost);
}

void bw_op_rmsnorm_cost(const bw_op_call *call, bw_op_cost *cost)
{
    count(call, 4, cost);
}

void bw_op_layernorm_cost(const bw_op_call *call, bw_op_cost *cost)
{
    count(call, 8, cost);
}

/* One row of the call: elements of x, w, b and y by column. */
typedef struct row {
    const bw_op_call *call;
    int64_t from, to, n;
} row;

static double get(const row *r, int64_t i)
{
    const bw_tensor *x = r->call->in[0];
    return bw_element_f64(x->dtype, x->data, r->from + i * x->strides[x->n_dims - 1]);
}

static double weight(const row *r, int k, int64_t i, double otherwise)
{
    const bw_tensor *w = r->call->in[k];
    return w ? bw_element_f64(w->dtype, w->data, i * w->strides[0]) : otherwise;
}

static void set(const row *r, int64_t i, double value)
{
    const bw_tensor *y = r->call->out[0];
    bw_element_set_f64(y->dtype, y->data, r->to + i * y->strides[y->n_dims - 1], value);
}

typedef void row_fn(const row *r);

static void each_row(const bw_op_call *call, row_fn *fn)
{
    bw_rows x, y;
    bw_rows_init(&x, call->in[0]);
    bw_rows_init(&y, call->out[0]);
    for (int64_t i = 0; i < x.n_rows; i++)
        fn(&(row){call, bw_rows_offset(&x, i), bw_rows_offset(&y, i), x.n_columns});
}

static double greatest(const row *r)
{
    double most = -(double)INFINITY;
    for (int64_t i = 0; i < r->n; i++)
        most = get(r, i) > most || isnan(get(r, i)) ? get(r, i) : most;
    return most;
}

/* The sum of f(x, at) over the row, in blocks: equal terms would all be rounded the same way. */
typedef double term_fn(double x, double at);

static double sum_terms(const row *r, term_fn *f, double at)
{
    double sum = 0, block = 0;
    for (int64_t i = 0; i < r->n; i++) {
        block += f(get(r, i), at);
        if (i % 64 == 63) {
            sum += block;
            block = 0;
        }
    }
    return sum + block;
}

static double exp_term(double x, double most)
{
    return exp(x - most);
}

static double plain_term(double x, double shift)
{
    return x - shift;
}

static double square_term(double x, double mean)
{
    return (x - mean) * (x - mean);
}

static void softmax_row(const row *r)
{
    double most = greatest(r), sum = sum_terms(r, exp_term, most);
    for (int64_t i = 0; i < r->n; i++)
        set(r, i, exp(get(r, i) - most) / sum);
}

static void log_softmax_row(const row *r)
{
    double most = greatest(r), log_sum = log(sum_terms(r, exp_term, most));
    for (int64_t i = 0; i < r->n; i++)
        set(r, i, get(r, i) - most - log_sum);
}

static void rmsnorm_row(const row *r)
{
    double eps = (double)((const bw_rms_norm_params *)r->call->params)->eps;
    double scale = 1 / sqrt(sum_terms(r, square_term, 0) / (double)r->n + eps);
    for (int64_t i = 0; i < r->n; i++)
        set(r, i, get(r, i) * scale * weight(r, 1, i, 1));
}

static void layernorm_row(const row *r)
{
    double eps = (double)((const bw_layernorm_params *)r->call->params)->eps;
    if (r->n == 0)
        return;
    double mean = get(r, 0) + sum_terms(r, plain_term, get(r, 0)) / (double)r->n; /* exact where all are equal */
    double scale = 1 / sqrt(sum_terms(r, square_term, mean) / (double)r->n + eps);
    for (int64_t i = 0; i < r->n; i++)
        set(r, i, (get(r, i) - mean) * scale * weight(r, 1, i, 1) + weight(r, 2, i, 0));
}

void bw_op_softmax_ref(const bw_op_call *call)
{
    each_row(call, softmax_row);
}

void bw_op_log_softmax_ref(const bw_op_call *call)
{
    each_row(call, log_softmax_row);
}

void bw_op_rmsnorm_ref(const bw_op_call *call)
{
    each_row(call, rmsnorm_row);
}

void bw_op_layernorm_ref(const bw_op_call *call)
{
    each_row(call, layernorm_row);
}
