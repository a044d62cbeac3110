/* A language model on a device: weights, KV pages and one step of computation. What the engine sees of models.
 *
 * Owns weights, plans and KV memory; refuses to know sequences, prefixes or sampling: pages are numbers handed out by
 * the engine. Not thread-safe: the engine's thread alone calls it after loading.
 */
#ifndef BW_LM_H
#define BW_LM_H

#include "bw_device.h"
#include "bw_tokenizer.h"

typedef struct bw_lm bw_lm;

enum { BW_LM_PAGE_TOKENS = 32 }; /* tokens of one KV page */

typedef struct bw_lm_options {
    bw_dtype kv_dtype;     /* BW_F16, BW_BF16, BW_Q8_0; BW_F32 for comparisons, slow */
    int32_t n_pages;       /* KV pages; 0 = computed from n_ctx and n_seqs by the caller beforehand, so never 0 here */
    int32_t max_tokens;    /* most tokens in one step */
    int32_t max_seqs;      /* most sequences in one step */
    int32_t max_outputs;   /* most rows of logits in one step */
    int32_t max_seq_pages; /* most pages of one sequence */
    int32_t n_gpu_layers; /* on a GPU: how many of the last layers lie there, the CPU computes the others; 0 = as fit */
    bool require_gpu;     /* refuse rather than let the CPU compute layers */
    int32_t n_threads;    /* of the CPU, when it computes layers; 0 = all */
    const char *variant;  /* NULL, or a kernel variant for every op, such as "ref" (debugging) */
    void (*progress)(void *user, const bw_progress *progress);
    void *progress_user;
} bw_lm_options;

typedef struct bw_lm_info {
    const char *architecture, *name, *quantisation; /* live as long as the lm */
    int64_t n_params, weight_bytes;
    int64_t token_bytes;   /* of weight_bytes what generating one token reads */
    int64_t kv_page_bytes; /* a page's bytes over all layers, K and V */
    int32_t n_vocab, n_layers, n_embd, n_ctx_train;
    const char *device; /* "cpu:0", "rocm:0 (20 of 32 layers), cpu:0"; of a model, not of a file */
} bw_lm_info;

/* The device a model is to run on. NULL: the GPU that bw_device_choose_gpu names, else the CPU; a GPU that is there and
 * cannot be used is said in the log. why_cpu: NULL, or what gets the reason when the CPU stands in for a GPU. A device
 * that is named is opened or refused, never replaced. */
bw_status bw_lm_open_device(const char *name, int n_threads, bw_device **device, bw_err *why_cpu, bw_err *err);

/* A model file that has been opened and understood, but whose weights are not placed yet: tells n_ctx_train and page
 * bytes before the KV cache is sized. */
typedef struct bw_lm_file bw_lm_file;
bw_status bw_lm_file_open(const char *path, bw_lm_file **file, bw_err *err);
void bw_lm_file_close(bw_lm_file *file);
void bw_lm_file_info(const bw_lm_file *file, bw_dtype kv_dtype, bw_lm_info *info);

/* Takes the file (closed with the lm, or on failure here). device stays the caller's and outlives the lm. */
bw_status bw_lm_new(bw_lm_file *file, bw_device *device, const bw_lm_options *options, bw_lm **lm, bw_err *err);
void bw_lm_free(bw_lm *lm);
void bw_lm_get_info(const bw_lm *lm, bw_lm_info *info);
const bw_tokenizer *bw_lm_tokenizer(const bw_lm *lm);

typedef struct bw_lm_seq {
    int32_t first_token;  /* where its tokens begin in the batch */
    int32_t n_tokens;     /* in this step, >= 1; consecutive positions */
    int32_t n_cached;     /* tokens in its cache after this step: the last token has position n_cached - 1 */
    const int32_t *pages; /* [ceil(n_cached / BW_LM_PAGE_TOKENS)] page numbers */
} bw_lm_seq;

/* How a token is drawn from a row, see ROW_SAMPLE in bw_sample.h: with temperature and random 0 it is the first of the
 * largest. */
typedef struct bw_lm_draw {
    float temperature, min_p;
    uint32_t random;
} bw_lm_draw;

