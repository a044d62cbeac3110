/* The functions of binary.def on single values: <name>_f64(a, b), <name>_i64(a, b); and GLU's. Shared by references and
 * typed kernels. */
#ifndef BW_BINARY_SCALAR_H
#define BW_BINARY_SCALAR_H

#include <math.h>
#include <stdint.h>

#include "bw_inline.h"
#include "bw_ops.h"

BW_INLINE int64_t bw_wrap_add(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a + (uint64_t)b);
}
BW_INLINE int64_t bw_wrap_sub(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a - (uint64_t)b);
}
BW_INLINE int64_t bw_wrap_mul(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a * (uint64_t)b);
}
BW_INLINE int64_t bw_wrap_div(int64_t a, int64_t b)
{
    return b == 0 ? 0 : b == -1 ? bw_wrap_sub(0, a) : a / b;
}

#define BW_BINARY(NAME, name, is_compare, f64, i64, vector, formula)                                                   \
    BW_INLINE double name##_f64(double a, double b)                                                                    \
    {                                                                                                                  \
        return f64;                                                                                                    \
    }                                                                                                                  \
    BW_INLINE int64_t name##_i64(int64_t a, int64_t b)                                                                 \
    {                                                                                                                  \
        return i64;                                                                                                    \
    }
#include "binary/binary.def"
#undef BW_BINARY

/* The activation of a gated unit. */
BW_INLINE double bw_activate_f64(bw_activation activation, double x)
{
    if (activation == BW_ACTIVATION_SILU)
        return x / (1 + exp(-x));
    if (activation == BW_ACTIVATION_GELU_ERF)
        return 0.5 * x * erfc(-x * 0.70710678118654752440);
    double u = 0.79788456080286535588 * (x + 0.044715 * x * x * x);
    return x / (1 + exp(-2 * u)); /* (1 + tanh u) / 2 is the logistic function of 2u */
}

#endif
