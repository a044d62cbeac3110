/* A CUMSUM call as columns of n elements along its axis, and the space of the other dimensions. */
#ifndef BW_CUMSUM_VIEW_H
#define BW_CUMSUM_VIEW_H

#include "bw_loop.h"
#include "bw_ops.h"

typedef struct bw_cumsum_view {
    bw_loop rest; /* tensor 0: x, 1: y */
    int64_t n, x_step, y_step;
} bw_cumsum_view;

void bw_cumsum_view_init(bw_cumsum_view *v, const bw_op_call *call);

#endif
