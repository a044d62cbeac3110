/* Single elements of plain (unquantised) types, for references, checks and tests: exact and slow. Owns how a value is
 * rounded when it is stored; refuses quantised types (bw_quant.h).
 *
 * Integers: f64 values are truncated and saturate, NaN is 0 (as Rust's `as`); i64 values wrap.
 */
#ifndef BW_ELEMENT_H
#define BW_ELEMENT_H

#include <math.h>

#include "bw_dtype.h"

bool bw_dtype_is_integer(bw_dtype dtype);
/* f32 f16 bf16 f64 f8_e4m3 */
bool bw_dtype_is_float(bw_dtype dtype);
/* Element i of data as f64 (i64 values beyond 2^53 round). */
double bw_element_f64(bw_dtype dtype, const void *data, int64_t i);
/* Element i of an integer type, exactly; floats are truncated and saturate. */
int64_t bw_element_i64(bw_dtype dtype, const void *data, int64_t i);
/* Store with one rounding to nearest even. */
void bw_element_set_f64(bw_dtype dtype, void *data, int64_t i, double value);
void bw_element_set_i64(bw_dtype dtype, void *data, int64_t i, int64_t value);
/* Truncate towards zero, saturate, NaN to 0. */
int64_t bw_f64_to_i64(double value);
/* What the type holds after bw_element_set_f64, as f64. */
double bw_element_round(bw_dtype dtype, double value);

/* To f32 so that a second rounding to a shorter type gives what one rounding would: inexact values become odd. */
static inline float bw_f64_to_f32_odd(double x)
{
    float f = (float)x;
    if (isnan(x) || (double)f == x)
        return f;
    uint32_t bits = bw_f32_bits(f);
    if (fabs((double)f) > fabs(x))
        bits--;
    return bw_f32_from_bits(bits | 1);
}

#endif
