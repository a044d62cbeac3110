/* What the row operations' kernels get beside the index space of the rows: LOG_SOFTMAX, RMSNORM, LAYERNORM. Plain data,
 * by value. */
#ifndef BW_ROWS_ARGS_H
#define BW_ROWS_ARGS_H

#if !defined(BW_KERNEL_H)
#include <stdint.h>
#endif

typedef struct bw_rows_args {
    int64_t first_row;                      /* of this grid: workgroup g has row first_row + g */
    int64_t n;                              /* columns */
    int64_t x_step, w_step, b_step, y_step; /* from column to column, in elements */
    float eps;
    int32_t zero; /* 0 */
} bw_rows_args;

/* Threads of a workgroup; packs of 16 bytes that a thread holds in the kernels for short rows, and at most: half as
 * many of the types of 16 bits, whose packs unfold to twice the registers. */
enum { BW_ROWS_THREADS = 256, BW_ROWS_FEW = 2, BW_ROWS_PACKS = 8 };

#endif
