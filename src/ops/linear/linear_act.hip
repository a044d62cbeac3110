/* QUANTISE_ACT on a GPU, and the other conversions around LINEAR: activations to 8-bit blocks or to 16 bits, packed
 * weights to f16, the sum of partial products.
 */
#include "linear/bw_linear_blocks.h"

enum { BLOCK = 256 };

/* x f32 rows to BW_ACT_Q8 rows (linear_layout.h): 8 threads for a block of 32. grid y: rows; n is not used. */
BW_KERNEL(BLOCK, linear_act_q8)(const bw_linear_args p, const uint8_t *x, uint8_t *out)
{
    const int b = (int)bw_block() * (BLOCK / 8) + bw_thread() / 8, part = bw_thread() % 8;
    const bool is_there = b < p.k / 32;
    const float *from = (const float *)(x + bw_block_y() * p.x_row) + (is_there ? b : 0) * 32 + part * 4;
    float v[4], max = 0;
    int bad = 0;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        v[i] = from[i];
        float a = bw_from_bits(bw_bits(v[i]) & 0x7fffffffu);
        bad |= bw_bits(a) >= 0x7f800000u;
        max = a > max ? a : max;
    }
    float is_bad = (float)bad;
#pragma unroll
    for (int mask = 4; mask > 0; mask >>= 1) {
        float other = bw_shuffle_xor(max, mask);
        max = other > max ? other : max;
        is_bad += bw_shuffle_xor(is_bad, mask);
    }
    /* Below 1e-30 the inverse would leave f32; such a block is zero. */
    float d = max < 1e-30f ? 0.0f : max / 127.0f, inverse = max < 1e-30f ? 0.0f : 127.0f / max;
    uint32_t word = 0;
    float sum = 0;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        float q = is_bad != 0 ? 0.0f : bw_nearest(v[i] * inverse);
        sum += q;
        word |= ((uint32_t)(int)q & 255u) << 8 * i;
    }
    sum += bw_shuffle_xor(sum, 1);
    sum += bw_shuffle_xor(sum, 2);
    float other = bw_shuffle_xor(sum, 4);
    if (d >= 0x1p-14f && d <= 65504.0f)
        d = bw_get(bw_put<bw_f16>(d));
    if (is_bad != 0)
        d = bw_from_bits(0x7fc00000u);
    if (!is_there)
        return;
    uint8_t *row = out + bw_block_y() * (int64_t)BW_ACT_HALF_BYTES((int64_t)p.k);
    ((uint32_t *)row)[b * 8 + part] = word;
    if (part == 0) {
        ((float *)(row + p.k))[b] = d;
        ((float *)(row + p.k + p.k / 8))[b] = d * (sum + other);
        ((uint32_t *)(row + p.k + p.k / 4))[b] = ((uint32_t)(int)sum & 0xffffu) | (uint32_t)(int)other << 16;
    }
}

