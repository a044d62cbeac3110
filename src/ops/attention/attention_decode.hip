/* ATTENTION on a GPU where sequences have few tokens in a step: the cache is read once, by as many workgroups as keep
 * the card busy. A workgroup takes one token (or a sequence's slot for one: seq_slots), one KV head with up to ROWS of
 * its query heads, and one of n_splits parts of the keys the token sees. Groups of LANES lanes go through the part on
 * their own, KEYS keys at a time; a lane loads 8 neighbouring elements of each. Softmax is online (Milakov and Gimelshein, arXiv:1805.02867), in f32. What the
 * groups and then the parts found is put together at the end (as in "Flash-Decoding for long-context inference", 2023):
 * partial results of parts by a second kernel. */
#include "bw_kernel.h"
#include "bw_pack.h"
#include "attention/bw_attention_args.h"
#include "attention/bw_attention_kernel.h"

enum { BLOCK = BW_ATTENTION_DECODE_BLOCK, WAVES = BLOCK / BW_WAVE };

BW_DEVICE float larger(float a, float b)
{
    return b > a ? b : a; /* passes NaN over */
}

/* v[0..N): in each lane of a group of LANES a part of N sums. Afterwards lane i has in v[k] the sum number
 * k * min(N, LANES) + i % min(N, LANES): every exchange halves what a lane still carries. */
template <int N, int BIT, int LANES, int SIZE> BW_DEVICE void scatter_sums(float (&v)[SIZE])
{
    if constexpr (BIT < LANES) {
        if constexpr (N > 1) {
            const bool upper = (bw_lane() & BIT) != 0;
#pragma unroll
            for (int i = 0; i < N / 2; i++) {
                float keep = upper ? v[2 * i + 1] : v[2 * i], give = upper ? v[2 * i] : v[2 * i + 1];
                v[i] = keep + bw_shuffle_xor(give, BIT);
            }
            scatter_sums<N / 2, BIT * 2, LANES>(v);
        } else {
            v[0] += bw_shuffle_xor(v[0], BIT);
            scatter_sums<1, BIT * 2, LANES>(v);
        }
    }
}

/* The way back, for values instead of sums: from v[0..N) spread over the lanes below TOP to v[0..N * TOP) in each. */
template <int N, int TOP, int SIZE> BW_DEVICE void gather(float (&v)[SIZE])
{
    if constexpr (TOP > 1) {
        const bool upper = (bw_lane() & TOP / 2) != 0;
#pragma unroll
        for (int i = N - 1; i >= 0; i--) {
            float other = bw_shuffle_xor(v[i], TOP / 2), own = v[i];
            v[2 * i + 1] = upper ? own : other;
            v[2 * i] = upper ? other : own;
        }
        gather<N * 2, TOP / 2>(v);
    }
}

/* How a workgroup's lanes share the work: groups of LANES lanes take KEYS keys at a time, which makes N scores; SPREAD
 * lanes have EACH of them. */
template <int LANES, int ROWS> struct shape {
    static constexpr int KEYS = ROWS <= 4 ? 4 : 2, N = KEYS * ROWS;
    static constexpr int SPREAD = N < LANES ? N : LANES, EACH = N / SPREAD;
    static constexpr int STEP = BLOCK / LANES * KEYS, WIDTH = LANES * 8;
    static_assert(SPREAD >= ROWS, "a lane's scores are all of one row");
};

/* The waves' results: sums of weighted values [ROWS][d_v], their largest score and sum of weights, per row. */
template <int ROWS, int WIDTH> struct shared_results {
    float sums[WAVES][ROWS][WIDTH];
    float most[WAVES][ROWS], total[WAVES][ROWS];
};

/* A workgroup's work: `rows` query heads from first_head on, which all have KV head `head`, of one token, and of the keys
 * that it sees those at [begin, end). slot: where the first head's partial result goes. */
struct work {
    int64_t token, slot;
    bw_visible seen;
    int head, first_head, rows, begin, end;
};

