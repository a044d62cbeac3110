/* The sort family: Candle's sort.cu, and topk. Over the last dimension, any length below 2^32, any strides.
 *
 * Order: numbers by value, +0 and -0 are equal, NaN after every number in both directions (Candle's comparison of NaN
 * gives no order), equal elements by their index: sorting is stable in both directions.
 *
 * ASORT_ASC, ASORT_DESC (bf16 f16 f32 f64 u8 u32 i64): in x [..., D]; out u32 [..., D]: the indices that sort each row.
 * No params.
 *
 * TOPK (the same types): in x [..., D]; out values [..., K] of x's type and indices u32 [..., K], K <= D: the K first
 * of each row in descending order, or ascending when params.is_smallest. params: bw_topk_params.
 */
#ifndef BW_SORT_H
#define BW_SORT_H

#if !defined(BW_KERNEL_H)
#include <stdint.h>
#endif

typedef struct bw_topk_params {
    int32_t is_smallest; /* 0: the greatest first, 1: the least first */
} bw_topk_params;

#endif
