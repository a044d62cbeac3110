/* ROPE_KV, for AVX2, FMA and F16C. */
#define BW_VEC_AVX2
#include "rope/rope_kv_simd.h"
