/* Params of the random family: plain data, shared with device code. */
#ifndef BW_RANDOM_H
#define BW_RANDOM_H

#endif
