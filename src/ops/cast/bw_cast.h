/* Params of the cast family: plain data, shared with device code. */
#ifndef BW_CAST_H
#define BW_CAST_H

#endif
