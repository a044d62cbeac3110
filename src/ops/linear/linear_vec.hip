/* LINEAR on a GPU for a few rows of activations, where reading the weights is all the time: a workgroup computes
 * BW_LINEAR_VEC_ROWS rows of the weight with up to 8 rows of activations, its threads sharing K, so that all of a small
 * matrix is under way at once. Quantised weights by dot products of bytes with 8-bit activations, float weights in f32.
 */
#include "linear/bw_linear_blocks.h"
#include "linear/bw_linear_vec.h"

/* ---- quantised -------------------------------------------------------------------------------------------------- */

template <typename B, int T>
BW_DEVICE void vec_blocks(const bw_linear_args &p, const uint8_t *w, const uint8_t *x, const float *bias, float *y)
{
    const int n0 = (int)bw_block() * ROWS, n_blocks = p.k / 32;
    float sums[T * ROWS];
#pragma unroll
    for (int i = 0; i < T * ROWS; i++)
        sums[i] = 0;
    const uint8_t *rows[ROWS];
#pragma unroll
    for (int r = 0; r < ROWS; r++)
        rows[r] = w + (n0 + r < p.n ? n0 + r : p.n - 1) * p.w_row;
    for (int b = bw_thread(); b < n_blocks; b += bw_block_threads()) {
        B raw[ROWS];
        bw_block32 block[ROWS];
#pragma unroll
        for (int r = 0; r < ROWS; r++)
            raw[r].load(rows[r], p, b);
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            raw[r].quants(block[r]);
            raw[r].scales(block[r]);
            if constexpr (B::zero != 0) {
                block[r].o[0] = (float)-B::zero * block[r].d[0];
                block[r].o[1] = (float)-B::zero * block[r].d[1];
            }
        }
#pragma unroll
        for (int t = 0; t < T; t++) {
            /* One base and 32 bits per row: a pointer per row and array would not fit into scalar registers. */
            const uint32_t xt = (uint32_t)(t < p.t ? t : p.t - 1) * (uint32_t)p.x_row, k = (uint32_t)p.k;
            const uint8_t *const q = x + (xt + 32 * (uint32_t)b), *const d = x + (xt + k + 4 * (uint32_t)b);
            bw_16 x0 = bw_load16(q), x1 = bw_load16(q + 16);
            const float dx = *(const float *)d;
            float sx = 0, s0 = 0, s1 = 0;
            if constexpr (B::HAS_HALVES) {
                uint32_t both = *(const uint32_t *)(x + (xt + k + k / 4 + 4 * (uint32_t)b));
                s0 = dx * (float)(int16_t)both;
                s1 = dx * (float)(int16_t)(both >> 16);
            } else if constexpr (B::HAS_OFFSET || B::zero != 0) {
                sx = *(const float *)(x + (xt + k + k / 8 + 4 * (uint32_t)b));
            }
#pragma unroll
            for (int r = 0; r < ROWS; r++) {
                int first = 0, second = 0;
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    first = bw_dot4(block[r].w[i], x0.w[i], first);
                    second = bw_dot4(block[r].w[i + 4], x1.w[i], second);
                }
                float sum = sums[t * ROWS + r];
                if constexpr (B::HAS_HALVES) {
                    sum = bw_fma(dx, block[r].d[0] * (float)first + block[r].d[1] * (float)second, sum);
                    sum = bw_fma(block[r].o[0], s0, sum);
                    sum = bw_fma(block[r].o[1], s1, sum);
                } else {
                    sum = bw_fma(dx * block[r].d[0], (float)(first + second), sum);
                    if constexpr (B::HAS_OFFSET || B::zero != 0)
                        sum = bw_fma(block[r].o[0], sx, sum);
                }
                sums[t * ROWS + r] = sum;
            }
        }
    }
    finish<T>(p, sums, n0, 0, bias, y);
}

