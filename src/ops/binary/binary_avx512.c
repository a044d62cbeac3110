/* The functions of binary.def and GLU, for AVX-512. */
#define BW_VEC_AVX512
#include "binary/binary_simd.h"
