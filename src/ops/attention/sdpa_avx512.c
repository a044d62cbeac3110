/* SDPA, for AVX-512. */
#define BW_VEC_AVX512
#include "attention/sdpa_simd.h"
