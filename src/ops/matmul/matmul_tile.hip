/* MATMUL of f16 and bf16 on matrix units: tiles of both operands through shared memory, several stages of copies under
 * way where the hardware copies by itself, else one in registers. Either operand lies with k as its neighbouring elements
 * ("by k") or with its rows (a's) or columns (b's), whichever way has a stride of 1; other strides are matmul.hip's.
 * Without matrix units these kernels are matmul.hip's.
 *
 * grid x: tiles, in groups of GROUP rows of them, so that workgroups that run at one time share rows and columns; z: the
 * batch. */
#include "matmul/bw_gemm_tile.h"
#include "matmul/bw_matmul_plain.h"

enum { GROUP = 8 };

/* What a workgroup multiplies: out from its first row and column on. */
template <typename T, typename R> struct corner {
    bw_gemm_operand<T> a, b;
    R *out;
    int64_t out_row, out_column;

    BW_DEVICE_SPECIAL void put(int row, int column, float sum) const
    {
        out[row * out_row + column * out_column] = bw_put<R>(sum);
    }
};

template <typename T, typename R, int SIZE, int A_WAY, int B_WAY> BW_DEVICE void multiply(const corner<T, R> &c)
{
    typedef bw_gemm_share<SIZE> share;
    bw_acc acc[share::MT][share::NT];
    bw_gemm_sum<T, SIZE, A_WAY, B_WAY>(acc, c.a, c.b);
#pragma unroll
    for (int i = 0; i < share::MT; i++)
#pragma unroll
        for (int e = 0; e < BW_ACC_EACH; e++) {
            const int row = share::row() + i * 16 + bw_acc_row(e);
            if (row >= c.a.n_rows)
                continue;
#pragma unroll
            for (int j = 0; j < share::NT; j++) {
                const int column = share::column() + j * 16 + bw_acc_column(e);
                if (column < c.b.n_rows)
                    c.put(row, column, acc[i][j].x[e]);
            }
        }
}

/* The same where there are no matrix units. */
template <typename T, typename R, int SIZE>
BW_DEVICE void multiply_plain(const bw_matmul_args &p, const corner<T, R> &c)
{
    constexpr int PART = BW_MATMUL_PLAIN_TILE, PARTS = SIZE / PART;
#pragma unroll 1
    for (int i = 0; i < PARTS * PARTS; i++) {
        const int row = i / PARTS * PART, column = i % PARTS * PART;
        bw_matmul_plain<T, float>(
            p, c.a.data + row * c.a.row, c.b.data + column * c.b.row, bw_least(c.a.n_rows - row, PART),
            bw_least(c.b.n_rows - column, PART),
            [&](int own_row, int own_column, float sum) { c.put(row + own_row, column + own_column, sum); });
    }
}

template <typename T, typename R, int SIZE, bool A_BY_K, bool B_BY_K>
BW_DEVICE void matmul(const bw_matmul_args &p, const T *a, const T *b, R *out)
{
    const uint32_t block = (uint32_t)bw_block(), group_tiles = GROUP * (uint32_t)p.n_tile_columns;
    const uint32_t group = block / group_tiles, within = block - group * group_tiles;
    const uint32_t rows = (uint32_t)bw_least(p.n_tile_rows - (int64_t)group * GROUP, GROUP);
    const uint32_t tile_column = within / rows;
    const int64_t row = (int64_t)(group * GROUP + within - tile_column * rows) * SIZE;
    const int64_t column = (int64_t)tile_column * SIZE;
    int64_t at[3];
    bw_loop_offsets<3, uint32_t>(p.batch, (uint32_t)(p.first_batch + bw_block_z()), at);
    corner<T, R> c;
    c.a = {a + at[0] + row * p.a_row, p.a_row, p.a_column, bw_least(p.m - row, SIZE), (int)p.k, p.a_is_aligned != 0};
    c.b = {b + at[1] + column * p.b_column, p.b_column, p.b_row, bw_least(p.n - column, SIZE), (int)p.k,
           p.b_is_aligned != 0};
    c.out = out + at[2] + row * p.out_row + column * p.out_column;
    c.out_row = p.out_row;
    c.out_column = p.out_column;
    constexpr int A_WAY = A_BY_K ? (int)BW_BY_K : (int)BW_NOT_BY_K, B_WAY = B_BY_K ? (int)BW_BY_K : (int)BW_NOT_BY_K;
    if constexpr (!BW_TILE_IS_PLAIN)
        multiply<T, R, SIZE, A_WAY, B_WAY>(c);
    else
        multiply_plain<T, R, SIZE>(p, c);
}

/* n: rows of a matrix are neighbouring elements; t: columns. a's are k, b's are not. tt is nn with a and b exchanged. */
#define MATMUL(name, T, R, size, way, a_by_k, b_by_k)                                                                  \
    BW_KERNEL(BW_GPU_GEMM_BLOCK, matmul_tile_##name##_##way##_##size)                                                  \
    (const bw_matmul_args p, const T *a, const T *b, R *out)                                                           \
    {                                                                                                                  \
        matmul<T, R, size, a_by_k, b_by_k>(p, a, b, out);                                                              \
    }
#define WAYS(name, T, R, size)                                                                                         \
    MATMUL(name, T, R, size, nn, true, false)                                                                          \
    MATMUL(name, T, R, size, nt, true, true)                                                                           \
    MATMUL(name, T, R, size, tn, false, false)
WAYS(f16_f16, bw_f16, bw_f16, 128)
WAYS(f16_f16, bw_f16, bw_f16, 64)
WAYS(f16_f32, bw_f16, float, 128)
WAYS(f16_f32, bw_f16, float, 64)
WAYS(bf16_bf16, bw_bf16, bw_bf16, 128)
WAYS(bf16_bf16, bw_bf16, bw_bf16, 64)
WAYS(bf16_f32, bw_bf16, float, 128)
WAYS(bf16_f32, bw_bf16, float, 64)
