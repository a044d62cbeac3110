/* ATTENTION, for any CPU. */
#define BW_VEC_PLAIN
#include "attention/attention_simd.h"
