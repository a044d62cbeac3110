/* The quantized family, for AVX2, FMA and F16C. */
#define BW_VEC_AVX2
#include "quantized/quantized_simd.h"
