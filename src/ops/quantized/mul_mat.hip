/* DEQUANTIZE_MUL_MAT_VEC, MUL_MAT and INDEXED_MOE_FORWARD on a GPU. MUL_MAT: 64 x 64 tiles of y (bw_quant_tile.h), for any
 * number of columns. The others: as MUL_MAT_VEC; INDEXED_MOE_FORWARD with many pairs: moe_grouped.hip. */
#include "quantized/bw_quant_dot.h"
#include "quantized/bw_quant_tile.h"

enum { BLOCK = 256, EACH = BW_QUANT_TILE_EACH };

template <int TYPE>
BW_DEVICE void dequantize_mul_mat_vec(const uint8_t *w, const float *x, float *y, int64_t n, int64_t k, int64_t w_row)
{
    typedef bw_quant<TYPE> block;
    const int64_t row = bw_quant_grid_row();
    w += bw_quant_clamp_row(row, n) * w_row;
    float sum = 0;
    for (int64_t i = bw_quant_row_lane() * 8; i < k; i += BW_QUANT_ROW_LANES * 8) {
        float a[8];
        block::decode8(w + i / block::elements * block::bytes, (int)((uint32_t)i % block::elements), a);
#pragma unroll
        for (int j = 0; j < 8; j++)
            sum = bw_fma(a[j], x[i + j], sum);
    }
    sum = bw_quant_row_sum(sum);
    if (row < n && bw_quant_row_lane() == 0)
        y[row] = sum;
}

template <int TYPE>
BW_DEVICE void indexed_moe(const bw_indexed_moe_args &p, const uint8_t *w, const uint8_t *x, const uint32_t *ids, float *y)
{
    const int64_t task = p.first_task + bw_block_y(), t = task / p.n_slots, s = task - t * p.n_slots;
    const int64_t row = bw_quant_grid_row();
    const uint32_t id = ids[t * p.ids_token + s * p.ids_slot];
    float sum[1] = {0};
    if (id < p.n_experts) /* the same for the whole workgroup */
        bw_quant_dot<TYPE, 1>(w + id * p.w_expert + bw_quant_clamp_row(row, p.n) * p.w_row,
                              x + t * p.x_token + s * p.x_slot, 0, p.k, sum);
    sum[0] = bw_quant_row_sum(sum[0]);
    if (row < p.n && bw_quant_row_lane() == 0)
        y[t * p.y_token + s * p.y_slot + row] = sum[0];
}

template <int TYPE>
BW_DEVICE void mul_mat(const bw_mul_mat_args &p, const uint8_t *w, const uint8_t *x, float *y)
{
    const int row = bw_quant_tile_row(), column = bw_quant_tile_column(), line = bw_quant_tile_line();
    const int64_t n0 = bw_block() * BW_QUANT_TILE, t0 = (p.first_tile_row + bw_block_y()) * BW_QUANT_TILE;
    const int rows = bw_least(p.n - n0, BW_QUANT_TILE), columns = bw_least(p.n_columns - t0, BW_QUANT_TILE);
    float sum[EACH][EACH];
    bw_quant_tile_sums<TYPE>(w + (n0 + line) * p.w_row, line < rows, x + (t0 + line) * p.x_row, line < columns, p.k,
                             sum);
#pragma unroll
    for (int i = 0; i < EACH; i++)
#pragma unroll
        for (int j = 0; j < EACH; j++)
            if (column + i < columns && row + j < rows)
                y[(t0 + column + i) * p.y_row + n0 + row + j] = sum[i][j];
}

/* vec and moe: how Candle spells the type in two of the names. */
#define KERNELS(name, NAME, vec, moe)                                                                                  \
    BW_KERNEL(BLOCK, dequantize_mul_mat_vec_##vec)                                                                     \
    (const uint8_t *w, const float *x, float *y, int64_t n, int64_t k, int64_t w_row)                                  \
    {                                                                                                                  \
        dequantize_mul_mat_vec<BW_##NAME>(w, x, y, n, k, w_row);                                                       \
    }                                                                                                                  \
    BW_KERNEL(BLOCK, mul_mat_##name)(const bw_mul_mat_args p, const uint8_t *w, const uint8_t *x, float *y)            \
    {                                                                                                                  \
        mul_mat<BW_##NAME>(p, w, x, y);                                                                                \
    }                                                                                                                  \
    BW_KERNEL(BLOCK, indexed_moe_forward_##moe##_q8_1)                                                                 \
    (const bw_indexed_moe_args p, const uint8_t *w, const uint8_t *x, const uint32_t *ids, float *y)                   \
    {                                                                                                                  \
        indexed_moe<BW_##NAME>(p, w, x, ids, y);                                                                       \
    }
#define ROW(name, NAME) KERNELS(name, NAME, name##_cuda, name)
#define ROW_K(n) KERNELS(q##n##_k, Q##n##_K, q##n##_k, q##n##k)
BW_QUANT_TYPES_BUT_K(ROW)
ROW_K(2)
ROW_K(3)
ROW_K(4)
ROW_K(5)
ROW_K(6)
ROW_K(8)
