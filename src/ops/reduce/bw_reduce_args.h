/* What the reductions' kernels get beside their two index spaces. Plain data, by value. */
#ifndef BW_REDUCE_ARGS_H
#define BW_REDUCE_ARGS_H

#if !defined(BW_KERNEL_H)
#include <stdint.h>
#endif

/* A workgroup of BW_REDUCE_THREADS threads reduces `columns` results side by side (a power of 2), with the threads that
 * are left to each; its y among the grid's is the part of the reduced elements it takes: [y * part, (y + 1) * part). */
typedef struct bw_reduce_args {
    int64_t first; /* result of this grid */
    int64_t part;  /* elements */
    int32_t columns, n_parts;
} bw_reduce_args;

enum { BW_REDUCE_THREADS = 256, BW_REDUCE_PART_BYTES = 16 }; /* scratch for one part of one result */

#endif
