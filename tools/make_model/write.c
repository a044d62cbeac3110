/* The files: a GGUF, or a folder with model.safetensors, config.json and tokenizer.json. One thread writes what the
 * others have made while they make the next. Every file appears under its name only when it is complete. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bw_gguf.h"
#include "bw_mem.h"
#include "bw_safetensors.h"
#include "bw_team.h"
#include "make_model.h"

enum { BATCH_BYTES = 8 << 20 };

typedef bw_status put_fn(void *file, const void *bytes, size_t n_bytes, bw_err *err);

typedef struct writing {
    const mm_options *options;
    const mm_list *list;
    mm_values *values;
    bw_team *team;
    unsigned char *buffers[2]; /* [BATCH_BYTES and a chunk] */
    /* the tensor at hand, and the batch of it that is being made */
    size_t tensor;
    int64_t n_elements, chunk_bytes, begin, end; /* chunks [begin, end) */
    _Atomic int64_t next;
    unsigned char *made;
    /* the batch before, being written */
    const unsigned char *full;
    size_t n_full;
    put_fn *put;
    void *file;
    bw_status status;
    bw_err *err;
} writing;

static void member(void *arg, bw_member *self)
{
    writing *w = arg;
    if (self->rank == 0 && w->n_full > 0)
        w->status = w->put(w->file, w->full, w->n_full, w->err);
    int64_t i, end;
    while (bw_team_take(&w->next, w->end - w->begin, 1, &i, &end)) {
        int64_t chunk = w->begin + i, left = w->n_elements - chunk * MM_CHUNK;
        mm_values_fill(w->values, w->options->seed, w->tensor, (uint64_t)chunk, left < MM_CHUNK ? left : MM_CHUNK,
                       w->made + i * w->chunk_bytes);
    }
}

/* A tensor in batches: while one is made, the one before goes into the file. */
static bw_status put_tensor(writing *w, size_t index, bw_err *err)
{
    const mm_tensor *t = &w->list->items[index];
    BW_TRY(mm_values_init(w->values, t->dtype, t->mean, t->sigma, err));
    int64_t n_bytes = bw_tensor_bytes(t->dtype, t->n_dims, t->dims);
    w->tensor = index;
    w->err = err;
    w->n_elements = mm_tensor_elements(t);
    w->chunk_bytes = bw_dtype_bytes(t->dtype, MM_CHUNK);
    int64_t n_chunks = (w->n_elements + MM_CHUNK - 1) / MM_CHUNK;
    int64_t batch = BATCH_BYTES / w->chunk_bytes > 0 ? BATCH_BYTES / w->chunk_bytes : 1;
    w->n_full = 0;
    for (int64_t at = 0, turn = 0; at < n_chunks && w->status == BW_OK; at += batch, turn ^= 1) {
        if (w->options->stop && *w->options->stop)
            return bw_fail(err, BW_E_CANCELLED, "stopped: nothing of %s is kept", w->options->path);
        w->begin = at;
        w->end = at + batch < n_chunks ? at + batch : n_chunks;
        w->made = w->buffers[turn];
        atomic_store(&w->next, 0);
        bw_team_run(w->team, member, w);
        w->full = w->made;
        int64_t from = at * w->chunk_bytes, to = w->end * w->chunk_bytes;
        w->n_full = (size_t)((to < n_bytes ? to : n_bytes) - from);
    }
    BW_TRY(w->status);
    return w->put(w->file, w->full, w->n_full, err);
}

/* ---- GGUF -------------------------------------------------------------------------------------------------------- */

static bw_status put_gguf(void *file, const void *bytes, size_t n_bytes, bw_err *err)
{
    return bw_gguf_writer_put(file, bytes, n_bytes, err);
}

static bw_status fill_gguf(void *user, bw_gguf_writer *writer, size_t index, bw_err *err)
{
    writing *w = user;
    w->file = writer;
    return put_tensor(w, index, err);
}

static bw_status set_u32(bw_gguf_writer *g, const mm_shape *s, const char *key, int32_t value, bw_err *err)
{
    char name[96];
    snprintf(name, sizeof name, "%s.%s", s->arch, key);
    return bw_gguf_writer_set_u32(g, name, (uint32_t)value, err);
}

static bw_status set_f32(bw_gguf_writer *g, const mm_shape *s, const char *key, double value, bw_err *err)
{
    char name[96];
    snprintf(name, sizeof name, "%s.%s", s->arch, key);
    return bw_gguf_writer_set_f32(g, name, (float)value, err);
}

