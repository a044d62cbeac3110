/* ROPE, ROPE_I and ROPE_THD, for any CPU. */
#define BW_VEC_PLAIN
#include "reduce/rope_simd.h"
