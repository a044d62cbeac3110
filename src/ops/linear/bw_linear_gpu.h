/* Shared between LINEAR's and QUANTISE_ACT's launches and their kernels: arguments, tile sizes, limits. */
#ifndef BW_LINEAR_GPU_H
#define BW_LINEAR_GPU_H

/* Rows of activations up to which products go by rows of the weight without matrix units (and quantised weights take
 * 8-bit activations), and up to which a wave's registers hold the activations' share of a matrix tile. */
enum { BW_LINEAR_FEW = 8, BW_LINEAR_SOME = 64 };

enum {
    BW_LINEAR_VEC_ROWS = 4,  /* weight rows per workgroup of the kernels for few */
    BW_LINEAR_SOME_ROWS = 32 /* and of those for some: two tiles, or one where p.n is small */
};

typedef struct bw_linear_args {
    int32_t n, k, t;       /* weight rows, their length, activation rows */
    int32_t x_is_aligned;  /* f32 x: every row begins at a multiple of 16 bytes */
    uint32_t high, sub, d; /* a quantised row's planes: bytes from its begin (linear_planes.h); the quants come first */
    int32_t split_k;       /* many: k per workgroup, a multiple of BW_GPU_GEMM_K */
    int64_t w_row, x_row;  /* bytes from row to row */
    int64_t y_row;         /* elements */
} bw_linear_args;

/* Activations rounded to 16 bits: [k] numbers, then the f32 that results are multiplied by. A row of f16 whose largest
 * number lies outside [2^BW_ACT_HALF_LEAST, 2^BW_ACT_HALF_MOST) is scaled by a power of two so that it lies in
 * [2^BW_ACT_HALF_TOP, 2^(BW_ACT_HALF_TOP + 1)); rows of bf16 never are. */
enum { BW_ACT_HALF_LEAST = -4, BW_ACT_HALF_MOST = 15, BW_ACT_HALF_TOP = 13 };
#define BW_ACT_HALF_BYTES(k) (((k)*2 + 4 + 63) / 64 * 64)

#endif
