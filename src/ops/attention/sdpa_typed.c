/* SDPA in f64, one query at a time; what chooses between kernels and the scratch they take. */
#include <math.h>

#include "attention/sdpa.h"
#include "matmul/gemm.h"

size_t bw_sdpa_scratch(const bw_op_call *call)
{
    return BW_GEMM_SCRATCH + BW_SDPA_ROWS * ((size_t)BW_SDPA_KEYS + (size_t)call->in[2]->dims[3]) * sizeof(float);
}

size_t bw_sdpa_typed_scratch(const bw_op_call *call)
{
    return ((size_t)call->in[1]->dims[2] + (size_t)call->in[2]->dims[3]) * sizeof(double);
}

static const double *row_of(const bw_tensor *x, int64_t b, int64_t h, int64_t t)
{
    return (const double *)x->data + b * x->strides[0] + h * x->strides[1] + t * x->strides[2];
}

/* weights [S] and sums [Dv] are scratch. */
static void one_query(const bw_op_call *call, int64_t b, int64_t h, int64_t t, double *weights, double *sums)
{
    const bw_sdpa_params *p = call->params;
    const bw_tensor *q = call->in[0], *k = call->in[1], *v = call->in[2];
    int64_t head = h / (q->dims[1] / k->dims[1]), n = bw_sdpa_n_seen(call, t), d = q->dims[3], d_v = v->dims[3], step;
    const double *x = row_of(q, b, h, t), cap = (double)p->softcap;
    const float *mask = bw_sdpa_mask_row(call, b, h, t, &step);
    double most = -INFINITY, total = 0;
    for (int64_t s = 0; s < n; s++) {
        const double *y = row_of(k, b, head, s);
        double sum = 0;
        for (int64_t i = 0; i < d; i++)
            sum += x[i * q->strides[3]] * y[i * k->strides[3]];
        sum *= (double)p->scale;
        sum = cap > 0 ? cap * tanh(sum / cap) : sum;
        weights[s] = sum + (mask ? (double)mask[s * step] : 0);
        most = weights[s] <= most ? most : weights[s];
    }
    memset(sums, 0, (size_t)d_v * sizeof *sums);
    for (int64_t s = 0; s < n; s++) {
        if (isinf(weights[s]) && weights[s] < 0)
            continue;
        double w = exp(weights[s] - most);
        const double *y = row_of(v, b, head, s);
        total += w;
        for (int64_t i = 0; i < d_v; i++)
            sums[i] += w * y[i * v->strides[3]];
    }
    const bw_tensor *out = call->out[0];
    double *to = (double *)out->data + b * out->strides[0] + h * out->strides[1] + t * out->strides[2];
    for (int64_t i = 0; i < d_v; i++)
        to[i * out->strides[3]] = total == 0 ? 0 : sums[i] / total;
}

void bw_sdpa_typed(const bw_op_call *call, bw_member *member)
{
    const bw_tensor *q = call->in[0];
    int64_t total = q->dims[0] * q->dims[1] * q->dims[2], begin, end;
    double *weights = bw_op_member_scratch(call, member);
    while (bw_team_take(call->next, total, 1, &begin, &end)) {
        int64_t t = begin % q->dims[2], h = begin / q->dims[2] % q->dims[1], b = begin / q->dims[2] / q->dims[1];
        one_query(call, b, h, t, weights, weights + call->in[1]->dims[2]);
    }
}
