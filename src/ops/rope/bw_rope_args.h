/* What ROPE_KV's kernels get: shared between host and device code. Strides in elements. */
#ifndef BW_ROPE_ARGS_H
#define BW_ROPE_ARGS_H

#if !defined(BW_KERNEL_H)
#include <stdint.h>
#endif

enum { BW_ROPE_BLOCK = 256, BW_ROPE_PASSES = 4 }; /* threads of a workgroup, and how often each takes another head */

typedef struct bw_rope_args {
    int64_t q_token, q_head, k_token, k_head, v_token, v_head, y_token, y_head; /* strides */
    int64_t first_token;                                                        /* of this launch */
    int32_t n_q, n_kv;                                                          /* heads */
    int32_t d, d_v;                                                             /* of q and k; of v */
    int32_t lanes; /* threads for a head: a multiple of 32 that divides BW_ROPE_BLOCK */
    int32_t page_tokens;
    int32_t n_rot, interleaved;
    float magnitude;
} bw_rope_args;

#endif
