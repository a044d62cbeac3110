/* The reductions over any axes, for AVX2, FMA and F16C. */
#define BW_VEC_AVX2
#include "reduce/reduce_simd.h"
