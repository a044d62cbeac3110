/* Params of the fill family: plain data, shared with device code. */
#ifndef BW_FILL_H
#define BW_FILL_H

#endif
