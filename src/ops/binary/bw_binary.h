/* Params of the binary family: plain data, shared with device code. */
#ifndef BW_BINARY_H
#define BW_BINARY_H

#endif
