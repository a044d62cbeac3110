/* MATMUL's plain tile in device code: 64 x 64 results through shared memory, 4 x 4 per thread, fused multiply-adds,
 * every type and every stride. */
#ifndef BW_MATMUL_PLAIN_H
#define BW_MATMUL_PLAIN_H

#include "bw_kernel.h"
#include "matmul/bw_gpu_gemm.h"
#include "matmul/bw_matmul_args.h"

enum {
    BW_MATMUL_BLOCK = BW_GPU_GEMM_BLOCK,
    BW_MATMUL_PLAIN_TILE = 64,
    BW_MATMUL_PLAIN_DEPTH = 16,
    BW_MATMUL_PLAIN_EACH = 4
};

BW_DEVICE float bw_matmul_add(float a, float b, float c)
{
    return bw_fma(a, b, c);
}
BW_DEVICE double bw_matmul_add(double a, double b, double c)
{
    return bw_fma(a, b, c);
}
BW_DEVICE uint32_t bw_matmul_add(uint32_t a, uint32_t b, uint32_t c)
{
    return a * b + c;
}
BW_DEVICE uint64_t bw_matmul_add(uint64_t a, uint64_t b, uint64_t c)
{
    return a * b + c;
}

/* a, b: the tile's first row and column; rows and columns: how many of them are there; store(row, column, sum) gets the
 * results. T: both inputs; W: what products are summed in. All threads of a workgroup of BW_MATMUL_BLOCK call it. */
template <typename T, typename W, typename F>
BW_DEVICE void bw_matmul_plain(const bw_matmul_args &p, const T *a, const T *b, int rows, int columns, F store)
{
    constexpr int BLOCK = BW_MATMUL_BLOCK, TILE = BW_MATMUL_PLAIN_TILE, DEPTH = BW_MATMUL_PLAIN_DEPTH;
    constexpr int EACH = BW_MATMUL_PLAIN_EACH;
    BW_SHARED W a_tile[DEPTH][TILE + 4], b_tile[DEPTH][TILE + 4];
    const int thread = bw_thread(), tx = thread % 16, ty = thread / 16;
    /* Neighbouring threads read neighbouring elements whichever way the operand lies. */
    const bool a_by_k = p.a_column == 1, b_by_k = p.b_row == 1;
    const int ak = a_by_k ? thread % DEPTH : thread / TILE, ai = a_by_k ? thread / DEPTH : thread % TILE;
    const int bk = b_by_k ? thread % DEPTH : thread / TILE, bj = b_by_k ? thread / DEPTH : thread % TILE;
    const int a_next_k = a_by_k ? 0 : BLOCK / TILE, a_next_i = a_by_k ? BLOCK / DEPTH : 0;
    const int b_next_k = b_by_k ? 0 : BLOCK / TILE, b_next_j = b_by_k ? BLOCK / DEPTH : 0;
    W sum[EACH][EACH];
#pragma unroll
    for (int i = 0; i < EACH; i++)
#pragma unroll
        for (int j = 0; j < EACH; j++)
            sum[i][j] = 0;
    for (int64_t k0 = 0; k0 < p.k; k0 += DEPTH) {
        const int depth = bw_least(p.k - k0, DEPTH);
#pragma unroll
        for (int e = 0; e < TILE * DEPTH / BLOCK; e++) {
            int ki = ak + e * a_next_k, i = ai + e * a_next_i;
            a_tile[ki][i] = i < rows && ki < depth ? (W)bw_get(a[i * p.a_row + (k0 + ki) * p.a_column]) : (W)0;
            int kj = bk + e * b_next_k, j = bj + e * b_next_j;
            b_tile[kj][j] = j < columns && kj < depth ? (W)bw_get(b[(k0 + kj) * p.b_row + j * p.b_column]) : (W)0;
        }
        bw_barrier();
#pragma unroll
        for (int k = 0; k < DEPTH; k++) {
            W x[EACH], y[EACH];
#pragma unroll
            for (int i = 0; i < EACH; i++)
                x[i] = a_tile[k][ty * EACH + i];
#pragma unroll
            for (int j = 0; j < EACH; j++)
                y[j] = b_tile[k][tx * EACH + j];
#pragma unroll
            for (int i = 0; i < EACH; i++)
#pragma unroll
                for (int j = 0; j < EACH; j++)
                    sum[i][j] = bw_matmul_add(x[i], y[j], sum[i][j]);
        }
        bw_barrier();
    }
#pragma unroll
    for (int i = 0; i < EACH; i++)
#pragma unroll
        for (int j = 0; j < EACH; j++) {
            int row = ty * EACH + i, column = tx * EACH + j;
            if (row < rows && column < columns)
                store(row, column, sum[i][j]);
        }
}

#endif
