/* Inside models/: what a model's own file fills and reads. A model is a configuration and a recording of ops; opening
 * files, placing weights and running steps is shared.
 */
#ifndef BW_MODEL_H
#define BW_MODEL_H

#include <jansson.h>

#include "bw_gguf.h"
#include "bw_nn.h"
#include "bw_safetensors.h"

/* ---- source: a GGUF file, or safetensors with config.json ------------------------------------------------------- */

typedef struct bw_source {
    char *path;      /* as given */
    char *directory; /* where config.json lies; safetensors only */
    bw_gguf *gguf;   /* one of these two */
    bw_safetensors *st;
    json_t *config;        /* config.json, safetensors only */
    json_t *text;          /* its text_config where there is one, else config */
    char architecture[64]; /* GGUF's name, or the class of config.json */
    const char *hf_prefix; /* "model.", or where the text model lies inside a larger one */
} bw_source;

bw_status bw_source_open(const char *path, bw_source *source, bw_err *err);
void bw_source_close(bw_source *source);

/* Hyperparameters, by GGUF key without the architecture ("block_count") and by config.json name, either NULL where that
 * format has none. Absent: *out is left alone and BW_OK returned, unless `required`. Out of [min, max]: BW_E_FORMAT. */
bw_status bw_source_get_i64(const bw_source *source, const char *gguf_key, const char *hf_name, bool required,
                            int64_t min, int64_t max, int64_t *out, bw_err *err);
bw_status bw_source_get_f64(const bw_source *source, const char *gguf_key, const char *hf_name, bool required,
                            double min, double max, double *out, bw_err *err);

/* A tensor as it lies in the file. */
typedef struct bw_source_tensor {
    bw_dtype dtype;
    int n_dims;
    const int64_t *dims;
    const void *data;
    size_t n_bytes;
    const bw_map *map; /* the file it lies in; NULL when none */
    char name[128];
} bw_source_tensor;
/* By both formats' names; false when absent. hf_name without the prefix. */
bool bw_source_find(const bw_source *source, const char *gguf_name, const char *hf_name, bw_source_tensor *tensor);
/* The embedding is the output matrix: config.json says so, or there is no other. */
bool bw_source_is_tied(const bw_source *source);

/* ---- configuration ----------------------------------------------------------------------------------------------- */

typedef enum bw_rope_scaling { BW_ROPE_NONE, BW_ROPE_LINEAR, BW_ROPE_LLAMA3, BW_ROPE_YARN } bw_rope_scaling;

typedef struct bw_rope_config {
    double base;
    int32_t n_rot;
    bool interleaved;
    bw_rope_scaling scaling;
    double factor, low_freq_factor, high_freq_factor, beta_fast, beta_slow;
    double attention_factor;   /* YaRN's magnitude; 0 = from factor */
    double attention_multiply; /* GGUF's attn_factor, on top of that; 0 = 1 */
    int32_t n_ctx_original;
} bw_rope_config;

enum { BW_MODEL_MAX_LAYERS = 1024 };

typedef struct bw_model_config {
    int32_t n_vocab, n_layers, n_embd, n_ff, n_heads, n_kv_heads, head_dim, n_ctx_train;
    float eps;
    float embedding_scale; /* 1, or sqrt(n_embd) */
    float attention_scale; /* 1 / sqrt(head_dim), unless the model says otherwise */
    float norm_offset;     /* added to norm weights: 1 for Gemma from safetensors (GGUF has it added already) */
    bw_activation activation;
    bw_rope_config rope;                   /* of global layers */
    bw_rope_config rope_local;             /* of windowed layers, where they differ (Gemma 3) */
    int32_t window;                        /* 0 = none */
    uint8_t is_local[BW_MODEL_MAX_LAYERS]; /* this layer uses window and rope_local */
    bool has_post_norms;                   /* a norm after attention and after the feed-forward part (Gemma) */
} bw_model_config;

/* The parts that every decoder-only transformer here shares; a model's configure calls it first, on a zeroed config in
 * which it has set what files of this architecture may leave out (0 of anything else must be in the file). */
bw_status bw_model_configure_decoder(const bw_source *source, bw_model_config *config, bw_err *err);
/* rope_scaling of config.json (or rope_parameters; kind NULL or "full_attention"/"sliding_attention"), rope.* of GGUF.
 */
bw_status bw_model_configure_rope(const bw_source *source, const char *kind, bw_rope_config *rope, bw_err *err);
/* inv_freq f32 [n_rot / 2]; divisors (GGUF's rope_freqs.weight) f32 [n_rot / 2] or NULL; *magnitude for cos and sin. */
void bw_rope_compute_inv_freq(const bw_rope_config *rope, const float *divisors, float *inv_freq, float *magnitude);