template <int ROWS> BW_DEVICE work find_work(const bw_attention_args &p, const int32_t *seqs)
{
    work w;
    const int chunks = (p.group + ROWS - 1) / ROWS, split = (int)bw_block();
    w.head = (int)bw_block_y() / chunks;
    const int first_row = ((int)bw_block_y() - w.head * chunks) * ROWS;
    w.first_head = w.head * p.group + first_row;
    w.rows = p.group - first_row < ROWS ? p.group - first_row : ROWS;
    w.token = bw_token_of(p, p.first_token + bw_block_z(), seqs);
    w.seen = bw_find_keys<BLOCK>(p, p.first_token + bw_block_z(), seqs);
    w.slot = (bw_block_z() * p.n_heads + w.first_head) * p.n_splits + split;
    /* Walked from a multiple of 8 on, so that KEYS of them share a page. */
    const int first = w.seen.first & ~7;
    int per_split = (w.seen.end - first + p.n_splits - 1) / p.n_splits;
    per_split = per_split <= BW_ATTENTION_LEAST ? BW_ATTENTION_LEAST
                                                : (per_split + BW_ATTENTION_STEP - 1) & ~(BW_ATTENTION_STEP - 1);
    w.begin = first + split * per_split;
    w.end = w.begin + per_split < w.seen.end ? w.begin + per_split : w.seen.end;
    return w;
}

/* What a lane has found so far: sums of weighted values for every row, and for one row (lane % ROWS) the largest score
 * and its part of the sum of weights. */
template <int ROWS> struct running {
    float sums[ROWS][8], most, total;
};

/* One query head's elements for this lane, scaled. */
template <int ROWS>
BW_DEVICE void load_query(const bw_attention_args &p, const work &w, const float *q, int i0, float (&query)[ROWS][8])
{
#pragma unroll
    for (int r = 0; r < ROWS; r++)
#pragma unroll
        for (int e = 0; e < 8; e++) {
            query[r][e] = 0;
            if (r < w.rows && i0 < p.d)
                query[r][e] = q[w.token * p.q_token + (w.first_head + r) * p.q_head + i0 + e] * p.scale;
        }
}

/* This lane's parts of the scores [KEYS][ROWS]. */
template <typename C, int KEYS, int ROWS>
BW_DEVICE void multiply(const typename bw_cache8<C>::raw (&keys)[KEYS], const float (&query)[ROWS][8], bool has_k,
                        float (&score)[KEYS * ROWS])
{
#pragma unroll
    for (int j = 0; j < KEYS; j++) {
        float x[8];
        bw_cache8<C>::decode(keys[j], x);
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            float sum = x[0] * query[r][0];
#pragma unroll
            for (int e = 1; e < 8; e++)
                sum = bw_fma(x[e], query[r][e], sum);
            score[j * ROWS + r] = has_k ? sum : 0.0f;
        }
    }
}

/* Parts of scores, of keys from position `at` on, to weights in every lane; what has been summed shrinks. */
template <int LANES, int ROWS>
BW_DEVICE void weigh(const bw_attention_args &p, const work &w, int at, running<ROWS> &a,
                     float (&score)[shape<LANES, ROWS>::N])
{
    constexpr int N = shape<LANES, ROWS>::N, SPREAD = shape<LANES, ROWS>::SPREAD, EACH = shape<LANES, ROWS>::EACH;
    scatter_sums<N, 1, LANES>(score);
    float tile_most = BW_NO_SCORE;
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        int position = at + (i * SPREAD + bw_thread() % LANES % SPREAD) / ROWS;
        score[i] = bw_capped(p, score[i]);
        if (position < w.seen.first || position >= w.end)
            score[i] = -__builtin_inff();
        tile_most = larger(tile_most, score[i]);
    }
#pragma unroll
    for (int bit = ROWS; bit < SPREAD; bit *= 2)
        tile_most = larger(tile_most, bw_shuffle_xor(tile_most, bit));
    float new_most = larger(a.most, tile_most), shrink[ROWS];
    shrink[0] = bw_exp(a.most - new_most);
    a.total *= shrink[0];
    a.most = new_most;
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        score[i] = bw_exp(score[i] - a.most);
        a.total += score[i];
    }
    gather<1, ROWS>(shrink);
    gather<EACH, SPREAD>(score);
#pragma unroll
    for (int r = 0; r < ROWS; r++)
#pragma unroll
        for (int e = 0; e < 8; e++)
            a.sums[r][e] *= shrink[r];
}

