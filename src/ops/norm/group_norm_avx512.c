/* GROUP_NORM, for AVX-512. */
#define BW_VEC_AVX512
#include "norm/group_norm_simd.h"
