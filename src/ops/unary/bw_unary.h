/* Params of the unary family: plain data, shared with device code. */
#ifndef BW_UNARY_H
#define BW_UNARY_H

#endif