static bw_status set_sizes(bw_gguf_writer *g, const mm_shape *s, bw_err *err)
{
    BW_TRY(bw_gguf_writer_set_string(g, "general.architecture", s->arch, err));
    BW_TRY(bw_gguf_writer_set_string(g, "general.name", s->name, err));
    BW_TRY(set_u32(g, s, "block_count", s->n_layers, err));
    BW_TRY(set_u32(g, s, "context_length", s->n_ctx, err));
    BW_TRY(set_u32(g, s, "embedding_length", s->n_embd, err));
    BW_TRY(set_u32(g, s, "feed_forward_length", s->n_ff, err));
    BW_TRY(set_u32(g, s, "attention.head_count", s->n_heads, err));
    BW_TRY(set_u32(g, s, "attention.head_count_kv", s->n_kv_heads, err));
    BW_TRY(set_u32(g, s, "attention.key_length", s->head_dim, err));
    BW_TRY(set_u32(g, s, "attention.value_length", s->head_dim, err));
    BW_TRY(set_u32(g, s, "rope.dimension_count", s->head_dim, err));
    BW_TRY(set_u32(g, s, "vocab_size", s->n_vocab, err));
    BW_TRY(set_f32(g, s, "attention.layer_norm_rms_epsilon", s->eps, err));
    BW_TRY(set_f32(g, s, "rope.freq_base", s->rope_base, err));
    if (s->window)
        BW_TRY(set_u32(g, s, "attention.sliding_window", s->window, err));
    if (s->n_experts) {
        BW_TRY(set_u32(g, s, "expert_count", s->n_experts, err));
        BW_TRY(set_u32(g, s, "expert_used_count", s->n_experts_used, err));
        BW_TRY(set_u32(g, s, "expert_feed_forward_length", s->n_expert_ff, err));
    }
    return BW_OK;
}

/* An array of n texts of at most MM_TOKEN_BYTES. */
static bw_status set_texts(bw_gguf_writer *g, const char *key, int32_t n, int make(int32_t, char *), bw_err *err)
{
    char(*texts)[MM_TOKEN_BYTES] = bw_alloc_array((size_t)n + 1, MM_TOKEN_BYTES);
    bw_gguf_string *strings = bw_alloc_array((size_t)n + 1, sizeof *strings);
    bw_status status = texts && strings ? BW_OK : bw_fail_memory(err, (size_t)n * MM_TOKEN_BYTES, "a vocabulary");
    for (int32_t i = 0; status == BW_OK && i < n; i++)
        strings[i] = (bw_gguf_string){texts[i], (size_t)make(i, texts[i])};
    if (status == BW_OK) {
        bw_gguf_value v = {.type = BW_GGUF_ARRAY, .a = {.type = BW_GGUF_STRING, .n = (uint64_t)n, .strings = strings}};
        status = bw_gguf_writer_set(g, key, &v, err);
    }
    bw_free(strings);
    bw_free(texts);
    return status;
}

static bw_status set_tokenizer(bw_gguf_writer *g, const mm_shape *s, bw_err *err)
{
    enum { NORMAL = 1, CONTROL = 3 };
    int32_t *types = bw_alloc_array((size_t)s->n_vocab, sizeof *types);
    if (!types)
        return bw_fail_memory(err, (size_t)s->n_vocab * sizeof *types, "a vocabulary");
    for (int32_t i = 0; i < s->n_vocab; i++)
        types[i] = i == MM_END_TOKEN ? CONTROL : NORMAL;
    bw_gguf_value v = {.type = BW_GGUF_ARRAY,
                       .a = {.type = BW_GGUF_I32, .n = (uint64_t)s->n_vocab, .data = (void *)types}};
    bw_status status = bw_gguf_writer_set(g, "tokenizer.ggml.token_type", &v, err);
    bw_free(types);
    BW_TRY(status);
    BW_TRY(bw_gguf_writer_set_string(g, "tokenizer.ggml.model", "gpt2", err));
    BW_TRY(bw_gguf_writer_set_string(g, "tokenizer.ggml.pre", "gpt-2", err));
    BW_TRY(set_texts(g, "tokenizer.ggml.tokens", s->n_vocab, mm_token, err));
    BW_TRY(set_texts(g, "tokenizer.ggml.merges", mm_n_merges(s->n_vocab), mm_merge, err));
    BW_TRY(bw_gguf_writer_set_u32(g, "tokenizer.ggml.bos_token_id", MM_END_TOKEN, err));
    BW_TRY(bw_gguf_writer_set_u32(g, "tokenizer.ggml.eos_token_id", MM_END_TOKEN, err));
    return bw_gguf_writer_set_bool(g, "tokenizer.ggml.add_bos_token", false, err);
}

