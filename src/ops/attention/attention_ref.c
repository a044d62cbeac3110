/* ATTENTION: y = softmax(scale * q k^T + mask) v (Vaswani et al., arXiv:1706.03762), causal, with grouped queries
 * (arXiv:2305.13245), over pages of keys and values. */
#include <math.h>

#include "bw_op_check.h"
#include "bw_quant.h"

bw_status bw_op_attention_check(const bw_op_call *call, bw_err *err)
{
    BW_TRY(bw_op_check_counts(call, 5, 1, true, err));
    const bw_tensor *q = call->in[0], *k = call->in[1], *v = call->in[2], *seqs = call->in[3], *y = call->out[0];
    BW_TRY(bw_op_check_f32(call, q, "in0", err));
    BW_TRY(bw_op_check_f32(call, y, "out0", err));
    if (q->n_dims != 3 || y->n_dims != 3 || q->dims[0] != y->dims[0] || q->dims[1] != y->dims[1])
        return bw_op_fail(call, err, "in0 must be [T, Hq, D] and out0 [T, Hq, Dv]");
    if (!k || k->n_dims != 4 || k->dims[1] < 1 || q->dims[1] % k->dims[1] != 0)
        return bw_op_fail(call, err, "in1 must be [pages, Hkv, page_tokens, D] with Hkv a divisor of Hq");
    BW_TRY(bw_op_check_cache(call, k, "in1", k->dims[1], q->dims[2], err));
    BW_TRY(bw_op_check_cache(call, v, "in2", k->dims[1], y->dims[2], err));
    if (k->dims[0] != v->dims[0] || k->dims[2] != v->dims[2])
        return bw_op_fail(call, err, "in1 and in2 must have the same pages");
    if (q->dims[2] > 1024 || y->dims[2] > 1024)
        return bw_op_fail(call, err, "heads wider than 1024 are not supported");
    if (!seqs || seqs->dtype != BW_I32 || seqs->n_dims != 2 || seqs->dims[1] != 4 || !bw_tensor_is_contiguous(seqs))
        return bw_op_fail(call, err, "in3 must be i32 [S, 4]");
    if (!call->in[4] || call->in[4]->n_dims != 1)
        return bw_op_fail(call, err, "in4 must be i32 [P]");
    BW_TRY(bw_op_check_i32(call, call->in[4], "in4", call->in[4]->dims[0], err));
    const bw_attention_params *params = call->params;
    if (params->window < 0 || !(params->softcap >= 0) || !isfinite(params->scale))
        return bw_op_fail(call, err, "window and softcap must not be negative, scale must be finite");
    return BW_OK;
}

void bw_op_attention_cost(const bw_op_call *call, bw_op_cost *cost)
{
    const bw_tensor *q = call->in[0], *k = call->in[1], *y = call->out[0], *seqs = call->in[3];
    const bw_attention_params *params = call->params;
    double pairs = 0, keys = 0;
    for (int64_t s = 0; seqs->data && s < seqs->dims[0]; s++) {
        const int32_t *seq = (const int32_t *)seqs->data + s * 4;
        double n = seq[1], n_cached = seq[2], w = params->window;
        keys += w > 0 && w + n < n_cached ? w + n : n_cached;
        for (int32_t j = 0; j < seq[1]; j++) {
            double sees = n_cached - n + j + 1;
            pairs += w > 0 && w < sees ? w : sees;
        }
    }
    double width = (double)(q->dims[2] + y->dims[2]);
    double row_bytes = width / (double)bw_dtype_block_elements(k->dtype) * (double)bw_dtype_block_bytes(k->dtype);
    *cost =
        (bw_op_cost){.flops = 2 * pairs * (double)q->dims[1] * width,
                     .bytes = keys * (double)k->dims[1] * row_bytes + 4 * (double)(q->dims[0] * q->dims[1]) * width};
}

static const void *cache_row(const bw_tensor *cache, const int32_t *pages, int64_t head, int64_t position)
{
    int64_t page_tokens = cache->dims[2];
    int64_t row = (pages[position / page_tokens] * cache->dims[1] + head) * page_tokens + position % page_tokens;
    return (const char *)cache->data + row * bw_dtype_bytes(cache->dtype, cache->dims[3]);
}

static double score(const bw_op_call *call, const float *q, const int32_t *pages, int64_t head, int64_t position)
{
    const bw_tensor *k = call->in[1];
    const bw_attention_params *params = call->params;
    float row[1024];
    double sum = 0;
    bw_decode_row(k->dtype, cache_row(k, pages, head, position), row, k->dims[3], NULL);
    for (int64_t i = 0; i < k->dims[3]; i++)
        sum += (double)q[i] * (double)row[i];
    sum *= (double)params->scale;
    if (params->softcap > 0)
        sum = (double)params->softcap * tanh(sum / (double)params->softcap);
    return sum;
}

/* One query head of one token, which stands at cache position `last`. Scores are computed twice: no n-long buffer. */
static void attend(const bw_op_call *call, const float *q, float *y, const int32_t *pages, int64_t head, int64_t last)
{
    const bw_attention_params *params = call->params;
    const bw_tensor *v = call->in[2];
    int64_t first = params->window > 0 && last + 1 > params->window ? last + 1 - params->window : 0;
    double most = -INFINITY, total = 0, sums[1024] = {0};
    for (int64_t p = first; p <= last; p++) {
        double s = score(call, q, pages, head, p);
        most = s > most ? s : most;
    }
    for (int64_t p = first; p <= last; p++) {
        double weight = exp(score(call, q, pages, head, p) - most);
        float row[1024];
        bw_decode_row(v->dtype, cache_row(v, pages, head, p), row, v->dims[3], NULL);
        total += weight;
        for (int64_t i = 0; i < v->dims[3]; i++)
            sums[i] += weight * (double)row[i];
    }
    for (int64_t i = 0; i < v->dims[3]; i++)
        y[i] = (float)(sums[i] / total);
}

void bw_op_attention_ref(const bw_op_call *call)
{
    const bw_tensor *q = call->in[0], *y = call->out[0], *seqs = call->in[3];
    int64_t group = q->dims[1] / call->in[1]->dims[1];
    for (int64_t s = 0; s < seqs->dims[0]; s++) {
        const int32_t *seq = (const int32_t *)seqs->data + s * 4;
        const int32_t *pages = (const int32_t *)call->in[4]->data + seq[3];
        for (int64_t j = 0; j < seq[1]; j++) {
            int64_t t = seq[0] + j;
            for (int64_t h = 0; h < q->dims[1]; h++)
                attend(call, (const float *)q->data + t * q->strides[0] + h * q->strides[1],
                       (float *)y->data + t * y->strides[0] + h * y->strides[1], pages, h / group, seq[2] - seq[1] + j);
        }
    }
}
