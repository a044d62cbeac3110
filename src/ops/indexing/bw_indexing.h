/* Params of the indexing family: plain data, shared with device code. */
#ifndef BW_INDEXING_H
#define BW_INDEXING_H

#endif
