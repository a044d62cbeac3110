/* Parts of a language model: layers on one device. Owns where weights and KV pages lie and how a step passes from one
 * part to the next; refuses to know what a layer computes. */
#include <string.h>

#include "bw_log.h"
#include "bw_mem.h"
#include "lm_private.h"
#include "sample/bw_sample.h"
#include "sample/bw_sample_args.h"

static bool on_gpu(const bw_lm_part *part)
{
    return part->device->kind != BW_DEVICE_CPU;
}

int64_t bw_lm_head_bytes(const bw_model_config *c, bw_dtype kv_dtype)
{
    return bw_dtype_bytes(kv_dtype, c->head_dim) * BW_LM_PAGE_TOKENS;
}

/* ---- making --------------------------------------------------------------------------------------------------------
 */

static bw_status make_kv(bw_lm *lm, bw_lm_part *part, bw_value *k_caches, bw_value *v_caches, bw_err *err)
{
    const bw_model_config *c = &part->model.config;
    const bw_dtype dtype = lm->options.kv_dtype;
    int64_t dims[4] = {lm->options.n_pages, c->n_kv_heads, BW_LM_PAGE_TOKENS, c->head_dim};
    if (c->head_dim % bw_dtype_block_elements(dtype) != 0)
        return bw_fail(err, BW_E_UNSUPPORTED, "a %s KV cache needs heads of a multiple of %lld; this model has %d",
                       bw_dtype_name(dtype), (long long)bw_dtype_block_elements(dtype), c->head_dim);
    int64_t one = bw_tensor_bytes(dtype, 4, dims), all;
    if (one < 0 || !bw_mul_i64(one, 2 * (int64_t)(part->end - part->first), &all))
        return bw_fail(err, BW_E_RANGE, "a KV cache of %d pages is too large", lm->options.n_pages);
    BW_TRY(part->device->vtable->alloc(part->device, (size_t)all, BW_MEMORY_SPARSE, "the KV cache", &part->kv, err));
    for (int i = part->first; i < part->end; i++) {
        char *data = (char *)part->kv.data + one * 2 * (i - part->first);
        bw_tensor k = bw_tensor_view(dtype, 4, dims, data);
        bw_tensor v = bw_tensor_view(dtype, 4, dims, data + one);
        k_caches[i] = bw_plan_const(part->plan, &k);
        v_caches[i] = bw_plan_const(part->plan, &v);
    }
    return BW_OK;
}

static void bind_input(bw_lm *lm, bw_lm_part *part, bw_value value, int32_t *host)
{
    int32_t *base = on_gpu(part) ? part->inputs.data : lm->inputs.data;
    bw_plan_bind(part->plan, value, base + (host - (int32_t *)lm->inputs.data));
}

static void add_inputs(bw_plan *plan, bw_nn_step *step)
{
    step->tokens = bw_plan_input(plan, BW_I32, 1, (int64_t[]){BW_DIM_TOKENS});
    step->positions = bw_plan_input(plan, BW_I32, 1, (int64_t[]){BW_DIM_TOKENS});
    step->slots = bw_plan_input(plan, BW_I32, 1, (int64_t[]){BW_DIM_TOKENS});
    step->seqs = bw_plan_input(plan, BW_I32, 2, (int64_t[]){BW_DIM_SEQS, 4});
    step->pages = bw_plan_input(plan, BW_I32, 1, (int64_t[]){BW_DIM_PAGES});
    step->outputs = bw_plan_input(plan, BW_I32, 1, (int64_t[]){BW_DIM_OUTPUTS});
}

static bw_value kept(bw_plan *plan, bw_dtype dtype, int n_dims, int64_t dim0, int64_t dim1)
{
    bw_value v = bw_plan_temp(plan, dtype, 0, n_dims, (int64_t[]){dim0, dim1});
    bw_plan_keep(plan, v);
    return v;
}

/* How many of a row's first logits the GPU's kernel of ROW_TOP_K can find, a power of two; 0: too many parts. */
static int32_t most_top_k(int32_t n_vocab)
{
    int32_t n_parts = (n_vocab - 1) / BW_SAMPLE_PART + 1, k = BW_SAMPLE_MOST_K;
    while (k > 0 && (k > n_vocab || (int64_t)n_parts * k > BW_SAMPLE_CANDIDATES))
        k /= 2;
    return k;
}

