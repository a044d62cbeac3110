/* The functions of binary.def and GLU, for any CPU. */
#define BW_VEC_PLAIN
#include "binary/binary_simd.h"
