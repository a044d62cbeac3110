/* make_model: random models of a named shape, for measuring and testing without a download. Private to the tool and its
 * test. Refuses to quantise anything: values are drawn in the stored type itself. */
#ifndef BW_MAKE_MODEL_H
#define BW_MAKE_MODEL_H

#include <signal.h>

#include "bw_err.h"
#include "bw_str.h"
#include "bw_tensor.h"

/* ---- shapes (shape.c) -------------------------------------------------------------------------------------------- */

typedef struct mm_shape {
    const char *name;                   /* "llama-8b" */
    const char *arch, *class, *hf_type; /* GGUF's and Hugging Face's words: "llama", "LlamaForCausalLM", "llama" */
    int32_t n_layers, n_embd, n_ff, n_heads, n_kv_heads, head_dim, n_vocab, n_ctx;
    double rope_base, eps;
    bool tied;       /* the output matrix is the embedding */
    bool qkv_bias;   /* Qwen 2 */
    bool qk_norm;    /* Gemma 3, Qwen 3 */
    bool post_norms; /* Gemma 3: norms after each part too, embeddings times sqrt(n_embd), norms stored as w - 1 */
    int32_t window;  /* of the local layers, 0 without */
    int32_t n_experts, n_experts_used, n_expert_ff; /* 0 without */
} mm_shape;

extern const mm_shape mm_shapes[];
extern const int mm_n_shapes;
const mm_shape *mm_shape_find(const char *name);

typedef struct mm_tensor {
    char name[96];
    bw_dtype dtype;
    int n_dims;
    int64_t dims[3]; /* outermost first */
    double mean, sigma;
} mm_tensor;

typedef struct mm_list {
    mm_tensor *items;
    size_t n, capacity;
} mm_list;

typedef enum mm_mix { MM_MIX_NONE, MM_MIX_Q4_K_M, MM_MIX_Q5_K_M } mm_mix;

/* All tensors of a shape, under GGUF's names or Hugging Face's. type: of the matrices; a mix overrules it. A row that
 * is no multiple of the type's block takes a type of smaller blocks. */
bw_status mm_list_make(const mm_shape *shape, bool gguf, bw_dtype type, mm_mix mix, mm_list *list, bw_err *err);
void mm_list_free(mm_list *list);
int64_t mm_tensor_elements(const mm_tensor *tensor);

/* ---- values (values.c) ------------------------------------------------------------------------------------------- */

enum { MM_CHUNK = 1 << 17, MM_LEVELS = 4096 }; /* elements that one seed makes; steps of a plain type's values */

/* How a tensor's bytes are made. Plain types: uniform values of this mean and standard deviation. Blocks: random bytes,
 * scales by table, so that the decoded values have mean 0 (over many blocks) and the standard deviation. */
typedef struct mm_values {
    bw_dtype dtype;
    const struct mm_layout *layout;
    uint16_t scale[256], minimum[256]; /* by a random byte; the scale as binary16, or a byte for MXFP4 and NVFP4 */
    float scale_f32[256];              /* Q8_K */
    union {
        uint16_t u16[MM_LEVELS];
        float f32[MM_LEVELS];
        double f64[MM_LEVELS];
    } plain;
} mm_values;

bool mm_values_can(bw_dtype dtype);
bw_status mm_values_init(mm_values *values, bw_dtype dtype, double mean, double sigma, bw_err *err);
/* n elements (whole blocks, at most MM_CHUNK) of chunk number `chunk` of tensor number `tensor`. */
void mm_values_fill(const mm_values *values, uint64_t seed, uint64_t tensor, uint64_t chunk, int64_t n, void *dst);

/* ---- vocabulary (vocabulary.c) ------------------------------------------------------------------------------------
 */

enum { MM_END_TOKEN = 256, MM_FIRST_PAIR = 257, MM_N_PAIRS = 26 * 26, MM_TOKEN_BYTES = 16 };
/* Byte-level BPE: 256 bytes, an end token, pairs of letters (each with its merge), then words that no merge leads to.
 * Token's spelling in GPT-2's letters; returns its length. */
int mm_token(int32_t id, char text[MM_TOKEN_BYTES]);
/* Merge number i, "a b", for i < mm_n_merges. */
int mm_merge(int32_t i, char text[MM_TOKEN_BYTES]);
int32_t mm_n_merges(int32_t n_vocab);
/* Hugging Face's tokenizer.json. */
void mm_tokenizer_json(const mm_shape *shape, bw_str *out);

/* ---- files (write.c) ----------------------------------------------------------------------------------------------
 */

typedef struct mm_options {
    const mm_shape *shape;
    const char *path; /* "x.gguf", or a folder for safetensors with config.json and tokenizer.json */
    bw_dtype type;
    mm_mix mix;
    uint64_t seed;
    int n_threads; /* 0 = all */
    /* NULL, or what a signal sets: then nothing is kept and mm_write returns BW_E_CANCELLED */
    const volatile sig_atomic_t *stop;
} mm_options;

typedef struct mm_result {
    size_t n_tensors;
    int64_t n_bytes;
} mm_result;

bw_status mm_write(const mm_options *options, mm_result *result, bw_err *err);

#endif
