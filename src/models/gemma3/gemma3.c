/* Gemma 3, text (Gemma Team, arXiv:2503.19786): five local layers with a window and their own rope base to one global
 * layer, norms on q and k, norms before and after each part, embeddings scaled by sqrt(n_embd), GELU gate.
 *
 *   each layer:  x += norm(attention(norm(x)));  x += norm(down(gelu(gate(norm(x))) * up(norm(x))))
 */
#include <math.h>
#include <string.h>

#include "../model.h"

static bw_status configure_layers(const bw_source *source, bw_model_config *c, bw_err *err)
{
    int64_t window = 4096, pattern = 6;
    BW_TRY(bw_source_get_i64(source, "attention.sliding_window", "sliding_window", source->gguf != NULL, 1, INT32_MAX,
                             &window, err));
    BW_TRY(bw_source_get_i64(source, NULL, "sliding_window_pattern", false, 1, BW_MODEL_MAX_LAYERS, &pattern, err));
    c->window = (int32_t)window;
    const json_t *types = source->gguf ? NULL : json_object_get(source->text, "layer_types");
    for (int i = 0; i < c->n_layers; i++) {
        const char *type = json_string_value(json_array_get(types, (size_t)i));
        c->is_local[i] = type ? strcmp(type, "sliding_attention") == 0 : (i + 1) % pattern != 0;
    }
    return BW_OK;
}

static bw_status configure_scale(const bw_source *source, bw_model_config *c, bw_err *err)
{
    double scalar = source->gguf ? c->head_dim : 256;
    BW_TRY(bw_source_get_f64(source, NULL, "query_pre_attn_scalar", false, 1, 1e9, &scalar, err));
    if (source->gguf && c->n_layers == 62) /* 27B: GGUF does not say it; the model's own is n_embd / n_heads */
        scalar = (double)c->n_embd / c->n_heads;
    c->attention_scale = (float)(1 / sqrt(scalar));
    return BW_OK;
}

bw_status bw_model_gemma3_configure(const bw_source *source, bw_model_config *c, bw_err *err)
{
    c->activation = BW_ACTIVATION_GELU_TANH;
    if (!source->gguf) { /* config.json leaves out what transformers' Gemma3TextConfig has as its default */
        c->rope.base = 1e6;
        c->n_heads = 8;
        c->n_kv_heads = 4;
        c->head_dim = 256;
        c->n_ctx_train = 131072;
        c->eps = 1e-6f;
    }
    BW_TRY(bw_model_configure_decoder(source, c, err));
    BW_TRY(configure_layers(source, c, err));
    BW_TRY(configure_scale(source, c, err));
    double softcap = 0;
    BW_TRY(
        bw_source_get_f64(source, "final_logit_softcapping", "final_logit_softcapping", false, 0, 1e9, &softcap, err));
    if (softcap != 0)
        return bw_fail(err, BW_E_UNSUPPORTED, "%s: final_logit_softcapping %g is not supported for Gemma 3",
                       source->path, softcap);
    c->rope_local = (bw_rope_config){.base = 10000, .n_rot = c->head_dim, .n_ctx_original = c->n_ctx_train};
    if (source->gguf) {
        BW_TRY(bw_source_get_f64(source, "rope.freq_base_swa", NULL, false, 1, 1e12, &c->rope_local.base, err));
    } else if (json_is_object(json_object_get(source->text, "rope_parameters"))) {
        BW_TRY(bw_model_configure_rope(source, "sliding_attention", &c->rope_local, err));
    } else {
        BW_TRY(bw_source_get_f64(source, NULL, "rope_local_base_freq", false, 1, 1e12, &c->rope_local.base, err));
    }
    c->embedding_scale = sqrtf((float)c->n_embd);
    c->norm_offset = source->gguf ? 0 : 1;
    c->has_post_norms = true;
    return BW_OK;
}

bw_value bw_model_gemma3_record(const bw_model *model, bw_nn *nn, const bw_nn_step *step, bw_model_part *part,
                                const bw_value *k_caches, const bw_value *v_caches)
{
    const bw_model_config *c = &model->config;
    bw_value x = bw_model_begin(model, nn, step, part);
    bw_value y = bw_nn_rms_norm(nn, x, BW_DIM_TOKENS, &model->layers[part->first].attn_norm, c->eps);
    for (int i = part->first; i < part->end; i++) {
        const bw_model_layer *layer = &model->layers[i];
        bw_nn_attention_config attention = bw_model_attention_config(model, i);
        bw_value a = bw_nn_attention(nn, y, step, &attention, &layer->attn, k_caches[i], v_caches[i]);
        y = bw_nn_add_norm(nn, x, a, BW_DIM_TOKENS, &layer->ffn_norm, &layer->post_attn_norm, c->eps, &x);
        bw_value f = bw_nn_ffn(nn, y, c->activation, &layer->ffn);
        const bw_tensor *next_norm = bw_model_next_norm(model, part, i);
        y = bw_nn_add_norm(nn, x, f, BW_DIM_TOKENS, next_norm, &layer->post_ffn_norm, c->eps, &x);
        bw_plan_name(nn->plan, x, "layer.%d", i);
    }
    return bw_model_finish(model, nn, step, part, x, y);
}
