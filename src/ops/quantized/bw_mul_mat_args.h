/* What the kernels of quantised products get: shared between host and device code. */
#ifndef BW_MUL_MAT_ARGS_H
#define BW_MUL_MAT_ARGS_H

#if !defined(BW_KERNEL_H)
#include <stdint.h>
#endif

enum {
    BW_QUANT_ROW_LANES = 32, /* lanes that share a row of w in the products with few columns */
    BW_QUANT_GRID_ROWS = 8,  /* such rows in a workgroup of 256 */
    BW_QUANT_TILE = 64       /* rows and columns of a workgroup's tile in the products with many */
};

typedef struct bw_mul_mat_args {
    int64_t n, k;           /* w [n, k] */
    int64_t w_row, x_row;   /* bytes from one row of w to the next, from one column of x to the next */
    int64_t y_row;          /* elements of y likewise */
    int64_t n_columns;      /* of x */
    int64_t first_tile_row; /* MUL_MAT: tiles of columns before this launch's; a grid's y counts at most 65535 more */
} bw_mul_mat_args;

/* INDEXED_MOE_FORWARD: a task is one token's slot, a matrix of one expert times one column. */
typedef struct bw_indexed_moe_args {
    int64_t n, k, w_row;
    int64_t n_experts, n_slots, first_task;       /* of this launch */
    int64_t w_expert, x_token, x_slot;            /* bytes */
    int64_t y_token, y_slot, ids_token, ids_slot; /* elements */
} bw_indexed_moe_args;

/* The same with many tasks, grouped by expert (moe_grouped.hip): a tile is up to BW_QUANT_MOE_TASKS tasks of one group,
 * those that numbers [begin, begin + n) of the list of tasks name; a workgroup takes one and BW_QUANT_MOE_ROWS rows of
 * w. Group g < n_experts is that expert's, the last one that of all ids without an expert. n = 0: no tile.
 *
 * Group g with tasks [begin, end) of the list has the entries from bw_moe_first_tile(begin, g) to
 * bw_moe_first_tile(end, g + 1): those never are fewer than its tiles, since rounding begin down loses less than a
 * tile, which the group's own 1 gives back. So a group's entries follow from its own tasks and how many come before. */
enum { BW_QUANT_MOE_TASKS = 64, BW_QUANT_MOE_ROWS = 64 };
typedef struct bw_moe_tile {
    uint32_t group, begin, n, unused;
} bw_moe_tile;
#define bw_moe_first_tile(begin, group) ((begin) / BW_QUANT_MOE_TASKS + (group))

#endif