/* What spares fetching rows of logits: of these a step has what is wanted of it. */
static void record_choice(bw_lm_part *part)
{
    bw_plan *plan = part->plan;
    int32_t n_vocab = part->model.config.n_vocab, k = part->top_k = most_top_k(n_vocab);
    part->best = kept(plan, BW_I32, 1, BW_DIM_BEST, 0);
    part->finite = kept(plan, BW_I32, 1, BW_DIM_BEST, 0);
    bw_plan_call(plan, BW_OP_ROW_ARGMAX, 1, &part->logits, 2, (bw_value[]){part->best, part->finite}, NULL, 0);
    part->can_draw = BW_SAMPLE_CAN_DRAW(n_vocab);
    if (part->can_draw) {
        for (int i = 0; i < 3; i++)
            part->draws[i] = bw_plan_input(plan, i == 2 ? BW_U32 : BW_F32, 1, (int64_t[]){BW_DIM_DRAWN});
        part->drawn = kept(plan, BW_I32, 1, BW_DIM_DRAWN, 0);
        part->drawable = kept(plan, BW_I32, 1, BW_DIM_DRAWN, 0);
        bw_plan_call(plan, BW_OP_ROW_SAMPLE, 4,
                     (bw_value[]){part->logits, part->draws[0], part->draws[1], part->draws[2]}, 2,
                     (bw_value[]){part->drawn, part->drawable}, NULL, 0);
    }
    if (k == 0)
        return;
    part->temperatures = bw_plan_input(plan, BW_F32, 1, (int64_t[]){BW_DIM_TOP});
    part->values = kept(plan, BW_F32, 2, BW_DIM_TOP, k);
    part->places = kept(plan, BW_I32, 2, BW_DIM_TOP, k);
    part->sums = kept(plan, BW_F32, 2, BW_DIM_TOP, BW_ROW_SUMS);
    bw_plan_call(plan, BW_OP_ROW_TOP_K, 2, (bw_value[]){part->logits, part->temperatures}, 3,
                 (bw_value[]){part->values, part->places, part->sums}, NULL, 0);
}

static bw_status record(bw_lm *lm, bw_lm_part *part, bw_value *caches, bw_err *err)
{
    size_t n_layers = (size_t)part->model.config.n_layers;
    bw_model_part range = {.first = part->first, .end = part->end, .x = BW_NO_VALUE};
    BW_TRY(make_kv(lm, part, caches, caches + n_layers, err));
    if (part->first > 0)
        part->x = range.x = bw_plan_input(part->plan, BW_F32, 2, (int64_t[]){BW_DIM_TOKENS, part->model.config.n_embd});
    bw_nn nn;
    bw_nn_init(&nn, part->plan, part->device);
    part->logits = lm->file->def->record(&part->model, &nn, &part->step, &range, caches, caches + n_layers);
    if (part->end < part->model.config.n_layers) {
        part->x = range.x;
        bw_plan_keep(part->plan, part->x);
    } else {
        bw_plan_keep(part->plan, part->logits);
        if (on_gpu(part))
            record_choice(part);
    }
    return bw_plan_finish(part->plan, err);
}

static bw_status make_plan(bw_lm *lm, bw_lm_part *part, bw_err *err)
{
    const bw_lm_options *o = &lm->options;
    const bw_device_vtable *v = part->device->vtable;
    int64_t max[BW_DIM_COUNT] = {o->max_tokens,  o->max_outputs, o->max_seqs,   lm->max_pages,
                                 o->max_outputs, o->max_outputs, o->max_outputs};
    BW_TRY(bw_plan_new(part->device, max, o->variant, &part->plan, err));
    add_inputs(part->plan, &part->step);
    size_t n_layers = (size_t)part->model.config.n_layers;
    bw_value *caches = bw_alloc_array(n_layers * 2, sizeof *caches);
    if (!caches)
        return bw_fail_memory(err, n_layers * 2 * sizeof *caches, "a plan");
    bw_status status = record(lm, part, caches, err);
    bw_free(caches);
    if (status == BW_OK && on_gpu(part))
        status = v->alloc(part->device, lm->inputs.n_bytes, BW_MEMORY_DENSE, "a step's inputs", &part->inputs, err);
    if (status == BW_OK && part->first > 0)
        status = v->alloc(part->device, (size_t)o->max_tokens * (size_t)part->model.config.n_embd * sizeof(float),
                          BW_MEMORY_DENSE, "what the CPU computed", &part->x_in, err);
    if (status != BW_OK)
        return status;
    bind_input(lm, part, part->step.tokens, lm->tokens);
    bind_input(lm, part, part->step.positions, lm->positions);
    bind_input(lm, part, part->step.slots, lm->slots);
    bind_input(lm, part, part->step.seqs, lm->seqs);
    bind_input(lm, part, part->step.pages, lm->pages);
    bind_input(lm, part, part->step.outputs, lm->outputs);
    if (part->top_k > 0)
        bind_input(lm, part, part->temperatures, lm->temperatures);
    for (int i = 0; i < 3 && part->can_draw; i++)
        bind_input(lm, part, part->draws[i], lm->draws[i]);
    if (part->first > 0)
        bw_plan_bind(part->plan, part->x, part->x_in.data);
    if (part->top_k == 0)
        return BW_OK;
    size_t row = (size_t)part->top_k * 8 + BW_ROW_SUMS * 4;
    return v->host_alloc(part->device, (size_t)o->max_outputs * row, "candidates", &lm->host_top, err);
}

