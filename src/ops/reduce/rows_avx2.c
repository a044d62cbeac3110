/* SOFTMAX, LOG_SOFTMAX, RMSNORM and LAYERNORM, for AVX2, FMA and F16C. */
#define BW_VEC_AVX2
#include "reduce/rows_simd.h"
