/* GET_ROWS on a GPU: a workgroup decodes one row. Plain types one element per thread, packed ones (linear_planes.h) 32. */
#include "linear/bw_linear_blocks.h"

enum { BLOCK = 256 };

/* p.k: elements of a row; w_row: bytes from row to row of the table; y_row: elements of the output. */
template <typename T>
BW_DEVICE void plain(const bw_linear_args &p, const uint8_t *table, const int32_t *ids, float scale, float *y)
{
    const T *from = (const T *)(table + ids[bw_block()] * p.w_row);
    float *to = y + bw_block() * p.y_row;
    for (int i = bw_thread(); i < p.k; i += BLOCK)
        to[i] = (float)bw_get(from[i]) * scale;
}

#define PLAIN(name, T)                                                                                                 \
    BW_KERNEL(BLOCK, get_rows_##name)                                                                                  \
    (const bw_linear_args p, const uint8_t *table, const int32_t *ids, float scale, float *y)                          \
    {                                                                                                                  \
        plain<T>(p, table, ids, scale, y);                                                                             \
    }
PLAIN(f32, float)
PLAIN(f16, bw_f16)
PLAIN(bf16, bw_bf16)
PLAIN(f64, double)
PLAIN(f8_e4m3, bw_f8)
PLAIN(i8, int8_t)
PLAIN(u8, uint8_t)
PLAIN(i16, int16_t)
PLAIN(i32, int32_t)
PLAIN(u32, uint32_t)
PLAIN(i64, int64_t)

template <typename B>
BW_DEVICE void packed(const bw_linear_args &p, const uint8_t *table, const int32_t *ids, float scale, float *y)
{
    const uint8_t *row = table + ids[bw_block()] * p.w_row;
    for (int b = bw_thread(); b < p.k / 32; b += BLOCK) {
        B raw;
        bw_block32 block;
        raw.load(row, p, b);
        raw.quants(block);
        raw.scales(block);
        float *to = y + bw_block() * p.y_row + 32 * b;
#pragma unroll
        for (int i = 0; i < 32; i++) {
            const uint32_t byte = block.w[i / 4] >> i % 4 * 8 & 255u;
            const float q = B::IS_SIGNED ? (float)(int8_t)byte : (float)((int)byte - B::zero);
            to[i] = (q * block.d[i / 16] + block.o[i / 16]) * scale;
        }
    }
}

#define PACKED(name, type)                                                                                             \
    BW_KERNEL(BLOCK, get_rows_packed_##name)                                                                           \
    (const bw_linear_args p, const uint8_t *table, const int32_t *ids, float scale, float *y)                          \
    {                                                                                                                  \
        packed<BW_UNPAREN type>(p, table, ids, scale, y);                                                              \
    }
BW_LINEAR_BLOCKS(PACKED)
