/* A language model on a device: the plan that runs a step, its inputs, the KV pages. */
#include "bw_lm.h"

#include <stdio.h>
#include <string.h>

#include "bw_log.h"
#include "bw_mem.h"
#include "model.h"
#include "tokenizer_source.h"

struct bw_lm_file {
    bw_source source;
    const bw_model_def *def;
    bw_model_config config;
    bw_tokenizer *tokenizer; /* NULL: the file has no vocabulary */
    char *name;
    int64_t n_params, n_bytes;
    bw_dtype commonest;
};

struct bw_lm {
    bw_lm_file *file;
    bw_device *device;
    bw_lm_options options;
    bw_model model;
    bw_weights weights;
    bw_plan *plan;
    bw_nn_step step; /* the plan's inputs */
    bw_value logits;
    bw_buffer inputs;                                             /* host memory of all inputs, one behind the other */
    bw_buffer device_inputs;                                      /* the same on a GPU */
    bw_buffer host_logits;                                        /* f32 [max_outputs, n_vocab], for a GPU */
    int32_t *tokens, *positions, *slots, *seqs, *outputs, *pages; /* in inputs, in this order */
    int32_t max_pages;                                            /* in one step */
    bw_buffer kv;
    int64_t kv_head_bytes; /* one page of one head */
    bw_lm_probe_fn *probe;
    void *probe_user;
};

/* ---- file ---------------------------------------------------------------------------------------------------------
 */

static char *model_name(const bw_source *source)
{
    bw_gguf_string name;
    bool found = false;
    if (source->gguf && bw_gguf_get_string(source->gguf, "general.name", &name, &found, NULL) == BW_OK && found)
        return bw_strndup(name.data, bw_utf8_valid_prefix(name.data, name.n_bytes));
    const char *slash = strrchr(source->path, '/');
    return bw_strdup(slash && slash[1] ? slash + 1 : source->path);
}

static bw_status refuse_architecture(const bw_source *source, bw_err *err)
{
    bw_str known = {0};
    bw_model_list_architectures(source->gguf != NULL, &known);
    bw_status status = known.failed ? bw_fail_memory(err, known.len, "a list of architectures")
                                    : bw_fail(err, BW_E_UNSUPPORTED, "%s: architecture \"%s\" is not supported; %s are",
                                              source->path, source->architecture, known.data);
    bw_str_deinit(&known);
    return status;
}

bw_status bw_lm_open_device(const char *name, int n_threads, bw_device **device, bw_err *err)
{
    *device = NULL;
    if (name && (strncmp(name, "rocm", 4) == 0 || strncmp(name, "cuda", 4) == 0 || strncmp(name, "metal", 5) == 0))
        return bw_fail(err, BW_E_DEVICE, "device %s: there is no GPU backend for models yet; cpu:0 is what there is",
                       name);
    return bw_device_open(name, n_threads, device, err);
}

bw_status bw_lm_file_open(const char *path, bw_lm_file **out, bw_err *err)
{
    *out = NULL;
    bw_lm_file *file = bw_alloc_zero(1, sizeof *file);
    if (!file)
        return bw_fail_memory(err, sizeof *file, "a model file");
    bw_status status = bw_source_open(path, &file->source, err);
    if (status == BW_OK) {
        file->def = bw_model_find(&file->source);
        if (!file->def)
            status = refuse_architecture(&file->source, err);
    }
    if (status == BW_OK)
        status = file->def->configure(&file->source, &file->config, err);
    if (status == BW_OK)
        status = bw_source_load_tokenizer(&file->source, &file->tokenizer, err);
    if (status == BW_OK && !(file->name = model_name(&file->source)))
        status = bw_fail_memory(err, 64, "a model's name");
    if (status != BW_OK) {
        bw_lm_file_close(file);
        return status;
    }
    bw_source_count(&file->source, &file->n_params, &file->n_bytes, &file->commonest);
    *out = file;
    return BW_OK;
}

void bw_lm_file_close(bw_lm_file *file)
{
    if (!file)
        return;
    bw_tokenizer_free(file->tokenizer);
    bw_source_close(&file->source);
    bw_free(file->name);
    bw_free(file);
}

static int64_t head_row_bytes(const bw_model_config *c, bw_dtype kv_dtype)
{
    return bw_dtype_bytes(kv_dtype, c->head_dim);
}

