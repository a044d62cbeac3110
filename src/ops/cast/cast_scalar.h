/* Single values that CAST's reference and kernels convert alike. */
#ifndef BW_CAST_SCALAR_H
#define BW_CAST_SCALAR_H

#include <math.h>

#include "bw_dtype.h"
#include "bw_inline.h"

/* An integer as f64 such that a second rounding to f32 or shorter gives what one rounding would: what f64 cannot hold
 * is kept as a sticky bit. */
BW_INLINE double bw_cast_i64_sticky(int64_t v)
{
    if (v < ((int64_t)1 << 53) && v > -((int64_t)1 << 53))
        return (double)v;
    uint64_t bits = (uint64_t)v;
    return (double)(int64_t)((bits & ~(uint64_t)1023) | (uint64_t)((bits & 1023) != 0) << 10);
}

/* f64 to f32 such that a second rounding to a shorter type gives what one rounding would: inexact values become odd. */
BW_INLINE float bw_cast_f64_odd(double x)
{
    float f = (float)x;
    uint32_t bits = bw_f32_bits(f);
    if ((double)f == x || isnan(x))
        return f;
    if (fabs((double)f) > fabs(x))
        bits--;
    return bw_f32_from_bits(bits | 1);
}

#endif
