/* CUMSUM, for AVX-512. */
#define BW_VEC_AVX512
#include "reduce/cumsum_simd.h"
