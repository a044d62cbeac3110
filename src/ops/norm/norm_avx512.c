/* ADD_RMS_NORM, for AVX-512. */
#define BW_VEC_AVX512
#include "norm/norm_simd.h"