/* ---- weights -------------------------------------------------------------------------------------------------------
 */

typedef struct bw_model_layer {
    bw_tensor attn_norm, ffn_norm;           /* f32 [n_embd] */
    bw_tensor post_attn_norm, post_ffn_norm; /* f32 [n_embd], where has_post_norms */
    bw_nn_attention_weights attn;
    bw_nn_ffn_weights ffn;
} bw_model_layer;

typedef struct bw_model {
    bw_model_config config;
    bw_tensor embedding; /* [n_vocab, n_embd] */
    bw_nn_linear_weights output;
    bw_tensor output_norm;
    bw_tensor inv_freq, inv_freq_local; /* f32 [n_rot / 2] */
    float rope_magnitude, rope_magnitude_local;
    bw_model_layer *layers; /* [n_layers] */
} bw_model;

/* Which layers a recording holds, and what it hands on. Layers before `first` were computed elsewhere: x f32 [T,
 * n_embd] is the residual stream as they left it. Where end < n_layers, x is what the recording leaves. */
typedef struct bw_model_part {
    int32_t first, end;
    bw_value x;
} bw_model_part;

typedef struct bw_model_def {
    const char *name, *gguf_architecture, *hf_class, *hf_model_type;
    bw_status (*configure)(const bw_source *source, bw_model_config *config, bw_err *err);
    /* Record a step's part; k_caches and v_caches [n_layers]; returns the logits f32 [BW_DIM_OUTPUTS, n_vocab] of the
     * part that ends with the last layer, else BW_NO_VALUE. */
    bw_value (*record)(const bw_model *model, bw_nn *nn, const bw_nn_step *step, bw_model_part *part,
                       const bw_value *k_caches, const bw_value *v_caches);
} bw_model_def;

/* NULL when no row matches. */
const bw_model_def *bw_model_find(const bw_source *source);
/* The class that config.json's model_type stands for; NULL when no row has it. */
const char *bw_model_class_of_type(const char *model_type);
/* "llama, mistral, ...": the names that a GGUF file or config.json may have. */
void bw_model_list_architectures(bool gguf, bw_str *out);

/* How every recording begins: the embedded tokens, or what the part before left. */
bw_value bw_model_begin(const bw_model *model, bw_nn *nn, const bw_nn_step *step, const bw_model_part *part);
/* The norm to apply to the residual stream behind a layer. */
const bw_tensor *bw_model_next_norm(const bw_model *model, const bw_model_part *part, int layer);
/* How every recording ends, with the residual stream x and its norm y: the logits, or x handed on. */
bw_value bw_model_finish(const bw_model *model, bw_nn *nn, const bw_nn_step *step, bw_model_part *part, bw_value x,
                         bw_value y);

/* What a model's layers have in common at run time. */
bw_nn_attention_config bw_model_attention_config(const bw_model *model, int layer);

/* Where weights live once placed. */
typedef struct bw_weights {
    bw_device *device;
    bw_buffer packed;  /* matrices in the kernels' layouts */
    bw_buffer vectors; /* f32 norms and biases, copies of misaligned matrices */
    int64_t n_params, bytes;
    bw_dtype commonest; /* the matrix type with the most bytes */
} bw_weights;

/* What a part of a model needs: its layers, the embedding with the first, the output with the last. */
typedef struct bw_weights_range {
    int32_t first, end;
} bw_weights_range;

/* Find every tensor of the range, check its shape, place it. `progress` goes on from where it stands and is passed to
 * report, which may be NULL. */
bw_status bw_weights_load(const bw_source *source, bw_device *device, bw_model *model, bw_weights_range range,
                          bw_weights *weights, bw_progress *progress,
                          void (*report)(void *user, const bw_progress *progress), void *user, bw_err *err);
/* Bytes that bw_weights_load would take on the device. */
bw_status bw_weights_measure(const bw_source *source, const bw_device *device, bw_model *model, bw_weights_range range,
                             int64_t *n_bytes, bw_err *err);
void bw_weights_free(bw_weights *weights);
/* What a file holds, without placing anything. */
typedef struct bw_source_sizes {
    int64_t n_params, n_bytes;
    /* of n_bytes what generating one token reads: of the embedding one row unless it is the output matrix as well, of
     * experts those that a token uses, nothing of other models in the file (a vision tower) */
    int64_t token_bytes;
    bw_dtype commonest; /* the type with the most elements */
} bw_source_sizes;
void bw_source_count(const bw_source *source, bw_source_sizes *sizes);

#endif
