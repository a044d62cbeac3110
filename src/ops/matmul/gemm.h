/* Matrix products in f32, packed and blocked, for MATMUL, convolutions and attention. Owns how a product is described;
 * the code stands in gemm_simd.h, compiled per CPU level.
 *
 * C[i, j] = sum over p of A[i, p] B[p, j]; A [m, k], B [k, n], C [m, n], with A and B of any float type up to f32, C of
 * f32, f16 or bf16. */
#ifndef BW_GEMM_H
#define BW_GEMM_H

#include "bw_op_check.h"

enum {
    BW_GEMM_MC = 192,     /* rows of A that a member packs at once: with KC columns half a second-level cache */
    BW_GEMM_KC = 256,     /* depth of one block: a panel of B fits into half a first-level cache */
    BW_GEMM_NC = 1024,    /* columns of B in each member's scratch */
    BW_GEMM_TILE_N = 256, /* columns of a tile that a member computes alone */
    BW_GEMM_SCRATCH = (BW_GEMM_MC * BW_GEMM_KC + BW_GEMM_NC * BW_GEMM_KC) * 4 /* bytes for each member */
};

typedef struct bw_gemm bw_gemm;
/* Write B's rows [k0, k0 + kc) and columns [j0, j0 + n) as f32 into panels of `width` columns: element (p, j) at
 * dst[(j / width * kc + p) * width + j % width], zeros to the end of the last panel. */
typedef void bw_gemm_pack_fn(const bw_gemm *g, int64_t width, int64_t k0, int64_t kc, int64_t j0, int64_t n,
                             float *dst);

struct bw_gemm {
    int64_t m, n, k;
    bw_dtype a_dtype, b_dtype, c_dtype;
    /* A[i, p] is element i a_m + p / a_inner a_outer + p % a_inner a_k: two strides along k, for weights whose taps do
     * not follow their channels. a_inner = k where one stride does. */
    const void *a;
    int64_t a_m, a_k, a_inner, a_outer;
    const void *b; /* element p b_k + j b_n; not used when pack_b is set */
    int64_t b_k, b_n;
    bw_gemm_pack_fn *pack_b; /* NULL: by the strides above */
    const void *pack_context;
    int64_t pack_at; /* for pack_b: which item it is about */
    void *c;         /* element i c_m + j c_n */
    int64_t c_m, c_n;
    bool adds; /* C += instead of C =, for bw_gemm_one and a dense f32 C */
};

/* One product of many that are shared between the members: `item` of them, in g whatever is common. */
typedef void bw_gemm_item_fn(const void *context, int64_t item, bw_gemm *g);
typedef void bw_gemm_run_fn(const bw_op_call *call, bw_member *member, const bw_gemm *g, int64_t n_items,
                            bw_gemm_item_fn *get, const void *context);

/* Every member calls it, with BW_GEMM_SCRATCH bytes of call scratch; sizes are the same for all items. The call's
 * counter must be 0 and is used up. */
bw_gemm_run_fn bw_gemm_run_plain, bw_gemm_run_avx2, bw_gemm_run_avx512;
size_t bw_gemm_scratch(const bw_op_call *call);
/* One member alone computes a whole product; scratch: its own, BW_GEMM_SCRATCH bytes, at a multiple of 64. */
typedef void bw_gemm_one_fn(const bw_gemm *g, float *scratch);
bw_gemm_one_fn bw_gemm_one_plain, bw_gemm_one_avx2, bw_gemm_one_avx512;

#endif