/* One ragged batch. */
typedef struct bw_lm_batch {
    int32_t n_tokens;
    const int32_t *tokens; /* [n_tokens], each in the vocabulary */
    int32_t n_seqs;
    const bw_lm_seq *seqs;   /* [n_seqs], covering the tokens in order, without gaps */
    int32_t n_outputs;       /* rows of logits wanted, may be 0 */
    const int32_t *outputs;  /* [n_outputs] indices into tokens, ascending */
    const bw_lm_draw *draws; /* [n_outputs]: BW_LM_DRAWN needs them, BW_LM_TOP can use them; or NULL */
} bw_lm_batch;

/* Compute the batch: append K and V to the pages, return logits f32 [n_outputs, n_vocab] in host memory that stays
 * valid until the next step. Pages of one sequence that are shared with others are only read: the engine sees to it
 * that positions written in this step lie in pages this sequence owns alone. */
bw_status bw_lm_step(bw_lm *lm, const bw_lm_batch *batch, const float **logits, bw_err *err);
/* What is wanted of a step's rows of logits: they themselves, or what a device can make of each so that they need not
 * be fetched. */
typedef enum bw_lm_want {
    BW_LM_LOGITS = 1,
    BW_LM_BEST = 2,  /* the token with the largest logit, the first of equal ones */
    BW_LM_TOP = 4,   /* the first few logits, and a sum over the row */
    BW_LM_DRAWN = 8, /* a token by the batch's draws */
} bw_lm_want;
/* Of which the device itself can give so much; BW_LM_LOGITS always. */
int bw_lm_can_give(const bw_lm *lm);
/* How many of each row's first logits BW_LM_TOP gives; 0: none. */
int32_t bw_lm_top_k(const bw_lm *lm);
/* values f32, tokens i32 [n_outputs, k]: of each row the k first logits and their tokens, the larger first, of equal
 * ones the smaller token. sums f32 [n_outputs]: of e^((logit - largest) / temperature) over the whole row, with the
 * draw's temperature where the batch has draws and it is above 0, else 1. */
typedef struct bw_lm_top {
    int32_t k;
    const float *values;
    const int32_t *tokens;
    const float *sums;
} bw_lm_top;
/* In host memory, valid until the next step; NULL and k 0 where it was not wanted. Where a row is not finite, its token
 * (of top the first) is -1. */
typedef struct bw_lm_results {
    const float *logits;  /* f32 [n_outputs, n_vocab] */
    const int32_t *best;  /* i32 [n_outputs] */
    const int32_t *drawn; /* i32 [n_outputs] */
    bw_lm_top top;
} bw_lm_results;
/* As bw_lm_step; wants: of bw_lm_want, each one that bw_lm_can_give. */
bw_status bw_lm_step_for(bw_lm *lm, const bw_lm_batch *batch, int wants, bw_lm_results *results, bw_err *err);
/* The logits f32 [n_vocab] of one output of the last step; valid until the next call. Only after a step of which
 * BW_LM_LOGITS was not wanted: it takes that result's place. */
bw_status bw_lm_fetch_row(bw_lm *lm, int32_t output, const float **logits, bw_err *err);
/* Copy the first n_tokens of a page over another. */
bw_status bw_lm_copy_page(bw_lm *lm, int32_t dst, int32_t src, int32_t n_tokens, bw_err *err);

/* Debugging and tests: called after each named intermediate value of a step, f32 [rows, columns] in host memory. Names:
 * "embedding", "layer.N" (the residual stream after layer N), "norm" (after the final norm). NULL switches it off. */
typedef void bw_lm_probe_fn(void *user, const char *name, const float *data, int64_t rows, int64_t columns);
bw_status bw_lm_set_probe(bw_lm *lm, bw_lm_probe_fn *probe, void *user, bw_err *err);

/* Time per op since the last call with reset, as text lines for people: op, calls, ms, share. Cheap: on while wanted.
 */
void bw_lm_set_profile(bw_lm *lm, bool on);
bw_status bw_lm_get_profile(bw_lm *lm, bool reset, bw_str *out, bw_err *err);

#endif
