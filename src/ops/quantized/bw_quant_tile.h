/* Device code: a tile of products of quantised rows in f32, for MUL_MAT and, where there are no matrix units, for
 * INDEXED_MOE_FORWARD's groups: both operands decoded into shared memory DEPTH deep, EACH x EACH results per thread. */
#ifndef BW_QUANT_TILE_H
#define BW_QUANT_TILE_H

#include "bw_kernel.h"

#include "quantized/bw_mul_mat_args.h"
#include "quantized/bw_quant_blocks.h"

enum { BW_QUANT_TILE_DEPTH = 32, BW_QUANT_TILE_EACH = 4 };

/* Thread t of 256 owns results (column t / 16 * EACH + i, row t % 16 * EACH + j), and loads elements of row and column
 * t % TILE of the operands: unit t / TILE, eight elements. */
BW_DEVICE int bw_quant_tile_row(void)
{
    return bw_thread() % 16 * BW_QUANT_TILE_EACH;
}
BW_DEVICE int bw_quant_tile_column(void)
{
    return bw_thread() / 16 * BW_QUANT_TILE_EACH;
}
BW_DEVICE int bw_quant_tile_line(void)
{
    return bw_thread() % BW_QUANT_TILE;
}

/* Elements [unit * 8, unit * 8 + 8) of depth [k0, k0 + DEPTH) of a row to the tile's column `column`; zeros past the
 * end. */
template <int TYPE>
BW_DEVICE void bw_quant_tile_load(const uint8_t *row, bool is_inside, int64_t k0, int unit, int column,
                                  float (&tile)[BW_QUANT_TILE_DEPTH][BW_QUANT_TILE + 4])
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

/* sum[column][row]: w, x: the rows of the operands that this thread loads, if they are inside; k is whole blocks, so a
 * multiple of DEPTH. */
template <int TYPE>
BW_DEVICE void bw_quant_tile_sums(const uint8_t *w, bool w_is_inside, const uint8_t *x, bool x_is_inside, int64_t k,
                                  float (&sum)[BW_QUANT_TILE_EACH][BW_QUANT_TILE_EACH])
{
    enum { DEPTH = BW_QUANT_TILE_DEPTH, EACH = BW_QUANT_TILE_EACH };
    BW_SHARED float w_tile[DEPTH][BW_QUANT_TILE + 4], x_tile[DEPTH][BW_QUANT_TILE + 4];
    const int line = bw_quant_tile_line(), unit = bw_thread() / BW_QUANT_TILE;
    const int row = bw_quant_tile_row(), column = bw_quant_tile_column();
#pragma unroll
    for (int i = 0; i < EACH; i++)
#pragma unroll
        for (int j = 0; j < EACH; j++)
            sum[i][j] = 0;
    for (int64_t k0 = 0; k0 < k; k0 += DEPTH) {
        bw_quant_tile_load<TYPE>(w, w_is_inside, k0, unit, line, w_tile);
        bw_quant_tile_load<BW_Q8_1>(x, x_is_inside, k0, unit, line, x_tile);
        bw_barrier();
#pragma unroll 8
        for (int d = 0; d < DEPTH; d++) {
            float a[EACH], b[EACH];
#pragma unroll
            for (int i = 0; i < EACH; i++)
                a[i] = x_tile[d][column + i];
#pragma unroll
            for (int j = 0; j < EACH; j++)
                b[j] = w_tile[d][row + j];
#pragma unroll
            for (int i = 0; i < EACH; i++)
#pragma unroll
                for (int j = 0; j < EACH; j++)
                    sum[i][j] = bw_fma(a[i], b[j], sum[i][j]);
        }
        bw_barrier();
    }
}

#endif
