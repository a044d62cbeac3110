/* ATTENTION on a GPU where sequences have few tokens in a step: the cache is read once, by as many workgroups as keep
 * the card busy. A workgroup takes one token, one KV head with up to ROWS of its query heads, and one of n_splits parts
 * of the keys the token sees. Groups of LANES lanes go through the part on their own, KEYS keys at a time; a lane loads
 * 8 neighbouring elements of each. Softmax is online (Milakov and Gimelshein, arXiv:1805.02867), in f32. What the
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

/* One partial result: sums of weighted values [ROWS][d_v], their largest score and sum of weights, per row. */
template <int ROWS, int WIDTH> struct shared_results {
    float sums[WAVES][ROWS][WIDTH];
    float most[WAVES][ROWS], total[WAVES][ROWS];
};

template <typename C, int LANES, int ROWS>
BW_DEVICE void decode(const bw_attention_args &p, const float *q, const C *k_cache, const C *v_cache,
                      const int32_t *seqs, const int32_t *pages, float *y, float *partial)
{
    constexpr int KEYS = ROWS <= 4 ? 4 : 2, N = KEYS * ROWS; /* keys of a group at a time; scores */
    constexpr int SPREAD = N < LANES ? N : LANES, EACH = N / SPREAD;         /* lanes with scores; scores in each */
    constexpr int GROUPS = BLOCK / LANES, STEP = GROUPS * KEYS, WIDTH = LANES * 8;
    static_assert(SPREAD >= ROWS, "a lane's scores are all of one row");
    typedef bw_cache8<C> cache8;
    BW_SHARED shared_results<ROWS, WIDTH> shared;
    const int lane = bw_thread() % LANES, group = bw_thread() / LANES, i0 = lane * 8;
    const int chunks = (p.group + ROWS - 1) / ROWS;
    const int head = (int)bw_block_y() / chunks, first_row = ((int)bw_block_y() - head * chunks) * ROWS;
    const int first_head = head * p.group + first_row, rows = p.group - first_row < ROWS ? p.group - first_row : ROWS;
    const int64_t token = p.first_token + bw_block_z();
    const int split = (int)bw_block();
    bw_visible seen = bw_find_visible<BLOCK>(p, (int32_t)token, seqs);
    pages += seen.pages;
    /* This part's keys: [first, end), walked from a multiple of 8 on, so that KEYS of them share a page. */
    int begin = seen.first & ~7, per_split = (seen.end - begin + p.n_splits - 1) / p.n_splits;
    per_split = per_split <= BW_ATTENTION_LEAST ? BW_ATTENTION_LEAST
                                                : (per_split + BW_ATTENTION_STEP - 1) & ~(BW_ATTENTION_STEP - 1);
    const bool is_mine = seen.end >= 0;
    const int64_t slot = ((token - p.first_token) * p.n_heads + first_head) * p.n_splits + split; /* of row 0's partial */
    float *const ends = partial + (int64_t)BW_ATTENTION_SPLIT_ROWS(p) * p.d_v;
    begin += split * per_split;
    const int end = begin + per_split < seen.end ? begin + per_split : seen.end;
    if (begin >= end || !is_mine) {
        /* Nothing: the second kernel is told so. */
        if (p.n_splits > 1 && bw_thread() < rows) {
            float *at = ends + (slot + (int64_t)bw_thread() * p.n_splits) * 2;
            at[0] = BW_NO_SCORE;
            at[1] = is_mine ? 0.0f : -1.0f;
        }
        return;
    }

    float query[ROWS][8], sums[ROWS][8];
#pragma unroll
    for (int r = 0; r < ROWS; r++)
#pragma unroll
        for (int e = 0; e < 8; e++) {
            query[r][e] = 0;
            if (r < rows && i0 < p.d)
                query[r][e] = q[token * p.q_token + (first_head + r) * p.q_head + i0 + e] * p.scale;
            sums[r][e] = 0;
        }
    /* Lanes beyond a row read its begin. */
    const bool has_k = i0 < p.d;
    const int k_i = has_k ? i0 : 0, v_i = i0 < p.d_v ? i0 : 0;
    const int last = end - 1;
    typename cache8::raw keys[KEYS], values[KEYS];
    /* Row of the first of KEYS keys; those beyond the part are read from its last. */
    int at = begin + group * KEYS;
    auto row_of = [&](int position) {
        return bw_cache_row(p, pages, head, position < last ? position : last & ~(KEYS - 1));
    };
    auto load = [&](typename cache8::raw(&raw)[KEYS], const C *cache, int64_t row, int position, int d, int i) {
        const int most = position <= last ? last - position : last & (KEYS - 1);
#pragma unroll
        for (int j = 0; j < KEYS; j++)
            raw[j] = cache8::load(cache, row + (j < most ? j : most), d, i);
    };
    int64_t row = row_of(at);
    load(keys, k_cache, row, at, p.d, k_i);
    float most = BW_NO_SCORE, total = 0;
    for (int base = begin; base < end; base += STEP) { /* every lane goes as often as any */
        const int64_t next_row = row_of(at + STEP);
        load(values, v_cache, row, at, p.d_v, v_i);
        float score[N];
#pragma unroll
        for (int j = 0; j < KEYS; j++) {
            float x[8];
            cache8::decode(keys[j], x);
#pragma unroll
            for (int r = 0; r < ROWS; r++) {
                float sum = x[0] * query[r][0];
#pragma unroll
                for (int e = 1; e < 8; e++)
                    sum = bw_fma(x[e], query[r][e], sum);
                score[j * ROWS + r] = has_k ? sum : 0.0f;
            }
        }
        load(keys, k_cache, next_row, at + STEP, p.d, k_i);
        scatter_sums<N, 1, LANES>(score);
        float tile_most = BW_NO_SCORE;
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            int position = at + (i * SPREAD + lane % SPREAD) / ROWS;
            score[i] = bw_capped(p, score[i]);
            if (position < seen.first || position >= end)
                score[i] = -__builtin_inff();
            tile_most = larger(tile_most, score[i]);
        }
#pragma unroll
        for (int bit = ROWS; bit < SPREAD; bit *= 2)
            tile_most = larger(tile_most, bw_shuffle_xor(tile_most, bit));
        float new_most = larger(most, tile_most), shrink[ROWS];
        shrink[0] = bw_exp(most - new_most);
        total *= shrink[0];
        most = new_most;
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            score[i] = bw_exp(score[i] - most);
            total += score[i];
        }
        gather<1, ROWS>(shrink);
        gather<EACH, SPREAD>(score);
