/* ROPE, ROPE_I and ROPE_THD, for AVX-512. */
#define BW_VEC_AVX512
#include "reduce/rope_simd.h"
