/* ADD_RMS_NORM, for any CPU. */
#define BW_VEC_PLAIN
#include "norm/norm_simd.h"
