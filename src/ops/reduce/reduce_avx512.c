/* The reductions over any axes, for AVX-512. */
#define BW_VEC_AVX512
#include "reduce/reduce_simd.h"
