/* MUL_MAT_VEC on a GPU: y [T, n] = w [n, k] x [T, k] with T from 1 to 8: each row of w is decoded once for all columns. */
#include "quantized/bw_quant_dot.h"

template <int TYPE, int T> BW_DEVICE void mul_mat_vec(const bw_mul_mat_args &p, const uint8_t *w, const uint8_t *x, float *y)
{
    const int64_t row = bw_quant_grid_row();
    float sum[T];
#pragma unroll
    for (int t = 0; t < T; t++)
        sum[t] = 0;
    bw_quant_dot<TYPE, T>(w + bw_quant_clamp_row(row, p.n) * p.w_row, x, p.x_row, p.k, sum);
#pragma unroll
    for (int t = 0; t < T; t++) {
        sum[t] = bw_quant_row_sum(sum[t]);
        if (row < p.n && bw_quant_row_lane() == 0)
            y[t * p.y_row + row] = sum[t];
    }
}

#define COLUMNS(name, NAME, t)                                                                                         \
    BW_KERNEL(256, mul_mat_vec_##name##_q8_1_cuda##t)                                                                  \
    (const bw_mul_mat_args p, const uint8_t *w, const uint8_t *x, float *y)                                            \
    {                                                                                                                  \
        mul_mat_vec<BW_##NAME, t>(p, w, x, y);                                                                         \
    }
#define ROW(name, NAME)                                                                                                \
    COLUMNS(name, NAME, 1)                                                                                             \
    COLUMNS(name, NAME, 2)                                                                                             \
    COLUMNS(name, NAME, 3)                                                                                             \
    COLUMNS(name, NAME, 4)                                                                                             \
    COLUMNS(name, NAME, 5)                                                                                             \
    COLUMNS(name, NAME, 6)                                                                                             \
    COLUMNS(name, NAME, 7)                                                                                             \
    COLUMNS(name, NAME, 8)
BW_QUANT_TYPES(ROW)
