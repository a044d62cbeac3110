/* What ATTENTION's GPU kernels share: finding a token's sequence, places in the paged cache, the cache's types, scores
 * and masks. */
#ifndef BW_ATTENTION_KERNEL_H
#define BW_ATTENTION_KERNEL_H

#include "attention/bw_attention_args.h"
#include "bw_pack.h"

/* A token's keys: positions [first, end) of the sequence whose pages begin at `pages`. None where another kernel serves
 * its sequence (end = -1) or it belongs to none. */
struct bw_visible {
    int32_t first, end, pages;
};

BW_DEVICE bw_visible bw_visible_to(const bw_attention_args &p, int32_t token, const int32_t *seq)
{
    bw_visible v;
    int32_t n_tokens = seq[1];
    v.first = 0;
    v.end = seq[2] - n_tokens + (token - seq[0]) + 1;
    v.pages = seq[3];
    if (p.window > 0 && v.end > p.window)
        v.first = v.end - p.window;
    if (n_tokens < p.least || n_tokens > p.most)
        v.end = -1;
    return v;
}

/* All threads of a workgroup of BLOCK call it and get the same. */
template <int BLOCK>
BW_DEVICE bw_visible bw_find_visible(const bw_attention_args &p, int32_t token, const int32_t *seqs)
{
    BW_SHARED int32_t found[3];
    bw_visible v;
    if (p.n_seqs == 1)
        return bw_visible_to(p, token, seqs);
    if (bw_thread() == 0)
        found[1] = -1;
    bw_barrier();
    for (int s = bw_thread(); s < p.n_seqs; s += BLOCK) {
        const int32_t *seq = seqs + s * 4;
        if (token >= seq[0] && token - seq[0] < seq[1]) {
            v = bw_visible_to(p, token, seq);
            found[0] = v.first;
            found[1] = v.end;
            found[2] = v.pages;
        }
    }
    bw_barrier();
    v.first = found[0];
    v.end = found[1];
    v.pages = found[2];
    return v;
}

/* Of number `at` of a launch's tokens (or slots) the token. */
BW_DEVICE int64_t bw_token_of(const bw_attention_args &p, int64_t at, const int32_t *seqs)
{
    if (p.seq_slots == 0)
        return at;
    const int64_t s = at / p.seq_slots;
    return seqs[s * 4] + (at - s * p.seq_slots);
}

/* The keys of number `at` of a launch's tokens. All threads of a workgroup call it. */
template <int BLOCK> BW_DEVICE bw_visible bw_find_keys(const bw_attention_args &p, int64_t at, const int32_t *seqs)
{
    if (p.seq_slots == 0)
        return bw_find_visible<BLOCK>(p, (int32_t)at, seqs);
    const int64_t s = at / p.seq_slots;
    const int32_t j = (int32_t)(at - s * p.seq_slots);
    const int32_t *seq = seqs + s * 4;
    bw_visible v = bw_visible_to(p, seq[0] + j, seq);
    if (j >= seq[1]) /* a slot that is not used */
        v.end = -1;
    return v;
}

/* A position's page (an index into a sequence's part of pages) and its place there. */
BW_DEVICE int32_t bw_page_of(const bw_attention_args &p, int32_t position)
{
    return p.page_shift >= 0 ? position >> p.page_shift : position / p.page_tokens;
}
/* The row of a cache [pages, Hkv, page_tokens, D] that position stands in. */
BW_DEVICE int64_t bw_cache_row(const bw_attention_args &p, const int32_t *pages, int32_t head, int32_t position)
{
    int32_t page = bw_page_of(p, position);
    return ((int64_t)pages[page] * p.n_kv + head) * p.page_tokens + (position - page * p.page_tokens);
}

/* tanh to 2 ulp: by e^2x, or near 0, where that would cancel, by its series. */
BW_DEVICE float bw_score_tanh(float x)
{
    float z = x * x;
    float series = bw_fma(z, 0.021869489f, -0.053968254f);
    series = bw_fma(series, z, 0.133333333f);
    series = bw_fma(series, z, -0.333333333f);
    series = bw_fma(series * z, x, x);
    return z < 0.09f ? series : 1 - 2 / (bw_exp(2 * x) + 1);
}
BW_DEVICE float bw_capped(const bw_attention_args &p, float score)
{
    return p.softcap > 0 ? p.softcap * bw_score_tanh(score / p.softcap) : score;
}

/* Matrix units take weights of softmax as two numbers of the type T each, counted in 2^-BITS: so the second of f16 is
 * far from subnormal. bf16 needs no such thing, and with it sums of its largest values would leave f32. */
template <typename T> struct bw_weight_shift {
    static constexpr int BITS = 12;
};
template <> struct bw_weight_shift<bw_bf16> {
    static constexpr int BITS = 0;
};

/* What a running largest score is before there is one: e^(-infinity - this) is 0, not NaN. */
#define BW_NO_SCORE (-1e30f)

/* ---- types of caches: 8 neighbouring elements of a row in one load --------------------------------------------- */

struct bw_q8_0 {
    uint8_t bytes[34];
};

template <typename C> struct bw_cache8 {
    typedef bw_pack<uint32_t, 4> raw;
    BW_DEVICE_SPECIAL static raw load(const C *cache, int64_t row, int d, int i)
    {
        return bw_load_pack<raw>(cache + row * d + i);
    }
    BW_DEVICE_SPECIAL static void decode(const raw &r, float (&x)[8])
    {
        bw_pack<C, 8> halves;
        __builtin_memcpy(&halves, &r, sizeof halves);
#pragma unroll
        for (int e = 0; e < 8; e++)
            x[e] = bw_get(halves.at[e]);
    }
};
template <> struct bw_cache8<bw_q8_0> {
    struct raw {
        bw_f16 scale;
        uint16_t quants[4];
    };
    BW_DEVICE_SPECIAL static raw load(const bw_q8_0 *cache, int64_t row, int d, int i)
    {
        const uint16_t *block = (const uint16_t *)(const void *)(cache + row * (d / 32) + i / 32);
        raw r;
        r.scale = *(const bw_f16 *)(const void *)block;
#pragma unroll
        for (int e = 0; e < 4; e++)
            r.quants[e] = block[1 + i % 32 / 2 + e];
        return r;
    }
    BW_DEVICE_SPECIAL static void decode(const raw &r, float (&x)[8])
    {
        float scale = bw_get(r.scale);
#pragma unroll
        for (int e = 0; e < 4; e++) {
            x[2 * e] = scale * (float)(int8_t)(r.quants[e] & 0xff);
            x[2 * e + 1] = scale * (float)(int8_t)(r.quants[e] >> 8);
        }
    }
};

/* One element, for kernels that take any width. */
template <typename C> struct bw_cache1 {
    BW_DEVICE_SPECIAL static float load(const C *cache, int64_t row, int d, int i)
    {
        return bw_get(cache[row * d + i]);
    }
};
template <> struct bw_cache1<bw_q8_0> {
    BW_DEVICE_SPECIAL static float load(const bw_q8_0 *cache, int64_t row, int d, int i)
    {
        const uint8_t *block = cache[row * (d / 32) + i / 32].bytes;
        return bw_get(*(const bw_f16 *)(const void *)block) * (float)(int8_t)block[2 + i % 32];
    }
};

#endif