#pragma unroll
        for (int r = 0; r < ROWS; r++)
#pragma unroll
            for (int e = 0; e < 8; e++)
                sums[r][e] *= shrink[r];
#pragma unroll
        for (int j = 0; j < KEYS; j++) {
            float x[8];
            cache8::decode(values[j], x);
#pragma unroll
            for (int r = 0; r < ROWS; r++)
#pragma unroll
                for (int e = 0; e < 8; e++)
                    sums[r][e] = bw_fma(score[j * ROWS + r], x[e], sums[r][e]);
        }
        row = next_row;
        at += STEP;
    }

    /* The lanes' weights to a row's, then the groups of a wave, then the waves. */
#pragma unroll
    for (int bit = ROWS; bit < SPREAD; bit *= 2)
        total += bw_shuffle_xor(total, bit);
    float wave_most = most, factor[ROWS];
#pragma unroll
    for (int bit = LANES; bit < BW_WAVE; bit *= 2)
        wave_most = larger(wave_most, bw_shuffle_xor(wave_most, bit));
    factor[0] = bw_exp(most - wave_most);
    total *= factor[0];
    gather<1, ROWS>(factor);
#pragma unroll
    for (int bit = LANES; bit < BW_WAVE; bit *= 2)
        total += bw_shuffle_xor(total, bit);
    const int wave = bw_thread() / BW_WAVE;
    const bool writes = bw_lane() < LANES;
#pragma unroll
    for (int r = 0; r < ROWS; r++)
#pragma unroll
        for (int e = 0; e < 8; e++) {
            sums[r][e] *= factor[r];
#pragma unroll
            for (int bit = LANES; bit < BW_WAVE; bit *= 2)
                sums[r][e] += bw_shuffle_xor(sums[r][e], bit);
            if (writes)
                shared.sums[wave][r][i0 + e] = sums[r][e];
        }
    if (bw_lane() < ROWS) {
        shared.most[wave][bw_lane()] = wave_most;
        shared.total[wave][bw_lane()] = total;
    }
    bw_barrier();
#pragma unroll 1
    for (int r = 0; r < rows; r++) {
        float all_most = BW_NO_SCORE, all_total = 0, weight[WAVES];
#pragma unroll
        for (int w = 0; w < WAVES; w++)
            all_most = larger(all_most, shared.most[w][r]);
#pragma unroll
        for (int w = 0; w < WAVES; w++) {
            weight[w] = bw_exp(shared.most[w][r] - all_most);
            all_total += weight[w] * shared.total[w][r];
        }
        const int64_t own = slot + (int64_t)r * p.n_splits;
        const float inverse = p.n_splits > 1 ? 1.0f : 1 / all_total;
        float *to = p.n_splits > 1 ? partial + own * p.d_v : y + token * p.y_token + (first_head + r) * p.y_head;
        for (int i = bw_thread(); i < p.d_v; i += BLOCK) {
            float sum = 0;
#pragma unroll
            for (int w = 0; w < WAVES; w++)
                sum = bw_fma(weight[w], shared.sums[w][r][i], sum);
            to[i] = sum * inverse;
        }
        if (p.n_splits > 1 && bw_thread() == 0) {
            ends[own * 2] = all_most;
            ends[own * 2 + 1] = all_total;
        }
    }
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

/* Parts to results: a workgroup per token and query head. partial as decode() left it. */
BW_KERNEL(BLOCK, attention_decode_join)(const bw_attention_args p, const float *partial, float *y)
{
    BW_SHARED float weights[BW_ATTENTION_SPLITS];
    const int64_t head = bw_block(), token = p.first_token + bw_block_y();
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
