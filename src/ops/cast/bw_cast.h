/* CAST: the same values in another type. In x of any of the ten types, out of any of the ten, one shape, any strides on
 * both sides; x and out must not overlap. No params. Candle: cast.cu, whose 58 pairs are among the hundred here.
 *
 * To a float type: one rounding to nearest even (f8_e4m3 saturates to 448). Float to integer: truncated towards zero,
 * saturated, NaN is 0. Integer to integer: modulo the type's range. These are Rust's `as`, Candle's CPU meaning. A type
 * to itself: a copy, bit for bit. */
#ifndef BW_CAST_H
#define BW_CAST_H

#endif
