/* Params of the ternary family: plain data, shared with device code. */
#ifndef BW_TERNARY_H
#define BW_TERNARY_H

#endif
