/* The functions of unary.def in f64: <name>_f64(x, p). Shared by the references, the f64 kernels and, where vectors do
 * not reach, the f32 ones. */
#ifndef BW_UNARY_F64_H
#define BW_UNARY_F64_H

#include <math.h>

#include "bw_inline.h"

#define BW_SQRT_HALF 0.70710678118654752440

/* (1 + tanh u) / 2 is the logistic function of 2u, and loses nothing far down the negative side. */
BW_INLINE double bw_gelu_tanh_f64(double x)
{
    double u = 0.79788456080286535588 * (x + 0.044715 * x * x * x);
    return x / (1 + exp(-2 * u));
}

#define BW_UNARY(NAME, name, has_param, f64, vector, limit, is_exact, magnitude, step, formula)                        \
    BW_INLINE double name##_f64(double x, double p)                                                                    \
    {                                                                                                                  \
        (void)p;                                                                                                       \
        return f64;                                                                                                    \
    }
#include "unary/unary.def"
#undef BW_UNARY

#endif
