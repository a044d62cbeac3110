/* MATMUL and the products under it, for any processor. */
#define BW_VEC_PLAIN
#include "matmul/matmul_simd.h"
