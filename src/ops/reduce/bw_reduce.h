/* Params of the reduce family: plain data, shared with device code. */
#ifndef BW_REDUCE_H
#define BW_REDUCE_H

#endif
