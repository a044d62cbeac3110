/* WHERE, for any CPU. */
#define BW_VEC_PLAIN
#include "ternary/where_simd.h"
