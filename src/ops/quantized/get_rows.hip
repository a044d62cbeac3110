/* GET_ROWS on a GPU from a weight in planes (linear_planes.h): a workgroup decodes one row, a thread 32 elements. */
#include "linear/bw_linear_blocks.h"

enum { BLOCK = 256 };

/* p.k: elements of a row; w_row: bytes from row to row of the table; y_row: elements of the output. */
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
