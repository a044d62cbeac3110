/* SDPA on a GPU, the plain form for every type and stride: 16 queries of one head per workgroup, keys in tiles of 64 with a
 * running maximum and sum (Milakov and Gimelshein, arXiv:1805.02867), so that no matrix of scores is stored. 128 columns of
 * the output per workgroup. */
#include "bw_kernel.h"

#include "attention/bw_sdpa_args.h"

enum {
    BLOCK = 256,
    QUERIES = BW_SDPA_GPU_QUERIES,
    KEYS = BW_SDPA_GPU_KEYS,
    WIDTH = BW_SDPA_GPU_WIDTH,
    DEPTH = 32,              /* of q k^T, at once */
    VALUES = 16,             /* keys whose values are in shared memory */
    LANES = BLOCK / QUERIES, /* threads of a query, neighbours in one wave */
    EACH = KEYS / LANES,     /* keys of a thread */
    COLUMNS = WIDTH / LANES  /* columns of a thread */
};

template <typename W> BW_DEVICE W lowest(void)
{
    return -(W)bw_infinity(0.0f);
}

/* Over the threads of a query. */
template <typename W> BW_DEVICE W query_max(W x)
{
#pragma unroll
    for (int mask = LANES / 2; mask > 0; mask >>= 1) {
        W other = bw_shuffle_xor(x, mask);
        x = other > x ? other : x;
    }
    return x;
}
template <typename W> BW_DEVICE W query_sum(W x)
{
#pragma unroll
    for (int mask = LANES / 2; mask > 0; mask >>= 1)
        x += bw_shuffle_xor(x, mask);
    return x;
}

/* A workgroup's shared memory. */
template <typename W> struct tiles {
    W q[QUERIES][DEPTH + 1], k[DEPTH][KEYS + 1], weights[QUERIES][KEYS + 1], v[VALUES][WIDTH];
};

/* Products of the queries at q and n_keys keys from s0 on. */
template <typename T, typename W>
BW_DEVICE void multiply(const bw_sdpa_args &p, tiles<W> &shared, const T *q, const T *k, int s0, int n_queries,
                        int n_keys, W (&score)[EACH])
{
    const int thread = bw_thread(), query = thread / LANES, lane = thread % LANES;
#pragma unroll
    for (int j = 0; j < EACH; j++)
        score[j] = 0;
    const int d_all = (int)p.d; /* the host sees to it */
    for (int d0 = 0; d0 < d_all; d0 += DEPTH) {
        const int depth = bw_least(d_all - d0, DEPTH), d = thread % DEPTH;
#pragma unroll
        for (int e = 0; e < QUERIES * DEPTH / BLOCK; e++) {
            int i = thread / DEPTH + e * (BLOCK / DEPTH);
            shared.q[i][d] = i < n_queries && d < depth ? (W)bw_get(q[i * p.q[2] + (d0 + d) * p.q[3]]) : (W)0;
        }
#pragma unroll
        for (int e = 0; e < KEYS * DEPTH / BLOCK; e++) {
            int i = thread / DEPTH + e * (BLOCK / DEPTH);
            shared.k[d][i] = i < n_keys && d < depth ? (W)bw_get(k[(s0 + i) * p.k[2] + (d0 + d) * p.k[3]]) : (W)0;
        }
        bw_barrier();
#pragma unroll 8
        for (int i = 0; i < DEPTH; i++)
#pragma unroll
            for (int j = 0; j < EACH; j++)
                score[j] = bw_fma(shared.q[query][i], shared.k[i][lane + j * LANES], score[j]);
        bw_barrier();
    }
}

/* sum += the values of n_keys keys from s0 on times their weights, which no barrier has shown to others yet. */
template <typename T, typename W>
BW_DEVICE void add_values(const bw_sdpa_args &p, tiles<W> &shared, const T *v, int s0, int n_keys, int n_columns,
                          W (&sum)[COLUMNS])
{
    const int thread = bw_thread(), query = thread / LANES, lane = thread % LANES;
    for (int i0 = 0; i0 < n_keys; i0 += VALUES) {
        const int column = thread % WIDTH;
#pragma unroll
        for (int e = 0; e < VALUES * WIDTH / BLOCK; e++) {
            int i = thread / WIDTH + e * (BLOCK / WIDTH);
            shared.v[i][column] =
                i0 + i < n_keys && column < n_columns ? (W)bw_get(v[(s0 + i0 + i) * p.v[2] + column * p.v[3]]) : (W)0;
        }
        bw_barrier();
#pragma unroll 4
        for (int i = 0; i < VALUES; i++) {
            const W weight = shared.weights[query][i0 + i];
            if (weight != 0) /* a key that is not seen may have values that are not finite */
#pragma unroll
                for (int j = 0; j < COLUMNS; j++)
                    sum[j] = bw_fma(weight, shared.v[i][lane + j * LANES], sum[j]);
        }
        bw_barrier();
    }
}

