/* The functions of binary.def and GLU, for AVX2, FMA and F16C. */
#define BW_VEC_AVX2
#include "binary/binary_simd.h"
