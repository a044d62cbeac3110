/* Private to ops/linear: how packed weights and quantised activations lie in memory. Nothing outside this folder may
 * include it.
 *
 * Weights, layout BW_LAYOUT_ROWS16: rows in groups of 16 (the last one padded with zero bytes). A group is the sequence
 * of its blocks along k; inside a block each field of the plain block stands as `count` units of `unit` bytes, and each
 * unit as 16 copies side by side, one per row. So one 64-byte vector holds the same 4 bytes of 16 rows, and the layout
 * is a permutation of the plain bytes (for Q5_0 and Q5_1 also of the 32 high bits of a block: byte i of the four bytes
 * that a row gets holds, as bit j, the high bit of element 4j + i).
 *
 * Activations, format BW_ACT_Q8: see bw_act_q8.
 */
#ifndef BW_LINEAR_LAYOUT_H
#define BW_LINEAR_LAYOUT_H

#include "bw_linear.h"

enum { BW_LAYOUT_PLAIN = 0, BW_LAYOUT_ROWS16 = 1, BW_LAYOUT_PLANES = 2 /* on GPUs: linear_planes.h */ };
/* BW_ACT_GPU: as BW_ACT_Q8 in steps of up to BW_LINEAR_FEW rows, else f16 with a scale per row, a power of two that
 * keeps the row's largest within f16's range (bw_linear_gpu.h). Both in rows of the same number of bytes. */
enum { BW_ACT_Q8 = 1, BW_ACT_GPU = 2 };
enum { BW_GROUP = 16 }; /* rows of a group */

/* Bytes: how far products with one or two activation rows, which are bound by memory, ask for weights in advance.
 * Measured on Zen 3: a tenth faster or more for 4-bit weights than the hardware's own prefetching, which stops at the
 * ends of pages. */
enum { BW_AHEAD = 2048 };

enum { BW_MAX_FIELDS = 4 };
typedef struct bw_layout_field {
    int offset; /* in the plain block */
    int unit;   /* bytes: 1, 2 or 4; 0 ends the list */
    int count;  /* 0 = as many as a row has (types without blocks) */
    bool bits;  /* transpose the 32 bits of the unit */
} bw_layout_field;

/* The fields of a type's block in the order of the packed block; NULL when the type has no packed layout. */
const bw_layout_field *bw_layout_fields(bw_dtype dtype);

/* Types whose products take 8-bit activations. */
#define BW_PACKED_TYPES(X)                                                                                             \
    X(Q4_0, q4_0)                                                                                                      \
    X(Q4_1, q4_1)                                                                                                      \
    X(Q5_0, q5_0)                                                                                                      \
    X(Q5_1, q5_1)                                                                                                      \
    X(Q8_0, q8_0)                                                                                                      \
    X(IQ4_NL, iq4_nl)                                                                                                  \
    X(MXFP4, mxfp4)                                                                                                    \
    X(Q4_K, q4_k)                                                                                                      \
    X(Q5_K, q5_k)                                                                                                      \
    X(IQ4_XS, iq4_xs)                                                                                                  \
    X(Q2_K, q2_k)                                                                                                      \
    X(Q3_K, q3_k)                                                                                                      \
    X(Q6_K, q6_k)

/* One activation row of K elements (K a multiple of 32) in 8-bit blocks of 32: x = d * q. Blocks with a NaN or an
 * infinity have d = NaN and q = 0, so that they are seen in the result. */
typedef struct bw_act_q8 {
    const int8_t *q;      /* [K], in -127..127 */
    const float *d;       /* [K / 32] */
    const float *s;       /* [K / 32]: d times the sum of the block's q */
    const int16_t *sum16; /* [K / 16]: the sum of each 16 q */
} bw_act_q8;

static inline bw_act_q8 bw_act_q8_view(const void *row, int64_t k)
{
    const char *p = row;
    return (bw_act_q8){(const int8_t *)p, (const float *)(const void *)(p + k),
                       (const float *)(const void *)(p + k + k / 8), (const int16_t *)(const void *)(p + k + k / 4)};
}

/* The scale of an activation block as it is stored: rounded to f16 where f16 holds it as a normal number, as GGUF's own
 * Q8_0 and Q8_1 blocks have it, so that results stay as close as they can to programs that compute with those. The
 * rounding is 2^-11 of a block whose elements are already rounded to 2^-8 of it. */
#define BW_ACT_SCALE_IS_NORMAL(d) ((d) >= 0x1p-14f && (d) <= 65504.0f)

/* Quantise blocks [begin, end) of a row x f32 [k] into a BW_ACT_Q8 row. */
void bw_act_q8_blocks(const float *x, void *row, int64_t k, int64_t begin, int64_t end);

#endif
