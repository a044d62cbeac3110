/* Device code: a row of quantised weights times a few columns, by BW_QUANT_ROW_LANES neighbouring lanes, whatever the
 * wave. */
#ifndef BW_QUANT_DOT_H
#define BW_QUANT_DOT_H

#include "bw_kernel.h"

#include "quantized/bw_mul_mat_args.h"
#include "quantized/bw_quant_blocks.h"

/* This thread's row of w among all of the grid's in x; its lane in the row. */
BW_DEVICE int64_t bw_quant_grid_row(void)
{
    return bw_block() * BW_QUANT_GRID_ROWS + bw_thread() / BW_QUANT_ROW_LANES;
}
BW_DEVICE int bw_quant_row_lane(void)
{
    return bw_thread() % BW_QUANT_ROW_LANES;
}

/* sum[t] += this lane's part of w [k] times row t of x, q8_1 blocks, x_row bytes apart; the sums s are not used. */
template <int TYPE, int T>
BW_DEVICE void bw_quant_dot(const uint8_t *w, const uint8_t *x, int64_t x_row, int64_t k, float (&sum)[T])
{
    typedef bw_quant<TYPE> block;
    for (int64_t i = bw_quant_row_lane() * 8; i < k; i += BW_QUANT_ROW_LANES * 8) {
        float a[8];
        block::decode8(w + i / block::elements * block::bytes, (int)((uint32_t)i % block::elements), a);
        const uint8_t *b = x + i / 32 * 36;
        const int at = 4 + (int)((uint32_t)i % 32u);
#pragma unroll
        for (int t = 0; t < T; t++, b += x_row) {
            bw_bytes8 q = bw_bytes8_at<4>(b + at);
            float part = 0;
#pragma unroll
            for (int j = 0; j < 8; j++)
                part = bw_fma(a[j], bw_signed_byte(q, j), part);
            sum[t] = bw_fma(part, bw_half_at(b), sum[t]);
        }
    }
}

/* The sum over a row's lanes, in each of them. */
BW_DEVICE float bw_quant_row_sum(float x)
{
#pragma unroll
    for (int mask = BW_QUANT_ROW_LANES / 2; mask > 0; mask >>= 1)
        x += bw_shuffle_xor(x, mask);
    return x;
}

/* Rows past the end compute the last one again: all lanes take part in the sums. */
BW_DEVICE int64_t bw_quant_clamp_row(int64_t row, int64_t n)
{
    return row < n ? row : n - 1;
}

#endif
