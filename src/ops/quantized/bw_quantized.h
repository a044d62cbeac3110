/* Params of the quantized family: plain data, shared with device code. */
#ifndef BW_QUANTIZED_H
#define BW_QUANTIZED_H

#endif
