/* What QUANTIZE's kernels get: shared between host and device code. */
#ifndef BW_QUANTIZE_ARGS_H
#define BW_QUANTIZE_ARGS_H

#include "bw_loop.h"

typedef struct bw_quantize_args {
    bw_loop rows;        /* of x, in f32, and of y, in elements */
    int64_t n_blocks;    /* in all rows */
    int64_t per_row;     /* blocks (of plain types: elements) in a row */
    int64_t first_block; /* of this launch */
} bw_quantize_args;

#endif
