/* The quantized family, for any CPU. */
#define BW_VEC_PLAIN
#include "quantized/quantized_simd.h"
