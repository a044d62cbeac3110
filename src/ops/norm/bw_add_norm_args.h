/* What ADD_RMS_NORM's kernels get: shared between host and device code. Strides in elements. */
#ifndef BW_ADD_NORM_ARGS_H
#define BW_ADD_NORM_ARGS_H

#include "bw_loop.h"

typedef struct bw_add_norm_args {
    bw_loop rows;      /* the leading dimensions of x, r, h and y */
    int64_t first_row; /* of this launch */
    int64_t n;         /* columns */
    float eps;
} bw_add_norm_args;

#endif