void bw_lm_file_info(const bw_lm_file *file, bw_dtype kv_dtype, bw_lm_info *info)
{
    const bw_model_config *c = &file->config;
    *info = (bw_lm_info){
        .architecture = file->def->name,
        .name = file->name,
        .quantisation = bw_dtype_name(file->commonest),
        .n_params = file->n_params,
        .weight_bytes = file->n_bytes,
        .kv_page_bytes = head_row_bytes(c, kv_dtype) * BW_LM_PAGE_TOKENS * c->n_kv_heads * 2 * c->n_layers,
        .n_vocab = c->n_vocab,
        .n_layers = c->n_layers,
        .n_embd = c->n_embd,
        .n_ctx_train = c->n_ctx_train,
    };
}

/* ---- model ----------------------------------------------------------------------------------------------------------
 */

static bool on_gpu(const bw_lm *lm)
{
    return lm->device->kind != BW_DEVICE_CPU;
}

static bw_status make_inputs(bw_lm *lm, bw_err *err)
{
    const bw_lm_options *o = &lm->options;
    const bw_device_vtable *v = lm->device->vtable;
    size_t tokens = (size_t)o->max_tokens, seqs = (size_t)o->max_seqs, outputs = (size_t)o->max_outputs;
    size_t pages = seqs * (size_t)o->max_seq_pages, logits = outputs * (size_t)lm->model.config.n_vocab * 4;
    lm->max_pages = (int32_t)pages;
    size_t bytes = (tokens * 3 + seqs * 4 + pages + outputs) * sizeof *lm->tokens;
    BW_TRY(v->host_alloc(lm->device, bytes, "a step's inputs", &lm->inputs, err));
    memset(lm->inputs.data, 0, bytes);
    if (on_gpu(lm)) {
        BW_TRY(v->alloc(lm->device, bytes, BW_MEMORY_DENSE, "a step's inputs", &lm->device_inputs, err));
        BW_TRY(v->host_alloc(lm->device, logits, "logits", &lm->host_logits, err));
    }
    lm->tokens = lm->inputs.data;
    lm->positions = lm->tokens + tokens;
    lm->slots = lm->positions + tokens;
    lm->seqs = lm->slots + tokens;
    lm->outputs = lm->seqs + seqs * 4;
    lm->pages = lm->outputs + outputs;
    return BW_OK;
}

static bw_status make_kv(bw_lm *lm, bw_value *k_caches, bw_value *v_caches, bw_err *err)
{
    const bw_model_config *c = &lm->model.config;
    int64_t dims[4] = {lm->options.n_pages, c->n_kv_heads, BW_LM_PAGE_TOKENS, c->head_dim};
    if (c->head_dim % bw_dtype_block_elements(lm->options.kv_dtype) != 0)
        return bw_fail(err, BW_E_UNSUPPORTED, "a %s KV cache needs heads of a multiple of %lld; this model has %d",
                       bw_dtype_name(lm->options.kv_dtype), (long long)bw_dtype_block_elements(lm->options.kv_dtype),
                       c->head_dim);
    lm->kv_head_bytes = head_row_bytes(c, lm->options.kv_dtype) * BW_LM_PAGE_TOKENS;
    int64_t one = bw_tensor_bytes(lm->options.kv_dtype, 4, dims), all;
    if (one < 0 || !bw_mul_i64(one, 2 * (int64_t)c->n_layers, &all))
        return bw_fail(err, BW_E_RANGE, "a KV cache of %d pages is too large", lm->options.n_pages);
    BW_TRY(lm->device->vtable->alloc(lm->device, (size_t)all, BW_MEMORY_SPARSE, "the KV cache", &lm->kv, err));
    for (int i = 0; i < c->n_layers; i++) {
        char *data = (char *)lm->kv.data + one * 2 * i;
        bw_tensor k = bw_tensor_view(lm->options.kv_dtype, 4, dims, data);
        bw_tensor v = bw_tensor_view(lm->options.kv_dtype, 4, dims, data + one);
        k_caches[i] = bw_plan_const(lm->plan, &k);
        v_caches[i] = bw_plan_const(lm->plan, &v);
    }
    return BW_OK;
}

static void bind_input(bw_lm *lm, bw_value value, int32_t *host)
{
    int32_t *base = on_gpu(lm) ? lm->device_inputs.data : lm->inputs.data;
    bw_plan_bind(lm->plan, value, base + (host - (int32_t *)lm->inputs.data));
}

