/* Blocks that models share, as recorders of op calls: linear layers, normalisation, attention, feed-forward.
 *
 * Owns nothing at run time: it only writes into a plan. Models call ops through here and plan/ and nothing else.
 * A block takes and returns values; T is the number of tokens in a step.
 */
#ifndef BW_NN_H
#define BW_NN_H

#include "bw_linear.h"
#include "bw_plan.h"

/* A linear layer's weights. w.data NULL = absent. */
typedef struct bw_nn_linear_weights {
    bw_tensor w;    /* [n, k] any dtype or packed layout */
    bw_tensor bias; /* f32 [n], or data NULL */
} bw_nn_linear_weights;

enum { BW_NN_ACTS = 4 };

/* Recording state. Activations are quantised once per value and format; the last few are remembered. */
typedef struct bw_nn {
    bw_plan *plan;
    const bw_device *device;
    struct {
        bw_value x, act;
        uint32_t format;
    } acts[BW_NN_ACTS];
    int next_act;
} bw_nn;

void bw_nn_init(bw_nn *nn, bw_plan *plan, const bw_device *device);

/* y f32 [rows, n] = x f32 [rows, k] w^T + bias. rows: the symbolic or fixed first dimension of x (BW_DIM_*). */
bw_value bw_nn_linear(bw_nn *nn, bw_value x, int64_t rows, const bw_nn_linear_weights *weights);
/* y f32 [rows, d] = scale * table[ids] */
bw_value bw_nn_embedding(bw_nn *nn, const bw_tensor *table, bw_value ids, int64_t rows, float scale);
/* y f32 [rows, d] = x[ids] */
bw_value bw_nn_select_rows(bw_nn *nn, bw_value x, bw_value ids, int64_t rows);
/* RMS norm over the last dimension; w f32 [d]. */
bw_value bw_nn_rms_norm(bw_nn *nn, bw_value x, int64_t rows, const bw_tensor *w, float eps);
/* RMS norm of each head: x f32 [rows, heads * d] seen as [rows, heads, d]; the result has x's shape. */
bw_value bw_nn_head_norm(bw_nn *nn, bw_value x, int64_t rows, int64_t n_heads, const bw_tensor *w, float eps);
/* *h = x + r (r normalised with w_r first, unless NULL); returns rms_norm(*h) * w. */
bw_value bw_nn_add_norm(bw_nn *nn, bw_value x, bw_value r, int64_t rows, const bw_tensor *w, const bw_tensor *w_r,
                        float eps, bw_value *h);

/* What all layers of a step share. */
typedef struct bw_nn_step {
    bw_value tokens;    /* i32 [T] */
    bw_value positions; /* i32 [T] */
    bw_value slots;     /* i32 [T] */
    bw_value seqs;      /* i32 [S, 4] */
    bw_value pages;     /* i32 [P] */
    bw_value outputs;   /* i32 [O] */
} bw_nn_step;

typedef struct bw_nn_attention_config {
    int64_t n_heads, n_kv_heads, head_dim;
    bw_rope_kv_params rope;
    const bw_tensor *inv_freq; /* f32 [n_rot / 2] */
    bw_attention_params attention;
    float eps; /* of q_norm and k_norm */
} bw_nn_attention_config;

typedef struct bw_nn_attention_weights {
    bw_nn_linear_weights q, k, v, o;
    bw_tensor q_norm, k_norm; /* f32 [head_dim], or data NULL */
} bw_nn_attention_weights;

/* x f32 [T, n_embd] (already normalised) to f32 [T, n_embd]; appends to the caches. */
bw_value bw_nn_attention(bw_nn *nn, bw_value x, const bw_nn_step *step, const bw_nn_attention_config *config,
                         const bw_nn_attention_weights *weights, bw_value k_cache, bw_value v_cache);

typedef struct bw_nn_ffn_weights {
    bw_nn_linear_weights gate, up, down;
} bw_nn_ffn_weights;

/* down(act(gate(x)) * up(x)) */
bw_value bw_nn_ffn(bw_nn *nn, bw_value x, bw_activation activation, const bw_nn_ffn_weights *weights);

#endif
