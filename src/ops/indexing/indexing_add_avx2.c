/* IA and SA, for AVX2, FMA and F16C. */
#define BW_VEC_AVX2
#include "indexing/indexing_add_simd.h"