static bw_status make_plan(bw_lm *lm, bw_err *err)
{
    const bw_lm_options *o = &lm->options;
    int64_t max[BW_DIM_COUNT] = {o->max_tokens, o->max_outputs, o->max_seqs, lm->max_pages};
    BW_TRY(bw_plan_new(lm->device, max, o->variant, &lm->plan, err));
    lm->step.tokens = bw_plan_input(lm->plan, BW_I32, 1, (int64_t[]){BW_DIM_TOKENS});
    lm->step.positions = bw_plan_input(lm->plan, BW_I32, 1, (int64_t[]){BW_DIM_TOKENS});
    lm->step.slots = bw_plan_input(lm->plan, BW_I32, 1, (int64_t[]){BW_DIM_TOKENS});
    lm->step.seqs = bw_plan_input(lm->plan, BW_I32, 2, (int64_t[]){BW_DIM_SEQS, 4});
    lm->step.pages = bw_plan_input(lm->plan, BW_I32, 1, (int64_t[]){BW_DIM_PAGES});
    lm->step.outputs = bw_plan_input(lm->plan, BW_I32, 1, (int64_t[]){BW_DIM_OUTPUTS});
    size_t n_layers = (size_t)lm->model.config.n_layers;
    bw_value *caches = bw_alloc_array(n_layers * 2, sizeof *caches);
    if (!caches)
        return bw_fail_memory(err, n_layers * 2 * sizeof *caches, "a plan");
    bw_status status = make_kv(lm, caches, caches + n_layers, err);
    if (status == BW_OK) {
        bw_nn nn;
        bw_nn_init(&nn, lm->plan, lm->device);
        lm->logits = lm->file->def->record(&lm->model, &nn, &lm->step, caches, caches + n_layers);
        bw_plan_keep(lm->plan, lm->logits);
        status = bw_plan_finish(lm->plan, err);
    }
    bw_free(caches);
    if (status != BW_OK)
        return status;
    bind_input(lm, lm->step.tokens, lm->tokens);
    bind_input(lm, lm->step.positions, lm->positions);
    bind_input(lm, lm->step.slots, lm->slots);
    bind_input(lm, lm->step.seqs, lm->seqs);
    bind_input(lm, lm->step.pages, lm->pages);
    bind_input(lm, lm->step.outputs, lm->outputs);
    return BW_OK;
}

static bw_status check_options(const bw_lm_options *o, bw_err *err)
{
    if (o->kv_dtype != BW_F16 && o->kv_dtype != BW_BF16 && o->kv_dtype != BW_Q8_0 && o->kv_dtype != BW_F32)
        return bw_fail(err, BW_E_ARG, "a KV cache is f16, bf16, q8_0 or f32, not %s", bw_dtype_name(o->kv_dtype));
    if (o->n_pages < 1 || o->n_pages > INT32_MAX / BW_LM_PAGE_TOKENS || o->max_tokens < 1 || o->max_tokens > 1 << 20 ||
        o->max_seqs < 1 || o->max_seqs > 65536 || o->max_outputs < 1 || o->max_outputs > 1 << 20 ||
        o->max_seq_pages < 1 || (int64_t)o->max_seq_pages * o->max_seqs > INT32_MAX)
        return bw_fail(err, BW_E_RANGE,
                       "a model with %d pages, %d tokens, %d sequences and %d outputs a step, %d pages a sequence is "
                       "outside what is possible",
                       o->n_pages, o->max_tokens, o->max_seqs, o->max_outputs, o->max_seq_pages);
    return BW_OK;
}

bw_status bw_lm_new(bw_lm_file *file, bw_device *device, const bw_lm_options *options, bw_lm **out, bw_err *err)
{
    *out = NULL;
    bw_lm *lm = bw_alloc_zero(1, sizeof *lm);
    bw_model_layer *layers = bw_alloc_zero((size_t)file->config.n_layers, sizeof *layers);
    if (!lm || !layers) {
        bw_free(lm);
        bw_free(layers);
        bw_lm_file_close(file);
        return bw_fail_memory(err, sizeof *lm, "a model");
    }
    lm->file = file;
    lm->device = device;
    lm->options = *options;
    lm->model.config = file->config;
    lm->model.layers = layers;
    bw_status status = check_options(options, err);
    if (status == BW_OK)
        status = bw_weights_load(&file->source, device, &lm->model, &lm->weights, options->progress,
                                 options->progress_user, err);
    if (status == BW_OK)
        status = make_inputs(lm, err);
    if (status == BW_OK)
        status = make_plan(lm, err);
    if (status != BW_OK) {
        bw_lm_free(lm);
        return status;
    }
    *out = lm;
    return BW_OK;
}

