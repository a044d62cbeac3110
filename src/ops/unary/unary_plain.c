/* The functions of unary.def, for any CPU. */
#define BW_VEC_PLAIN
#include "unary/unary_simd.h"
