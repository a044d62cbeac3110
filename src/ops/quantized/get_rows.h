/* Shared between GET_ROWS' reference and its kernel. */
#ifndef BW_GET_ROWS_H
#define BW_GET_ROWS_H

#include "bw_ops.h"
#include "linear/bw_linear.h"

/* Row ids[t] of the table, decoded but not scaled, to out's row t. */
void bw_get_rows_one(const bw_op_call *call, int64_t t);

#endif
