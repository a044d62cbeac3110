/* Finding a model's tensors, checking their shapes, placing them on the device.
 *
 * Matrices go into the layout that the device's matmul kernel wants, packed by the whole team, and the mapped file
 * pages behind them are given back as it goes, so a model is never in memory twice. On the CPU, matrices that need no
 * packing stay in the mapped file; a GPU gets everything (weights_gpu.c). Norms and biases become f32.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "bw_mem.h"
#include "bw_quant.h"
#include "weights_private.h"

static void add(struct weight_list *list, enum weight_role role, bw_tensor *dest, int64_t n, int64_t k, bool required,
                int layer, const char *gguf_name, const char *hf_name)
{
    if (list->status != BW_OK)
        return;
    char gguf[96], hf[96];
    if (layer >= 0) {
        snprintf(gguf, sizeof gguf, "blk.%d.%s", layer, gguf_name);
        snprintf(hf, sizeof hf, "layers.%d.%s", layer, hf_name);
    } else {
        snprintf(gguf, sizeof gguf, "%s", gguf_name);
        snprintf(hf, sizeof hf, "%s", hf_name);
    }
    struct weight_entry e = {.role = role, .n = n, .k = k, .dest = dest, .layer = layer, .place = -1};
    if (!bw_source_find(list->source, gguf, hf, &e.src)) {
        if (required)
            list->status = bw_fail(list->err, BW_E_FORMAT, "%s: tensor %s is missing", list->source->path, e.src.name);
        return;
    }
    const bw_source_tensor *t = &e.src;
    bool fits = role == ROLE_VECTOR
                    ? t->n_dims > 0 && t->dims[t->n_dims - 1] == k && bw_shape_elements(t->dims, t->n_dims) == k
                    : t->n_dims == 2 && t->dims[0] == n && t->dims[1] == k;
    if (!fits) {
        bw_tensor shown = bw_tensor_view(t->dtype, t->n_dims, t->dims, NULL);
        char text[96];
        list->status =
            bw_fail(list->err, BW_E_FORMAT, "%s: tensor %s is %s; [%lld, %lld] was expected", list->source->path,
                    t->name, bw_tensor_describe(&shown, text, sizeof text), (long long)n, (long long)k);
        return;
    }
    if (t->dtype == BW_I8 || t->dtype == BW_I16 || t->dtype == BW_I32 || t->dtype == BW_I64 || t->dtype == BW_U8 ||
        t->dtype == BW_U32) {
        list->status = bw_fail(list->err, BW_E_UNSUPPORTED, "%s: tensor %s has integer type %s", list->source->path,
                               t->name, bw_dtype_name(t->dtype));
        return;
    }
    if (role == ROLE_VECTOR)
        e.add = strstr(gguf_name, "norm") ? list->config->norm_offset : 0;
    if (!bw_reserve((void **)&list->entries, &list->cap, list->n + 1, sizeof *list->entries)) {
        list->status = bw_fail_memory(list->err, list->n * sizeof *list->entries, "the list of weights");
        return;
    }
    memcpy(&list->entries[list->n++], &e, sizeof e);
}

static void add_linear(struct weight_list *list, bw_nn_linear_weights *w, int64_t n, int64_t k, int layer,
                       const char *gguf, const char *hf)
{
    char gguf_name[64], hf_name[64];
    snprintf(gguf_name, sizeof gguf_name, "%s.weight", gguf);
    snprintf(hf_name, sizeof hf_name, "%s.weight", hf);
    add(list, ROLE_MATRIX, &w->w, n, k, true, layer, gguf_name, hf_name);
    snprintf(gguf_name, sizeof gguf_name, "%s.bias", gguf);
    snprintf(hf_name, sizeof hf_name, "%s.bias", hf);
    add(list, ROLE_VECTOR, &w->bias, 1, n, false, layer, gguf_name, hf_name);
}

static void add_layer(struct weight_list *list, bw_model_layer *l, int i)
{
    const bw_model_config *c = list->config;
    int64_t d = c->n_embd, q = (int64_t)c->n_heads * c->head_dim, kv = (int64_t)c->n_kv_heads * c->head_dim;
    add(list, ROLE_VECTOR, &l->attn_norm, 1, d, true, i, "attn_norm.weight", "input_layernorm.weight");
    add_linear(list, &l->attn.q, q, d, i, "attn_q", "self_attn.q_proj");
    add_linear(list, &l->attn.k, kv, d, i, "attn_k", "self_attn.k_proj");
    add_linear(list, &l->attn.v, kv, d, i, "attn_v", "self_attn.v_proj");
    add_linear(list, &l->attn.o, d, q, i, "attn_output", "self_attn.o_proj");
    add(list, ROLE_VECTOR, &l->attn.q_norm, 1, c->head_dim, c->has_post_norms, i, "attn_q_norm.weight",
        "self_attn.q_norm.weight");
    add(list, ROLE_VECTOR, &l->attn.k_norm, 1, c->head_dim, c->has_post_norms, i, "attn_k_norm.weight",
        "self_attn.k_norm.weight");
    if (c->has_post_norms) {
        add(list, ROLE_VECTOR, &l->post_attn_norm, 1, d, true, i, "post_attention_norm.weight",
            "post_attention_layernorm.weight");
        add(list, ROLE_VECTOR, &l->ffn_norm, 1, d, true, i, "ffn_norm.weight", "pre_feedforward_layernorm.weight");
        add(list, ROLE_VECTOR, &l->post_ffn_norm, 1, d, true, i, "post_ffw_norm.weight",
            "post_feedforward_layernorm.weight");
    } else {
        add(list, ROLE_VECTOR, &l->ffn_norm, 1, d, true, i, "ffn_norm.weight", "post_attention_layernorm.weight");
    }
    add_linear(list, &l->ffn.gate, c->n_ff, d, i, "ffn_gate", "mlp.gate_proj");
    add_linear(list, &l->ffn.up, c->n_ff, d, i, "ffn_up", "mlp.up_proj");
    add_linear(list, &l->ffn.down, d, c->n_ff, i, "ffn_down", "mlp.down_proj");
}

/* Returns whether the output matrix is the embedding itself. */
static bool add_range(struct weight_list *list, bw_model *model, bw_weights_range range)
{
    const bw_model_config *c = list->config;
    bool tied = bw_source_is_tied(list->source);
    bool is_last = range.end == c->n_layers;
    if (range.first == 0 || (is_last && tied))
        add(list, tied && is_last ? ROLE_MATRIX : ROLE_TABLE, &model->embedding, c->n_vocab, c->n_embd, true, -1,
            "token_embd.weight", "embed_tokens.weight");
    for (int i = range.first; i < range.end; i++)
        add_layer(list, &model->layers[i], i);
    if (is_last)
        add(list, ROLE_VECTOR, &model->output_norm, 1, c->n_embd, true, -1, "output_norm.weight", "norm.weight");
    if (is_last && !tied)
        add_linear(list, &model->output, c->n_vocab, c->n_embd, -1, "output", "lm_head");
    return tied && is_last;
}

