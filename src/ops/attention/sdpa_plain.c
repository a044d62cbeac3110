/* SDPA, for any processor. */
#define BW_VEC_PLAIN
#include "attention/sdpa_simd.h"
