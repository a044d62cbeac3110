/* DEQUANTIZE_BLOCK and GET_ROWS on a GPU: a thread decodes 8 elements, a workgroup 2048 of one row. */
#include "quantized/bw_quant_blocks.h"

enum { BLOCK = 256 };

/* This thread's first element in its row. */
BW_DEVICE int64_t first_column(void)
{
    return (bw_block() * BLOCK + bw_thread()) * 8;
}

/* y[0..8) apart by step, or in a row: neighbouring stores can then be merged. */
template <typename R> BW_DEVICE void store8(R *y, int64_t step, const float (&v)[8])
{
    if (step == 1) {
#pragma unroll
        for (int j = 0; j < 8; j++)
            y[j] = bw_put<R>(v[j]);
    } else {
#pragma unroll
        for (int j = 0; j < 8; j++)
            y[j * step] = bw_put<R>(v[j]);
    }
}

/* rows: of x, in its elements, and of y; n elements in each. */
template <int TYPE, typename R>
BW_DEVICE void dequantize(const bw_loop &rows, int64_t first_row, const uint8_t *x, R *y, int64_t n, int64_t step)
{
    typedef bw_quant<TYPE> block;
    const int64_t i = first_column();
    if (i >= n)
        return;
    int64_t at[2];
    bw_loop_offsets<2, uint64_t>(rows, (uint64_t)(first_row + bw_block_y()), at);
    float v[8];
    block::decode8(x + (at[0] + i) / block::elements * block::bytes, (int)((uint32_t)i % block::elements), v);
    store8(y + at[1] + i * step, step, v);
}

template <typename T, typename R>
BW_DEVICE void convert(const bw_loop &rows, int64_t first_row, const T *x, R *y, int64_t n, int64_t step)
{
    int64_t at[2];
    bw_loop_offsets<2, uint64_t>(rows, (uint64_t)(first_row + bw_block_y()), at);
#pragma unroll
    for (int j = 0; j < 8; j++) {
        int64_t i = bw_block() * BLOCK * 8 + j * BLOCK + bw_thread();
        if (i < n)
            y[at[1] + i * step] = bw_put<R>((float)bw_get(x[at[0] + i]));
    }
}

/* table: N rows, table_row bytes apart; y: rows of n elements, y_row apart. */
template <int TYPE>
BW_DEVICE void get_rows(const uint8_t *table, const int32_t *ids, float *y, int64_t first_row, int64_t n,
                        int64_t table_row, int64_t y_row, float scale)
{
    typedef bw_quant<TYPE> block;
    const int64_t i = first_column(), row = first_row + bw_block_y();
    if (i >= n)
        return;
    float v[8];
    block::decode8(table + ids[row] * table_row + i / block::elements * block::bytes,
                   (int)((uint32_t)i % block::elements), v);
#pragma unroll
    for (int j = 0; j < 8; j++)
        v[j] *= scale;
    store8(y + row * y_row + i, 1, v);
}

template <typename T>
BW_DEVICE void get_plain_rows(const uint8_t *table, const int32_t *ids, float *y, int64_t first_row, int64_t n,
                              int64_t table_row, int64_t y_row, float scale)
{
    const int64_t row = first_row + bw_block_y();
    const T *x = (const T *)(const void *)(table + ids[row] * table_row);
#pragma unroll
    for (int j = 0; j < 8; j++) {
        int64_t i = bw_block() * BLOCK * 8 + j * BLOCK + bw_thread();
        if (i < n)
            y[row * y_row + i] = (float)bw_get(x[i]) * scale;
    }
}

#define DEQUANTIZE(name, NAME, to, R)                                                                                  \
    BW_KERNEL(BLOCK, dequantize_block_##name##_##to)                                                                   \
    (const bw_loop rows, int64_t first_row, const uint8_t *x, R *y, int64_t n, int64_t step)                           \
    {                                                                                                                  \
        dequantize<BW_##NAME, R>(rows, first_row, x, y, n, step);                                                      \
    }
#define GET_ROWS_ARGS                                                                                                  \
    (const uint8_t *table, const int32_t *ids, float *y, int64_t first_row, int64_t n, int64_t table_row,             \
     int64_t y_row, float scale)
#define BLOCKS(name, NAME)                                                                                             \
    DEQUANTIZE(name, NAME, f32, float)                                                                                 \
    DEQUANTIZE(name, NAME, f16, bw_f16)                                                                                \
    DEQUANTIZE(name, NAME, bf16, bw_bf16)                                                                              \
    BW_KERNEL(BLOCK, get_rows_##name) GET_ROWS_ARGS                                                                    \
    {                                                                                                                  \
        get_rows<BW_##NAME>(table, ids, y, first_row, n, table_row, y_row, scale);                                     \
    }
BW_QUANT_TYPES(BLOCKS)

#define CONVERT(name, T, to, R)                                                                                        \
    BW_KERNEL(BLOCK, dequantize_block_##name##_##to)                                                                   \
    (const bw_loop rows, int64_t first_row, const T *x, R *y, int64_t n, int64_t step)                                 \
    {                                                                                                                  \
        convert<T, R>(rows, first_row, x, y, n, step);                                                                 \
    }
#define PLAIN(name, T)                                                                                                 \
    CONVERT(name, T, f32, float)                                                                                       \
    CONVERT(name, T, f16, bw_f16)                                                                                      \
    CONVERT(name, T, bf16, bw_bf16)                                                                                    \
    BW_KERNEL(BLOCK, get_rows_##name) GET_ROWS_ARGS                                                                    \
    {                                                                                                                  \
        get_plain_rows<T>(table, ids, y, first_row, n, table_row, y_row, scale);                                       \
    }
PLAIN(f32, float)
PLAIN(f16, bw_f16)
PLAIN(bf16, bw_bf16)
PLAIN(f64, double)
PLAIN(i8, int8_t)
PLAIN(i16, int16_t)
PLAIN(i32, int32_t)
PLAIN(i64, int64_t)
PLAIN(u8, uint8_t)
PLAIN(u32, uint32_t)
PLAIN(f8_e4m3, bw_f8)
