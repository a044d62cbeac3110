/* LINEAR on a GPU for many rows of activations, on matrix units: tiles of activations and weights, both 16 bits, through
 * shared memory, several stages of copies under way where the hardware copies by itself, else one in registers. grid x:
 * tiles of activations (neighbours share the weights' tile, which so is read once), y: tiles of weights, z: parts of K.
 */
#include "matmul/bw_gemm_tile.h"
#include "linear/bw_linear_gpu.h"

/* out: y, or with IS_PART the z-th [t][n] array of parts. */
template <typename T, int SIZE, bool IS_PART>
BW_DEVICE void gemm(const bw_linear_args &p, int t0, int n0, const uint8_t *w, const uint8_t *x, const float *bias,
                    float *out)
{
    typedef bw_gemm_share<SIZE> share;
    const int own_t = share::row(), own_n = share::column();
    const int k0 = (int)bw_block_z() * p.split_k, n_k = bw_least(p.k - k0, p.split_k);
    const T *const x_rows = (const T *)(const void *)(x + t0 * p.x_row) + k0;
    const T *const w_rows = (const T *)(const void *)(w + n0 * p.w_row) + k0;
    const bw_gemm_operand<T> a = {x_rows, p.x_row / 2, 1, p.t - t0, n_k, true};
    const bw_gemm_operand<T> b = {w_rows, p.w_row / 2, 1, p.n - n0, n_k, true};
    bw_acc acc[share::MT][share::NT];
    bw_gemm_sum<T, SIZE, BW_BY_K, BW_BY_K>(acc, a, b);
    float *const part = out + bw_block_z() * p.t * p.n;
#pragma unroll
    for (int i = 0; i < share::MT; i++)
#pragma unroll
        for (int e = 0; e < BW_ACC_EACH; e++) {
            const int t = t0 + own_t + i * 16 + bw_acc_row(e);
            if (t >= p.t)
                continue;
            const float scale = *(const float *)(x + t * p.x_row + 2 * p.k);
#pragma unroll
            for (int j = 0; j < share::NT; j++) {
                const int n = n0 + own_n + j * 16 + bw_acc_column(e);
                if (n >= p.n)
                    continue;
                if constexpr (IS_PART)
                    part[(int64_t)t * p.n + n] = acc[i][j].x[e] * scale;
                else
                    out[t * p.y_row + n] = bias ? bw_fma(acc[i][j].x[e], scale, bias[n]) : acc[i][j].x[e] * scale;
            }
        }
}

#define GEMM(name, T, SIZE, IS_PART)                                                                                   \
    BW_KERNEL(BW_GPU_GEMM_BLOCK, linear_##name)                                                                        \
    (const bw_linear_args p, const uint8_t *w, const uint8_t *x, const float *bias, float *out)                        \
    {                                                                                                                  \
        const int t0 = (int)bw_block() * SIZE, n0 = (int)bw_block_y() * SIZE;                                          \
        if constexpr (BW_TILE_IS_PLAIN && SIZE > BW_GPU_GEMM_SMALL) {                                                  \
            _Pragma("unroll 1") for (int i = 0; i < 4; i++)                                                            \
            {                                                                                                          \
                bw_barrier();                                                                                          \
                gemm<T, BW_GPU_GEMM_SMALL, IS_PART>(p, t0 + i % 2 * BW_GPU_GEMM_SMALL,                                 \
                                                    n0 + i / 2 * BW_GPU_GEMM_SMALL, w, x, bias, out);                  \
            }                                                                                                          \
        } else {                                                                                                       \
            gemm<T, SIZE, IS_PART>(p, t0, n0, w, x, bias, out);                                                        \
        }                                                                                                              \
    }
GEMM(big_f16, bw_f16, BW_GPU_GEMM_BIG, false)
GEMM(big_bf16, bw_bf16, BW_GPU_GEMM_BIG, false)
GEMM(small_f16, bw_f16, BW_GPU_GEMM_SMALL, false)
GEMM(small_bf16, bw_bf16, BW_GPU_GEMM_SMALL, false)
GEMM(part_f16, bw_f16, BW_GPU_GEMM_SMALL, true)
GEMM(part_bf16, bw_bf16, BW_GPU_GEMM_SMALL, true)
