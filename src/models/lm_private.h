/* Inside models/: a language model on one device, or its first layers on the CPU and the rest on a GPU. */
#ifndef LM_PRIVATE_H
#define LM_PRIVATE_H

#include "bw_lm.h"
#include "model.h"

struct bw_lm_file {
    bw_source source;
    const bw_model_def *def;
    bw_model_config config;
    bw_tokenizer *tokenizer; /* NULL: the file has no vocabulary */
    char *name;
    bw_source_sizes sizes;
};

/* Layers [first, end) on one device: weights, KV pages, the plan that runs them. */
typedef struct bw_lm_part {
    bw_device *device;
    int32_t first, end;
    bw_model model;
    bw_weights weights;
    bw_plan *plan;
    bw_nn_step step; /* the plan's inputs */
    bw_value x;      /* the residual stream that comes in (first > 0), or that is handed on (end < n_layers) */
    bw_value logits;
    /* on a GPU, of each row, see bw_sample.h: */
    bw_value best, finite;                       /* i32 [outputs] */
    bw_value temperatures, values, places, sums; /* [outputs], [outputs, top_k] twice, [outputs, BW_ROW_SUMS] */
    int32_t top_k;
    bw_value draws[3], drawn, drawable; /* temperatures, leasts, randoms; drawn and finite i32 [outputs] */
    bool can_draw;
    bw_buffer inputs; /* on a GPU: what lies in the lm's inputs */
    bw_buffer x_in;   /* first > 0: f32 [max_tokens, n_embd] */
    bw_buffer kv;     /* [layers, k and v, pages, heads, page, head_dim] */
} bw_lm_part;

struct bw_lm {
    bw_lm_file *file;
    bw_device *device; /* the caller's */
    bw_device *cpu;    /* ours, when layers lie on both */
    bw_lm_options options;
    char device_text[64];
    bw_lm_part parts[2];
    int n_parts;
    bw_buffer inputs;      /* host memory of all inputs, one behind the other */
    bw_buffer host_logits; /* f32 [max_outputs, n_vocab], for a GPU */
    bw_buffer host_best;   /* i32 [4, max_outputs]: best and finite, drawn and finite, for a GPU */
    bw_buffer host_top;    /* [max_outputs] rows: values [top_k]; then of tokens; then of sums: for a GPU */
    /* in inputs, in this order */
    int32_t *tokens, *positions, *slots, *seqs, *outputs, *temperatures, *draws[3], *pages;
    int32_t max_pages; /* in one step */
    bw_lm_probe_fn *probe;
    void *probe_user;
};

/* One page of one head. */
int64_t bw_lm_head_bytes(const bw_model_config *c, bw_dtype kv_dtype);
/* How many of the first layers the CPU is to compute, by the options and the GPU's free memory; 0 = none. */
bw_status bw_lm_choose_layers(bw_lm *lm, int32_t *n_cpu_layers, bw_err *err);
/* The next part; it is the lm's to free also after a failure. */
bw_status bw_lm_part_init(bw_lm *lm, bw_device *device, int32_t first, int32_t end, bw_progress *progress, bw_err *err);
void bw_lm_part_deinit(bw_lm_part *part);
/* The batch lies in the lm's inputs. */
bw_status bw_lm_part_step(bw_lm *lm, bw_lm_part *part, const int64_t dims[BW_DIM_COUNT], bw_err *err);
/* Waits for the step. */
bw_status bw_lm_take(bw_lm *lm, int32_t n_outputs, int wants, bw_lm_results *results, bw_err *err);
bw_status bw_lm_part_copy_page(bw_lm *lm, bw_lm_part *part, int32_t dst, int32_t src, int32_t n_tokens, bw_err *err);

#endif
