/* The reductions over any axes, for any CPU. */
#define BW_VEC_PLAIN
#include "reduce/reduce_simd.h"
