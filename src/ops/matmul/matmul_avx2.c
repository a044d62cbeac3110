/* MATMUL and the products under it, for AVX2, FMA and F16C. */
#define BW_VEC_AVX2
#include "matmul/matmul_simd.h"
