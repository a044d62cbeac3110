/* ROPE_KV, for AVX-512. */
#define BW_VEC_AVX512
#include "rope/rope_kv_simd.h"
