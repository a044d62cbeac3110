/* What every decoder-only transformer here has in common: its configuration and which architecture is which. */
#include <math.h>
#include <string.h>

#include "bw_mem.h"
#include "model.h"

#define BW_MODEL(name, gguf, hf, type)                                                                                 \
    bw_status bw_model_##name##_configure(const bw_source *source, bw_model_config *config, bw_err *err);              \
    bw_value bw_model_##name##_record(const bw_model *model, bw_nn *nn, const bw_nn_step *step, bw_model_part *part,   \
                                      const bw_value *k_caches, const bw_value *v_caches);
#include "models.def"
#undef BW_MODEL

static const bw_model_def defs[] = {
#define BW_MODEL(name, gguf, hf, type) {#name, gguf, hf, type, bw_model_##name##_configure, bw_model_##name##_record},
#include "models.def"
#undef BW_MODEL
};

const bw_model_def *bw_model_find(const bw_source *source)
{
    for (size_t i = 0; i < sizeof defs / sizeof *defs; i++)
        if (strcmp(source->gguf ? defs[i].gguf_architecture : defs[i].hf_class, source->architecture) == 0)
            return &defs[i];
    return NULL;
}

const char *bw_model_class_of_type(const char *model_type)
{
    for (size_t i = 0; i < sizeof defs / sizeof *defs; i++)
        if (strcmp(defs[i].hf_model_type, model_type) == 0)
            return defs[i].hf_class;
    return NULL;
}

void bw_model_list_architectures(bool gguf, bw_str *out)
{
    const char *last = "";
    for (size_t i = 0; i < sizeof defs / sizeof *defs; i++) {
        const char *name = gguf ? defs[i].gguf_architecture : defs[i].hf_class;
        if (strcmp(name, last) != 0)
            bw_str_add_format(out, "%s%s", *last ? ", " : "", name);
        last = name;
    }
}

/* What the file does not say keeps the value it has; 0 means that the file must say it. */
static bw_status get_i32(const bw_source *source, const char *gguf, const char *hf, int64_t max, int32_t *out,
                         bw_err *err)
{
    int64_t value = *out;
    BW_TRY(bw_source_get_i64(source, gguf, hf, *out == 0, 1, max, &value, err));
    *out = (int32_t)value;
    return BW_OK;
}

static bw_status find_vocabulary(const bw_source *source, bw_model_config *c, bw_err *err)
{
    bw_source_tensor t;
    if (!bw_source_find(source, "token_embd.weight", "embed_tokens.weight", &t))
        return bw_fail(err, BW_E_FORMAT, "%s has no token embedding (%s)", source->path, t.name);
    if (t.n_dims != 2 || t.dims[0] < 1 || t.dims[0] > INT32_MAX / 4)
        return bw_fail(err, BW_E_FORMAT, "%s: tensor %s is no [vocabulary, embedding] matrix", source->path, t.name);
    c->n_vocab = (int32_t)t.dims[0];
    /* More rows than the file counts tokens are padding; fewer are damage. */
    int64_t said = c->n_vocab;
    BW_TRY(bw_source_get_i64(source, "vocab_size", "vocab_size", false, 1, INT32_MAX, &said, err));
    if (said > c->n_vocab)
        return bw_fail(err, BW_E_FORMAT, "%s says its vocabulary has %lld tokens, but tensor %s has %d rows",
                       source->path, (long long)said, t.name, (int)c->n_vocab);
    return BW_OK;
}

/* config.json may ask for another activation than the architecture's own; GGUF has no word for it. */
static bw_status configure_activation(const bw_source *source, bw_model_config *c, bw_err *err)
{
    static const struct {
        const char *name;
        bw_activation activation;
    } names[] = {{"silu", BW_ACTIVATION_SILU},
                 {"swish", BW_ACTIVATION_SILU},
                 {"gelu", BW_ACTIVATION_GELU_ERF},
                 {"gelu_new", BW_ACTIVATION_GELU_TANH},
                 {"gelu_pytorch_tanh", BW_ACTIVATION_GELU_TANH}};
    const json_t *json = source->gguf ? NULL : json_object_get(source->text, "hidden_activation");
    if (!source->gguf && (!json || json_is_null(json)))
        json = json_object_get(source->text, "hidden_act");
    if (!json || json_is_null(json))
        return BW_OK;
    const char *name = json_string_value(json);
    for (size_t i = 0; name && i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i].name) == 0) {
            c->activation = names[i].activation;
            return BW_OK;
        }
    char shown[BW_NAME_SHOWN];
    name = name ? name : "(no string)";
    return bw_fail(err, BW_E_UNSUPPORTED, "%s: config.json: activation \"%s\" is not supported; silu and gelu are",
                   source->path, bw_name_show(shown, name, strlen(name)));
}