static int64_t aligned(int64_t bytes)
{
    return (bytes + 255) / 256 * 256; /* as GPUs like it */
}

/* Element types whose kernels read whole elements want them aligned; block types are read bytewise. */
static bool is_aligned(const bw_source_tensor *t)
{
    int64_t size = bw_dtype_is_quantised(t->dtype) ? 1 : bw_dtype_block_bytes(t->dtype);
    return (uintptr_t)t->data % (uintptr_t)size == 0;
}

static bw_status choose_places(struct weight_list *list, const bw_device *device, int64_t *packed, int64_t *vectors)
{
    *packed = *vectors = 0;
    for (size_t i = 0; i < list->n; i++) {
        struct weight_entry *e = &list->entries[i];
        if (e->role == ROLE_VECTOR) {
            e->place = *vectors;
            *vectors += aligned(e->k * 4);
            continue;
        }
        /* On a GPU tables too: no kernel reads rows of GGUF's blocks there. */
        if (e->role == ROLE_MATRIX || device->kind != BW_DEVICE_CPU)
            e->layout = bw_linear_choose_layout(device, e->src.dtype, e->n, e->k);
        if (device->kind == BW_DEVICE_CPU && !e->layout && is_aligned(&e->src))
            continue;
        int64_t bytes = bw_linear_layout_bytes(e->layout, e->src.dtype, e->n, e->k);
        if (bytes < 0 || bytes > INT64_MAX / 2 - *packed)
            return bw_fail(list->err, BW_E_RANGE, "%s: tensor %s is too large", list->source->path, e->src.name);
        e->place = *packed;
        *packed += aligned(bytes);
    }
    return BW_OK;
}

