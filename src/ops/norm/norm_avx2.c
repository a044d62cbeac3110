/* ADD_RMS_NORM, for AVX2, FMA and F16C. */
#define BW_VEC_AVX2
#include "norm/norm_simd.h"
