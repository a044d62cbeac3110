/* Operations: one list (ops.def), one call form, several kernels. Owns dispatch; refuses to plan memory (plan/) and to
 * know models.
 *
 * A call names an op, its input and output tensors and its params struct. bw_op_prepare checks it and picks the kernel;
 * bw_op_run_member runs it as one member of the device's team. A kernel never allocates and cannot fail.
 */
#ifndef BW_OPS_H
#define BW_OPS_H

#include "bw_device.h"

typedef enum bw_op {
#define BW_OP(NAME, name, family, entry, formula) BW_OP_##NAME,
#include "ops.def"
#undef BW_OP
    BW_OP_COUNT
} bw_op;

enum { BW_OP_MAX_IN = 8, BW_OP_MAX_OUT = 4 };

typedef struct bw_op_call bw_op_call;
/* A CPU kernel: every member of the team calls it; no barrier is needed at its end (the caller puts one where the next
 * call depends on this one). Members share work through call->next (bw_team_take) or bw_team_split. A member's scratch
 * is its own, and members may be in different calls at one time: a kernel that writes into others' scratch first waits
 * for them (matmul/gemm_simd.h). Attention alone does not wait, so a call that uses scratch must depend on it or be
 * needed by it, which in a model the ones beside it are and do. */
typedef void bw_op_kernel(const bw_op_call *call, bw_member *member);

/* A GPU kernel's host side: enqueues one or more launches. */
typedef bw_status bw_op_gpu_kernel(const bw_op_call *call, bw_device *device, bw_err *err);

struct bw_op_call {
    bw_op op;
    int n_in, n_out;
    const bw_tensor *in[BW_OP_MAX_IN]; /* NULL where an optional input is absent */
    bw_tensor *out[BW_OP_MAX_OUT];
    int n_members;            /* of the team that will run it; set by bw_op_prepare, 0 on a GPU */
    const void *params;       /* the op's struct, see its header; NULL when it has none */
    bw_op_kernel *kernel;     /* set by bw_op_prepare; NULL on a GPU */
    bw_op_gpu_kernel *launch; /* likewise; NULL on the CPU */
    const char *variant;      /* the kernel's name, such as "avx2" */
    _Atomic int64_t *next;    /* a counter that is 0 when the call begins */
    /* Scratch: scratch_bytes for each member, 64-byte aligned, found by bw_op_member_scratch. bw_op_prepare sets
     * scratch_bytes to what one member needs at the largest dims. Who lets several calls share one scratch raises it to
     * the largest of theirs: members may be in different calls at one time, and a member's part must not move. */
    void *scratch;
    size_t scratch_bytes;
};

static inline void *bw_op_member_scratch(const bw_op_call *call, const bw_member *member)
{
    return (char *)call->scratch + (size_t)member->rank * ((call->scratch_bytes + 63) / 64 * 64);
}

typedef struct bw_op_cost {
    double flops;
    double bytes; /* each input read once, each output written once */
} bw_op_cost;

/* One kernel for an op on the CPU. Rows stand in each family's variants (src/ops/<family>/variants.def). */
typedef struct bw_op_variant {
    bw_op op;
    const char *name;                                                     /* "avx2", "avx512", "plain" */
    bool (*supports)(const bw_op_call *call, const bw_cpu_features *cpu); /* NULL = always */
    bw_op_kernel *kernel;
    size_t (*scratch_bytes)(const bw_op_call *call); /* per member; NULL = none */
} bw_op_variant;

/* One kernel on GPUs. The scratch is one piece for the whole call. */
typedef struct bw_op_gpu_variant {
    bw_op op;
    const char *name; /* "gpu", "wmma" */
    bool (*supports)(const bw_op_call *call, const bw_device *device);
    bw_op_gpu_kernel *launch;
    size_t (*scratch_bytes)(const bw_op_call *call);
} bw_op_gpu_variant;

typedef struct bw_op_def {
    const char *name, *family, *formula;
    bw_status (*check)(const bw_op_call *call, bw_err *err);
    void (*cost)(const bw_op_call *call, bw_op_cost *cost);
    void (*ref)(const bw_op_call *call); /* plain C, accumulates in double, one thread */
} bw_op_def;

const bw_op_def *bw_op_get(bw_op op);
/* By name; BW_OP_COUNT when there is none. */
bw_op bw_op_from_name(const char *name);

