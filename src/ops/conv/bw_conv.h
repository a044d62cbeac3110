/* The conv family: convolutions, pooling, upsampling and their column forms, as Candle's conv.cu names them. Types bf16
 * f16 f32 f64 u8 u32, one type for all tensors of a call; any strides everywhere; out must not overlap the inputs.
 * N batch items, C channels, L or H x W positions. An output whose size is not what the params give is refused.
 *
 * Sums of short floats are kept in f32 at least and rounded once; integers wrap.
 *
 * CONV1D: in x [N, C, L], w [O, C / groups, k]; out [N, O, Lo], Lo = (L + 2 padding - dilation (k - 1) - 1) / stride
 * + 1. out[n, o, l] = sum of x[n, c, l stride + r dilation - padding] w[o, c, r] over c of o's group and those r < k
 * whose place lies in x: other taps add nothing, whatever their weights. Output channel o is in group o / (O / groups).
 * output_padding is not used and must be 0.
 *
 * CONV2D: in x [N, C, H, W], w [O, C / groups, kh, kw]; out [N, O, Ho, Wo], both sizes and the sums as above.
 *
 * CONV_TRANSPOSE1D: in x [N, C, L], w [C, O / groups, k]; out [N, O, Lo], Lo = (L - 1) stride - 2 padding + dilation
 * (k - 1) + output_padding + 1. x[n, c, l] w[c, o, r] is added to out[n, o, l stride + r dilation - padding] where that
 * exists.
 *
 * CONV_TRANSPOSE2D: likewise in both directions. */
#ifndef BW_CONV_H
#define BW_CONV_H

#if !defined(BW_KERNEL_H)
#include <stdint.h>
#endif

typedef struct bw_conv1d_params {
    int64_t stride, padding, dilation, output_padding, groups;
} bw_conv1d_params;

typedef struct bw_conv2d_params {
    int64_t stride_h, stride_w, padding_h, padding_w, dilation_h, dilation_w, output_padding_h, output_padding_w;
    int64_t groups;
} bw_conv2d_params;

/* IM2COL: in x [N, C, H, W]; out [N, Ho * Wo, C * kh * kw]: row (y, x) holds what CONV2D's window there multiplies.
 * IM2COL1D: in x [N, C, L]; out [N, Lo, C * k]. */
typedef struct bw_im2col_params {
    int64_t kernel_h, kernel_w, stride_h, stride_w, padding_h, padding_w, dilation_h, dilation_w;
} bw_im2col_params;
typedef struct bw_im2col1d_params {
    int64_t kernel, stride, padding, dilation;
} bw_im2col1d_params;

/* COL2IM1D: in col [N, L, C, k]; out [N, C, (L - 1) stride + k]: out[n, c, l stride + r] sums col[n, l, c, r]. */
typedef struct bw_col2im1d_params {
    int64_t stride;
} bw_col2im1d_params;

/* AVG_POOL2D, MAX_POOL2D: in x [N, C, H, W]; out [N, C, (H - kh) / stride_h + 1, (W - kw) / stride_w + 1]. A mean of
 * integers is their exact sum divided by kh * kw and truncated (Candle's two backends disagree there). The largest of
 * values with a NaN among them is NaN. */
typedef struct bw_pool2d_params {
    int64_t kernel_h, kernel_w, stride_h, stride_w;
} bw_pool2d_params;

/* UPSAMPLE_NEAREST2D: in x [N, C, H, W]; out [N, C, Ho, Wo] of any size >= 1. Row y comes from row floor(y * step_h) in
 * f64, or the last if that is beyond; step 0 stands for H / Ho. */
typedef struct bw_upsample_nearest2d_params {
    double step_h, step_w;
} bw_upsample_nearest2d_params;

/* UPSAMPLE_BILINEAR2D: in x [N, C, H, W]; out [N, C, Ho, Wo] of any size >= 1. Row y lies at s = y (H - 1) / (Ho - 1)
 * (0 if Ho is 1) with align_corners, else at s = (y + 0.5) r - 0.5, at least 0, with r = 1 / scale_h, or H / Ho if
 * scale_h is 0. It mixes rows floor(s) and the next with weight s - floor(s), both at most the last row. All in f64;
 * integers are truncated. */
typedef struct bw_upsample_bilinear2d_params {
    double scale_h, scale_w;
    int32_t align_corners, unused;
} bw_upsample_bilinear2d_params;

#endif
