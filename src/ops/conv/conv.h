/* What the conv family's references and kernels share: calls in one form, one dimension as a height of 1. Filled from a
 * checked call, so the arithmetic cannot overflow. */
#ifndef BW_CONV_INTERNAL_H
#define BW_CONV_INTERNAL_H

#include "bw_op_check.h"
#include "conv/bw_conv_args.h"

void bw_conv_get(const bw_op_call *call, bw_conv *c);

/* The input position that tap `tap` of output position `at` meets, or -1 when there is none. */
static inline int64_t bw_conv_position(const bw_conv *c, const bw_conv_axis *axis, int64_t at, int64_t tap)
{
    int64_t i;
    if (c->is_transposed) {
        i = at + axis->padding - tap * axis->dilation;
        if (i < 0 || i % axis->stride != 0)
            return -1;
        i /= axis->stride;
    } else {
        i = at * axis->stride + tap * axis->dilation - axis->padding;
    }
    return i >= 0 && i < axis->size ? i : -1;
}

/* Of output positions [begin, end) those that tap `tap` meets an input at: n of them, the first at out and each next
 * one out_step further; its input is at in, and in_step further each time. */
typedef struct bw_conv_run {
    int64_t n, out, out_step, in, in_step;
} bw_conv_run;

/* ceil(a / b), b > 0 */
static inline int64_t bw_conv_ceil(int64_t a, int64_t b)
{
    return a > 0 ? (a - 1) / b + 1 : -(-a / b);
}

static inline bw_conv_run bw_conv_find_run(const bw_conv *c, const bw_conv_axis *axis, int64_t begin, int64_t end,
                                           int64_t tap)
{
    int64_t offset = tap * axis->dilation - axis->padding, low, high;
    if (c->is_transposed) { /* out = in stride + offset */
        low = bw_conv_ceil(begin - offset, axis->stride);
        high = bw_conv_ceil(end - offset, axis->stride);
        low = low > 0 ? low : 0;
        high = high < axis->size ? high : axis->size;
        return (bw_conv_run){high > low ? high - low : 0, low * axis->stride + offset, axis->stride, low, 1};
    }
    low = bw_conv_ceil(-offset, axis->stride); /* in = out stride + offset */
    high = bw_conv_ceil(axis->size - offset, axis->stride);
    low = low > begin ? low : begin;
    high = high < end ? high : end;
    return (bw_conv_run){high > low ? high - low : 0, low, 1, low * axis->stride + offset, axis->stride};
}

void bw_planes_get(const bw_op_call *call, bw_planes *p);

/* Where output position `at` of `out` lies between inputs of `size`: the two of them and the second's weight. */
typedef struct bw_bilinear {
    int64_t low, high;
    double weight;
} bw_bilinear;
bw_bilinear bw_bilinear_find(int64_t at, int64_t size, int64_t out, double scale, bool align_corners);
/* floor(at * step), at most size - 1; step 0: size / out. */
int64_t bw_nearest_find(int64_t at, int64_t size, int64_t out, double step);

#endif
