/* ROPE_KV on a GPU: q, k and v of one token in one launch. A workgroup takes a token, up to 256 neighbouring elements of
 * its heads and some of the heads, first q's, then k's, then v's. A thread keeps its element (so that it finds sine and
 * cosine once) and goes from head to head. Blocks of q8_0 are 32 neighbouring lanes. */
#include "bw_kernel.h"
#include "bw_sincos.h"
#include "rope/bw_rope_args.h"

struct q8_0 { /* an f16 scale and 32 quants */
    uint8_t bytes[34];
};

/* Element i of a cache's row. Every lane of the wave calls it; is_inside: whether this one has an element. */
template <typename C> struct cache {
    BW_DEVICE_SPECIAL static void store(C *row, int i, float x, bool is_inside)
    {
        if (is_inside)
            row[i] = bw_put<C>(x);
    }
    BW_DEVICE_SPECIAL static int64_t row_size(int d)
    {
        return d;
    }
};
template <> struct cache<q8_0> {
    BW_DEVICE_SPECIAL static void store(q8_0 *row, int i, float x, bool is_inside)
    {
        float size = x < 0 ? -x : x, most = size > 0 ? size : 0.0f; /* NaN is passed over */
#pragma unroll
        for (int mask = 16; mask > 0; mask >>= 1) {
            float other = bw_shuffle_xor(most, mask);
            most = other > most ? other : most;
        }
        float scale = most / 127, inverse = scale > 0 ? 1 / scale : 0.0f;
        float quotient = x * inverse;
        quotient = quotient > 127 ? 127.0f : quotient >= -128 ? quotient : -128.0f;
        int whole = (int)quotient; /* towards 0; a half goes away from it */
        float rest = quotient - (float)whole;
        whole += rest >= 0.5f ? 1 : rest <= -0.5f ? -1 : 0;
        if (!is_inside)
            return;
        q8_0 *block = row + i / 32;
        if (i % 32 == 0)
            *(bw_f16 *)(void *)block->bytes = bw_put<bw_f16>(scale);
        block->bytes[2 + i % 32] = (uint8_t)whole;
    }
    BW_DEVICE_SPECIAL static int64_t row_size(int d)
    {
        return d / 32;
    }
};

template <typename C>
BW_DEVICE void rope_kv(const bw_rope_args &p, const float *q, const float *k, const float *v, const int32_t *positions,
                       const int32_t *slots, const float *inv_freq, float *y, C *k_cache, C *v_cache)
{
    const int64_t token = p.first_token + bw_block();
    const int per_pass = BW_ROPE_BLOCK / p.lanes, lane = bw_thread() % p.lanes;
    const int i = (int)bw_block_z() * BW_ROPE_BLOCK + lane, half = p.n_rot / 2;
    /* The pair of element i: where its partner stands, and y = x cos + partner sin. */
    float sine = 0, cosine = 1;
    int partner = i;
    if (i < p.n_rot) {
        bool is_second = p.interleaved ? i % 2 != 0 : i >= half;
        int pair = p.interleaved ? i / 2 : is_second ? i - half : i, step = p.interleaved ? 1 : half;
        partner = is_second ? i - step : i + step;
        bw_sincos((double)positions[token] * (double)inv_freq[pair], &sine, &cosine);
        sine *= is_second ? p.magnitude : -p.magnitude;
        cosine *= p.magnitude;
    }
    const int slot = slots[token], page = slot / p.page_tokens, place = slot - page * p.page_tokens;
    int head = (int)bw_block_y() * per_pass * BW_ROPE_PASSES + bw_thread() / p.lanes;
#pragma unroll
    for (int pass = 0; pass < BW_ROPE_PASSES; pass++, head += per_pass) {
        const bool is_q = head < p.n_q, is_k = !is_q && head < p.n_q + p.n_kv;
        const int h = is_q ? head : is_k ? head - p.n_q : head - p.n_q - p.n_kv;
        const bool is_inside = h < (is_q ? p.n_q : p.n_kv) && i < (is_q || is_k ? p.d : p.d_v);
        const float *x = is_q   ? q + token * p.q_token + h * p.q_head
                         : is_k ? k + token * p.k_token + h * p.k_head
                                : v + token * p.v_token + h * p.v_head;
        float value = 0;
        if (is_inside) {
            value = x[i];
            if (i < p.n_rot && (is_q || is_k))
                value = bw_fma(value, cosine, x[partner] * sine);
            if (is_q)
                y[token * p.y_token + h * p.y_head + i] = value;
        }
        const int64_t row = ((int64_t)page * p.n_kv + h) * p.page_tokens + place;
        C *to = is_k ? k_cache + row * cache<C>::row_size(p.d) : v_cache + row * cache<C>::row_size(p.d_v);
        cache<C>::store(to, i, value, is_inside && !is_q);
    }
}

#define ROPE_KV(name, C)                                                                                               \
    BW_KERNEL(BW_ROPE_BLOCK, rope_kv_##name)                                                                           \
    (const bw_rope_args p, const float *q, const float *k, const float *v, const int32_t *positions,                   \
     const int32_t *slots, const float *inv_freq, float *y, C *k_cache, C *v_cache)                                    \
    {                                                                                                                  \
        rope_kv<C>(p, q, k, v, positions, slots, inv_freq, y, k_cache, v_cache);                                       \
    }
ROPE_KV(f32, float)
ROPE_KV(f16, bw_f16)
ROPE_KV(bf16, bw_bf16)
ROPE_KV(q8_0, q8_0)
