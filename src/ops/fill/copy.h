/* Copies between tensors of one element size, any strides on either side: the kernel of UCOPY, COPY2D and of CAST to
 * the same type. */
#ifndef BW_COPY_H
#define BW_COPY_H

#include "bw_ops.h"

/* out[0] = in[0], bit for bit; one shape, one type, no overlap. */
bw_op_kernel bw_copy_typed;

#endif
