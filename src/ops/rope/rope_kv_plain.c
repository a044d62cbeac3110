/* ROPE_KV, for any CPU. */
#define BW_VEC_PLAIN
#include "rope/rope_kv_simd.h"
