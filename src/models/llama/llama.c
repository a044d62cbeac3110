/* Llama 2, 3, 3.1, 3.2 (Touvron et al., arXiv:2307.09288; Dubey et al., arXiv:2407.21783), and its relatives:
 * Mistral (Jiang et al., arXiv:2310.06825: a sliding window), Qwen 2 and 2.5 (arXiv:2407.10671: biases on q, k, v).
 *
 *   x = embedding[tokens]
 *   each layer:  x += o(attention(q, k, v of norm(x)));  x += down(silu(gate(norm(x))) * up(norm(x)))
 *   logits = output(norm(x)) of the rows that are asked for
 */
#include <string.h>

#include "../model.h"

/* Which layers see only a window. config.json: layer_types where there is one, else the number alone. */
static bw_status configure_window(const bw_source *source, bw_model_config *c, int first_windowed, bw_err *err)
{
    int64_t window = 0;
    BW_TRY(bw_source_get_i64(source, "attention.sliding_window", "sliding_window", false, 0, INT32_MAX, &window, err));
    c->window = (int32_t)window;
    if (window == 0)
        return BW_OK;
    const json_t *types = source->gguf ? NULL : json_object_get(source->text, "layer_types");
    for (int i = 0; i < c->n_layers; i++) {
        const char *type = json_string_value(json_array_get(types, (size_t)i));
        c->is_local[i] = type ? strcmp(type, "sliding_attention") == 0 : i >= first_windowed;
    }
    return BW_OK;
}

bw_status bw_model_llama_configure(const bw_source *source, bw_model_config *c, bw_err *err)
{
    BW_TRY(bw_model_configure_decoder(source, c, err));
    c->rope.interleaved = source->gguf != NULL; /* GGUF files of this architecture have q and k permuted */
    if (!source->gguf)
        return BW_OK;
    return configure_window(source, c, 0, err); /* GGUF calls Mistral "llama" */
}

bw_status bw_model_mistral_configure(const bw_source *source, bw_model_config *c, bw_err *err)
{
    BW_TRY(bw_model_configure_decoder(source, c, err));
    return configure_window(source, c, 0, err);
}

bw_status bw_model_qwen2_configure(const bw_source *source, bw_model_config *c, bw_err *err)
{
    BW_TRY(bw_model_configure_decoder(source, c, err));
    if (source->gguf || !json_is_true(json_object_get(source->text, "use_sliding_window")))
        return BW_OK;
    int64_t first = 0;
    BW_TRY(bw_source_get_i64(source, NULL, "max_window_layers", false, 0, INT32_MAX, &first, err));
    return configure_window(source, c, (int)first, err);
}

bw_value bw_model_llama_record(const bw_model *model, bw_nn *nn, const bw_nn_step *step, bw_model_part *part,
                               const bw_value *k_caches, const bw_value *v_caches)
{
    const bw_model_config *c = &model->config;
    bw_value x = bw_model_begin(model, nn, step, part);
    bw_value y = bw_nn_rms_norm(nn, x, BW_DIM_TOKENS, &model->layers[part->first].attn_norm, c->eps);
    for (int i = part->first; i < part->end; i++) {
        const bw_model_layer *layer = &model->layers[i];
        bw_nn_attention_config attention = bw_model_attention_config(model, i);
        bw_value a = bw_nn_attention(nn, y, step, &attention, &layer->attn, k_caches[i], v_caches[i]);
        y = bw_nn_add_norm(nn, x, a, BW_DIM_TOKENS, &layer->ffn_norm, NULL, c->eps, &x);
        bw_value f = bw_nn_ffn(nn, y, c->activation, &layer->ffn);
        const bw_tensor *next_norm = bw_model_next_norm(model, part, i);
        y = bw_nn_add_norm(nn, x, f, BW_DIM_TOKENS, next_norm, NULL, c->eps, &x);
        bw_plan_name(nn->plan, x, "layer.%d", i);
    }
    return bw_model_finish(model, nn, step, part, x, y);
}

bw_value bw_model_mistral_record(const bw_model *model, bw_nn *nn, const bw_nn_step *step, bw_model_part *part,
                                 const bw_value *k_caches, const bw_value *v_caches)
{
    return bw_model_llama_record(model, nn, step, part, k_caches, v_caches);
}

bw_value bw_model_qwen2_record(const bw_model *model, bw_nn *nn, const bw_nn_step *step, bw_model_part *part,
                               const bw_value *k_caches, const bw_value *v_caches)
{
    return bw_model_llama_record(model, nn, step, part, k_caches, v_caches);
}