bw_status bw_lm_part_init(bw_lm *lm, bw_device *device, int32_t first, int32_t end, bw_progress *progress, bw_err *err)
{
    const bw_model_config *c = &lm->file->config;
    bw_lm_part *part = &lm->parts[lm->n_parts++];
    part->device = device;
    part->first = first;
    part->end = end;
    part->model.config = *c;
    part->model.layers = bw_alloc_zero((size_t)c->n_layers, sizeof *part->model.layers);
    if (!part->model.layers)
        return bw_fail_memory(err, (size_t)c->n_layers * sizeof *part->model.layers, "a model");
    BW_TRY(bw_weights_load(&lm->file->source, device, &part->model, (bw_weights_range){first, end}, &part->weights,
                           progress, lm->options.progress, lm->options.progress_user, err));
    return make_plan(lm, part, err);
}

void bw_lm_part_deinit(bw_lm_part *part)
{
    bw_device *d = part->device;
    bw_plan_free(part->plan);
    d->vtable->release(d, &part->kv);
    d->vtable->release(d, &part->inputs);
    d->vtable->release(d, &part->x_in);
    bw_weights_free(&part->weights);
    bw_free(part->model.layers);
}

/* ---- how many layers fit --------------------------------------------------------------------------------------------
 */

/* Weights and KV pages of layers [first, n_layers). */
static bw_status measure(bw_lm *lm, bw_model *model, int32_t first, int64_t *n_bytes, bw_err *err)
{
    const bw_model_config *c = &lm->file->config;
    bw_weights_range range = {first, c->n_layers};
    BW_TRY(bw_weights_measure(&lm->file->source, lm->device, model, range, n_bytes, err));
    int64_t page = bw_lm_head_bytes(c, lm->options.kv_dtype) * c->n_kv_heads * 2 * (c->n_layers - first), pages;
    if (!bw_mul_i64(page, lm->options.n_pages, &pages) || pages > INT64_MAX / 4)
        return bw_fail(err, BW_E_RANGE, "a KV cache of %d pages is too large", lm->options.n_pages);
    *n_bytes += pages;
    return BW_OK;
}

bw_status bw_lm_choose_layers(bw_lm *lm, int32_t *n_cpu_layers, bw_err *err)
{
    const bw_model_config *c = &lm->file->config;
    const bw_lm_options *o = &lm->options;
    const int64_t reserve = (int64_t)256 << 20; /* the driver's own, code, a library's workspace */
    int64_t free_bytes, total_bytes, all = 0, need = 0;
    bw_model model = {.config = *c, .layers = bw_alloc_zero((size_t)c->n_layers, sizeof *model.layers)};
    if (!model.layers)
        return bw_fail_memory(err, (size_t)c->n_layers * sizeof *model.layers, "a model");
    bw_status status = lm->device->vtable->memory_info(lm->device, &free_bytes, &total_bytes, err);
    if (status == BW_OK)
        status = measure(lm, &model, 0, &all, err);
    /* intermediate values: what a layer of the largest step holds at one time, generously */
    int64_t temporary = (int64_t)o->max_tokens * (c->n_ff * 5 + c->n_embd * 12) * 4 +
                        (int64_t)o->max_outputs * (c->n_vocab + c->n_embd) * 4;
    int64_t room = free_bytes - reserve - temporary;
    int32_t first = 0;
    if (o->n_gpu_layers > 0 && o->n_gpu_layers < c->n_layers)
        first = c->n_layers - o->n_gpu_layers;
    need = all;
    while (status == BW_OK && o->n_gpu_layers == 0 && need > room && first < c->n_layers - 1)
        status = measure(lm, &model, ++first, &need, err);
    bw_free(model.layers);
    if (status != BW_OK)
        return status;
    if (need > room && o->n_gpu_layers == 0)
        return bw_fail(err, BW_E_MEMORY,
                       "%s has %lld MiB free, %lld of which stay free and %lld are for intermediate values: too little "
                       "even for one layer of this model; a smaller context or batch takes less, --gpu-layers N tries "
                       "all the same, --device cpu:0 needs no GPU",
                       lm->device->name, (long long)(free_bytes >> 20), (long long)(reserve >> 20),
                       (long long)(temporary >> 20));
    if (first > 0 && o->n_gpu_layers > 0 && o->require_gpu)
        return bw_fail(err, BW_E_ARG, "only %d of %d layers were asked for on %s, and the CPU may compute none",
                       (int)o->n_gpu_layers, (int)c->n_layers, lm->device->name);
    if (first > 0 && o->require_gpu)
        return bw_fail(err, BW_E_MEMORY,
                       "the model and its KV cache need %lld MiB, %s has %lld MiB free: only %d of %d layers would lie "
                       "there; a smaller context, fewer sequences or a q8_0 KV cache take less",
                       (long long)((all + temporary + reserve) >> 20), lm->device->name, (long long)(free_bytes >> 20),
                       (int)(c->n_layers - first), (int)c->n_layers);
    if (first > 0 && o->n_gpu_layers > 0)
        bw_log_info("the CPU computes the first %d of %d layers, as was asked", (int)first, (int)c->n_layers);
    else if (first > 0)
        bw_log_warn("the CPU computes the first %d of %d layers: the model and its KV cache need %lld MiB, %s has %lld "
                    "MiB free",
                    (int)first, (int)c->n_layers, (long long)((all + temporary + reserve) >> 20), lm->device->name,
                    (long long)(free_bytes >> 20));
    *n_cpu_layers = first;
    return BW_OK;
}