static bw_status write_gguf(writing *w, bw_err *err)
{
    const mm_shape *s = w->options->shape;
    bw_gguf_writer *g;
    BW_TRY(bw_gguf_writer_new(&g, err));
    w->put = put_gguf;
    bw_status status = set_sizes(g, s, err);
    if (status == BW_OK)
        status = set_tokenizer(g, s, err);
    for (size_t i = 0; status == BW_OK && i < w->list->n; i++) {
        const mm_tensor *t = &w->list->items[i];
        status = bw_gguf_writer_add_tensor(g, t->name, t->dtype, t->n_dims, t->dims, err);
    }
    if (status == BW_OK)
        status = bw_gguf_writer_write(g, w->options->path, fill_gguf, w, err);
    bw_gguf_writer_free(g);
    return status;
}

/* ---- safetensors ------------------------------------------------------------------------------------------------- */

static bw_status put_safetensors(void *file, const void *bytes, size_t n_bytes, bw_err *err)
{
    return bw_safetensors_put(file, bytes, n_bytes, err);
}

static bw_status fill_safetensors(void *user, bw_safetensors_output *output, size_t index, bw_err *err)
{
    writing *w = user;
    w->file = output;
    return put_tensor(w, index, err);
}

static void make_config(const mm_shape *s, bw_dtype type, bw_str *out)
{
    const char *dtype = type == BW_F32 ? "float32" : type == BW_F16 ? "float16" : "bfloat16";
    bw_str_add_format(out,
                      "{\"architectures\":[\"%s\"],\"model_type\":\"%s\",\"hidden_size\":%d,\"intermediate_size\":%d,"
                      "\"num_hidden_layers\":%d,\"num_attention_heads\":%d,\"num_key_value_heads\":%d,\"head_dim\":%d,"
                      "\"vocab_size\":%d,\"max_position_embeddings\":%d,\"rms_norm_eps\":%g,\"rope_theta\":%.1f,"
                      "\"tie_word_embeddings\":%s,\"bos_token_id\":%d,\"eos_token_id\":%d,\"torch_dtype\":\"%s\"",
                      s->class, s->hf_type, s->n_embd, s->n_ff, s->n_layers, s->n_heads, s->n_kv_heads, s->head_dim,
                      s->n_vocab, s->n_ctx, s->eps, s->rope_base, s->tied ? "true" : "false", MM_END_TOKEN,
                      MM_END_TOKEN, dtype);
    if (s->post_norms)
        bw_str_add_format(out,
                          ",\"hidden_activation\":\"gelu_pytorch_tanh\",\"query_pre_attn_scalar\":%d,"
                          "\"rope_local_base_freq\":10000.0,\"sliding_window\":%d,\"sliding_window_pattern\":6",
                          s->head_dim, s->window);
    else
        bw_str_add(out, ",\"hidden_act\":\"silu\"");
    if (s->n_experts)
        bw_str_add_format(out,
                          ",\"num_experts\":%d,\"num_experts_per_tok\":%d,\"moe_intermediate_size\":%d,"
                          "\"norm_topk_prob\":true,\"decoder_sparse_step\":1,\"mlp_only_layers\":[]",
                          s->n_experts, s->n_experts_used, s->n_expert_ff);
    bw_str_add(out, "}\n");
}

/* FOLDER/name, by way of FOLDER/name.tmp. */
static bw_status write_text(const char *folder, const char *name, const bw_str *text, bw_err *err)
{
    bw_str path = {0}, temporary = {0};
    bw_str_add_format(&path, "%s/%s", folder, name);
    bw_str_add_format(&temporary, "%s/%s.tmp", folder, name);
    bw_status status = text->failed || path.failed || temporary.failed ? bw_fail_memory(err, text->len, name) : BW_OK;
    FILE *f = status == BW_OK ? fopen(temporary.data, "wb") : NULL;
    if (status == BW_OK && !f)
        status = bw_fail_errno(err, errno, "%s cannot be created", temporary.data);
    if (f) {
        bool ok = fwrite(text->data, 1, text->len, f) == text->len;
        ok = fclose(f) == 0 && ok;
        if (!ok || rename(temporary.data, path.data) != 0) {
            status = bw_fail_errno(err, errno, "%s cannot be written", path.data);
            unlink(temporary.data);
        }
    }
    bw_str_deinit(&temporary);
    bw_str_deinit(&path);
    return status;
}

