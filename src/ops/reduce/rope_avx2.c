/* ROPE, ROPE_I and ROPE_THD, for AVX2, FMA and F16C. */
#define BW_VEC_AVX2
#include "reduce/rope_simd.h"
