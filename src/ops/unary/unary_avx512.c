/* The functions of unary.def, for AVX-512. */
#define BW_VEC_AVX512
#include "unary/unary_simd.h"
