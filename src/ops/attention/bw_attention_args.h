/* What ATTENTION's GPU kernels get: shared between host and device code. Strides in elements. Everything here follows
 * from a call's dimensions and params: what seqs and pages hold, only the device knows. */
#ifndef BW_ATTENTION_ARGS_H
#define BW_ATTENTION_ARGS_H

#if !defined(BW_KERNEL_H)
#include <stdint.h>
#endif

enum {
    BW_ATTENTION_DECODE_BLOCK = 128, /* threads of a decode workgroup */
    BW_ATTENTION_SPLITS = 64,        /* at most */
    BW_ATTENTION_LEAST = 64,         /* keys of a split, at least */
    BW_ATTENTION_STEP = 32,          /* a split's keys are a multiple of this */
    BW_ATTENTION_TILE_BLOCK = 128,   /* threads of a prefill workgroup */
    BW_ATTENTION_FEW = 8,            /* in a step with others, a sequence with as many tokens is decode's */
    BW_ATTENTION_TILE_ROWS = 64,     /* its query rows: tokens times heads of a group */
    BW_ATTENTION_TILE_WIDTH = 128,   /* heads wider than this are cut into parts, */
    BW_ATTENTION_WIDE_BLOCK = 256,   /* and these are the threads */
    BW_ATTENTION_WIDE_ROWS = 32      /* and rows of a workgroup */
};

typedef struct bw_attention_args {
    int64_t q_token, q_head, y_token, y_head; /* strides */
    int64_t first_token;                      /* of this launch: tokens, or slots where seq_slots is not 0 */
    int32_t n_tokens;                         /* of this launch, likewise */
    int32_t seq_slots;                    /* decode: slots of a sequence, one for each token it may have; 0 = none */
    int32_t n_seqs, n_heads, n_kv, group; /* group = n_heads / n_kv */
    int32_t d, d_v;
    int32_t page_tokens, page_shift; /* page_tokens = 1 << page_shift; -1 where it is no power of two */
    int32_t n_splits;
    int32_t n_slots, slot_tokens; /* prefill: workgroups in a grid's x; tokens of one */
    int32_t window;               /* 0 = all */
    int32_t least, most; /* sequences with fewer tokens in this step than `least`, or more than `most`, are another's */
    float scale;
    float softcap; /* 0 = none */
} bw_attention_args;

/* A call's partial results in its scratch: sums f32 [n_tokens, heads, n_splits, d_v], then {largest score, sum of
 * weights} for each. The rows of the first. */
#define BW_ATTENTION_SPLIT_ROWS(p) ((int64_t)(p).n_tokens * (p).n_heads * (p).n_splits)

#endif
