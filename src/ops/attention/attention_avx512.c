/* ATTENTION, for AVX-512. */
#define BW_VEC_AVX512
#include "attention/attention_simd.h"
