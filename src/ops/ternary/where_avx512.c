/* WHERE, for AVX-512. */
#define BW_VEC_AVX512
#include "ternary/where_simd.h"
