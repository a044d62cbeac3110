/* Shapes and their tensors. Sizes are those of the published models' config.json; standard deviations are chosen so
 * that every matrix has about unit gain, the residual stream about doubles over all layers, and logits spread by 3. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "bw_mem.h"
#include "make_model.h"

#define LLAMA .arch = "llama", .class = "LlamaForCausalLM", .hf_type = "llama", .eps = 1e-5
#define GEMMA                                                                                                          \
    .arch = "gemma3", .class = "Gemma3ForCausalLM", .hf_type = "gemma3_text", .eps = 1e-6, .rope_base = 1e6,           \
    .tied = true, .qk_norm = true, .post_norms = true
#define QWEN2                                                                                                          \
    .arch = "qwen2", .class = "Qwen2ForCausalLM", .hf_type = "qwen2", .eps = 1e-6, .rope_base = 1e6, .qkv_bias = true
#define QWEN3_MOE                                                                                                      \
    .arch = "qwen3moe", .class = "Qwen3MoeForCausalLM", .hf_type = "qwen3_moe", .eps = 1e-6, .rope_base = 1e6,         \
    .qk_norm = true
/* layers, embedding, feed-forward, heads, KV heads, head, vocabulary, context */
#define SIZES(l, e, f, h, k, d, v, c)                                                                                  \
    .n_layers = l, .n_embd = e, .n_ff = f, .n_heads = h, .n_kv_heads = k, .head_dim = d, .n_vocab = v, .n_ctx = c
#define EXPERTS(n, used, ff) .n_experts = n, .n_experts_used = used, .n_expert_ff = ff

const mm_shape mm_shapes[] = {
    {.name = "tiny", LLAMA, SIZES(2, 256, 512, 4, 2, 64, 1024, 512), .rope_base = 10000},
    {.name = "tiny-gemma3", GEMMA, SIZES(6, 256, 512, 4, 1, 64, 1024, 512), .window = 32},
    {.name = "tiny-qwen2", QWEN2, SIZES(2, 256, 512, 4, 2, 64, 1024, 512), .tied = true},
    {.name = "tiny-qwen3-moe", QWEN3_MOE, SIZES(2, 256, 512, 4, 2, 64, 1024, 512), EXPERTS(8, 2, 256)},
    {.name = "llama-135m", LLAMA, SIZES(30, 576, 1536, 9, 3, 64, 49152, 8192), .rope_base = 1e5, .tied = true},
    {.name = "llama-1b", LLAMA, SIZES(16, 2048, 8192, 32, 8, 64, 128256, 131072), .rope_base = 5e5, .tied = true},
    {.name = "llama-8b", LLAMA, SIZES(32, 4096, 14336, 32, 8, 128, 128256, 131072), .rope_base = 5e5},
    {.name = "llama-70b", LLAMA, SIZES(80, 8192, 28672, 64, 8, 128, 128256, 131072), .rope_base = 5e5},
    {.name = "gemma3-270m", GEMMA, SIZES(18, 640, 2048, 4, 1, 256, 262144, 32768), .window = 512},
    {.name = "gemma3-1b", GEMMA, SIZES(26, 1152, 6912, 4, 1, 256, 262144, 32768), .window = 512},
    {.name = "qwen2-0.5b", QWEN2, SIZES(24, 896, 4864, 14, 2, 64, 151936, 32768), .tied = true},
    {.name = "qwen2-7b", QWEN2, SIZES(28, 3584, 18944, 28, 4, 128, 152064, 32768)},
    {.name = "qwen3-moe", QWEN3_MOE, SIZES(48, 2048, 6144, 32, 4, 128, 151936, 40960), EXPERTS(128, 8, 768)},
};
const int mm_n_shapes = (int)(sizeof mm_shapes / sizeof *mm_shapes);

const mm_shape *mm_shape_find(const char *name)
{
    for (int i = 0; i < mm_n_shapes; i++)
        if (strcmp(mm_shapes[i].name, name) == 0)
            return &mm_shapes[i];
    return NULL;
}

int64_t mm_tensor_elements(const mm_tensor *t)
{
    int64_t n = 1;
    for (int i = 0; i < t->n_dims; i++)
        n *= t->dims[i];
    return n;
}

void mm_list_free(mm_list *list)
{
    bw_free(list->items);
    *list = (mm_list){0};
}

/* ---- types ------------------------------------------------------------------------------------------------------ */

