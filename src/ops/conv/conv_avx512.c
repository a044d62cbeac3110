/* The convolutions, for AVX-512. */
#define BW_VEC_AVX512
#include "conv/conv_simd.h"