/* All keys of a workgroup's part, the next ones' loads under way. */
template <typename C, int LANES, int ROWS>
BW_DEVICE void walk(const bw_attention_args &p, const work &w, const float (&query)[ROWS][8], const C *k_cache,
                    const C *v_cache, const int32_t *pages, running<ROWS> &a)
{
    constexpr int KEYS = shape<LANES, ROWS>::KEYS, STEP = shape<LANES, ROWS>::STEP;
    typedef bw_cache8<C> cache8;
    const int i0 = bw_thread() % LANES * 8, last = w.end - 1;
    /* Lanes beyond a row read its begin. */
    const bool has_k = i0 < p.d;
    const int k_i = has_k ? i0 : 0, v_i = i0 < p.d_v ? i0 : 0;
    typename cache8::raw keys[KEYS], values[KEYS];
    /* Row of the first of KEYS keys; those beyond the part are read from its last. */
    int at = w.begin + bw_thread() / LANES * KEYS;
    auto row_of = [&](int position) {
        return bw_cache_row(p, pages, w.head, position < last ? position : last & ~(KEYS - 1));
    };
    auto load = [&](typename cache8::raw(&raw)[KEYS], const C *cache, int64_t row, int position, int d, int i) {
        const int most = position <= last ? last - position : last & (KEYS - 1);
#pragma unroll
        for (int j = 0; j < KEYS; j++)
            raw[j] = cache8::load(cache, row + (j < most ? j : most), d, i);
    };
    int64_t row = row_of(at);
    load(keys, k_cache, row, at, p.d, k_i);
    for (int base = w.begin; base < w.end; base += STEP) { /* every lane goes as often as any */
        const int64_t next_row = row_of(at + STEP);
        load(values, v_cache, row, at, p.d_v, v_i);
        float score[KEYS * ROWS];
        multiply<C>(keys, query, has_k, score);
        load(keys, k_cache, next_row, at + STEP, p.d, k_i);
        weigh<LANES>(p, w, at, a, score);
#pragma unroll
        for (int j = 0; j < KEYS; j++) {
            float x[8];
            cache8::decode(values[j], x);
#pragma unroll
            for (int r = 0; r < ROWS; r++)
#pragma unroll
                for (int e = 0; e < 8; e++)
                    a.sums[r][e] = bw_fma(score[j * ROWS + r], x[e], a.sums[r][e]);
        }
        row = next_row;
        at += STEP;
    }
}

/* The lanes' weights to a row's, then the groups of a wave, into shared memory. */
template <int LANES, int ROWS>
BW_DEVICE void join_groups(running<ROWS> &a, shared_results<ROWS, shape<LANES, ROWS>::WIDTH> &shared)
{
#pragma unroll
    for (int bit = ROWS; bit < shape<LANES, ROWS>::SPREAD; bit *= 2)
        a.total += bw_shuffle_xor(a.total, bit);
    float wave_most = a.most, factor[ROWS];
#pragma unroll
    for (int bit = LANES; bit < BW_WAVE; bit *= 2)
        wave_most = larger(wave_most, bw_shuffle_xor(wave_most, bit));
    factor[0] = bw_exp(a.most - wave_most);
    a.total *= factor[0];
    gather<1, ROWS>(factor);
#pragma unroll
    for (int bit = LANES; bit < BW_WAVE; bit *= 2)
        a.total += bw_shuffle_xor(a.total, bit);
    const int wave = bw_thread() / BW_WAVE, i0 = bw_thread() % LANES * 8;
    const bool writes = bw_lane() < LANES;
#pragma unroll
    for (int r = 0; r < ROWS; r++)
#pragma unroll
        for (int e = 0; e < 8; e++) {
            a.sums[r][e] *= factor[r];
#pragma unroll
            for (int bit = LANES; bit < BW_WAVE; bit *= 2)
                a.sums[r][e] += bw_shuffle_xor(a.sums[r][e], bit);
            if (writes)
                shared.sums[wave][r][i0 + e] = a.sums[r][e];
        }
    if (bw_lane() < ROWS) {
        shared.most[wave][bw_lane()] = wave_most;
        shared.total[wave][bw_lane()] = a.total;
    }
}

/* The waves' results to y, or where the keys are cut into parts, to this part's. */
template <int ROWS, int WIDTH>
BW_DEVICE void join_waves(const bw_attention_args &p, const work &w, const shared_results<ROWS, WIDTH> &shared, float *y,
                          float *partial, float *ends)
{
#pragma unroll 1
    for (int r = 0; r < w.rows; r++) {
        float all_most = BW_NO_SCORE, all_total = 0, weight[WAVES];
#pragma unroll
        for (int i = 0; i < WAVES; i++)
            all_most = larger(all_most, shared.most[i][r]);
#pragma unroll
        for (int i = 0; i < WAVES; i++) {
            weight[i] = bw_exp(shared.most[i][r] - all_most);
            all_total += weight[i] * shared.total[i][r];
        }
        const int64_t own = w.slot + (int64_t)r * p.n_splits;
        const float inverse = p.n_splits > 1 ? 1.0f : 1 / all_total;
        float *to = p.n_splits > 1 ? partial + own * p.d_v : y + w.token * p.y_token + (w.first_head + r) * p.y_head;
        for (int i = bw_thread(); i < p.d_v; i += BLOCK) {
            float sum = 0;
#pragma unroll
            for (int k = 0; k < WAVES; k++)
                sum = bw_fma(weight[k], shared.sums[k][r][i], sum);
            to[i] = sum * inverse;
        }
        if (p.n_splits > 1 && bw_thread() == 0) {
            ends[own * 2] = all_most;
            ends[own * 2 + 1] = all_total;
        }
    }
}