/* What stands in for a type whose blocks do not fit a row. */
static bw_dtype smaller(bw_dtype type)
{
    switch (type) {
    case BW_Q4_K:
        return BW_Q5_0;
    case BW_Q5_K:
        return BW_Q5_1;
    case BW_Q2_K:
    case BW_Q3_K:
    case BW_IQ4_XS:
    case BW_IQ3_S:
    case BW_IQ3_XXS:
    case BW_IQ2_S:
    case BW_IQ2_XS:
    case BW_IQ2_XXS:
    case BW_IQ1_S:
    case BW_IQ1_M:
        return BW_IQ4_NL;
    case BW_TQ1_0:
    case BW_TQ2_0:
        return BW_Q4_0;
    case BW_Q6_K:
    case BW_Q8_K:
    case BW_Q1_0:
    case BW_Q2_0:
    case BW_NVFP4:
        return BW_Q8_0;
    default:
        return BW_F16;
    }
}

static bw_dtype fit(bw_dtype type, int64_t row)
{
    while (row % bw_dtype_block_elements(type) != 0)
        type = smaller(type);
    return type;
}

typedef struct maker {
    const mm_shape *s;
    mm_list *list;
    bw_dtype type;
    mm_mix mix;
    bool gguf, failed;
    double residual; /* root mean square of what enters the first layer */
} maker;

/* The layers that a mix gives more bits: the first and last eighth, and every third between (as llama.cpp's
 * Q4_K_M and Q5_K_M do). */
static bool wants_more(const maker *m, int layer)
{
    int n = m->s->n_layers;
    return layer < n / 8 || layer >= 7 * n / 8 || (layer - n / 8) % 3 == 2;
}

static bw_dtype matrix_type(const maker *m, bool is_larger)
{
    if (m->mix == MM_MIX_NONE)
        return m->type;
    return is_larger ? BW_Q6_K : m->mix == MM_MIX_Q4_K_M ? BW_Q4_K : BW_Q5_K;
}

/* ---- tensors ---------------------------------------------------------------------------------------------------- */

static mm_tensor *add(maker *m, bw_dtype dtype, double mean, double sigma)
{
    mm_list *l = m->list;
    if (!bw_reserve((void **)&l->items, &l->capacity, l->n + 1, sizeof *l->items)) {
        m->failed = true;
        return NULL;
    }
    mm_tensor *t = &l->items[l->n++];
    *t = (mm_tensor){.dtype = dtype, .mean = mean, .sigma = sigma};
    return t;
}

static void name(const maker *m, mm_tensor *t, int layer, const char *gguf, const char *hf, const char *what)
{
    char head[40] = "";
    if (layer >= 0)
        snprintf(head, sizeof head, m->gguf ? "blk.%d." : "model.layers.%d.", layer);
    else if (!m->gguf && strcmp(hf, "lm_head") != 0)
        snprintf(head, sizeof head, "model.");
    snprintf(t->name, sizeof t->name, "%s%s.%s", head, m->gguf ? gguf : hf, what);
}

/* w [n, k]; gain: what a unit input comes out as. */
static void add_matrix(maker *m, int layer, const char *gguf, const char *hf, int64_t n, int64_t k, double gain,
                       bool is_larger)
{
    mm_tensor *t = add(m, fit(matrix_type(m, is_larger), k), 0, gain / sqrt((double)k));
    if (!t)
        return;
    t->n_dims = 2;
    t->dims[0] = n;
    t->dims[1] = k;
    name(m, t, layer, gguf, hf, "weight");
}

static void add_vector(maker *m, int layer, const char *gguf, const char *hf, const char *what, int64_t n, double mean,
                       double sigma)
{
    mm_tensor *t = add(m, m->gguf ? BW_F32 : m->type, mean, sigma);
    if (!t)
        return;
    t->n_dims = 1;
    t->dims[0] = n;
    name(m, t, layer, gguf, hf, what);
}

/* Norms lie around `about`; Gemma's safetensors hold what is to be added to 1. */
static void add_norm(maker *m, int layer, const char *gguf, const char *hf, int64_t n, double about)
{
    double offset = m->s->post_norms && !m->gguf ? 1 : 0;
    add_vector(m, layer, gguf, hf, "weight", n, about - offset, 0.1 * about);
}

static void add_experts(maker *m, int layer, const char *gguf, const char *hf, int64_t n, int64_t k, double gain,
                        bool is_larger)
{
    if (m->gguf) {
        add_matrix(m, layer, gguf, hf, n, k, gain, is_larger);
        if (m->failed)
            return;
        mm_tensor *t = &m->list->items[m->list->n - 1];
        t->n_dims = 3;
        t->dims[2] = k;
        t->dims[1] = n;
        t->dims[0] = m->s->n_experts;
        return;
    }
    for (int i = 0; i < m->s->n_experts; i++) {
        char one[48];
        snprintf(one, sizeof one, "mlp.experts.%d.%s", i, hf);
        add_matrix(m, layer, "", one, n, k, gain, is_larger);
    }
}

