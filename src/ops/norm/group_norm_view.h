/* A GROUP_NORM call's tensors: samples, channels, and the space of what follows them. */
#ifndef BW_GROUP_NORM_VIEW_H
#define BW_GROUP_NORM_VIEW_H

#include "bw_op_check.h"

typedef struct bw_group_norm_view {
    int64_t n, channels, groups, per_group; /* samples; channels; groups; channels of a group */
    int64_t n_values;                       /* elements of a group of one sample */
    int64_t x_strides[2], y_strides[2];     /* of sample and channel */
    bw_loop space;                          /* of one channel of one sample; tensor 0: x, 1: y */
} bw_group_norm_view;

void bw_group_norm_view_init(bw_group_norm_view *v, const bw_op_call *call);

#endif
