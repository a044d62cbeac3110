/* SDPA, for AVX2, FMA and F16C. */
#define BW_VEC_AVX2
#include "attention/sdpa_simd.h"
