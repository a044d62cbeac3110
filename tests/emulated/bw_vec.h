/* In place of src/ops/bw_vec.h: what matmul_amx.c takes from it. */
#ifndef BW_VEC_H
#define BW_VEC_H

#include <stdbool.h>

#include "bw_dtype.h"
#include "bw_inline.h"
#include "immintrin.h"

/* Rounded to nearest even in the upper halves. NaN stays NaN. */
BW_INLINE __m512i vf_round_bf16(__m512 v)
{
    for (int i = 0; i < 16; i++)
        v.w[i] = isnan(v.f[i]) ? v.w[i] | 0x400000 : v.w[i] + 0x7fff + (v.w[i] >> 16 & 1);
    return v;
}

#endif
