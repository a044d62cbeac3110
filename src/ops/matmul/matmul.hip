/* MATMUL on a GPU, the plain form for every type and every stride: 64 x 64 tiles through shared memory, 4 x 4 results per
 * thread, fused multiply-adds. Matrix units have their own kernels. */
#include "bw_kernel.h"
#include "matmul/bw_matmul_args.h"

enum { BLOCK = 256, TILE = 64, DEPTH = 16, EACH = 4 };

BW_DEVICE float multiply_add(float a, float b, float c)
{
    return bw_fma(a, b, c);
}
BW_DEVICE double multiply_add(double a, double b, double c)
{
    return bw_fma(a, b, c);
}
BW_DEVICE uint32_t multiply_add(uint32_t a, uint32_t b, uint32_t c)
{
    return a * b + c;
}
BW_DEVICE uint64_t multiply_add(uint64_t a, uint64_t b, uint64_t c)
{
    return a * b + c;
}

/* T: both inputs; R: the result; W: what products are summed in. */
template <typename T, typename R, typename W>
BW_DEVICE void matmul(const bw_matmul_args &p, const T *a, const T *b, R *out)
{
    BW_SHARED W a_tile[DEPTH][TILE + 4], b_tile[DEPTH][TILE + 4];
    const int thread = bw_thread(), tx = thread % 16, ty = thread / 16;
    int64_t at[3];
    bw_loop_offsets<3, uint64_t>(p.batch, (uint64_t)(p.first_batch + bw_block_z()), at);
    const int64_t tile_row = p.first_tile_row + bw_block_y();
    /* This workgroup's corner, and what is left of the matrix from there on. */
    a += at[0] + tile_row * TILE * p.a_row;
    b += at[1] + bw_block() * TILE * p.b_column;
    out += at[2] + tile_row * TILE * p.out_row + bw_block() * TILE * p.out_column;
    const int rows = bw_least(p.m - tile_row * TILE, TILE), columns = bw_least(p.n - bw_block() * TILE, TILE);
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
                    sum[i][j] = multiply_add(x[i], y[j], sum[i][j]);
        }
        bw_barrier();
    }
#pragma unroll
    for (int i = 0; i < EACH; i++)
#pragma unroll
        for (int j = 0; j < EACH; j++) {
            int row = ty * EACH + i, column = tx * EACH + j;
            if (row < rows && column < columns)
                out[row * p.out_row + column * p.out_column] = bw_put<R>((typename bw_wide<R>::type)sum[i][j]);
        }
}

#define MATMUL(name, T, R, W)                                                                                          \
    BW_KERNEL(BLOCK, matmul_##name)(const bw_matmul_args p, const T *a, const T *b, R *out)                            \
    {                                                                                                                  \
        matmul<T, R, W>(p, a, b, out);                                                                                 \
    }
MATMUL(f32_f32, float, float, float)
MATMUL(f64_f64, double, double, double)
MATMUL(f16_f16, bw_f16, bw_f16, float)
MATMUL(f16_f32, bw_f16, float, float)
MATMUL(bf16_bf16, bw_bf16, bw_bf16, float)
MATMUL(bf16_f32, bw_bf16, float, float)
MATMUL(f8_e4m3_f32, bw_f8, float, float)
MATMUL(f8_e4m3_bf16, bw_f8, bw_bf16, float)
MATMUL(u8_u8, uint8_t, uint8_t, uint32_t)
MATMUL(i8_i32, int8_t, int32_t, uint32_t)
MATMUL(i16_i16, int16_t, int16_t, uint32_t)
MATMUL(i32_i32, int32_t, int32_t, uint32_t)
MATMUL(u32_u32, uint32_t, uint32_t, uint32_t)
MATMUL(i64_i64, int64_t, int64_t, uint64_t)
