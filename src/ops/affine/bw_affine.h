/* AFFINE: y = x * mul + add. In x of any of the ten types, any strides; out of the same type and shape (may be x
 * itself). For f32 and shorter floats mul and add are rounded to f32 first (which may make them 0 or infinite); results
 * are rounded once. For integers mul and add are truncated towards zero first and the arithmetic wraps,
 * as Candle's does. Candle: affine.cu. */
#ifndef BW_AFFINE_H
#define BW_AFFINE_H

typedef struct bw_affine_params {
    double mul, add;
} bw_affine_params;

#endif