template <typename T, typename W>
BW_DEVICE void sdpa(const bw_sdpa_args &p, const T *q, const T *k, const T *v, const float *mask, T *y)
{
    BW_SHARED tiles<W> shared;
    const int thread = bw_thread(), query = thread / LANES, lane = thread % LANES;
    const uint32_t which = (uint32_t)(p.first_head + bw_block_z()), batch = which / (uint32_t)p.n_heads;
    const uint32_t head = which - batch * (uint32_t)p.n_heads, kv_head = head / (uint32_t)p.heads_per_kv;
    const int64_t t0 = bw_block() * QUERIES, t = t0 + query, c0 = bw_block_y() * WIDTH;
    const int n_queries = bw_least(p.n_queries - t0, QUERIES), n_columns = bw_least(p.d_v - c0, WIDTH);
    /* What is needed late and would keep scalar registers that f64's functions want: where y begins, its row and column,
     * the mask's column. */
    BW_SHARED int64_t late[4];
    if (thread == 0) {
        late[0] = batch * p.y[0] + head * p.y[1] + c0 * p.y[3];
        late[1] = p.y[2];
        late[2] = p.y[3];
        late[3] = p.mask[3];
    }
    bw_barrier();
    q += batch * p.q[0] + head * p.q[1] + t0 * p.q[2];
    k += batch * p.k[0] + kv_head * p.k[1];
    v += batch * p.v[0] + kv_head * p.v[1] + c0 * p.v[3];
    const int64_t mask_column = late[3];
    if (mask)
        mask += batch * p.mask[0] + head * p.mask[1] + (t < p.n_queries ? t : t0) * p.mask[2];
    /* Query t sees keys before this one; the tile's last query, the most. */
    const int64_t own_end = p.causal ? t + 1 + p.n_keys - p.n_queries : p.n_keys;
    const int n_all = (int)p.n_keys; /* the host sees to it */
    const int64_t seen = p.causal ? t0 + n_queries + p.n_keys - p.n_queries : p.n_keys;
    const int end = bw_least(seen, n_all);
    W sum[COLUMNS], most = lowest<W>(), total = 0;
#pragma unroll
    for (int j = 0; j < COLUMNS; j++)
        sum[j] = 0;
    for (int s0 = 0; s0 < end; s0 += KEYS) {
        const int n_keys = bw_least(end - s0, KEYS);
        W score[EACH];
        multiply(p, shared, q, k, s0, n_queries, n_keys, score);
        W next = most;
#pragma unroll
        for (int j = 0; j < EACH; j++) {
            const int i = lane + j * LANES;
            W x = score[j] * (W)p.scale;
            if (p.softcap > 0)
                x = (W)p.softcap * bw_tanh(x / (W)p.softcap);
            const bool is_seen = i < n_keys && s0 + i < own_end;
            if (mask && is_seen)
                x += (W)mask[(s0 + i) * mask_column];
            score[j] = is_seen ? x : lowest<W>();
            next = score[j] > next ? score[j] : next;
        }
        next = query_max(next);
        const W shrink = most == next ? (W)1 : bw_exp(most - next);
        most = next;
        total *= shrink;
#pragma unroll
        for (int j = 0; j < EACH; j++) {
            W weight = score[j] == lowest<W>() ? (W)0 : bw_exp(score[j] - most); /* NaN stays */
            shared.weights[query][lane + j * LANES] = weight;
            total += weight;
        }
#pragma unroll
        for (int j = 0; j < COLUMNS; j++)
            sum[j] *= shrink;
        add_values(p, shared, v, s0, n_keys, n_columns, sum);
    }
    total = query_sum(total);
    if (query >= n_queries)
        return;
    const int64_t y_column = late[2];
    y += late[0] + t * late[1];
    const W inverse = total == 0 ? (W)0 : 1 / total; /* no key is seen: zeros */
#pragma unroll
    for (int j = 0; j < COLUMNS; j++)
        if (lane + j * LANES < n_columns)
            y[(lane + j * LANES) * y_column] = bw_put<T>((typename bw_wide<T>::type)(sum[j] * inverse));
}

#define SDPA(name, T, W)                                                                                               \
    BW_KERNEL(BLOCK, sdpa_##name)                                                                                      \
    (const bw_sdpa_args p, const T *q, const T *k, const T *v, const float *mask, T *y)                                \
    {                                                                                                                  \
        sdpa<T, W>(p, q, k, v, mask, y);                                                                               \
    }
SDPA(f32, float, float)
SDPA(f64, double, double)
SDPA(f16, bw_f16, float)
SDPA(bf16, bw_bf16, float)
