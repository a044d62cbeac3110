/* DEQUANTIZE_MUL_MAT_VEC, MUL_MAT and INDEXED_MOE_FORWARD on a GPU. MUL_MAT: 64 x 64 tiles of y, both operands decoded into
 * shared memory 32 deep, 4 x 4 results per thread, for any number of columns. The others: as MUL_MAT_VEC. */
#include "quantized/bw_quant_dot.h"

enum { BLOCK = 256, TILE = BW_QUANT_TILE, DEPTH = 32, EACH = 4 };

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

/* Elements [unit * 8, unit * 8 + 8) of depth [k0, k0 + DEPTH) of a row to the tile's column `column`; zeros past the end. */
template <int TYPE>
BW_DEVICE void load8(const uint8_t *row, bool is_inside, int64_t k0, int unit, int column, float (&tile)[DEPTH][TILE + 4])
{
    typedef bw_quant<TYPE> block;
    float v[8];
#pragma unroll
    for (int j = 0; j < 8; j++)
        v[j] = 0;
    if (is_inside) {
        int64_t i = k0 + unit * 8;
        block::decode8(row + i / block::elements * block::bytes, (int)((uint32_t)i % block::elements), v);
    }
#pragma unroll
    for (int j = 0; j < 8; j++)
        tile[unit * 8 + j][column] = v[j];
}

template <int TYPE>
BW_DEVICE void mul_mat(const bw_mul_mat_args &p, const uint8_t *w, const uint8_t *x, float *y)
{
    BW_SHARED float w_tile[DEPTH][TILE + 4], x_tile[DEPTH][TILE + 4];
    const int thread = bw_thread(), tx = thread % 16, ty = thread / 16, line = thread % TILE, unit = thread / TILE;
    const int64_t n0 = bw_block() * TILE, t0 = (p.first_tile_row + bw_block_y()) * TILE;
    const int rows = bw_least(p.n - n0, TILE), columns = bw_least(p.n_columns - t0, TILE);
    w += (n0 + line) * p.w_row;
    x += (t0 + line) * p.x_row;
    float sum[EACH][EACH]; /* [column][row] */
#pragma unroll
    for (int i = 0; i < EACH; i++)
#pragma unroll
        for (int j = 0; j < EACH; j++)
            sum[i][j] = 0;
    for (int64_t k0 = 0; k0 < p.k; k0 += DEPTH) { /* k is whole blocks, so a multiple of DEPTH */
        load8<TYPE>(w, line < rows, k0, unit, line, w_tile);
        load8<BW_Q8_1>(x, line < columns, k0, unit, line, x_tile);
        bw_barrier();
#pragma unroll 8
        for (int k = 0; k < DEPTH; k++) {
            float a[EACH], b[EACH];
#pragma unroll
            for (int i = 0; i < EACH; i++)
                a[i] = x_tile[k][ty * EACH + i];
#pragma unroll
            for (int j = 0; j < EACH; j++)
                b[j] = w_tile[k][tx * EACH + j];
#pragma unroll
            for (int i = 0; i < EACH; i++)
#pragma unroll
                for (int j = 0; j < EACH; j++)
                    sum[i][j] = bw_fma(a[i], b[j], sum[i][j]);
        }
        bw_barrier();
    }
#pragma unroll
    for (int i = 0; i < EACH; i++)
#pragma unroll
        for (int j = 0; j < EACH; j++)
            if (ty * EACH + i < columns && tx * EACH + j < rows)
                y[(t0 + ty * EACH + i) * p.y_row + n0 + tx * EACH + j] = sum[i][j];
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
