/* Params of the sort family: plain data, shared with device code. */
#ifndef BW_SORT_H
#define BW_SORT_H

#endif
