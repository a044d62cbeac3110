/* MATMUL on a GPU, the plain form for every type and every stride. f16 and bf16 have matrix units in matmul_tile.hip. */
#include "matmul/bw_matmul_plain.h"

enum { BLOCK = BW_MATMUL_BLOCK, TILE = BW_MATMUL_PLAIN_TILE };

/* T: both inputs; R: the result; W: what products are summed in. */
template <typename T, typename R, typename W>
BW_DEVICE void matmul(const bw_matmul_args &p, const T *a, const T *b, R *out)
{
    int64_t at[3];
    bw_loop_offsets<3, uint64_t>(p.batch, (uint64_t)(p.first_batch + bw_block_z()), at);
    const int64_t tile_row = p.first_tile_row + bw_block_y();
    /* This workgroup's corner, and what is left of the matrix from there on. */
    a += at[0] + tile_row * TILE * p.a_row;
    b += at[1] + bw_block() * TILE * p.b_column;
    out += at[2] + tile_row * TILE * p.out_row + bw_block() * TILE * p.out_column;
    const int rows = bw_least(p.m - tile_row * TILE, TILE), columns = bw_least(p.n - bw_block() * TILE, TILE);
    bw_matmul_plain<T, W>(p, a, b, rows, columns, [&](int row, int column, W sum) {
        out[row * p.out_row + column * p.out_column] = bw_put<R>((typename bw_wide<R>::type)sum);
    });
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
