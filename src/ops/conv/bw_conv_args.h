/* The conv family's calls in one form, shared between host and device code. */
#ifndef BW_CONV_ARGS_H
#define BW_CONV_ARGS_H

#if !defined(BW_KERNEL_H)
#include <stdbool.h>
#include <stdint.h>
#endif

/* One axis: `size` inputs, `out` outputs, `kernel` taps. */
typedef struct bw_conv_axis {
    int64_t size, out, kernel, stride, padding, dilation;
} bw_conv_axis;

/* The four convolutions, and im2col (w_* are 0 there and c_out is 0). */
typedef struct bw_conv {
    bool is_transposed;
    int64_t batch, c_in, c_out, groups, group_in, group_out; /* group_*: channels of one group */
    bw_conv_axis h, w;
    int64_t x_batch, x_channel, x_h, x_w; /* strides in elements */
    int64_t w_out, w_in, w_h, w_w;        /* the weights': along output and input channels of a group, and taps */
    int64_t w_group;                      /* from one group's weights to the next's */
    int64_t y_batch, y_channel, y_h, y_w;
} bw_conv;

/* A convolution as a product on matrix units: [outputs of a group][k] times [k][pixels], k = (channel, row of taps,
 * column of taps) in the order of the weights' memory. */
enum { BW_CONV_GEMM_TAPS = 15 };
typedef struct bw_conv_gemm {
    int32_t k, n_out, n_pixels; /* n_out: of a group */
    int32_t split_k;            /* k per workgroup, a multiple of BW_GPU_GEMM_K; less than k: results are parts */
    int32_t n_parts, taps, kernel_h, kernel_w;
    uint32_t per_kernel_w; /* 65536 / kernel_w, rounded up: divides what is below 256 */
    /* k / taps = ((k per_taps >> 32) + k) >> taps_shift, for k below 2^31: Granlund and Montgomery, "Division by
     * Invariant Integers using Multiplication", 1994 */
    uint32_t per_taps, taps_shift;
    uint32_t x_tap_row, x_tap; /* bytes from one row or column of taps to the next */
    int32_t out_h, out_w, size_h, size_w;
    int32_t stride_h, stride_w, padding_h, padding_w, dilation_h, dilation_w;
    int32_t w_is_even; /* rows of weights begin at multiples of 16 bytes, k is a multiple of 8 */
    uint32_t x_batch, x_group, x_channel, x_h, x_w; /* bytes; all of x lies within 2^32 */
    int64_t w_row, w_group;                         /* elements */
    int64_t y_batch, y_channel, y_h, y_w;           /* elements */
} bw_conv_gemm;

/* Pooling and upsampling: planes of x [N, C, H, W] to planes of y. */
typedef struct bw_planes {
    int64_t batch, channels, h, w, out_h, out_w;
    int64_t x[4], y[4]; /* strides in elements */
} bw_planes;

/* COL2IM1D: col [N, L, C, k] to y [N, C, out]. */
typedef struct bw_col2im1d_args {
    int64_t n_positions, channels, taps, out, stride;
    int64_t x[4], y[3]; /* strides in elements */
} bw_col2im1d_args;

/* IM2COL and IM2COL1D: y [N, rows, columns]; y_row, y_column its strides. */
typedef struct bw_im2col_args {
    bw_conv c;
    int64_t rows, columns, y_row, y_column;
} bw_im2col_args;

#endif
