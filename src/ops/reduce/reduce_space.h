/* A reduction's two index spaces: what is kept (x and y) and what is reduced (x), and the kinds of reduction. */
#ifndef BW_REDUCE_SPACE_H
#define BW_REDUCE_SPACE_H

#include "bw_op_check.h"

typedef enum bw_reduce_kind {
    BW_REDUCE_SUM,
    BW_REDUCE_MIN,
    BW_REDUCE_MAX,
    BW_REDUCE_ARGMIN,
    BW_REDUCE_ARGMAX
} bw_reduce_kind;

static inline bool bw_reduce_is_arg(bw_reduce_kind kind)
{
    return kind == BW_REDUCE_ARGMIN || kind == BW_REDUCE_ARGMAX;
}

typedef struct bw_reduce_space {
    bw_loop kept;    /* tensor 0: x, 1: y */
    bw_loop reduced; /* tensor 0: x */
} bw_reduce_space;

void bw_reduce_space_init(bw_reduce_space *space, const bw_op_call *call);

/* How a kernel goes about it. */
typedef struct bw_reduce_way {
    /* Many results side by side in memory: keep a block of them and pass over x row by row. Else one at a time. */
    bool by_columns;
    /* Few results of many elements: every member reduces a part of each, and the parts are joined. */
    bool in_parts;
} bw_reduce_way;

enum { BW_REDUCE_MAX_PARTIAL = 64 }; /* results at most for in_parts */

bw_reduce_way bw_reduce_find_way(const bw_reduce_space *space, int n_members);

/* Part of a result. at = BW_REDUCE_NOWHERE: nothing found yet. value: exact for each type but i64, whose words stand in
 * word, as every integer sum does. */
typedef struct bw_reduce_state {
    double value;
    int64_t word;
    uint32_t at;
} bw_reduce_state;
#define BW_REDUCE_NOWHERE 0xffffffffu

#endif
