/* SDPA: definition and checks. */
#include <math.h>

#include "bw_op_check.h"

bw_status bw_op_sdpa_check(const bw_op_call *call, bw_err *err)
{
    BW_TRY(bw_op_check_counts(call, 4, 1, true, err));
    const bw_tensor *q = call->in[0], *k = call->in[1], *v = call->in[2], *mask = call->in[3], *y = call->out[0];
    BW_TRY(bw_op_check_plain(call, q, "in0", BW_MASK_F4, err));
    BW_TRY(bw_op_check_plain(call, k, "in1", BW_MASK(q->dtype), err));
    BW_TRY(bw_op_check_plain(call, v, "in2", BW_MASK(q->dtype), err));
    BW_TRY(bw_op_check_plain(call, y, "out0", BW_MASK(q->dtype), err));
    if (q->n_dims != 4 || k->n_dims != 4 || v->n_dims != 4 || y->n_dims != 4)
        return bw_op_fail(call, err, "takes [batch, heads, positions, width]");
    if (k->dims[0] != q->dims[0] || v->dims[0] != q->dims[0] || y->dims[0] != q->dims[0])
        return bw_op_fail(call, err, "all tensors must have one batch");
    if (k->dims[3] != q->dims[3])
        return bw_op_fail(call, err, "in0 and in1 must have one width");
    if (v->dims[1] != k->dims[1] || v->dims[2] != k->dims[2])
        return bw_op_fail(call, err, "in1 and in2 must have the same heads and positions");
    if (k->dims[1] < 1 || q->dims[1] % k->dims[1] != 0)
        return bw_op_fail(call, err, "%lld heads of q do not divide among %lld of k", (long long)q->dims[1],
                          (long long)k->dims[1]);
    if (y->dims[1] != q->dims[1] || y->dims[2] != q->dims[2] || y->dims[3] != v->dims[3])
        return bw_op_fail(call, err, "out0 must have in0's heads and positions and in2's width");
    for (int i = 1; i < 4; i++)
        if (q->dims[i] > INT32_MAX || k->dims[i] > INT32_MAX || v->dims[i] > INT32_MAX)
            return bw_op_fail(call, err, "heads, positions and widths must be below 2^31");
    int64_t scores = bw_shape_elements((int64_t[]){q->dims[0], q->dims[1], q->dims[2], k->dims[2]}, 4);
    if (scores < 0)
        return bw_op_fail(call, err, "has too many scores");
    if (mask) {
        BW_TRY(bw_op_check_plain(call, mask, "in3", BW_MASK(BW_F32), err));
        bw_tensor like = bw_tensor_view(BW_F32, 4, (int64_t[]){q->dims[0], q->dims[1], q->dims[2], k->dims[2]}, NULL);
        BW_TRY(bw_op_check_broadcast(call, mask, &like, "in3", err));
    }
    const bw_sdpa_params *p = call->params;
    if (!isfinite(p->scale) || !isfinite(p->softcap) || p->softcap < 0)
        return bw_op_fail(call, err, "scale %g must be finite, softcap %g finite and not negative", (double)p->scale,
                          (double)p->softcap);
    return BW_OK;
}

void bw_op_sdpa_cost(const bw_op_call *call, bw_op_cost *cost)
{
    const bw_tensor *q = call->in[0], *k = call->in[1], *v = call->in[2];
    double scores = (double)q->dims[0] * (double)q->dims[1] * (double)q->dims[2] * (double)k->dims[2];
    cost->flops = 2 * scores * ((double)q->dims[3] + (double)v->dims[3]);
    cost->bytes = (double)bw_dtype_block_bytes(q->dtype) *
                  ((double)bw_tensor_elements(q) + (double)bw_tensor_elements(k) + (double)bw_tensor_elements(v) +
                   (double)bw_tensor_elements(call->out[0]));
}

/* The score of one query and key; seen: whether the query sees the key at all. */
static double score(const bw_op_call *call, int64_t b, int64_t h, int64_t t, int64_t s, bool *seen)
{
    const bw_sdpa_params *p = call->params;
    const bw_tensor *q = call->in[0], *k = call->in[1], *mask = call->in[3];
    *seen = !p->causal || s <= t + k->dims[2] - q->dims[2];
    if (!*seen)
        return 0;
    int64_t head = h / (q->dims[1] / k->dims[1]);
    double sum = 0;
    for (int64_t i = 0; i < q->dims[3]; i++)
        sum += bw_element_f64(q->dtype, q->data,
                              b * q->strides[0] + h * q->strides[1] + t * q->strides[2] + i * q->strides[3]) *
               bw_element_f64(k->dtype, k->data,
                              b * k->strides[0] + head * k->strides[1] + s * k->strides[2] + i * k->strides[3]);
    sum *= (double)p->scale;
    if (p->softcap > 0)
        sum = (double)p->softcap * tanh(sum / (double)p->softcap);
    if (mask) {
        int64_t at = 0, index[4] = {b, h, t, s};
        for (int i = 1; i <= mask->n_dims; i++)
            if (mask->dims[mask->n_dims - i] > 1)
                at += index[4 - i] * mask->strides[mask->n_dims - i];
        sum += bw_element_f64(BW_F32, mask->data, at);
    }
    *seen = !(isinf(sum) && sum < 0);
    return sum;
}

/* Two passes over the keys for each element: the largest score, then the weights. */
static void ref_row(const bw_op_call *call, int64_t b, int64_t h, int64_t t)
{
    const bw_tensor *q = call->in[0], *v = call->in[2];
    bw_tensor *y = call->out[0];
    int64_t n = v->dims[2], head = h / (q->dims[1] / v->dims[1]);
    double most = -INFINITY, total = 0;
    bool seen;
    for (int64_t s = 0; s < n; s++) {
        double x = score(call, b, h, t, s, &seen);
        if (seen && !(x <= most))
            most = x;
    }
    for (int64_t s = 0; s < n; s++) {
        double x = score(call, b, h, t, s, &seen);
        total += seen ? exp(x - most) : 0;
    }
    enum { STRIP = 64 };
    for (int64_t i0 = 0; i0 < v->dims[3]; i0 += STRIP) {
        int64_t count = v->dims[3] - i0 < STRIP ? v->dims[3] - i0 : STRIP;
        double sums[STRIP] = {0};
        for (int64_t s = 0; s < n; s++) {
            double x = score(call, b, h, t, s, &seen);
            double weight = seen ? exp(x - most) / total : 0;
            for (int64_t i = 0; i < count && seen; i++)
                sums[i] += weight * bw_element_f64(v->dtype, v->data,
                                                   b * v->strides[0] + head * v->strides[1] + s * v->strides[2] +
                                                       (i0 + i) * v->strides[3]);
        }
        for (int64_t i = 0; i < count; i++)
            bw_element_set_f64(y->dtype, y->data,
                               b * y->strides[0] + h * y->strides[1] + t * y->strides[2] + (i0 + i) * y->strides[3],
                               sums[i]);
    }
}

void bw_op_sdpa_ref(const bw_op_call *call)
{
    const bw_tensor *q = call->in[0];
    for (int64_t b = 0; b < q->dims[0]; b++)
        for (int64_t h = 0; h < q->dims[1]; h++)
            for (int64_t t = 0; t < q->dims[2]; t++)
                ref_row(call, b, h, t);
}
