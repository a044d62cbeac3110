/* Single values that CAST's reference and kernels convert alike. */
#ifndef BW_CAST_SCALAR_H
#define BW_CAST_SCALAR_H

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

#endif
