/* Params of the matmul family: plain data, shared with device code. */
#ifndef BW_MATMUL_H
#define BW_MATMUL_H

#endif
