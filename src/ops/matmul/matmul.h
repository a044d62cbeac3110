/* What MATMUL's reference and kernels share: the matrices of one batch item. */
#ifndef BW_MATMUL_INTERNAL_H
#define BW_MATMUL_INTERNAL_H

#include "bw_op_check.h"

typedef struct bw_matmul_shape {
    int64_t m, n, k, n_batch;
    int64_t a_m, a_k, b_k, b_n, c_m, c_n; /* strides in elements */
} bw_matmul_shape;

void bw_matmul_get_shape(const bw_op_call *call, bw_matmul_shape *s);
/* Elements from each tensor's start to its matrix for batch item `item` of out's leading dimensions. */
void bw_matmul_find(const bw_op_call *call, int64_t item, int64_t *a, int64_t *b, int64_t *c);

#endif
