/* AFFINE, for any CPU. */
#define BW_VEC_PLAIN
#include "affine/affine_simd.h"