void bw_lm_free(bw_lm *lm)
{
    if (!lm)
        return;
    bw_plan_free(lm->plan);
    if (lm->kv.data)
        lm->device->vtable->release(lm->device, &lm->kv);
    bw_weights_free(&lm->weights);
    bw_free(lm->model.layers);
    lm->device->vtable->host_release(lm->device, &lm->inputs);
    if (on_gpu(lm)) {
        lm->device->vtable->release(lm->device, &lm->device_inputs);
        lm->device->vtable->host_release(lm->device, &lm->host_logits);
    }
    bw_lm_file_close(lm->file);
    bw_free(lm);
}

void bw_lm_get_info(const bw_lm *lm, bw_lm_info *info)
{
    bw_lm_file_info(lm->file, lm->options.kv_dtype, info);
}

const bw_tokenizer *bw_lm_tokenizer(const bw_lm *lm)
{
    return lm->file->tokenizer;
}

/* ---- steps ----------------------------------------------------------------------------------------------------------
 */

static bw_status fill_sequence(bw_lm *lm, const bw_lm_batch *batch, int s, int32_t *n_pages, bw_err *err)
{
    const bw_lm_seq *seq = &batch->seqs[s];
    int32_t pages = (seq->n_cached + BW_LM_PAGE_TOKENS - 1) / BW_LM_PAGE_TOKENS, begin = seq->n_cached - seq->n_tokens;
    if (seq->n_tokens < 1 || begin < 0 || pages > lm->options.max_seq_pages || pages > lm->max_pages - *n_pages)
        return bw_fail(err, BW_E_INTERNAL, "step: sequence %d has %d tokens, %d cached", s, seq->n_tokens,
                       seq->n_cached);
    for (int32_t p = 0; p < pages; p++) {
        if (seq->pages[p] < 0 || seq->pages[p] >= lm->options.n_pages)
            return bw_fail(err, BW_E_INTERNAL, "step: page %d of %d", seq->pages[p], lm->options.n_pages);
        lm->pages[*n_pages + p] = seq->pages[p];
    }
    for (int32_t j = 0; j < seq->n_tokens; j++) {
        int32_t position = begin + j, t = seq->first_token + j;
        lm->positions[t] = position;
        lm->slots[t] = seq->pages[position / BW_LM_PAGE_TOKENS] * BW_LM_PAGE_TOKENS + position % BW_LM_PAGE_TOKENS;
    }
    int32_t *row = lm->seqs + (size_t)s * 4;
    row[0] = seq->first_token;
    row[1] = seq->n_tokens;
    row[2] = seq->n_cached;
    row[3] = *n_pages;
    *n_pages += pages;
    return BW_OK;
}

static bw_status fill_batch(bw_lm *lm, const bw_lm_batch *batch, int32_t *n_pages, bw_err *err)
{
    if (batch->n_tokens < 1 || batch->n_tokens > lm->options.max_tokens || batch->n_seqs < 1 ||
        batch->n_seqs > lm->options.max_seqs || batch->n_outputs < 0 || batch->n_outputs > lm->options.max_outputs)
        return bw_fail(err, BW_E_INTERNAL, "step: %d tokens, %d sequences, %d outputs", batch->n_tokens, batch->n_seqs,
                       batch->n_outputs);
    for (int32_t t = 0; t < batch->n_tokens; t++) {
        if (batch->tokens[t] < 0 || batch->tokens[t] >= lm->model.config.n_vocab)
            return bw_fail(err, BW_E_RANGE, "token %d is not in the vocabulary of %d", batch->tokens[t],
                           lm->model.config.n_vocab);
        lm->tokens[t] = batch->tokens[t];
    }
    int32_t next = 0;
    *n_pages = 0;
    for (int s = 0; s < batch->n_seqs; s++) {
        if (batch->seqs[s].first_token != next || batch->seqs[s].n_tokens > batch->n_tokens - next)
            return bw_fail(err, BW_E_INTERNAL, "step: sequence %d does not follow the one before", s);
        BW_TRY(fill_sequence(lm, batch, s, n_pages, err));
        next += batch->seqs[s].n_tokens;
    }
    if (next != batch->n_tokens)
        return bw_fail(err, BW_E_INTERNAL, "step: sequences cover %d of %d tokens", next, batch->n_tokens);
    for (int32_t i = 0; i < batch->n_outputs; i++) {
        if (batch->outputs[i] < 0 || batch->outputs[i] >= batch->n_tokens)
            return bw_fail(err, BW_E_INTERNAL, "step: output %d of %d tokens", batch->outputs[i], batch->n_tokens);
        lm->outputs[i] = batch->outputs[i];
    }
    return BW_OK;
}