/* ---- steps ----------------------------------------------------------------------------------------------------------
 */

/* Graphs are kept per sizes, and the number of pages would grow with every page of text: on a GPU it is rounded up. */
static int64_t round_pages(const bw_lm *lm, int64_t n_pages)
{
    int64_t room = 16;
    while (room < n_pages)
        room *= 2;
    return room < lm->max_pages ? room : lm->max_pages;
}

bw_status bw_lm_part_step(bw_lm *lm, bw_lm_part *part, const int64_t dims[BW_DIM_COUNT], bw_err *err)
{
    enum { TOKENS = -BW_DIM_TOKENS - 1, PAGES = -BW_DIM_PAGES - 1 };
    const bw_device_vtable *v = part->device->vtable;
    int64_t own[BW_DIM_COUNT];
    memcpy(own, dims, sizeof own);
    if (on_gpu(part)) {
        size_t used = (size_t)((char *)(lm->pages + dims[PAGES]) - (char *)lm->inputs.data);
        own[PAGES] = round_pages(lm, dims[PAGES]);
        BW_TRY(v->upload_later(part->device, part->inputs.data, lm->inputs.data, used, err));
    }
    if (part->first > 0) {
        const void *x = bw_plan_data(lm->parts[0].plan, lm->parts[0].x);
        size_t bytes = (size_t)dims[TOKENS] * (size_t)part->model.config.n_embd * sizeof(float);
        BW_TRY(v->upload(part->device, part->x_in.data, x, bytes, err));
    }
    return bw_plan_run(part->plan, own, err);
}

static bw_status fetch(bw_lm_part *last, bw_value value, void *host, size_t bytes, bw_err *err)
{
    return last->device->vtable->download_later(last->device, host, bw_plan_data(last->plan, value), bytes, err);
}

/* Two rows of [max_outputs]: tokens, and whether each token's row is finite. */
static bw_status fetch_tokens(bw_lm *lm, bw_lm_part *last, bw_value tokens, bw_value finite, int32_t *host,
                              int32_t n_outputs, bw_err *err)
{
    size_t bytes = (size_t)n_outputs * sizeof *host;
    BW_TRY(fetch(last, tokens, host, bytes, err));
    return fetch(last, finite, host + lm->options.max_outputs, bytes, err);
}

static void mark_tokens(const bw_lm *lm, int32_t *host, int32_t n_outputs)
{
    for (int32_t i = 0; i < n_outputs; i++)
        if (!host[lm->options.max_outputs + i])
            host[i] = -1;
}

/* [max_outputs, top_k] values, then as many tokens, then [max_outputs, BW_ROW_SUMS] sums. */
static float *host_values(const bw_lm *lm, const bw_lm_part *last, int32_t **tokens, float **sums)
{
    float *values = lm->host_top.data;
    size_t n = (size_t)lm->options.max_outputs * (size_t)last->top_k;
    *tokens = (int32_t *)(void *)(values + n);
    *sums = values + 2 * n;
    return values;
}

