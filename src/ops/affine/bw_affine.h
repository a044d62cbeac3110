/* AFFINE: y = x * mul + add. In x of any of the ten types, any strides; out of the same type and shape (may be x
 * itself). Floats are rounded once. For integers mul and add are truncated towards zero first and the arithmetic wraps,
 * as Candle's does. Candle: affine.cu. */
#ifndef BW_AFFINE_H
#define BW_AFFINE_H

typedef struct bw_affine_params {
    double mul, add;
} bw_affine_params;

#endif
