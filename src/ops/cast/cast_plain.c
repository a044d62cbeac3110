/* CAST, for any CPU. */
#define BW_VEC_PLAIN
#include "cast/cast_simd.h"
