/* LINEAR on a GPU for a few rows of f32 activations with weights of the types that have no planes, in GGUF's own blocks:
 * those with grids (IQ1, IQ2, IQ3), ternary ones and the rest. Each thread decodes eight weights of every row, so the
 * weight is read once and nothing is rounded.
 */
#include "linear/bw_linear_vec.h"
#include "quantized/bw_quant_blocks.h"

/* Rows aligned to 2 bytes, as their blocks are; w_row: bytes. grid y: groups of T rows of activations. */
template <int TYPE, int T>
BW_DEVICE void vec_types(const bw_linear_args &p, const uint8_t *w, const uint8_t *x, const float *bias, float *y)
{
    typedef bw_quant<TYPE> type;
    const int n0 = (int)bw_block() * ROWS, t0 = (int)bw_block_y() * T;
    float sums[T * ROWS];
#pragma unroll
    for (int i = 0; i < T * ROWS; i++)
        sums[i] = 0;
    const uint8_t *rows[ROWS];
#pragma unroll
    for (int r = 0; r < ROWS; r++)
        rows[r] = w + (n0 + r < p.n ? n0 + r : p.n - 1) * p.w_row;
    for (int k = bw_thread() * 8; k < p.k; k += bw_block_threads() * 8) {
        const int block = (int)((uint32_t)k / type::elements), i = k - block * type::elements;
        float a[ROWS][8];
#pragma unroll
        for (int r = 0; r < ROWS; r++)
            type::decode8(rows[r] + (int64_t)block * type::bytes, i, a[r]);
#pragma unroll
        for (int t = 0; t < T; t++) {
            float v[8];
            load_activations(p, (const float *)(x + (t0 + t < p.t ? t0 + t : p.t - 1) * p.x_row) + k, v);
#pragma unroll
            for (int r = 0; r < ROWS; r++)
#pragma unroll
                for (int e = 0; e < 8; e++)
                    sums[t * ROWS + r] = bw_fma(a[r][e], v[e], sums[t * ROWS + r]);
        }
    }
    finish<T>(p, sums, n0, t0, bias, y);
}

#define VEC(name, NAME, T)                                                                                             \
    BW_KERNEL_WIDE(BLOCK, linear_vec_##name##_##T)                                                                     \
    (const bw_linear_args p, const uint8_t *w, const uint8_t *x, const float *bias, float *y)                          \
    {                                                                                                                  \
        vec_types<BW_##NAME, T>(p, w, x, bias, y);                                                                     \
    }
#define VECS(name, NAME) VEC(name, NAME, 1) VEC(name, NAME, 2) VEC(name, NAME, 4) VEC(name, NAME, 8)
VECS(iq1_s, IQ1_S)
VECS(iq1_m, IQ1_M)
VECS(iq2_xxs, IQ2_XXS)
VECS(iq2_xs, IQ2_XS)
VECS(iq2_s, IQ2_S)
VECS(iq3_xxs, IQ3_XXS)
VECS(iq3_s, IQ3_S)
VECS(tq1_0, TQ1_0)
VECS(tq2_0, TQ2_0)
VECS(nvfp4, NVFP4)
VECS(q1_0, Q1_0)
VECS(q2_0, Q2_0)
VECS(q8_1, Q8_1)
VECS(q8_k, Q8_K)
