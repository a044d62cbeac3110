/* A language model on a device: the plan that runs a step, its inputs, the KV pages. */
#include "bw_lm.h"

#include <stdio.h>
#include <string.h>

#include "bw_log.h"
#include "bw_mem.h"
#include "bw_probe.h"
#include "lm_private.h"
#include "tokenizer_source.h"

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

bw_status bw_lm_open_device(const char *name, int n_threads, bw_device **device, bw_err *why_cpu, bw_err *err)
{
    *device = NULL;
    if (name)
        return bw_device_open(name, n_threads, device, err);
    char gpu[16];
    bw_err own, *why = why_cpu ? why_cpu : &own;
    *why = (bw_err){0};
    if (bw_device_choose_gpu(NULL, gpu, why) != BW_OK) {
        /* where somebody names a library a GPU is expected */
        const char *hip = getenv("BW_HIP_LIBRARY"), *cuda = getenv("BW_CUDA_LIBRARY");
        bool is_expected = (hip && *hip) || (cuda && *cuda);
        bw_log(is_expected ? BW_LOG_WARN : BW_LOG_INFO, "computing on the CPU: %s", why->text);
    } else if (bw_device_open(gpu, n_threads, device, why) == BW_OK) {
        return BW_OK;
    } else {
        bw_log_warn("there is a GPU, but the CPU computes: %s", why->text);
    }
    return bw_device_open("cpu:0", n_threads, device, err);
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
    bw_source_count(&file->source, &file->sizes);
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

void bw_lm_file_info(const bw_lm_file *file, bw_dtype kv_dtype, bw_lm_info *info)
{
    const bw_model_config *c = &file->config;
    *info = (bw_lm_info){
        .architecture = file->def->name,
        .name = file->name,
        .quantisation = bw_dtype_name(file->sizes.commonest),
        .n_params = file->sizes.n_params,
        .weight_bytes = file->sizes.n_bytes,
        .token_bytes = file->sizes.token_bytes,
        .kv_page_bytes = bw_lm_head_bytes(c, kv_dtype) * c->n_kv_heads * 2 * c->n_layers,
        .n_vocab = c->n_vocab,
        .n_layers = c->n_layers,
        .n_embd = c->n_embd,
        .n_ctx_train = c->n_ctx_train,
    };
}

/* ---- model ----------------------------------------------------------------------------------------------------------
 */

static bw_status make_inputs(bw_lm *lm, bw_err *err)
{
    const bw_lm_options *o = &lm->options;
    const bw_device_vtable *v = lm->device->vtable;
    size_t tokens = (size_t)o->max_tokens, seqs = (size_t)o->max_seqs, outputs = (size_t)o->max_outputs;
    size_t pages = seqs * (size_t)o->max_seq_pages, logits = outputs * (size_t)lm->file->config.n_vocab * 4;
    lm->max_pages = (int32_t)pages;
    size_t bytes = (tokens * 3 + seqs * 4 + pages + outputs * 5) * sizeof *lm->tokens;
    BW_TRY(v->host_alloc(lm->device, bytes, "a step's inputs", &lm->inputs, err));
    memset(lm->inputs.data, 0, bytes);
    if (lm->device->kind != BW_DEVICE_CPU) {
        BW_TRY(v->host_alloc(lm->device, logits, "logits", &lm->host_logits, err));
        BW_TRY(v->host_alloc(lm->device, outputs * 4 * sizeof *lm->tokens, "chosen tokens", &lm->host_best, err));
    }
    lm->tokens = lm->inputs.data;
    lm->positions = lm->tokens + tokens;
    lm->slots = lm->positions + tokens;
    lm->seqs = lm->slots + tokens;
    lm->outputs = lm->seqs + seqs * 4;
    lm->temperatures = lm->outputs + outputs;
    for (size_t i = 0; i < 3; i++)
        lm->draws[i] = lm->temperatures + (i + 1) * outputs;
    lm->pages = lm->draws[2] + outputs;
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

/* The last part, on the caller's device. */
static bw_status place_on_device(bw_lm *lm, int32_t first, bw_progress *progress, bw_err *err)
{
    bw_err why = {0};
    bw_status status = bw_lm_part_init(lm, lm->device, first, lm->file->config.n_layers, progress, &why);
    if (status == BW_OK)
        return BW_OK;
    if (status == BW_E_MEMORY && lm->device->kind != BW_DEVICE_CPU)
        return bw_fail(err, status, "%s; a smaller context, fewer sequences or fewer layers on the GPU take less",
                       why.text);
    if (err)
        *err = why;
    return status;
}

static bw_status make(bw_lm *lm, bw_err *err)
{
    const bw_lm_options *o = &lm->options;
    bw_progress progress = {.stage = "loading",
                            .layers_total = lm->file->config.n_layers,
                            .bytes_total = (uint64_t)lm->file->sizes.n_bytes};
    int32_t n_cpu_layers = 0;
    BW_TRY(check_options(o, err));
    BW_TRY(make_inputs(lm, err));
    if (lm->device->kind != BW_DEVICE_CPU)
        BW_TRY(bw_lm_choose_layers(lm, &n_cpu_layers, err));
    if (n_cpu_layers > 0) {
        BW_TRY(bw_device_open("cpu:0", o->n_threads, &lm->cpu, err));
        BW_TRY(bw_lm_part_init(lm, lm->cpu, 0, n_cpu_layers, &progress, err));
    }
    BW_TRY(place_on_device(lm, n_cpu_layers, &progress, err));
    if (n_cpu_layers > 0)
        snprintf(lm->device_text, sizeof lm->device_text, "%s (%d of %d layers), cpu:0", lm->device->name,
                 (int)(lm->file->config.n_layers - n_cpu_layers), (int)lm->file->config.n_layers);
    else
        snprintf(lm->device_text, sizeof lm->device_text, "%s", lm->device->name);
    return BW_OK;
}

bw_status bw_lm_new(bw_lm_file *file, bw_device *device, const bw_lm_options *options, bw_lm **out, bw_err *err)
{
    *out = NULL;
    bw_lm *lm = bw_alloc_zero(1, sizeof *lm);
    if (!lm) {
        bw_lm_file_close(file);
        return bw_fail_memory(err, sizeof *lm, "a model");
    }
    lm->file = file;
    lm->device = device;
    lm->options = *options;
    bw_status status = make(lm, err);
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
    bw_err err = {0};
    for (int i = 0; i < lm->n_parts; i++) /* a step that failed midway may still run, and reads what is freed here */
        lm->parts[i].device->vtable->synchronise(lm->parts[i].device, &err);
    for (int i = 0; i < lm->n_parts; i++)
        bw_lm_part_deinit(&lm->parts[i]);
    lm->device->vtable->host_release(lm->device, &lm->inputs);
    lm->device->vtable->host_release(lm->device, &lm->host_logits);
    lm->device->vtable->host_release(lm->device, &lm->host_best);
    lm->device->vtable->host_release(lm->device, &lm->host_top);
    if (lm->cpu)
        bw_device_close(lm->cpu);
    bw_lm_file_close(lm->file);
    bw_free(lm);
}

void bw_lm_get_info(const bw_lm *lm, bw_lm_info *info)
{
    bw_lm_file_info(lm->file, lm->options.kv_dtype, info);
    info->device = lm->device_text;
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
        if (batch->tokens[t] < 0 || batch->tokens[t] >= lm->file->config.n_vocab)
            return bw_fail(err, BW_E_RANGE, "token %d is not in the vocabulary of %d", batch->tokens[t],
                           lm->file->config.n_vocab);
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

/* Numbers that lie in words, as f32 and at the last u32; ROW_TOP_K's temperatures must be above 0. */
static bw_status fill_draws(bw_lm *lm, const bw_lm_batch *batch, int wants, bw_err *err)
{
    if (!batch->draws && wants & BW_LM_DRAWN)
        return bw_fail(err, BW_E_INTERNAL, "step: tokens are to be drawn, and the batch does not say how");
    for (int32_t i = 0; i < batch->n_outputs; i++) {
        bw_lm_draw draw = batch->draws ? batch->draws[i] : (bw_lm_draw){0};
        if (!(draw.temperature >= 0 && draw.min_p >= 0 && draw.min_p <= 1))
            return bw_fail(err, BW_E_INTERNAL, "step: a token is to be drawn with temperature %g and min-p %g",
                           (double)draw.temperature, (double)draw.min_p);
        memcpy(&lm->draws[0][i], &draw.temperature, sizeof(float));
        memcpy(&lm->draws[1][i], &draw.min_p, sizeof(float));
        memcpy(&lm->draws[2][i], &draw.random, sizeof draw.random);
        draw.temperature = draw.temperature > 0 ? draw.temperature : 1;
        memcpy(&lm->temperatures[i], &draw.temperature, sizeof(float));
    }
    return BW_OK;
}

bw_status bw_lm_step_for(bw_lm *lm, const bw_lm_batch *batch, int wants, bw_lm_results *results, bw_err *err)
{
    int32_t n_pages = 0;
    if (wants & ~bw_lm_can_give(lm))
        return bw_fail(err, BW_E_INTERNAL, "step: of its rows %d is wanted and can not be given", wants);
    BW_TRY(fill_batch(lm, batch, &n_pages, err));
    if (wants & (BW_LM_DRAWN | BW_LM_TOP))
        BW_TRY(fill_draws(lm, batch, wants, err));
    int64_t n = batch->n_outputs;
    int64_t dims[BW_DIM_COUNT] = {batch->n_tokens,
                                  n,
                                  batch->n_seqs,
                                  n_pages,
                                  wants & BW_LM_BEST ? n : 0,
                                  wants & BW_LM_TOP ? n : 0,
                                  wants & BW_LM_DRAWN ? n : 0};
    for (int i = 0; i < lm->n_parts; i++)
        BW_TRY(bw_lm_part_step(lm, &lm->parts[i], dims, err));
    return bw_lm_take(lm, batch->n_outputs, wants, results, err);
}

bw_status bw_lm_step(bw_lm *lm, const bw_lm_batch *batch, const float **logits, bw_err *err)
{
    bw_lm_results results;
    BW_TRY(bw_lm_step_for(lm, batch, BW_LM_LOGITS, &results, err));
    if (logits)
        *logits = results.logits;
    return BW_OK;
}

int bw_lm_can_give(const bw_lm *lm)
{
    const bw_lm_part *last = &lm->parts[lm->n_parts - 1];
    int wants = BW_LM_LOGITS | (last->device->kind != BW_DEVICE_CPU ? BW_LM_BEST : 0);
    return wants | (last->top_k > 0 ? BW_LM_TOP : 0) | (last->can_draw ? BW_LM_DRAWN : 0);
}

int32_t bw_lm_top_k(const bw_lm *lm)
{
    return lm->parts[lm->n_parts - 1].top_k;
}

bw_status bw_lm_copy_page(bw_lm *lm, int32_t dst, int32_t src, int32_t n_tokens, bw_err *err)
{
    if (dst < 0 || src < 0 || dst >= lm->options.n_pages || src >= lm->options.n_pages || n_tokens < 0 ||
        n_tokens > BW_LM_PAGE_TOKENS)
        return bw_fail(err, BW_E_INTERNAL, "copy of %d tokens from page %d to %d", n_tokens, src, dst);
    if (dst == src)
        return BW_OK;
    for (int i = 0; i < lm->n_parts; i++)
        BW_TRY(bw_lm_part_copy_page(lm, &lm->parts[i], dst, src, n_tokens, err));
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
    for (int i = 0; i < lm->n_parts; i++)
        bw_plan_set_probe(lm->parts[i].plan, probe ? probe_value : NULL, lm);
    return BW_OK;
}

void bw_lm_set_profile(bw_lm *lm, bool on)
{
    for (int i = 0; i < lm->n_parts; i++)
        bw_plan_set_profile(lm->parts[i].plan, on);
}

bw_status bw_lm_get_profile(bw_lm *lm, bool reset, bw_str *out, bw_err *err)
{
    for (int i = 0; i < lm->n_parts; i++)
        bw_plan_report(lm->parts[i].plan, reset, out);
    return out->failed ? bw_fail_memory(err, 0, "a profile") : BW_OK;
}
