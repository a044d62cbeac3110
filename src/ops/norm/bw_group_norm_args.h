/* What GROUP_NORM's kernels get beside the space of one channel. Plain data, by value; strides in elements. */
#ifndef BW_GROUP_NORM_ARGS_H
#define BW_GROUP_NORM_ARGS_H

#if !defined(BW_KERNEL_H)
#include <stdint.h>
#endif

typedef struct bw_group_norm_args {
    int64_t first;                      /* of this grid: workgroup i has group first + i, counted over all samples */
    int64_t x_strides[2], y_strides[2]; /* of sample and channel */
    int64_t w_step, b_step;
    uint32_t n_values;          /* of a group of one sample */
    uint32_t groups, per_group; /* of a sample; channels */
    float eps;
} bw_group_norm_args;

#endif
