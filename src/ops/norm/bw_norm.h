/* The norm family: norms beyond Candle's kernels (softmax, rmsnorm and layernorm stand in bw_reduce.h).
 *
 * GROUP_NORM (bf16 f16 f32 f64): in x [N, C, ...] (2 to 6 dimensions, any strides), w [C] or absent, b [C] or absent;
 * out y like x (may be x): the channels in G = params.n_groups groups (G divides C), each group of a sample, with all
 * that follows C, to mean 0 and variance 1, then times w, plus b of its channel: (x - mean) / sqrt(variance + eps) * w
 * + b, variance as the mean square (Wu and He, arXiv:1803.08494). params: bw_group_norm_params.
 */
#ifndef BW_NORM_H
#define BW_NORM_H

#if !defined(BW_KERNEL_H)
#include <stdint.h>
#endif

typedef struct bw_group_norm_params {
    int32_t n_groups;
    float eps;
} bw_group_norm_params;

#endif
