/* CUMSUM, for any CPU. */
#define BW_VEC_PLAIN
#include "reduce/cumsum_simd.h"
