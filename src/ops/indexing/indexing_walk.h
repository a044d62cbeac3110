/* How the kernels of the family go through a call: lanes (every place but along the indexed dimension), and along each
 * lane the ids. Owns the order and the sharing between members; refuses to know what is done with a value.
 *
 * One side of a call is indexed: x for IS and GATHER, y for the others. */
#ifndef BW_INDEXING_WALK_H
#define BW_INDEXING_WALK_H

#include "bw_op_check.h"

enum { BW_INDEXING_BLOCK = 1024 };

/* n values: x's i-th at x + i * x_step, y's at y + i * y_step (elements), and on the indexed side ids[i] * id_step
 * further; ids[i] < 0: there is none. */
typedef struct bw_indexing_block {
    const char *x;
    char *y;
    int64_t n, x_step, y_step, id_step;
    const int64_t *ids;
} bw_indexing_block;

/* dtype is the values'. */
typedef void bw_indexing_fn(bw_dtype dtype, const bw_indexing_block *block);
/* n values with one id that they share. */
typedef void bw_indexing_slice_fn(bw_dtype dtype, const bw_indexing_block *block, int64_t id);

void bw_indexing_walk(const bw_op_call *call, bw_member *member, bw_indexing_fn *fn, bw_indexing_slice_fn *slice);

#endif
