/* The convolutions, for any processor. */
#define BW_VEC_PLAIN
#include "conv/conv_simd.h"
