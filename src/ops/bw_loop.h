/* An elementwise call's index space: one set of dimensions, a set of strides for each tensor (0 where it is broadcast),
 * neighbouring dimensions merged where every tensor allows it. Plain data: kernels on a GPU get it by value, so nothing
 * but fixed-width integers stands here. Filled by bw_loop_init (bw_op_check.h). */
#ifndef BW_LOOP_H
#define BW_LOOP_H

#if !defined(BW_KERNEL_H)
#include <stdint.h>
#endif

enum { BW_LOOP_MAX_DIMS = 6, BW_LOOP_MAX_TENSORS = 4 };

typedef struct bw_loop {
    int64_t n;                                              /* elements in all */
    int32_t n_dims, n_tensors;                              /* n_dims >= 1 */
    int64_t dims[BW_LOOP_MAX_DIMS];                         /* outermost first */
    int64_t strides[BW_LOOP_MAX_TENSORS][BW_LOOP_MAX_DIMS]; /* in elements */
} bw_loop;

#endif
