/* SOFTMAX, LOG_SOFTMAX, RMSNORM and LAYERNORM, for any CPU. */
#define BW_VEC_PLAIN
#include "reduce/rows_simd.h"
