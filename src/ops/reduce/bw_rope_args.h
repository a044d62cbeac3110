/* What the kernels of ROPE, ROPE_I and ROPE_THD get: the tensors' strides in elements. Plain data, by value. */
#ifndef BW_ROPE_ARGS_H
#define BW_ROPE_ARGS_H

#if !defined(BW_KERNEL_H)
#include <stdint.h>
#endif

typedef struct bw_rope_args {
    int64_t n_pairs, first;             /* b * h * t * d / 2, and this grid's first */
    uint32_t half, h, t;                /* d / 2 and dimensions */
    uint32_t interleaved;               /* pairs (2i, 2i + 1); else (i, i + d / 2) */
    int64_t x_strides[3], y_strides[3]; /* of b, h, t */
    int64_t x_step, y_step;             /* of the last dimension */
    int64_t cos_strides[2], cos_step;   /* of b and t; of the last */
    int64_t sin_strides[2], sin_step;
} bw_rope_args;

#endif