bw_status bw_model_configure_decoder(const bw_source *source, bw_model_config *c, bw_err *err)
{
    double eps = (double)c->eps;
    BW_TRY(get_i32(source, "block_count", "num_hidden_layers", BW_MODEL_MAX_LAYERS, &c->n_layers, err));
    BW_TRY(get_i32(source, "embedding_length", "hidden_size", 1 << 20, &c->n_embd, err));
    BW_TRY(get_i32(source, "feed_forward_length", "intermediate_size", 1 << 24, &c->n_ff, err));
    BW_TRY(get_i32(source, "attention.head_count", "num_attention_heads", 4096, &c->n_heads, err));
    if (!c->n_kv_heads)
        c->n_kv_heads = c->n_heads;
    BW_TRY(get_i32(source, "attention.head_count_kv", "num_key_value_heads", 4096, &c->n_kv_heads, err));
    BW_TRY(get_i32(source, "context_length", "max_position_embeddings", INT32_MAX, &c->n_ctx_train, err));
    BW_TRY(bw_source_get_f64(source, "attention.layer_norm_rms_epsilon", "rms_norm_eps", eps == 0, 0, 1, &eps, err));
    c->eps = (float)eps;
    if (!c->head_dim)
        c->head_dim = c->n_embd / c->n_heads;
    BW_TRY(get_i32(source, "attention.key_length", "head_dim", 4096, &c->head_dim, err));
    int32_t value_length = c->head_dim;
    BW_TRY(get_i32(source, "attention.value_length", NULL, 4096, &value_length, err));
    if (c->head_dim < 1 || value_length != c->head_dim)
        return bw_fail(err, BW_E_UNSUPPORTED, "%s: heads of %d for keys and %d for values", source->path, c->head_dim,
                       value_length);
    if (c->n_heads % c->n_kv_heads != 0)
        return bw_fail(err, BW_E_FORMAT, "%s: %d query heads cannot share %d key heads", source->path, c->n_heads,
                       c->n_kv_heads);
    c->embedding_scale = 1;
    c->attention_scale = (float)(1 / sqrt((double)c->head_dim));
    BW_TRY(configure_activation(source, c, err));
    c->rope = (bw_rope_config){
        .base = c->rope.base > 0 ? c->rope.base : 10000, .n_rot = c->head_dim, .n_ctx_original = c->n_ctx_train};
    BW_TRY(bw_model_configure_rope(source, "full_attention", &c->rope, err));
    return find_vocabulary(source, c, err);
}

bw_nn_attention_config bw_model_attention_config(const bw_model *model, int layer)
{
    const bw_model_config *c = &model->config;
    bool local = c->is_local[layer];
    bool other_rope = local && model->inv_freq_local.data;
    const bw_rope_config *rope = other_rope ? &c->rope_local : &c->rope;
    return (bw_nn_attention_config){
        .n_heads = c->n_heads,
        .n_kv_heads = c->n_kv_heads,
        .head_dim = c->head_dim,
        .rope = {.interleaved = rope->interleaved,
                 .n_rot = rope->n_rot,
                 .magnitude = other_rope ? model->rope_magnitude_local : model->rope_magnitude},
        .inv_freq = other_rope ? &model->inv_freq_local : &model->inv_freq,
        .attention = {.scale = c->attention_scale, .window = local ? c->window : 0},
        .eps = c->eps,
    };
}

bw_value bw_model_begin(const bw_model *model, bw_nn *nn, const bw_nn_step *step, const bw_model_part *part)
{
    if (part->first > 0)
        return part->x;
    bw_value x = bw_nn_embedding(nn, &model->embedding, step->tokens, BW_DIM_TOKENS, model->config.embedding_scale);
    bw_plan_name(nn->plan, x, "embedding");
    return x;
}

const bw_tensor *bw_model_next_norm(const bw_model *model, const bw_model_part *part, int layer)
{
    if (layer == model->config.n_layers - 1)
        return &model->output_norm;
    /* behind a part's last layer the next part normalises for itself: any norm will do, its result is not used */
    return &model->layers[layer + 1 < part->end ? layer + 1 : layer].attn_norm;
}

bw_value bw_model_finish(const bw_model *model, bw_nn *nn, const bw_nn_step *step, bw_model_part *part, bw_value x,
                         bw_value y)
{
    if (part->end < model->config.n_layers) {
        part->x = x;
        return BW_NO_VALUE;
    }
    bw_plan_name(nn->plan, y, "norm");
    bw_value rows = bw_nn_select_rows(nn, y, step->outputs, BW_DIM_OUTPUTS);
    return bw_nn_linear(nn, rows, BW_DIM_OUTPUTS, &model->output);
}
