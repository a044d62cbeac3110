/* QUANTIZE to the types of 32 elements and to plain types, and QUANTIZE_Q8_1, on a GPU. A thread encodes a block; of q8_1, an
 * element. No fused multiply-adds here: the bytes are those of the reference. */
#include "quantized/bw_quantize_block.h"

enum { BLOCK = 256 };
typedef bw_in_registers<32> values;

/* The legacy kinds and the kinds with lists: encode(x, w, out). importance: [K] or null. */
template <typename F>
BW_DEVICE void blocks_of_32(const bw_quantize_args &p, const float *x, const float *importance, uint8_t *y, int bytes, F encode)
{
    const int64_t block = p.first_block + bw_grid_thread();
    if (block >= p.n_blocks)
        return;
    const bw_quantize_place place = bw_quantize_find(p, block, 32);
    values v, w;
    float most = 0;
#pragma unroll
    for (int i = 0; i < 32; i++) {
        v.v[i] = bw_quantize_value(x[place.x + i]);
        w.v[i] = importance ? bw_quantize_importance(importance[place.column + i]) : 0.0f;
        most = w[i] > most ? w[i] : most;
    }
#pragma unroll
    for (int i = 0; i < 32; i++)
        w.v[i] = most > 0 ? w[i] / most : 1.0f;
    encode(v, w, y + place.y / 32 * bytes);
}

BW_DEVICE void store_half(uint8_t *out, float f)
{
    uint32_t h = bw_half_bits(f);
    out[0] = (uint8_t)h;
    out[1] = (uint8_t)(h >> 8);
}
/* q: a function of the element's number. */
template <typename F> BW_DEVICE void store_nibbles(uint8_t *out, F q)
{
#pragma unroll
    for (int i = 0; i < 16; i++)
        out[i] = (uint8_t)((q(i) & 15u) | q(i + 16) << 4);
}
template <typename F> BW_DEVICE void store_fifth_bits(uint8_t *out, F q)
{
#pragma unroll
    for (int i = 0; i < 4; i++) {
        uint32_t bits = 0;
#pragma unroll
        for (int j = 0; j < 8; j++)
            bits |= (q(i * 8 + j) >> 4 & 1u) << j;
        out[i] = (uint8_t)bits;
    }
}
BW_DEVICE uint32_t level_of(float f, int top)
{
    return (uint32_t)bw_clamp_int((int)f, 0, top);
}

/* d, levels 0 .. 2 half - 1 that stand for -half .. half - 1 */
template <int HALF> BW_DEVICE void encode_symmetric(const values &x, uint8_t *out)
{
    float d = bw_extreme(x) / (float)-HALF, inverse = bw_inverse(d);
    auto q = [&](int i) { return level_of(x[i] * inverse + ((float)HALF + 0.5f), 2 * HALF - 1); };
    store_half(out, d);
    if (HALF == 16)
        store_fifth_bits(out + 2, q);
    store_nibbles(out + (HALF == 16 ? 6 : 2), q);
}
/* d, the lowest value, levels 0 .. top */
template <int TOP> BW_DEVICE void encode_affine(const values &x, uint8_t *out)
{
    float low = x[0], high = x[0];
#pragma unroll
    for (int i = 1; i < 32; i++) {
        low = x[i] < low ? x[i] : low;
        high = x[i] > high ? x[i] : high;
    }
    float d = (high - low) / (float)TOP, inverse = bw_inverse(d);
    auto q = [&](int i) { return level_of((x[i] - low) * inverse + 0.5f, TOP); };
    store_half(out, d);
    store_half(out + 2, low);
    if (TOP == 31)
        store_fifth_bits(out + 4, q);
    store_nibbles(out + (TOP == 31 ? 8 : 4), q);
}

/* To the nearest integer, halves away from zero, within +-127; NaN is 0. */
BW_DEVICE int round_away(float f)
{
    f = f == f ? bw_clamp(f, -127, 127) : 0.0f;
    int whole = (int)f;
    float rest = f - (float)whole;
    return rest >= 0.5f ? whole + 1 : rest <= -0.5f ? whole - 1 : whole;
}

BW_DEVICE void encode_q8_0(const values &x, uint8_t *out)
{
    float d = bw_abs(bw_extreme(x)) / 127, inverse = bw_inverse(d);
    store_half(out, d);
#pragma unroll
    for (int i = 0; i < 32; i++)
        out[2 + i] = (uint8_t)round_away(x[i] * inverse);
}

BW_DEVICE void encode_iq4_nl(const values &x, const values &w, uint8_t *out)
{
    uint32_t d = bw_half_bits(bw_iq4_search(x, w));
    float inverse = bw_inverse(bw_half_of(d));
    out[0] = (uint8_t)d;
    out[1] = (uint8_t)(d >> 8);
    store_nibbles(out + 2, [&](int i) { return bw_iq4_number(x[i] * inverse); });
}

