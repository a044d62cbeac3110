/* What the kernels of ASORT_ASC, ASORT_DESC and TOPK get. Plain data, by value. */
#ifndef BW_SORT_ARGS_H
#define BW_SORT_ARGS_H

#if !defined(BW_KERNEL_H)
#include <stdint.h>
#endif

/* A batch of rows is sorted at a time. Scratch holds the batch's items, row after row, n each: first in sorted tiles,
 * then in runs that a pass merges two by two. No more than the first `keep` of a run are ever needed or there. */
typedef struct bw_sort_args {
    int64_t first_row, first; /* the batch's first row; of a launch in several grids, the first thread's number */
    uint32_t n_rows, n, keep; /* of the batch; a row's elements; results of a row */
    uint32_t tiles;           /* of a row */
    uint32_t width;           /* elements sorted in a tile: a power of 2 */
    uint32_t run;             /* sorted already, elements */
    int64_t x_step, index_step, value_step;
} bw_sort_args;

enum { BW_SORT_THREADS = 256, BW_SORT_TILE = 1024 };

#endif
