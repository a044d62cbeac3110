/* oneDNN, a library of matrix products and convolutions for processors, where the machine has it: loaded at run time,
 * never needed. Owns its primitives, kept for the shapes met last; refuses to decide when it is used (bw_trial.h).
 *
 * The library never runs threads of its own here: each member of our team calls it for its own part of a product with
 * one thread. So it uses as many processors as the device has members, none of its threads spins while ours work, and
 * the host program's own OpenMP settings stay as they are.
 *
 * BW_CPU_LIBRARIES=0 in the environment leaves it alone; BW_ONEDNN_LIBRARY names another file than libdnnl.so.3 or .2.
 * Under ThreadSanitizer, which cannot see into it, it is not used. */
#ifndef BW_ONEDNN_H
#define BW_ONEDNN_H

#include "bw_op_check.h"

typedef enum bw_onednn_kind { BW_ONEDNN_MATMUL = 1, BW_ONEDNN_CONV, BW_ONEDNN_DECONV } bw_onednn_kind;
enum { BW_ONEDNN_DIMS = 6 };

/* One tensor: sizes and strides in elements, outermost first. */
typedef struct bw_onednn_tensor {
    int64_t n_dims, dtype;
    int64_t dims[BW_ONEDNN_DIMS], strides[BW_ONEDNN_DIMS];
} bw_onednn_tensor;

/* What one primitive does; compared as bytes, so what is not used must be 0.
 * MATMUL: src [m, k], weights [k, n], dst [m, n]. CONV: src [N, C, (H,) W], weights [O, C, (kh,) kw] or, in groups,
 * [G, O / G, C / G, (kh,) kw]; dst [N, O, (Ho,) Wo]. DECONV likewise, with O the channels of dst. */
typedef struct bw_onednn_spec {
    int64_t kind;
    bw_onednn_tensor src, weights, dst;
    int64_t stride[2], dilation[2], padding_l[2], padding_r[2]; /* along (H,) W; a dilation of 0 is dense */
} bw_onednn_spec;

typedef struct bw_onednn_part bw_onednn_part;

/* Whether the library was found; loads it at the first call. */
bool bw_onednn_is_there(void);
/* The file that it was loaded from ("libdnnl.so.3"), or NULL; loads it too. */
const char *bw_onednn_file(void);
/* The primitive for this, for the caller alone until it is given back; NULL when the library cannot do it, or only by
 * its own reference, or when too many are out. Created when it is first asked for. */
bw_onednn_part *bw_onednn_take(const bw_onednn_spec *spec);
void bw_onednn_give(bw_onednn_part *part);
/* Bytes of memory that bw_onednn_run needs. */
size_t bw_onednn_scratch(const bw_onednn_part *part);
/* Computes; scratch: at a multiple of 64. false when the library said that it failed. */
bool bw_onednn_run(bw_onednn_part *part, const void *src, const void *weights, void *dst, void *scratch);

/* Whether the library can do this, and the memory it needs (raised, never lowered). */
bool bw_onednn_can(const bw_onednn_spec *spec, size_t *scratch_bytes);

#endif
