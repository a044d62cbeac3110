/* SDPA of f32, f16 and bf16: for a block of queries of one head, tile by tile of the keys, scores as one product, their
 * running softmax, and a second product added to the outputs (Milakov and Gimelshein, "Online normalizer calculation
 * for softmax", 2018). Products: matmul/gemm.h. Compiled per CPU level. */
#include "attention/sdpa.h"
#include "bw_each.h"
#include "matmul/gemm.h"

bw_op_kernel BW_LEVEL(bw_sdpa);

/* A member's scratch beside that of the products. */
typedef struct sdpa_block {
    float *gemm;   /* BW_GEMM_SCRATCH bytes */
    float *scores; /* [ROWS, KEYS] */
    float *sums;   /* outputs before they are divided, [ROWS, Dv] */
    float most[BW_SDPA_ROWS], total[BW_SDPA_ROWS];
} sdpa_block;

/* Scores [0, n) of query t for keys from s0 on, as the product left them, become weights relative to the row's largest
 * so far; what was summed before is scaled to it. Returns whether the query sees all of them. */
static bool sdpa_weigh(const bw_op_call *call, sdpa_block *block, int64_t b, int64_t h, int64_t t, int64_t row,
                       int64_t s0, int64_t n)
{
    const bw_sdpa_params *p = call->params;
    float *s = block->scores + row * BW_SDPA_KEYS;
    int64_t seen = bw_sdpa_n_seen(call, t) - s0, step, d_v = call->in[2]->dims[3];
    int64_t n_vectors = (n + VF_N - 1) / VF_N;
    seen = seen < 0 ? 0 : seen < n ? seen : n;
    bool sees_all = seen == n;
    const float *mask = bw_sdpa_mask_row(call, b, h, t, &step);
    vf most = vf_set1(-INFINITY), total = vf_set1(0);
    int64_t i = 0;
    for (; i + VF_N <= seen && p->softcap <= 0 && !mask; i += VF_N)
        vf_store(s + i, vf_mul(vf_load(s + i), vf_set1(p->scale)));
    for (; i < seen; i++) {
        float x = s[i] * p->scale;
        x = p->softcap > 0 ? p->softcap * tanhf(x / p->softcap) : x;
        s[i] = x + (mask ? mask[(s0 + i) * step] : 0);
        sees_all = sees_all && !(s[i] == -INFINITY);
    }
    for (; i < n_vectors * VF_N; i++)
        s[i] = -INFINITY;
    for (i = 0; i < n_vectors; i++)
        most = vf_max(most, vf_load(s + i * VF_N));
    float before = block->most[row], now = vf_max_lane(most);
    now = before > now ? before : now;
    if (isinf(now) && now < 0) { /* nothing seen yet */
        memset(s, 0, (size_t)n * sizeof *s);
        return false;
    }
    for (i = 0; i < n_vectors; i++) {
        vf w = vf_exp(vf_sub(vf_load(s + i * VF_N), vf_set1(now)));
        vf_store(s + i * VF_N, w);
        total = vf_add(total, w);
    }
    float factor = isinf(before) ? 0 : expf(before - now);
    block->most[row] = now;
    block->total[row] = block->total[row] * factor + vf_sum(total);
    float *sums = block->sums + row * d_v;
    for (i = 0; i < d_v && factor != 1; i++)
        sums[i] *= factor;
    return sees_all;
}

/* Whether values [0, n) of a tile are finite, so that a weight of 0 takes nothing from them. */
static bool sdpa_is_finite(const bw_gemm *o)
{
    bool by_rows = o->b_n == 1;
    int64_t size = bw_dtype_block_bytes(o->b_dtype), outer = by_rows ? o->k : o->n;
    for (int64_t i = 0; i < outer; i++) {
        const char *from = (const char *)o->b + i * (by_rows ? o->b_k : o->b_n) * size;
        if (!bw_each_is_finite(o->b_dtype, from, by_rows ? 1 : o->b_k, by_rows ? o->n : o->k))
            return false;
    }
    return true;
}

/* The second product key by key, without those of weight 0. */
static void sdpa_add_seen(const bw_gemm *o)
{
    for (int64_t r = 0; r < o->m; r++)
        for (int64_t s = 0; s < o->k; s++) {
            const float weight = ((const float *)o->a)[r * o->a_m + s];
            float *sums = (float *)o->c + r * o->c_m;
            for (int64_t i = 0; i < o->n && weight != 0; i++)
                sums[i] += weight * (float)bw_element_f64(o->b_dtype, o->b, s * o->b_k + i * o->b_n);
        }
}