#define VEC(name, type, T)                                                                                             \
    BW_KERNEL_SEVERAL(BLOCK, (T == 1 ? BW_UNPAREN type::LEAST : 1), linear_vec_##name##_##T)                            \
    (const bw_linear_args p, const uint8_t *w, const uint8_t *x, const float *bias, float *y)                          \
    {                                                                                                                  \
        vec_blocks<BW_UNPAREN type, T>(p, w, x, bias, y);                                                              \
    }
#define VECS(name, type) VEC(name, type, 1) VEC(name, type, 2) VEC(name, type, 4) VEC(name, type, 8)
BW_LINEAR_BLOCKS(VECS)

/* ---- float ------------------------------------------------------------------------------------------------------ */

/* Eight elements as f32. */
BW_DEVICE void load8(const float *p, float (&v)[8])
{
    bw_16 a = bw_load16_once(p), b = bw_load16_once(p + 4);
#pragma unroll
    for (int i = 0; i < 4; i++) {
        v[i] = bw_from_bits(a.w[i]);
        v[i + 4] = bw_from_bits(b.w[i]);
    }
}
template <typename T> BW_DEVICE void load8(const T *p, float (&v)[8])
{
    bw_16 a = bw_load16_once(p);
#pragma unroll
    for (int i = 0; i < 4; i++) {
        v[2 * i] = bw_pair_low<T>(a.w[i]);
        v[2 * i + 1] = bw_pair_high<T>(a.w[i]);
    }
}

/* Rows aligned to 16 bytes, K a multiple of 8. grid y: groups of T rows of activations. */
template <typename W, int T>
BW_DEVICE void vec_floats(const bw_linear_args &p, const uint8_t *w, const uint8_t *x, const float *bias, float *y)
{
    const int n0 = (int)bw_block() * ROWS, t0 = (int)bw_block_y() * T;
    float sums[T * ROWS];
#pragma unroll
    for (int i = 0; i < T * ROWS; i++)
        sums[i] = 0;
    const W *rows[ROWS];
#pragma unroll
    for (int r = 0; r < ROWS; r++)
        rows[r] = (const W *)(w + (n0 + r < p.n ? n0 + r : p.n - 1) * p.w_row);
    constexpr int UNROLL = T <= 2 ? 2 : 1;
#pragma unroll UNROLL
    for (int k = bw_thread() * 8; k < p.k; k += bw_block_threads() * 8) {
        float a[ROWS][8];
#pragma unroll
        for (int r = 0; r < ROWS; r++)
            load8(rows[r] + k, a[r]);
#pragma unroll
        for (int t = 0; t < T; t++) {
            const float *xt = (const float *)(x + (t0 + t < p.t ? t0 + t : p.t - 1) * p.x_row) + k;
            float v[8];
            load_activations(p, xt, v);
#pragma unroll
            for (int r = 0; r < ROWS; r++)
#pragma unroll
                for (int i = 0; i < 8; i++)
                    sums[t * ROWS + r] = bw_fma(a[r][i], v[i], sums[t * ROWS + r]);
        }
    }
    finish<T>(p, sums, n0, t0, bias, y);
}

#define FLOATS(name, W, T)                                                                                             \
    BW_KERNEL_WIDE(BLOCK, linear_vec_##name##_##T)                                                                          \
    (const bw_linear_args p, const uint8_t *w, const uint8_t *x, const float *bias, float *y)                          \
    {                                                                                                                  \
        vec_floats<W, T>(p, w, x, bias, y);                                                                            \
    }
#define FLOATS_ALL(name, W) FLOATS(name, W, 1) FLOATS(name, W, 2) FLOATS(name, W, 4) FLOATS(name, W, 8)
FLOATS_ALL(f32, float)
FLOATS_ALL(f16, bw_f16)
FLOATS_ALL(bf16, bw_bf16)

/* Any K, any alignment: a workgroup of 64 threads for each result; where those are two waves, both compute it. */
template <typename W>
BW_DEVICE void any_float(const bw_linear_args &p, const uint8_t *w, const uint8_t *x, const float *bias, float *y)
{
    const int n = (int)bw_block(), t = (int)bw_block_y();
    const W *row = (const W *)(w + n * p.w_row);
    const float *xt = (const float *)(x + t * p.x_row);
    float sum = 0;
    for (int k = bw_lane(); k < p.k; k += BW_WAVE)
        sum = bw_fma((float)bw_get(row[k]), xt[k], sum);
    sum = bw_wave_sum(sum);
    if (bw_thread() == 0)
        y[t * p.y_row + n] = bias ? sum + bias[n] : sum;
}
#define ANY(name, W)                                                                                                   \
    BW_KERNEL(64, linear_any_##name)                                                                                   \
    (const bw_linear_args p, const uint8_t *w, const uint8_t *x, const float *bias, float *y)                          \
    {                                                                                                                  \
        any_float<W>(p, w, x, bias, y);                                                                                \
    }
ANY(f32, float)
ANY(f16, bw_f16)
ANY(bf16, bw_bf16)
ANY(f64, double)
ANY(f8_e4m3, bw_f8)
ANY(i8, int8_t)
ANY(u8, uint8_t)
ANY(i16, int16_t)
ANY(i32, int32_t)
ANY(u32, uint32_t)
ANY(i64, int64_t)