/* The nearest E2M1 of f / 2, ties to the smaller magnitude. */
BW_DEVICE uint32_t nearest_fp4(float f)
{
    constexpr float borders[7] = {0.5f, 1.5f, 2.5f, 3.5f, 5, 7, 10};
    float magnitude = bw_abs(f);
    uint32_t index = 0;
#pragma unroll
    for (int k = 0; k < 7; k++)
        index += magnitude > borders[k] ? 1u : 0u;
    return f < 0 && index > 0 ? index | 8u : index;
}

/* e with f in [2^(e-1), 2^e), f positive */
BW_DEVICE int exponent_of(float f)
{
    int e = (int)(bw_bits(f) >> 23);
    if (e > 0)
        return e - 126;
    return (int)(bw_bits(f * 0x1p24f) >> 23) - 126 - 24;
}

BW_DEVICE void encode_mxfp4(const values &x, const values &w, uint8_t *out)
{
    float most = bw_abs(bw_extreme(x));
    int chosen = 0;
    if (most > 0) {
        int e0 = exponent_of(most) - 1 - 2 + 127; /* the largest value, 6, is 1.5 * 2^2 */
        double least = (double)bw_infinity();
#pragma unroll 1
        for (int e = bw_clamp_int(e0 - 1, 0, 254); e <= bw_clamp_int(e0 + 1, 0, 254); e++) {
            float d = bw_e8m0_half((uint32_t)e), inverse = bw_inverse(d);
            double error = 0;
#pragma unroll
            for (int i = 0; i < 32; i++) {
                double off = (double)d * (double)bw_fp4_value(nearest_fp4(x[i] * inverse)) - (double)x[i];
                error += (double)w[i] * off * off;
            }
            if (error < least) {
                least = error;
                chosen = e;
            }
        }
    }
    out[0] = (uint8_t)chosen;
    float inverse = bw_inverse(bw_e8m0_half((uint32_t)chosen));
    store_nibbles(out + 1, [&](int i) { return most > 0 ? nearest_fp4(x[i] * inverse) : 0u; });
}

#define BLOCKS(name, n_bytes, encode)                                                                                  \
    BW_KERNEL(BLOCK, quantize_##name)(const bw_quantize_args p, const float *x, const float *importance, uint8_t *y)   \
    {                                                                                                                  \
        blocks_of_32(p, x, importance, y, n_bytes, [](const values &v, const values &w, uint8_t *out) {        \
            (void)w;                                                                                                   \
            encode;                                                                                                    \
        });                                                                                                            \
    }
BLOCKS(q4_0, 18, encode_symmetric<8>(v, out))
BLOCKS(q4_1, 20, encode_affine<15>(v, out))
BLOCKS(q5_0, 22, encode_symmetric<16>(v, out))
BLOCKS(q5_1, 24, encode_affine<31>(v, out))
BLOCKS(q8_0, 34, encode_q8_0(v, out))
BLOCKS(iq4_nl, 18, encode_iq4_nl(v, w, out))
BLOCKS(mxfp4, 17, encode_mxfp4(v, w, out))

/* Plain types: blocks of one element. importance plays no part. */
#define PLAIN(name, T, put)                                                                                            \
    BW_KERNEL(BLOCK, quantize_##name)(const bw_quantize_args p, const float *x, const float *importance, T *y)         \
    {                                                                                                                  \
        (void)importance;                                                                                              \
        const int64_t i = p.first_block + bw_grid_thread();                                                            \
        if (i < p.n_blocks) {                                                                                          \
            const bw_quantize_place place = bw_quantize_find(p, i, 1);                                                 \
            const float f = x[place.x];                                                                                \
            y[place.y] = put;                                                                                          \
        }                                                                                                              \
    }
PLAIN(f32, float, f)
PLAIN(f16, uint16_t, (uint16_t)bw_half_bits(f))
PLAIN(bf16, bw_bf16, bw_put<bw_bf16>(f))

/* x: n_rows rows of k elements, as if they went on with zeros; a lane per element, 32 lanes a block: d, then the sum by
 * halving, as the lanes' exchange adds it. */
BW_KERNEL(BLOCK, quantize_q8_1)
(const bw_loop rows, int64_t first_row, const float *x, uint8_t *y, int64_t k, int64_t k_padded)
{
    const int64_t i = bw_block() * BLOCK + bw_thread();
    int64_t at[2];
    bw_loop_offsets<2, uint64_t>(rows, (uint64_t)(first_row + bw_block_y()), at);
    const float v = i < k ? x[at[0] + i] : 0.0f;
    float most = bw_abs(v), sum = v;
    most = most == most ? most : 0.0f;
#pragma unroll
    for (int mask = 16; mask > 0; mask >>= 1) {
        float other = bw_shuffle_xor(most, mask);
        most = other > most ? other : most;
        sum += bw_shuffle_xor(sum, mask);
    }
    if (i >= k_padded)
        return;
    const float d = most / 127.0f;
    uint8_t *out = y + (at[1] + i) / 32 * 36;
    const int lane = bw_thread() % 32;
    out[4 + lane] = (uint8_t)(d == 0 ? 0 : round_away(v / d));
    if (lane < 2)
        store_half(out + lane * 2, lane == 0 ? d : sum == sum ? sum : bw_from_bits(0x7fc00000u));
}
