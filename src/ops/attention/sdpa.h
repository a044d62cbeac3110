/* What SDPA's kernels share: how a call is cut, and a member's scratch. */
#ifndef BW_SDPA_INTERNAL_H
#define BW_SDPA_INTERNAL_H

#include "bw_op_check.h"

enum {
    BW_SDPA_ROWS = 120, /* queries of one head that a member works on at once */
    BW_SDPA_KEYS = 256  /* keys of a tile */
};

size_t bw_sdpa_scratch(const bw_op_call *call);
size_t bw_sdpa_typed_scratch(const bw_op_call *call);
bw_op_kernel bw_sdpa_typed;

/* A query's mask: element (b, h, t, s) at data[s * step]; NULL without a mask. */
static inline const float *bw_sdpa_mask_row(const bw_op_call *call, int64_t b, int64_t h, int64_t t, int64_t *step)
{
    const bw_tensor *mask = call->in[3];
    *step = 0;
    if (!mask)
        return NULL;
    int64_t at = 0, index[4] = {0, t, h, b}; /* from the last dimension on */
    for (int i = 0; i < mask->n_dims; i++) {
        int d = mask->n_dims - 1 - i;
        if (mask->dims[d] == 1)
            continue;
        at += index[i] * mask->strides[d];
        if (i == 0)
            *step = mask->strides[d];
    }
    return (const float *)mask->data + at;
}

/* How many keys query t sees: 0 .. n - 1. */
static inline int64_t bw_sdpa_n_seen(const bw_op_call *call, int64_t t)
{
    int64_t n = call->in[1]->dims[2], last = t + n - call->in[0]->dims[2];
    if (!((const bw_sdpa_params *)call->params)->causal || last >= n - 1)
        return n;
    return last < 0 ? 0 : last + 1;
}

#endif