/* Graphs are kept per sizes, and the number of pages would grow with every page of text: on a GPU it is rounded up. */
static int64_t pages_of_step(const bw_lm *lm, int32_t n_pages)
{
    int64_t room = 16;
    while (room < n_pages)
        room *= 2;
    return room < lm->max_pages ? room : lm->max_pages;
}

static bw_status step_gpu(bw_lm *lm, const bw_lm_batch *batch, int32_t n_pages, const float **logits, bw_err *err)
{
    const bw_device_vtable *v = lm->device->vtable;
    int64_t dims[BW_DIM_COUNT] = {batch->n_tokens, batch->n_outputs, batch->n_seqs, pages_of_step(lm, n_pages)};
    size_t used = (size_t)((char *)(lm->pages + n_pages) - (char *)lm->inputs.data);
    size_t bytes = (size_t)batch->n_outputs * (size_t)lm->model.config.n_vocab * sizeof **logits;
    BW_TRY(v->upload_later(lm->device, lm->device_inputs.data, lm->inputs.data, used, err));
    BW_TRY(bw_plan_run(lm->plan, dims, err));
    BW_TRY(v->download_later(lm->device, lm->host_logits.data, bw_plan_data(lm->plan, lm->logits), bytes, err));
    BW_TRY(v->synchronise(lm->device, err));
    if (logits)
        *logits = lm->host_logits.data;
    return BW_OK;
}

bw_status bw_lm_step(bw_lm *lm, const bw_lm_batch *batch, const float **logits, bw_err *err)
{
    int32_t n_pages = 0;
    BW_TRY(fill_batch(lm, batch, &n_pages, err));
    if (on_gpu(lm))
        return step_gpu(lm, batch, n_pages, logits, err);
    int64_t dims[BW_DIM_COUNT] = {batch->n_tokens, batch->n_outputs, batch->n_seqs, n_pages};
    BW_TRY(bw_plan_run(lm->plan, dims, err));
    if (logits)
        *logits = bw_plan_data(lm->plan, lm->logits);
    return BW_OK;
}

bw_status bw_lm_copy_page(bw_lm *lm, int32_t dst, int32_t src, int32_t n_tokens, bw_err *err)
{
    const bw_model_config *c = &lm->model.config;
    if (dst < 0 || src < 0 || dst >= lm->options.n_pages || src >= lm->options.n_pages || n_tokens < 0 ||
        n_tokens > BW_LM_PAGE_TOKENS)
        return bw_fail(err, BW_E_INTERNAL, "copy of %d tokens from page %d to %d", n_tokens, src, dst);
    if (dst == src)
        return BW_OK;
    int64_t page = lm->kv_head_bytes * c->n_kv_heads, one = page * lm->options.n_pages;
    int64_t bytes = lm->kv_head_bytes / BW_LM_PAGE_TOKENS * n_tokens;
    for (int64_t half = 0; half < 2 * (int64_t)c->n_layers; half++)
        for (int64_t h = 0; h < c->n_kv_heads; h++) {
            char *base = (char *)lm->kv.data + half * one + h * lm->kv_head_bytes;
            BW_TRY(lm->device->vtable->copy(lm->device, base + dst * page, base + src * page, (size_t)bytes, err));
        }
    return BW_OK;
}

static void probe_value(void *user, const char *name, const bw_tensor *t)
{
    bw_lm *lm = user;
    int64_t columns = t->dims[t->n_dims - 1];
    lm->probe(lm->probe_user, name, t->data, columns ? bw_tensor_elements(t) / columns : 0, columns);
}

bw_status bw_lm_set_probe(bw_lm *lm, bw_lm_probe_fn *probe, void *user, bw_err *err)
{
    (void)err;
    lm->probe = probe;
    lm->probe_user = user;
    bw_plan_set_probe(lm->plan, probe ? probe_value : NULL, lm);
    return BW_OK;
}

void bw_lm_set_profile(bw_lm *lm, bool on)
{
    bw_plan_set_profile(lm->plan, on);
}

bw_status bw_lm_get_profile(bw_lm *lm, bool reset, bw_str *out, bw_err *err)
{
    bw_plan_report(lm->plan, reset, out);
    return out->failed ? bw_fail_memory(err, 0, "a profile") : BW_OK;
}