static void add_ffn(maker *m, int i, double out_gain)
{
    const mm_shape *s = m->s;
    bool more = wants_more(m, i);
    if (!s->n_experts) {
        add_matrix(m, i, "ffn_gate", "mlp.gate_proj", s->n_ff, s->n_embd, 1, false);
        add_matrix(m, i, "ffn_up", "mlp.up_proj", s->n_ff, s->n_embd, 1, false);
        add_matrix(m, i, "ffn_down", "mlp.down_proj", s->n_embd, s->n_ff, out_gain, more);
        return;
    }
    mm_tensor *t = add(m, m->gguf ? BW_F32 : m->type, 0, 1 / sqrt((double)s->n_embd));
    if (!t)
        return;
    t->n_dims = 2;
    t->dims[0] = s->n_experts;
    t->dims[1] = s->n_embd;
    name(m, t, i, "ffn_gate_inp", "mlp.gate", "weight");
    add_experts(m, i, "ffn_gate_exps", "gate_proj", s->n_expert_ff, s->n_embd, 1, false);
    add_experts(m, i, "ffn_up_exps", "up_proj", s->n_expert_ff, s->n_embd, 1, false);
    add_experts(m, i, "ffn_down_exps", "down_proj", s->n_embd, s->n_expert_ff, out_gain, more);
}

static void add_layer(maker *m, int i)
{
    const mm_shape *s = m->s;
    int64_t d = s->n_embd, q = (int64_t)s->n_heads * s->head_dim, kv = (int64_t)s->n_kv_heads * s->head_dim;
    /* each layer adds two terms; with norms after the parts, those set the size */
    double part = m->residual / sqrt(2.0 * s->n_layers), out_gain = s->post_norms ? 1 : part;
    add_norm(m, i, "attn_norm", "input_layernorm", d, 1);
    add_matrix(m, i, "attn_q", "self_attn.q_proj", q, d, 1, false);
    add_matrix(m, i, "attn_k", "self_attn.k_proj", kv, d, 1, false);
    add_matrix(m, i, "attn_v", "self_attn.v_proj", kv, d, 1, wants_more(m, i));
    add_matrix(m, i, "attn_output", "self_attn.o_proj", d, q, out_gain, false);
    if (s->qkv_bias) {
        add_vector(m, i, "attn_q", "self_attn.q_proj", "bias", q, 0, 0.3);
        add_vector(m, i, "attn_k", "self_attn.k_proj", "bias", kv, 0, 0.3);
        add_vector(m, i, "attn_v", "self_attn.v_proj", "bias", kv, 0, 0.3);
    }
    if (s->qk_norm) {
        add_norm(m, i, "attn_q_norm", "self_attn.q_norm", s->head_dim, 1);
        add_norm(m, i, "attn_k_norm", "self_attn.k_norm", s->head_dim, 1);
    }
    if (s->post_norms) {
        add_norm(m, i, "post_attention_norm", "post_attention_layernorm", d, part);
        add_norm(m, i, "ffn_norm", "pre_feedforward_layernorm", d, 1);
        add_norm(m, i, "post_ffw_norm", "post_feedforward_layernorm", d, part);
    } else {
        add_norm(m, i, "ffn_norm", "post_attention_layernorm", d, 1);
    }
    add_ffn(m, i, out_gain);
}

bw_status mm_list_make(const mm_shape *s, bool gguf, bw_dtype type, mm_mix mix, mm_list *list, bw_err *err)
{
    double spread = 3 / sqrt((double)s->n_embd); /* of an output row's values, for logits that spread by 3 */
    double embedding = s->tied ? spread : 1;
    maker m = {.s = s, .list = list, .type = type, .mix = mix, .gguf = gguf};
    m.residual = embedding * (s->post_norms ? sqrt((double)s->n_embd) : 1);
    *list = (mm_list){0};
    add_matrix(&m, -1, "token_embd", "embed_tokens", s->n_vocab, s->n_embd, embedding * sqrt((double)s->n_embd),
               s->tied);
    for (int i = 0; i < s->n_layers; i++)
        add_layer(&m, i);
    add_norm(&m, -1, "output_norm", "norm", s->n_embd, 1);
    if (!s->tied)
        add_matrix(&m, -1, "output", "lm_head", s->n_vocab, s->n_embd, 3, true);
    if (!m.failed)
        return BW_OK;
    mm_list_free(list);
    return bw_fail_memory(err, list->n * sizeof(mm_tensor), "a list of tensors");
}
