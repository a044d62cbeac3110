/* Params of the conv family: plain data, shared with device code. */
#ifndef BW_CONV_H
#define BW_CONV_H

#endif
