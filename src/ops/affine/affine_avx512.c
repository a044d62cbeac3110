/* AFFINE, for AVX-512. */
#define BW_VEC_AVX512
#include "affine/affine_simd.h"
