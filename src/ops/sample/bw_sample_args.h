/* What the sample family's GPU kernels get: shared between host and device code. */
#ifndef BW_SAMPLE_ARGS_H
#define BW_SAMPLE_ARGS_H

#if !defined(BW_KERNEL_H)
#include <stdint.h>
#endif

enum {
    BW_SAMPLE_BLOCK = 256,        /* threads for a part of a row */
    BW_SAMPLE_EACH = 16,          /* of its logits in each */
    BW_SAMPLE_PART = 4096,        /* BLOCK * EACH */
    BW_SAMPLE_JOIN = 512,         /* threads that put a row's parts together */
    BW_SAMPLE_JOIN_EACH = 32,     /* candidates in each */
    BW_SAMPLE_CANDIDATES = 16384, /* JOIN * JOIN_EACH: the most a row may have */
    BW_SAMPLE_MOST_K = 256,
    BW_SAMPLE_MOST_PARTS = 256, /* of a row that is drawn from: one for each thread */
    BW_SAMPLE_BITS = 43         /* of the weight 1, as ROW_SAMPLE adds them: a row's sum is at most 2^63 */
};
#define BW_SAMPLE_UNIT 0x1p-43f
/* Whether ROW_SAMPLE draws from rows of so many logits on a GPU. */
#define BW_SAMPLE_CAN_DRAW(n) (((n)-1) / BW_SAMPLE_PART < BW_SAMPLE_MOST_PARTS)

/* A row is cut into n_parts parts of BW_SAMPLE_PART logits. Part i of row r leaves its results at place r * n_parts + i
 * of the scratch's arrays. */
typedef struct bw_sample_args {
    int64_t row;       /* logits from one row to the next */
    int64_t first_row; /* of this launch */
    int32_t n, n_parts, k;
} bw_sample_args;

/* What ROW_ARGMAX's part leaves. */
typedef struct bw_sample_best {
    uint32_t key, token, bad; /* bad: there is a number that is not finite */
} bw_sample_best;

/* ROW_SAMPLE: such parts first, then of each part the sum of its weights, as whole multiples of BW_SAMPLE_UNIT: sums of
 * integers are the same in any order. */
#define BW_SAMPLE_BAD 0xffffffffffffffffull /* instead of a sum: the part has a NaN or +infinity */

/* What ROW_TOP_K's part leaves beside its candidates {key, token} [k], whose tokens are -1 beyond its last. */
typedef struct bw_sample_sums {
    float largest, weight, likelihood, bad;
} bw_sample_sums;

typedef struct bw_sample_candidate {
    uint32_t key;
    int32_t token;
} bw_sample_candidate;

#endif
