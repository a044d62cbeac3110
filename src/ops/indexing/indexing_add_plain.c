/* IA and SA, for any CPU. */
#define BW_VEC_PLAIN
#include "indexing/indexing_add_simd.h"