static bw_status write_weights(writing *w, const char *path, bw_err *err)
{
    bw_safetensor *tensors = bw_alloc_array(w->list->n, sizeof *tensors);
    if (!tensors)
        return bw_fail_memory(err, w->list->n * sizeof *tensors, "a list of tensors");
    for (size_t i = 0; i < w->list->n; i++) {
        const mm_tensor *t = &w->list->items[i];
        tensors[i] = (bw_safetensor){.name = t->name, .dtype = t->dtype, .n_dims = t->n_dims};
        memcpy(tensors[i].dims, t->dims, (size_t)t->n_dims * sizeof *t->dims);
        tensors[i].n_bytes = (size_t)bw_tensor_bytes(t->dtype, t->n_dims, t->dims);
    }
    w->put = put_safetensors;
    bw_status status = bw_safetensors_write_filled(path, tensors, w->list->n, fill_safetensors, w, err);
    bw_free(tensors);
    return status;
}

static bw_status write_folder(writing *w, bw_err *err)
{
    const mm_options *o = w->options;
    bool is_new = mkdir(o->path, 0777) == 0;
    if (!is_new && errno != EEXIST)
        return bw_fail_errno(err, errno, "the folder %s cannot be made", o->path);
    bw_str path = {0}, config = {0}, tokenizer = {0};
    bw_str_add_format(&path, "%s/model.safetensors", o->path);
    bw_status status = path.failed ? bw_fail_memory(err, path.len, "a path") : write_weights(w, path.data, err);
    make_config(o->shape, o->type, &config);
    mm_tokenizer_json(o->shape, &tokenizer);
    if (status == BW_OK)
        status = write_text(o->path, "config.json", &config, err);
    if (status == BW_OK)
        status = write_text(o->path, "tokenizer.json", &tokenizer, err);
    if (status != BW_OK && is_new)
        rmdir(o->path); /* where nothing was completed it is empty */
    bw_str_deinit(&tokenizer);
    bw_str_deinit(&config);
    bw_str_deinit(&path);
    return status;
}

/* ---- both -------------------------------------------------------------------------------------------------------- */

static bw_status check(const mm_options *o, bool gguf, bw_err *err)
{
    if (!mm_values_can(o->type))
        return bw_fail(err, BW_E_UNSUPPORTED, "%s is no type of weights", bw_dtype_name(o->type));
    if (!gguf && (bw_dtype_is_quantised(o->type) || o->mix != MM_MIX_NONE || o->type == BW_F64))
        return bw_fail(err, BW_E_UNSUPPORTED,
                       "%s: safetensors hold f32, f16 and bf16; for other types let the name end with .gguf", o->path);
    return BW_OK;
}

bw_status mm_write(const mm_options *o, mm_result *result, bw_err *err)
{
    bool gguf = bw_str_ends(o->path, ".gguf");
    *result = (mm_result){0};
    BW_TRY(check(o, gguf, err));
    mm_list list;
    BW_TRY(mm_list_make(o->shape, gguf, o->type, o->mix, &list, err));
    size_t room = BATCH_BYTES + MM_CHUNK * sizeof(double);
    writing w = {.options = o, .list = &list, .values = bw_alloc(sizeof(mm_values))};
    for (int i = 0; i < 2; i++)
        w.buffers[i] = bw_alloc(room);
    bw_status status = w.values && w.buffers[0] && w.buffers[1] ? bw_team_new(o->n_threads, &w.team, err)
                                                                : bw_fail_memory(err, room, "a buffer");
    if (status == BW_OK)
        status = gguf ? write_gguf(&w, err) : write_folder(&w, err);
    for (size_t i = 0; i < list.n; i++)
        result->n_bytes += bw_tensor_bytes(list.items[i].dtype, list.items[i].n_dims, list.items[i].dims);
    result->n_tensors = list.n;
    bw_team_free(w.team);
    bw_free(w.buffers[0]);
    bw_free(w.buffers[1]);
    bw_free(w.values);
    mm_list_free(&list);
    return status;
}
