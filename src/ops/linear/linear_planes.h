/* The layout of quantised weights on GPUs: rows one after another, each a few planes that begin at multiples of 16
 * bytes.
 *
 *   quants  per 32 elements: 16 bytes, byte j = element j | element 16 + j << 4; or, of 2-bit quants, 8 bytes:
 *           two words (elements 0..15, 16..31) whose byte j has element 4i + j in bits 2i, 2i + 1; or, of 8-bit
 *           quants, 16 bytes in the plane's first half (elements 0..15) and 16 in its second
 *   high    bits above those: per 32 elements one word whose byte j has element 4i + j in bit i; or two words as
 *           2-bit quants have them
 *   sub     K types: scales within the block of 256. A byte each: q2_k: scale | minimum << 4, q3_k, q6_k: a signed
 *           scale, for each 16; iq4_xs: a signed scale for each 32. q4_k, q5_k: 16 bytes, all there are: d, dmin, a
 *           word with the upper two bits of each 32's scale and minimum (nibbles, the first is the lowest), and their
 *           lower four, a byte for each 32
 *   d       per block: f16, or two, or (mxfp4) an exponent
 *
 * Beside what rounds a plane up to 16 bytes only q3_k (114 bytes for 110) and iq4_xs (138 for 136) take more than in
 * the file.
 * Decoding gives exactly what the plain row does. Device code: bw_linear_blocks.h.
 */
#ifndef BW_LINEAR_PLANES_H
#define BW_LINEAR_PLANES_H

#include "bw_dtype.h"

typedef struct bw_planes {
    uint32_t high, sub, d; /* where each plane begins in a row, bytes */
    int64_t row_bytes;
} bw_planes;

/* false when rows of k elements of this type have no such layout. */
bool bw_planes_init(bw_planes *planes, bw_dtype dtype, int64_t k);
/* One plain row of k elements to one packed row, aligned to 16 bytes. */
void bw_planes_pack_row(const bw_planes *planes, bw_dtype dtype, int64_t k, const uint8_t *src, uint8_t *dst);
/* Elements [begin, begin + n), whole blocks, of a packed row of k. */
void bw_planes_decode(const bw_planes *planes, bw_dtype dtype, int64_t k, const uint8_t *row, int64_t begin, int64_t n,
                      float *dst);

#endif
