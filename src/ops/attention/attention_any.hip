/* ATTENTION on a GPU for what the other kernels do not take: heads of any width up to 1024, caches in f32 or at any
 * address. A workgroup takes one token and one query head and goes through the keys BLOCK at a time: a thread for each
 * key finds its score, then threads take elements of the output. Softmax is online, in f32. */
#include "bw_kernel.h"
#include "attention/bw_attention_args.h"
#include "attention/bw_attention_kernel.h"

enum { BLOCK = 256, WIDEST = 1024 };

BW_DEVICE float larger(float a, float b)
{
    return b > a ? b : a; /* passes NaN over */
}

template <typename C>
BW_DEVICE void attend(const bw_attention_args &p, const float *q, const C *k_cache, const C *v_cache,
                      const int32_t *seqs, const int32_t *pages, float *y)
{
    BW_SHARED float query[WIDEST], weights[BLOCK], parts[BLOCK], shared[BLOCK / BW_WAVE];
    BW_SHARED int64_t rows[BLOCK];
    const int64_t token = p.first_token + bw_block_y();
    const int h = (int)bw_block(), head = h / p.group, thread = bw_thread();
    bw_visible seen = bw_find_visible<BLOCK>(p, (int32_t)token, seqs);
    if (seen.end < 0)
        return;
    pages += seen.pages;
    q += token * p.q_token + h * p.q_head;
    for (int i = thread; i < p.d; i += BLOCK)
        query[i] = q[i];
    bw_barrier();
    /* Threads for an element of the output: as many as there are if it is narrow, each taking other keys. */
    int lanes = BLOCK;
    while (lanes / 2 >= p.d_v)
        lanes /= 2;
    const int own = thread & (lanes - 1), first_key = thread / lanes, key_step = BLOCK / lanes;
    float most = BW_NO_SCORE, total = 0, sum[WIDEST / BLOCK];
#pragma unroll
    for (int e = 0; e < WIDEST / BLOCK; e++)
        sum[e] = 0;
    for (int base = seen.first; base < seen.end; base += BLOCK) {
        const int n = seen.end - base < BLOCK ? seen.end - base : BLOCK;
        float score = -__builtin_inff();
        if (thread < n) {
            int64_t row = bw_cache_row(p, pages, head, base + thread);
            float dot = 0;
            for (int i = 0; i < p.d; i++)
                dot = bw_fma(query[i], bw_cache1<C>::load(k_cache, row, p.d, i), dot);
            score = bw_capped(p, dot * p.scale);
            rows[thread] = row;
        }
        float new_most = larger(most, bw_block_max<BLOCK>(score, shared)), shrink = bw_exp(most - new_most);
        float weight = bw_exp(score - new_most);
        most = new_most;
        weights[thread] = weight;
        total = total * shrink + bw_block_sum<BLOCK>(weight, shared); /* its barriers also show the weights to all */
#pragma unroll
        for (int e = 0; e < WIDEST / BLOCK; e++) {
            int i = own + e * BLOCK;
            sum[e] *= shrink;
            if (i >= p.d_v)
                continue;
            for (int k = first_key; k < n; k += key_step)
                sum[e] = bw_fma(weights[k], bw_cache1<C>::load(v_cache, rows[k], p.d_v, i), sum[e]);
        }
        bw_barrier();
    }
    y += token * p.y_token + h * p.y_head;
#pragma unroll
    for (int e = 0; e < WIDEST / BLOCK; e++) {
        if (e * BLOCK >= p.d_v)
            continue; /* the same for all threads */
        parts[thread] = sum[e];
        bw_barrier();
        float all = 0;
        for (int k = own; k < BLOCK; k += lanes)
            all += parts[k];
        if (thread < lanes && own + e * BLOCK < p.d_v)
            y[own + e * BLOCK] = all / total;
        bw_barrier();
    }
}

#define ANY(name, C)                                                                                                   \
    BW_KERNEL(BLOCK, attention_any_##name)                                                                             \
    (const bw_attention_args p, const float *q, const C *k_cache, const C *v_cache, const int32_t *seqs,               \
     const int32_t *pages, float *y)                                                                                   \
    {                                                                                                                  \
        attend<C>(p, q, k_cache, v_cache, seqs, pages, y);                                                             \
    }
ANY(f32, float)
ANY(f16, bw_f16)
ANY(bf16, bw_bf16)
ANY(q8_0, bw_q8_0)
