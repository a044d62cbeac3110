/* SOFTMAX, LOG_SOFTMAX, RMSNORM and LAYERNORM, for AVX-512. */
#define BW_VEC_AVX512
#include "reduce/rows_simd.h"