static bw_status fetch_top(bw_lm *lm, bw_lm_part *last, int32_t n_outputs, bw_err *err)
{
    int32_t *tokens;
    float *sums, *values = host_values(lm, last, &tokens, &sums);
    size_t n = (size_t)n_outputs, k = (size_t)last->top_k;
    BW_TRY(fetch(last, last->values, values, n * k * 4, err));
    BW_TRY(fetch(last, last->places, tokens, n * k * 4, err));
    return fetch(last, last->sums, sums, n * BW_ROW_SUMS * 4, err);
}

static void mark_top(const bw_lm *lm, const bw_lm_part *last, int32_t n_outputs, bw_lm_top *top)
{
    int32_t *tokens;
    float *sums, *values = host_values(lm, last, &tokens, &sums);
    for (size_t i = 0; i < (size_t)n_outputs; i++) {
        if (sums[i * BW_ROW_SUMS + BW_ROW_FINITE] == 0)
            tokens[i * (size_t)last->top_k] = -1;
        sums[i] = sums[i * BW_ROW_SUMS + BW_ROW_WEIGHT]; /* over what was read before */
    }
    *top = (bw_lm_top){last->top_k, values, tokens, sums};
}

bw_status bw_lm_take(bw_lm *lm, int32_t n_outputs, int wants, bw_lm_results *results, bw_err *err)
{
    bw_lm_part *last = &lm->parts[lm->n_parts - 1];
    *results = (bw_lm_results){0};
    if (!on_gpu(last)) {
        results->logits = bw_plan_data(last->plan, last->logits);
        return BW_OK;
    }
    int32_t *best = lm->host_best.data, *drawn = best + 2 * (size_t)lm->options.max_outputs;
    if (wants & BW_LM_LOGITS)
        BW_TRY(fetch(last, last->logits, lm->host_logits.data, (size_t)n_outputs * (size_t)lm->file->config.n_vocab * 4,
                     err));
    if (wants & BW_LM_BEST)
        BW_TRY(fetch_tokens(lm, last, last->best, last->finite, best, n_outputs, err));
    if (wants & BW_LM_DRAWN)
        BW_TRY(fetch_tokens(lm, last, last->drawn, last->drawable, drawn, n_outputs, err));
    if (wants & BW_LM_TOP)
        BW_TRY(fetch_top(lm, last, n_outputs, err));
    BW_TRY(last->device->vtable->synchronise(last->device, err));
    results->logits = wants & BW_LM_LOGITS ? lm->host_logits.data : NULL;
    if (wants & BW_LM_BEST) {
        mark_tokens(lm, best, n_outputs);
        results->best = best;
    }
    if (wants & BW_LM_DRAWN) {
        mark_tokens(lm, drawn, n_outputs);
        results->drawn = drawn;
    }
    if (wants & BW_LM_TOP)
        mark_top(lm, last, n_outputs, &results->top);
    return BW_OK;
}

bw_status bw_lm_fetch_row(bw_lm *lm, int32_t output, const float **logits, bw_err *err)
{
    bw_lm_part *last = &lm->parts[lm->n_parts - 1];
    size_t n_vocab = (size_t)lm->file->config.n_vocab;
    if (output < 0 || output >= lm->options.max_outputs)
        return bw_fail(err, BW_E_INTERNAL, "there is no output %d of a step", output);
    const float *data = (const float *)bw_plan_data(last->plan, last->logits) + (size_t)output * n_vocab;
    *logits = data;
    if (!on_gpu(last))
        return BW_OK;
    *logits = lm->host_logits.data;
    return last->device->vtable->download(last->device, lm->host_logits.data, data, n_vocab * sizeof *data, err);
}

bw_status bw_lm_part_copy_page(bw_lm *lm, bw_lm_part *part, int32_t dst, int32_t src, int32_t n_tokens, bw_err *err)
{
    const bw_model_config *c = &lm->file->config;
    int64_t head = bw_lm_head_bytes(c, lm->options.kv_dtype), page = head * c->n_kv_heads;
    int64_t one = page * lm->options.n_pages, bytes = head / BW_LM_PAGE_TOKENS * n_tokens;
    for (int64_t half = 0; half < 2 * (int64_t)(part->end - part->first); half++)
        for (int64_t h = 0; h < c->n_kv_heads; h++) {
            char *base = (char *)part->kv.data + half * one + h * head;
            BW_TRY(part->device->vtable->copy(part->device, base + dst * page, base + src * page, (size_t)bytes, err));
        }
    return BW_OK;
}
