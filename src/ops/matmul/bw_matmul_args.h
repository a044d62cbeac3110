/* What MATMUL's kernels get: shared between host and device code. Strides in elements. */
#ifndef BW_MATMUL_ARGS_H
#define BW_MATMUL_ARGS_H

#include "bw_loop.h"

typedef struct bw_matmul_args {
    bw_loop batch;           /* of a, b and out, without their last two dimensions */
    int64_t first_tile_row;  /* likewise for y */
    int64_t first_batch;     /* of this launch: a grid's z counts at most 65535 more */
    int64_t m, n, k;         /* out [m, n] = a [m, k] b [k, n] */
    int64_t a_row, a_column; /* strides */
    int64_t b_row, b_column;
    int64_t out_row, out_column;
    /* matmul_tile.hip only */
    int32_t n_tile_rows, n_tile_columns;
    int32_t a_is_aligned, b_is_aligned; /* may be read 16 bytes at a time, every chunk whole */
} bw_matmul_args;

#endif