/* x f32 rows to rows of T, and what results are to be multiplied by. A workgroup does a row; K a multiple of 8. */
template <typename T, bool IS_SCALED> BW_DEVICE void act_half(const bw_linear_args &p, const uint8_t *x, uint8_t *out)
{
    BW_SHARED float shared[BLOCK / BW_WAVE];
    const float *from = (const float *)(x + bw_block() * p.x_row);
    uint8_t *row = out + bw_block() * (int64_t)BW_ACT_HALF_BYTES((int64_t)p.k);
    float scale = 1, inverse = 1;
    if constexpr (IS_SCALED) {
        const float infinity = bw_from_bits(0x7f800000u);
        float max = 0;
        for (int k = bw_thread(); k < p.k; k += BLOCK) {
            float a = bw_from_bits(bw_bits(from[k]) & 0x7fffffffu);
            a = a < infinity ? a : infinity; /* NaN too */
            max = a > max ? a : max;
        }
        max = bw_block_max<BLOCK>(max, shared);
        const int exponent = (int)(bw_bits(max) >> 23) - 127;
        if (max > 0 && max < infinity && (exponent < BW_ACT_HALF_LEAST || exponent >= BW_ACT_HALF_MOST)) {
            int power = BW_ACT_HALF_TOP - exponent;
            power = power > 120 ? 120 : power;
            scale = bw_from_bits((uint32_t)(127 + power) << 23);
            inverse = bw_from_bits((uint32_t)(127 - power) << 23);
        }
    }
    for (int k = bw_thread() * 8; k < p.k; k += BLOCK * 8) {
        bw_16 a, b, h;
        if (p.x_is_aligned) {
            a = bw_load16(from + k);
            b = bw_load16(from + k + 4);
        } else {
#pragma unroll
            for (int i = 0; i < 4; i++) {
                a.w[i] = bw_bits(from[k + i]);
                b.w[i] = bw_bits(from[k + 4 + i]);
            }
        }
#pragma unroll
        for (int i = 0; i < 2; i++) {
            h.w[i] = bw_pair_put<T>(bw_from_bits(a.w[2 * i]) * scale, bw_from_bits(a.w[2 * i + 1]) * scale);
            h.w[i + 2] = bw_pair_put<T>(bw_from_bits(b.w[2 * i]) * scale, bw_from_bits(b.w[2 * i + 1]) * scale);
        }
        bw_store16(row + 2 * k, h);
    }
    if (bw_thread() == 0)
        *(float *)(row + 2 * p.k) = inverse;
}
BW_KERNEL(BLOCK, linear_act_f16)(const bw_linear_args p, const uint8_t *x, uint8_t *out)
{
    act_half<bw_f16, true>(p, x, out);
}
BW_KERNEL(BLOCK, linear_act_bf16)(const bw_linear_args p, const uint8_t *x, uint8_t *out)
{
    act_half<bw_bf16, false>(p, x, out);
}

/* Packed rows to f16 [n][k]: a thread decodes 32 weights, which the workgroup then writes side by side. */
template <typename B> BW_DEVICE void halves(const bw_linear_args &p, const uint8_t *w, uint8_t *out)
{
    BW_SHARED uint32_t tile[BLOCK][17];
    const int n_blocks = p.k / 32, total = p.n * n_blocks, first = (int)bw_block() * BLOCK;
    const int mine = first + bw_thread() < total ? first + bw_thread() : total - 1;
    B raw;
    uint32_t pairs[16];
    raw.load(w + mine / n_blocks * p.w_row, p, mine % n_blocks);
    raw.halves(pairs);
#pragma unroll
    for (int i = 0; i < 16; i++)
        tile[bw_thread()][i] = pairs[i];
    bw_barrier();
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const int at = i * BLOCK + bw_thread(), block = at / 4;
        if (first + block < total) {
            bw_16 v;
#pragma unroll
            for (int j = 0; j < 4; j++)
                v.w[j] = tile[block][at % 4 * 4 + j];
            bw_store16(out + (int64_t)first * 64 + at * 16, v);
        }
    }
}
#define HALVES(name, type)                                                                                             \
    BW_KERNEL(BLOCK, linear_halves_##name)(const bw_linear_args p, const uint8_t *w, uint8_t *out)                     \
    {                                                                                                                  \
        halves<BW_UNPAREN type>(p, w, out);                                                                            \
    }
BW_LINEAR_BLOCKS(HALVES)

/* y[t][n] = bias[n] + the sum of n_parts [t][n] arrays. grid y: t. */
BW_KERNEL(BLOCK, linear_sum)(const bw_linear_args p, const float *parts, int n_parts, const float *bias, float *y)
{
    const int n = (int)bw_block() * BLOCK + bw_thread();
    if (n >= p.n)
        return;
    const int64_t t = bw_block_y();
    float sum = bias ? bias[n] : 0;
    for (int i = 0; i < n_parts; i++)
        sum += parts[((int64_t)i * p.t + t) * p.n + n];
    y[t * p.y_row + n] = sum;
}

/* y[t][n] = y[t][n] * (t's scale) + bias[n], after a library's product. A workgroup does a row, and most need nothing. */
BW_KERNEL(BLOCK, linear_rescale)(const bw_linear_args p, const uint8_t *x, const float *bias, float *y)
{
    const float scale = *(const float *)(x + bw_block() * p.x_row + 2 * p.k);
    if (scale == 1.0f && !bias)
        return;
    float *row = y + bw_block() * p.y_row;
    for (int n = bw_thread(); n < p.n; n += BLOCK)
        row[n] = bias ? bw_fma(row[n], scale, bias[n]) : row[n] * scale;
}
