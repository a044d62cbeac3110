/* CAST, for AVX-512. */
#define BW_VEC_AVX512
#include "cast/cast_simd.h"
