/* MATMUL and the products under it, for AVX-512. */
#define BW_VEC_AVX512
#include "matmul/matmul_simd.h"
