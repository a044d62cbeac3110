/* GROUP_NORM, for any CPU. */
#define BW_VEC_PLAIN
#include "norm/group_norm_simd.h"
