/* The fill family, for any of the ten types. Candle: fill.cu.
 *
 * FILL and CONST_SET: no input; out of any shape and strides becomes one value. A float type takes `value`, rounded
 * once; an integer type takes `integer`, modulo its range. They differ in name alone: Candle's fill has no strides.
 *
 * COPY2D: in x [d1, d2], out [d1, d2] of one type; rows dense, the strides from row to row are each tensor's own (0 in
 * x: one row for all); x and out must not overlap. No params. */
#ifndef BW_FILL_H
#define BW_FILL_H

#if !defined(BW_KERNEL_H)
#include <stdint.h>
#endif

typedef struct bw_fill_params {
    double value;
    int64_t integer;
} bw_fill_params;

#endif
