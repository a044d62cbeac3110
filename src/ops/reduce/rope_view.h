/* A ROPE call's tensors as rows: for each (b, h, t) where x, y and the tables begin. */
#ifndef BW_ROPE_VIEW_H
#define BW_ROPE_VIEW_H

#include "bw_ops.h"

typedef struct bw_rope_view {
    int64_t dims[3], x_strides[3], y_strides[3]; /* of b, h, t */
    int64_t d, x_step, y_step;
    int64_t table_strides[2][2], table_steps[2]; /* of cos and sin: b and t; the last */
} bw_rope_view;

/* Elements from each tensor's data on. */
typedef struct bw_rope_row {
    int64_t x, y, cos, sin;
} bw_rope_row;

void bw_rope_view_init(bw_rope_view *v, const bw_op_call *call);
/* row in [0, b * h * t), t innermost. */
void bw_rope_view_row(const bw_rope_view *v, int64_t row, bw_rope_row *r);

#endif
