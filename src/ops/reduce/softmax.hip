/* SOFTMAX and LOG_SOFTMAX on a GPU: y = e^x / sum(e^x), or its logarithm, over the last dimension. A workgroup takes a row; each thread keeps a
 * running largest value and the sum relative to it (Milakov and Gimelshein, arXiv:1805.02867), so that a row is read
 * twice. */
#include "bw_kernel.h"

enum { BLOCK = 256 };

/* rows: the leading dimensions of x and y; n columns, their steps in elements. One workgroup per row, from first_row on. */
template <bool IS_LOG, typename T>
BW_DEVICE void softmax(const bw_loop &rows, int64_t first_row, const T *x, T *y, int64_t n, int64_t x_step, int64_t y_step)
{
    typedef typename bw_wide<T>::type W;
    BW_SHARED W shared[BLOCK / BW_WAVE];
    const W infinity = (W)__builtin_inff();
    int64_t at[2];
    bw_loop_offsets<2, uint64_t>(rows, (uint64_t)(first_row + bw_block()), at);
    x += at[0];
    y += at[1];
    W most = -infinity, sum = 0;
    for (int64_t i = bw_thread(); i < n; i += BLOCK) {
        W v = bw_get(x[i * x_step]);
        if (v > most) {
            sum = sum * bw_exp(most - v) + 1 + (v - v); /* NaN for infinity, as e^(v - v) is */
            most = v;
        } else if (v != -infinity) {
            sum += bw_exp(v - most);
        }
    }
    W all = bw_block_max<BLOCK>(most, shared);
    if (most != all) /* also keeps -inf - -inf out where a thread had nothing */
        sum *= bw_exp(most - all);
    sum = bw_block_sum<BLOCK>(sum, shared);
    W factor = IS_LOG ? bw_log(sum) : 1 / sum;
    for (int64_t i = bw_thread(); i < n; i += BLOCK) {
        W v = (W)bw_get(x[i * x_step]) - all;
        y[i * y_step] = bw_put<T>(IS_LOG ? v - factor : bw_exp(v) * factor);
    }
}

#define SOFTMAX(name, T)                                                                                               \
    BW_KERNEL(BLOCK, softmax_##name)                                                                                   \
    (const bw_loop rows, int64_t first_row, const T *x, T *y, int64_t n, int64_t x_step, int64_t y_step)               \
    {                                                                                                                  \
        softmax<false, T>(rows, first_row, x, y, n, x_step, y_step);                                                   \
    }                                                                                                                  \
    BW_KERNEL(BLOCK, log_softmax_##name)                                                                               \
    (const bw_loop rows, int64_t first_row, const T *x, T *y, int64_t n, int64_t x_step, int64_t y_step)               \
    {                                                                                                                  \
        softmax<true, T>(rows, first_row, x, y, n, x_step, y_step);                                                    \
    }
SOFTMAX(f32, float)
SOFTMAX(f64, double)
SOFTMAX(f16, bw_f16)
SOFTMAX(bf16, bw_bf16)