static const void *sdpa_at(const bw_tensor *x, int64_t b, int64_t h, int64_t t)
{
    return (const char *)x->data +
           (b * x->strides[0] + h * x->strides[1] + t * x->strides[2]) * bw_dtype_block_bytes(x->dtype);
}

/* Queries [t0, t0 + rows) of head h of batch item b. */
static void sdpa_rows(const bw_op_call *call, sdpa_block *block, int64_t b, int64_t h, int64_t t0, int64_t rows)
{
    const bw_tensor *q = call->in[0], *k = call->in[1], *v = call->in[2];
    bw_tensor *y = call->out[0];
    int64_t head = h / (q->dims[1] / k->dims[1]), d = q->dims[3], d_v = v->dims[3];
    int64_t n_keys = bw_sdpa_n_seen(call, t0 + rows - 1);
    for (int64_t r = 0; r < rows; r++) {
        block->most[r] = -INFINITY;
        block->total[r] = 0;
    }
    memset(block->sums, 0, (size_t)(rows * d_v) * sizeof(float));
    bw_gemm g = {.m = rows, .k = d, .a_dtype = q->dtype, .b_dtype = q->dtype, .c_dtype = BW_F32, .c_n = 1};
    g.a = sdpa_at(q, b, h, t0);
    g.a_m = q->strides[2];
    g.a_k = q->strides[3];
    g.a_inner = d;
    g.b_k = k->strides[3];
    g.b_n = k->strides[2];
    g.c = block->scores;
    g.c_m = BW_SDPA_KEYS;
    bw_gemm o = {
        .m = rows, .n = d_v, .a_dtype = BW_F32, .b_dtype = q->dtype, .c_dtype = BW_F32, .c_n = 1, .adds = true};
    o.a = block->scores;
    o.a_m = BW_SDPA_KEYS;
    o.a_k = 1;
    o.b_k = v->strides[2];
    o.b_n = v->strides[3];
    o.c = block->sums;
    o.c_m = d_v;
    for (int64_t s0 = 0; s0 < n_keys; s0 += BW_SDPA_KEYS) {
        int64_t n = n_keys - s0 < BW_SDPA_KEYS ? n_keys - s0 : BW_SDPA_KEYS;
        g.n = o.k = o.a_inner = n;
        g.b = sdpa_at(k, b, head, s0);
        o.b = sdpa_at(v, b, head, s0);
        BW_LEVEL(bw_gemm_one)(&g, block->gemm);
        bool sees_all = true;
        for (int64_t r = 0; r < rows; r++)
            sees_all = sdpa_weigh(call, block, b, h, t0 + r, r, s0, n) && sees_all;
        if (sees_all || sdpa_is_finite(&o))
            BW_LEVEL(bw_gemm_one)(&o, block->gemm);
        else
            sdpa_add_seen(&o);
    }
    for (int64_t r = 0; r < rows; r++) {
        float *sums = block->sums + r * d_v, total = block->total[r];
        for (int64_t i = 0; i < d_v; i++)
            sums[i] = total == 0 ? 0 : sums[i] / total;
        char *to = (char *)y->data +
                   (b * y->strides[0] + h * y->strides[1] + (t0 + r) * y->strides[2]) * bw_dtype_block_bytes(y->dtype);
        bw_each_store(y->dtype, to, y->strides[3], sums, d_v);
    }
}

void BW_LEVEL(bw_sdpa)(const bw_op_call *call, bw_member *member)
{
    const bw_tensor *q = call->in[0];
    int64_t n_heads = q->dims[0] * q->dims[1], t = q->dims[2], begin, end;
    if (t == 0)
        return;
    int64_t n_blocks = (t + BW_SDPA_ROWS - 1) / BW_SDPA_ROWS;
    while (n_heads * n_blocks < 2 * member->size && t / n_blocks > 24)
        n_blocks++;
    int64_t rows = ((t + n_blocks - 1) / n_blocks + 11) / 12 * 12;
    rows = rows < BW_SDPA_ROWS ? rows : BW_SDPA_ROWS;
    n_blocks = (t + rows - 1) / rows;
    sdpa_block block = {.gemm = bw_op_member_scratch(call, member)};
    block.scores = block.gemm + BW_GEMM_SCRATCH / 4;
    block.sums = block.scores + BW_SDPA_ROWS * BW_SDPA_KEYS;
    while (bw_team_take(call->next, n_heads * n_blocks, 1, &begin, &end)) {
        /* The last blocks first: with a causal mask they take longest. */
        int64_t head = begin / n_blocks, t0 = (n_blocks - 1 - begin % n_blocks) * rows;
        sdpa_rows(call, &block, head / q->dims[1], head % q->dims[1], t0, t - t0 < rows ? t - t0 : rows);
    }
}