template <typename C, int LANES, int ROWS>
BW_DEVICE void decode(const bw_attention_args &p, const float *q, const C *k_cache, const C *v_cache,
                      const int32_t *seqs, const int32_t *pages, float *y, float *partial)
{
    BW_SHARED shared_results<ROWS, shape<LANES, ROWS>::WIDTH> shared;
    const work w = find_work<ROWS>(p, seqs);
    float *const ends = partial + (int64_t)BW_ATTENTION_SPLIT_ROWS(p) * p.d_v;
    if (w.begin >= w.end || w.seen.end < 0) {
        /* Nothing: the second kernel is told so. */
        if (p.n_splits > 1 && bw_thread() < w.rows) {
            float *at = ends + (w.slot + (int64_t)bw_thread() * p.n_splits) * 2;
            at[0] = BW_NO_SCORE;
            at[1] = w.seen.end < 0 ? -1.0f : 0.0f;
        }
        return;
    }
    running<ROWS> a;
    a.most = BW_NO_SCORE;
    a.total = 0;
#pragma unroll
    for (int r = 0; r < ROWS; r++)
#pragma unroll
        for (int e = 0; e < 8; e++)
            a.sums[r][e] = 0;
    float query[ROWS][8];
    load_query(p, w, q, bw_thread() % LANES * 8, query);
    walk<C, LANES>(p, w, query, k_cache, v_cache, pages + w.seen.pages, a);
    join_groups<LANES>(a, shared);
    bw_barrier();
    join_waves(p, w, shared, y, partial, ends);
}

#define DECODE(name, C, lanes, rows)                                                                                   \
    BW_KERNEL(BLOCK, attention_decode_##name##_##lanes##_##rows)                                                       \
    (const bw_attention_args p, const float *q, const C *k_cache, const C *v_cache, const int32_t *seqs,               \
     const int32_t *pages, float *y, float *partial)                                                                   \
    {                                                                                                                  \
        decode<C, lanes, rows>(p, q, k_cache, v_cache, seqs, pages, y, partial);                                       \
    }
#define ALL_ROWS(name, C, lanes)                                                                                       \
    DECODE(name, C, lanes, 1)                                                                                          \
    DECODE(name, C, lanes, 2)                                                                                          \
    DECODE(name, C, lanes, 4)
#define ALL(name, C)                                                                                                   \
    ALL_ROWS(name, C, 8)                                                                                               \
    ALL_ROWS(name, C, 16)                                                                                              \
    ALL_ROWS(name, C, 32)                                                                                              \
    DECODE(name, C, 8, 8)                                                                                              \
    DECODE(name, C, 16, 8)
ALL(f16, bw_f16)
ALL(bf16, bw_bf16)
ALL(q8_0, bw_q8_0)

/* Parts to results: a workgroup per token (or slot) and query head. partial as decode() left it. */
BW_KERNEL(BLOCK, attention_decode_join)
(const bw_attention_args p, const float *partial, const int32_t *seqs, float *y)
{
    BW_SHARED float weights[BW_ATTENTION_SPLITS];
    const int64_t head = bw_block(), token = bw_token_of(p, p.first_token + bw_block_y(), seqs);
    const int64_t slot = (bw_block_y() * p.n_heads + head) * p.n_splits;
    const float *ends = partial + (int64_t)BW_ATTENTION_SPLIT_ROWS(p) * p.d_v + slot * 2;
    if (ends[1] < 0)
        return;
    float most = BW_NO_SCORE, total = 0;
    for (int s = 0; s < p.n_splits; s++)
        most = larger(most, ends[s * 2]);
    for (int s = 0; s < p.n_splits; s++)
        total += bw_exp(ends[s * 2] - most) * ends[s * 2 + 1];
    if (bw_thread() < p.n_splits)
        weights[bw_thread()] =
            ends[bw_thread() * 2 + 1] != 0 ? bw_exp(ends[bw_thread() * 2] - most) / total : 0.0f;
    bw_barrier();
    for (int i = bw_thread(); i < p.d_v; i += BLOCK) {
        float sum = 0;
        for (int s = 0; s < p.n_splits; s++)
            if (ends[s * 2 + 1] != 0)
                sum = bw_fma(weights[s], partial[(slot + s) * p.d_v + i], sum);
        y[token * p.y_token + head * p.y_head + i] = sum;
    }
}
