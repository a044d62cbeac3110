/* GROUP_NORM, for AVX2, FMA and F16C. */
#define BW_VEC_AVX2
#include "norm/group_norm_simd.h"
