/* What attention's kernels of every CPU level share: tile sizes and the layout of a member's scratch. */
#ifndef BW_ATTENTION_H
#define BW_ATTENTION_H

#include "bw_ops.h"

enum {
    BW_ATTENTION_KEYS = 64,   /* keys of a tile */
    BW_ATTENTION_SCORES = 80, /* floats of a row of scores: the tile and room for a vector past it */
    BW_ATTENTION_ROWS = 96,   /* query rows (tokens times heads of a group) of a prefill block */
    BW_ATTENTION_ITEMS = 4,   /* items per member that a call is cut into when it has fewer */
    BW_ATTENTION_SLOTS = 8 /* partial results per member: heads that are cut are fewer than ITEMS per member, and give
                              fewer than 2 * ITEMS ranges */
};

/* Tokens of a prefill block of a group of query heads: as many as fill the rows, at least one. */
static inline int64_t bw_attention_block_tokens(int64_t group)
{
    return group >= BW_ATTENTION_ROWS ? 1 : BW_ATTENTION_ROWS / group;
}

/* Bytes of one member's scratch before the partial results, and in all. */
size_t bw_attention_partials_offset(const bw_op_call *call);
size_t bw_attention_scratch(const bw_op_call *call);

bool bw_attention_supports_avx512(const bw_op_call *call, const bw_cpu_features *cpu);
bool bw_attention_supports_avx2(const bw_op_call *call, const bw_cpu_features *cpu);
bool bw_attention_supports_plain(const bw_op_call *call, const bw_cpu_features *cpu);

#endif