struct packing {
    struct weight_entry *entries;
    size_t begin, end;
    char *packed;
};

static void pack_member(void *arg, bw_member *member)
{
    (void)member;
    struct packing *p = arg;
    for (size_t i = p->begin; i < p->end; i++) {
        struct weight_entry *e = &p->entries[i];
        if (e->role == ROLE_VECTOR || e->place < 0)
            continue;
        int64_t unit = e->layout ? bw_linear_layout_rows(e->layout) : 1, chunk = (64 + unit - 1) / unit * unit;
        int64_t begin, end, row_bytes = bw_dtype_bytes(e->src.dtype, e->k);
        while (bw_team_take(&e->next, e->n, chunk, &begin, &end)) {
            const char *src = (const char *)e->src.data + begin * row_bytes;
            char *dst = p->packed + e->place;
            if (e->layout)
                bw_linear_pack_rows(e->layout, e->src.dtype, e->n, e->k, begin, end, src, dst);
            else
                memcpy(dst + begin * row_bytes, src, (size_t)((end - begin) * row_bytes));
        }
    }
}

bw_status bw_weight_place_vector(const struct weight_entry *e, char *vectors, bw_err *err)
{
    float *f = (float *)(void *)(vectors + e->place);
    BW_TRY(bw_decode_row(e->src.dtype, e->src.data, f, e->k, err));
    for (int64_t j = 0; j < e->k && e->add != 0; j++)
        f[j] += e->add;
    *e->dest = bw_tensor_view(BW_F32, 1, &e->k, f);
    return BW_OK;
}

void bw_weight_drop_pages(const struct weight_entry *e)
{
    if (e->src.map && e->place >= 0)
        bw_map_drop(e->src.map, (size_t)((const unsigned char *)e->src.data - e->src.map->data), e->src.n_bytes);
}

/* Pack in groups of some 8 MB: each group's file pages are dropped when it is done. */
static bw_status place_all(struct weight_list *list, bw_weights *w, bw_progress *progress,
                           void (*report)(void *user, const bw_progress *progress), void *user)
{
    for (size_t begin = 0; begin < list->n;) {
        size_t end = begin, bytes = 0;
        for (; end < list->n && bytes < (size_t)8 << 20; end++)
            bytes += list->entries[end].src.n_bytes;
        struct packing packing = {list->entries, begin, end, w->packed.data};
        bw_team_run(w->device->team, pack_member, &packing);
        for (size_t i = begin; i < end; i++) {
            struct weight_entry *e = &list->entries[i];
            if (e->role == ROLE_VECTOR) {
                BW_TRY(bw_weight_place_vector(e, w->vectors.data, list->err));
            } else {
                const void *data = e->place < 0 ? e->src.data : (char *)w->packed.data + e->place;
                *e->dest = bw_tensor_view(e->src.dtype, 2, (int64_t[]){e->n, e->k}, data);
                e->dest->layout = e->layout;
            }
            bw_weight_drop_pages(e);
            progress->bytes_done += e->src.n_bytes;
            if (e->layer >= 0)
                progress->layers_done = e->layer + 1;
        }
        if (report)
            report(user, progress);
        begin = end;
    }
    return BW_OK;
}

