/* The functions of unary.def, for AVX2, FMA and F16C. */
#define BW_VEC_AVX2
#include "unary/unary_simd.h"
