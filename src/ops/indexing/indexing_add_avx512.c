/* IA and SA, for AVX-512. */
#define BW_VEC_AVX512
#include "indexing/indexing_add_simd.h"
