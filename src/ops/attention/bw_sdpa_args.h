/* What SDPA's kernel gets: shared between host and device code. Strides in elements, 0 where the mask is broadcast. */
#ifndef BW_SDPA_ARGS_H
#define BW_SDPA_ARGS_H

#if !defined(BW_KERNEL_H)
#include <stdint.h>
#endif

enum {
    BW_SDPA_GPU_QUERIES = 16, /* of a workgroup */
    BW_SDPA_GPU_KEYS = 64,    /* taken at once */
    BW_SDPA_GPU_WIDTH = 128,  /* of the output, per workgroup */
    /* sdpa_tile.hip: threads and queries of a workgroup, the widest head */
    BW_SDPA_TILE_BLOCK = 128,
    BW_SDPA_TILE_QUERIES = 64,
    BW_SDPA_TILE_WIDTH = 256
};

typedef struct bw_sdpa_args {
    int64_t n_heads, heads_per_kv, first_head; /* of this launch, among batch * n_heads */
    int64_t n_queries, n_keys, d, d_v;
    int64_t q[4], k[4], v[4], mask[4], y[4]; /* batch, head, position, width */
    float scale, softcap;
    int32_t causal;
    int32_t n_tiles; /* of queries, in sdpa_tile.hip */
} bw_sdpa_args;

#endif