/* Check shapes and types, choose the best kernel for this device. force: a variant's name, "ref", or NULL. Errors name
 * the op, its shapes and dtypes. Dimensions that change later must be at their largest here. */
bw_status bw_op_prepare(bw_op_call *call, const bw_device *device, const char *force, bw_err *err);
/* Every variant of an op that could run this call on this device: up to max names, "ref" first on the CPU; returns how
 * many. */
int bw_op_list_variants(const bw_op_call *call, const bw_device *device, const char **names, int max);
/* Run a prepared call at once on the device's team, with its own counter and scratch (tests and tools). */
bw_status bw_op_run(bw_op_call *call, bw_device *device, bw_err *err);

/* A check's failure: "op: sentence; in0 f32 [2, 3], ..., out0 ...". */
bw_status bw_op_fail(const bw_op_call *call, bw_err *err, const char *format, ...) BW_PRINTF(3, 4);

/* ---- params and shapes of each op ------------------------------------------------------------------------------- */
/* T = tokens in this step (a dimension that changes from run to run), f32 activations throughout. */

/* GET_ROWS: in table [N, D] any dtype or matmul layout, ids i32 [T] (each in [0, N): the caller's duty); out f32 [T,
 * D]. */
typedef struct bw_get_rows_params {
    float scale;
} bw_get_rows_params;

/* ADD_RMS_NORM: in x f32 [T, D], r f32 [T, D], w f32 [D], w_r f32 [D] or NULL; out h f32 [T, D] (may be x), y f32 [T,
 * D]. params: bw_rms_norm_params (bw_reduce.h). */

/* QUANTISE_ACT: in x f32 [T, K]; out u8 [T, bytes] with layout = the activation format (bw_linear.h). No params. */

/* LINEAR: in x f32 [T, K] or a QUANTISE_ACT output; w [N, K] any dtype or packed layout; bias f32 [N] or NULL;
 * out f32 [T, N] (may be strided in T). */
typedef struct bw_linear_params {
    int64_t k; /* needed because a packed x no longer says it */
} bw_linear_params;

/* ROPE_KV: in q f32 [T, Hq, D], k f32 [T, Hkv, D], v f32 [T, Hkv, Dv] (rows may be strided in T), positions i32 [T],
 * slots i32 [T] (page * page_tokens + place in the page), inv_freq f32 [n_rot / 2] (radians per position, scaling
 * applied), out q_rotated f32 [T, Hq, D], k_cache, v_cache. A cache is [pages, Hkv, page_tokens, D] in f16, bf16, q8_0,
 * or f32 for comparisons. */
typedef struct bw_rope_kv_params {
    bool interleaved; /* pairs (2i, 2i+1), as GGUF's llama; else (i, i + n_rot/2), as GPT-NeoX and Hugging Face */
    int32_t n_rot;    /* rotated leading dimensions of a head; 0 = none */
    float magnitude;  /* multiplies cos and sin (YaRN); 1 */
} bw_rope_kv_params;

/* ATTENTION: in q f32 [T, Hq, D], k_cache, v_cache as above, seqs i32 [S, 4] {first token in this step, tokens in this
 * step, tokens in the cache including them, where its pages begin in pages}, pages i32 [P]; out f32 [T, Hq, Dv]. The
 * sequences' tokens follow each other in a step, in the order of seqs; pages beyond theirs are never read. Token
 * j of a sequence sits at cache position n_cached - n_tokens + j and sees positions 0..itself, or only the last
 * `window` of them. Query head h uses KV head h / (Hq / Hkv). */
typedef struct bw_attention_params {
    float scale;
    int32_t window; /* 0 = all */
    float softcap;  /* 0 = none; else s = softcap * tanh(s / softcap) */
} bw_attention_params;

/* Candle's families and what the tensor library has besides: shapes, types and params stand in each family's header. */
#include "affine/bw_affine.h"
#include "attention/bw_sdpa.h"
#include "binary/bw_binary.h"
#include "cast/bw_cast.h"
#include "conv/bw_conv.h"
#include "fill/bw_fill.h"
#include "indexing/bw_indexing.h"
#include "matmul/bw_matmul.h"
#include "norm/bw_norm.h"
#include "quantized/bw_quantized.h"
#include "random/bw_random.h"
#include "reduce/bw_reduce.h"
#include "sample/bw_sample.h"
#include "sort/bw_sort.h"
#include "ternary/bw_ternary.h"
#include "unary/bw_unary.h"

#endif