bw_status bw_weight_place_rope(const bw_source *source, bw_model *model, float *room, bw_err *err)
{
    bw_model_config *c = &model->config;
    int64_t half = c->rope.n_rot / 2;
    bw_source_tensor t;
    float *divisors = NULL;
    bool found = source->gguf && bw_source_find(source, "rope_freqs.weight", "", &t);
    if (found) {
        if (bw_shape_elements(t.dims, t.n_dims) != half)
            return bw_fail(err, BW_E_FORMAT, "%s: rope_freqs.weight has not %lld elements", source->path,
                           (long long)half);
        divisors = room + c->head_dim;
        BW_TRY(bw_decode_row(t.dtype, t.data, divisors, half, err));
        for (int64_t i = 0; i < half; i++)
            if (!(divisors[i] > 0))
                return bw_fail(err, BW_E_FORMAT, "%s: rope_freqs.weight[%lld] is %g", source->path, (long long)i,
                               (double)divisors[i]);
    }
    bw_rope_compute_inv_freq(&c->rope, divisors, room, &model->rope_magnitude);
    model->inv_freq = bw_tensor_view(BW_F32, 1, &half, room);
    if (c->rope_local.n_rot) {
        int64_t local = c->rope_local.n_rot / 2;
        bw_rope_compute_inv_freq(&c->rope_local, NULL, room + c->head_dim / 2, &model->rope_magnitude_local);
        model->inv_freq_local = bw_tensor_view(BW_F32, 1, &local, room + c->head_dim / 2);
    }
    return BW_OK;
}

bw_status bw_weights_measure(const bw_source *source, const bw_device *device, bw_model *model, bw_weights_range range,
                             int64_t *n_bytes, bw_err *err)
{
    struct weight_list list = {.source = source, .config = &model->config, .err = err};
    int64_t packed = 0, vectors = 0;
    add_range(&list, model, range);
    bw_status status = list.status;
    if (status == BW_OK)
        status = choose_places(&list, device, &packed, &vectors);
    *n_bytes = packed + vectors;
    bw_free(list.entries);
    return status;
}

bw_status bw_weights_load(const bw_source *source, bw_device *device, bw_model *model, bw_weights_range range,
                          bw_weights *w, bw_progress *progress, bw_weights_report_fn *report, void *user, bw_err *err)
{
    *w = (bw_weights){.device = device};
    struct weight_list list = {.source = source, .config = &model->config, .err = err};
    bool tied = add_range(&list, model, range);
    int64_t packed = 0, vectors = 0, rope = aligned((int64_t)model->config.head_dim * 8);
    bw_status status = list.status;
    if (status == BW_OK)
        status = choose_places(&list, device, &packed, &vectors);
    if (status == BW_OK && packed)
        status = device->vtable->alloc(device, (size_t)packed, BW_MEMORY_DENSE, "weights", &w->packed, err);
    if (status == BW_OK)
        status = device->vtable->alloc(device, (size_t)(vectors + rope), BW_MEMORY_SPARSE, "norms", &w->vectors, err);
    for (size_t i = 0; i < list.n; i++) {
        w->bytes += (int64_t)list.entries[i].src.n_bytes;
        w->n_params += list.entries[i].n * list.entries[i].k;
    }
    if (progress->bytes_total < progress->bytes_done + (uint64_t)w->bytes)
        progress->bytes_total = progress->bytes_done + (uint64_t)w->bytes;
    if (status == BW_OK && device->kind != BW_DEVICE_CPU)
        status = bw_weights_place_gpu(&list, w, model, vectors, rope, progress, report, user);
    else if (status == BW_OK)
        status = place_all(&list, w, progress, report, user);
    if (status == BW_OK && device->kind == BW_DEVICE_CPU)
        status = bw_weight_place_rope(source, model, (float *)(void *)((char *)w->vectors.data + vectors), err);
    if (status == BW_OK && tied)
        model->output.w = model->embedding;
    bw_free(list.entries);
    if (status != BW_OK)
        bw_weights_free(w);
    return status;
}

void bw_weights_free(bw_weights *w)
{
    if (w->packed.data)
        w->device->vtable->release(w->device, &w->packed);
    if (w->vectors.data)
        w->device->vtable->release(w->device, &w->vectors);
    *w = (bw_weights){0};
}
