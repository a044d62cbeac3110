/* The quantized family, for AVX-512. */
#define BW_VEC_AVX512
#include "quantized/quantized_simd.h"
