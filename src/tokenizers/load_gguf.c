/* A tokenizer from GGUF metadata (keys tokenizer.ggml.*): models "gpt2" (byte-level BPE with merges) and "llama"
 * (SentencePiece BPE with scores). Refuses other models by name. */
#include <string.h>

#include "tok_internal.h"

/* tokenizer.ggml.token_type */
enum { TYPE_NORMAL = 1, TYPE_UNKNOWN = 2, TYPE_CONTROL = 3, TYPE_USER_DEFINED = 4, TYPE_UNUSED = 5, TYPE_BYTE = 6 };

static bw_status get_array(const bw_gguf *g, const char *path, const char *key, bw_gguf_type type, bool required,
                           const bw_gguf_value **out, bw_err *err)
{
    const bw_gguf_value *v = bw_gguf_find(g, key);
    *out = NULL;
    if (!v)
        return required ? bw_fail(err, BW_E_FORMAT, "%s: no %s, so texts cannot be encoded", path, key) : BW_OK;
    if (v->type != BW_GGUF_ARRAY || v->a.type != type)
        return bw_fail(err, BW_E_FORMAT, "%s: %s is not an array of the right type", path, key);
    *out = v;
    return BW_OK;
}

static bw_status add_special(bw_tokenizer *t, int32_t id, bool special, bw_err *err)
{
    tok_added a = {.text = t->spellings[id], .id = id, .special = special};
    t->flags[id] = (uint8_t)(t->flags[id] & ~(special ? TOKEN_MODEL : 0));
    return bw_tok_add_added(t, &a, err);
}

static bw_status read_tokens(bw_tokenizer *t, const bw_gguf *g, bool spm, bw_err *err)
{
    const bw_gguf_value *tokens, *types;
    BW_TRY(get_array(g, t->path, "tokenizer.ggml.tokens", BW_GGUF_STRING, true, &tokens, err));
    const char *key = "tokenizer.ggml.token_type";
    BW_TRY(get_array(g, t->path, key, BW_GGUF_I32, false, &types, err));
    BW_TRY(bw_tok_set_size(t, tokens->a.n > INT32_MAX ? INT32_MAX : (int32_t)tokens->a.n, err));
    if (types && types->a.n != tokens->a.n)
        return bw_fail(err, BW_E_FORMAT, "%s: %llu token types for %d tokens", t->path, (unsigned long long)types->a.n,
                       (int)t->n_tokens);
    for (int32_t id = 0; id < t->n_tokens; id++)
        BW_TRY(bw_tok_set_spelling(t, id, tokens->a.strings[id].data, tokens->a.strings[id].n_bytes, err));
    for (int32_t id = 0; id < t->n_tokens; id++) {
        int64_t type = types ? bw_gguf_array_i64(types, (uint64_t)id) : TYPE_NORMAL;
        if (type == TYPE_NORMAL || (spm && type == TYPE_USER_DEFINED))
            t->flags[id] |= TOKEN_MODEL;
        if (type == TYPE_CONTROL || type == TYPE_UNKNOWN || type == TYPE_USER_DEFINED)
            BW_TRY(add_special(t, id, type != TYPE_USER_DEFINED, err));
    }
    return BW_OK;
}

/* Merges "left right". One that names a spelling outside the vocabulary can never apply and is left out. */
static bw_status read_merges(bw_tokenizer *t, const bw_gguf *g, bw_err *err)
{
    const bw_gguf_value *merges;
    BW_TRY(get_array(g, t->path, "tokenizer.ggml.merges", BW_GGUF_STRING, true, &merges, err));
    if (merges->a.n > UINT32_MAX / 4 || !bw_tok_merges_init(&t->merges, (size_t)merges->a.n))
        return bw_fail_memory(err, (size_t)merges->a.n * sizeof(tok_merge), "merges");
    bw_str joined = {0};
    for (uint64_t i = 0; i < merges->a.n; i++) {
        const char *s = merges->a.strings[i].data;
        size_t n = merges->a.strings[i].n_bytes;
        const char *space = n > 1 ? memchr(s + 1, ' ', n - 1) : NULL;
        if (!space)
            continue;
        size_t left_n = (size_t)(space - s), right_n = n - left_n - 1;
        bw_str_clear(&joined);
        bw_str_add_bytes(&joined, s, left_n);
        bw_str_add_bytes(&joined, space + 1, right_n);
        if (joined.failed) {
            bw_str_deinit(&joined);
            return bw_fail_memory(err, n, "merges");
        }
        int32_t left = bw_tokenizer_find(t, s, left_n), right = bw_tokenizer_find(t, space + 1, right_n);
        int32_t id = bw_tokenizer_find(t, joined.data, joined.len);
        if (left >= 0 && right >= 0 && id >= 0)
            bw_tok_merges_add(&t->merges, left, right, (uint32_t)i, id);
    }
    bw_str_deinit(&joined);
    return BW_OK;
}

static bw_status read_scores(bw_tokenizer *t, const bw_gguf *g, bw_err *err)
{
    const bw_gguf_value *v;
    BW_TRY(get_array(g, t->path, "tokenizer.ggml.scores", BW_GGUF_F32, true, &v, err));
    if (v->a.n != (uint64_t)t->n_tokens)
        return bw_fail(err, BW_E_FORMAT, "%s: %llu scores for %d tokens", t->path, (unsigned long long)v->a.n,
                       (int)t->n_tokens);
    float *scores = bw_alloc_array((size_t)t->n_tokens, sizeof *scores);
    if (!scores)
        return bw_fail_memory(err, (size_t)t->n_tokens * sizeof *scores, "scores");
    for (int32_t i = 0; i < t->n_tokens; i++) {
        scores[i] = (float)bw_gguf_array_f64(v, (uint64_t)i);
        if (scores[i] != scores[i])
            scores[i] = -1e30f; /* not a number: last */
    }
    bw_status status = bw_tok_merges_from_scores(t, scores, err);
    bw_free(scores);
    return status;
}

static bw_status sentencepiece(bw_tokenizer *t, const bw_gguf *g, bw_err *err)
{
    bool prefix = true;
    BW_TRY(bw_gguf_get_bool(g, "tokenizer.ggml.add_space_prefix", &prefix, NULL, err));
    BW_TRY(read_scores(t, g, err));
    tok_text mark = bw_tok_keep(t, "\xE2\x96\x81", 3), space = bw_tok_keep(t, " ", 1);
    if (!mark.s || !space.s)
        return bw_fail_memory(err, 4, "a tokenizer");
    if (prefix) {
        tok_norm *step = bw_tok_next_norm(t, NORM_PREPEND, err);
        if (!step)
            return BW_E_UNSUPPORTED;
        step->to = mark;
    }
    tok_norm *step = bw_tok_next_norm(t, NORM_REPLACE, err);
    if (!step)
        return BW_E_UNSUPPORTED;
    step->from = space;
    step->to = mark;
    t->byte_fallback = t->fuse_unk = t->decode_bytes = true;
    t->strip_start = prefix;
    t->replace[0].from = mark;
    t->replace[0].to = space;
    t->n_replace = 1;
    return BW_OK;
}

/* An id key: *id is left alone when the key is absent; an id outside the vocabulary is an error. */
static bw_status read_id(const bw_tokenizer *t, const bw_gguf *g, const char *key, int32_t *id, bw_err *err)
{
    int64_t v = -1;
    bool found = false;
    BW_TRY(bw_gguf_get_i64(g, key, &v, &found, err));
    if (!found || v == -1 || v == UINT32_MAX) /* both are written for "none" */
        return BW_OK;
    if (v < 0 || v >= t->n_tokens)
        return bw_fail(err, BW_E_FORMAT, "%s: %s is %lld, outside the vocabulary of %d", t->path, key, (long long)v,
                       (int)t->n_tokens);
    *id = (int32_t)v;
    return BW_OK;
}

static bw_status make_special(bw_tokenizer *t, int32_t id, bw_err *err)
{
    if (id < 0 || (t->flags[id] & TOKEN_SPECIAL))
        return BW_OK;
    return add_special(t, id, true, err);
}

static bw_status read_special(bw_tokenizer *t, const bw_gguf *g, bool spm, bool add_bos, bw_err *err)
{
    static const char *const ends[] = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                       "tokenizer.ggml.eom_token_id"};
    t->bos = spm && t->n_tokens > 1 ? 1 : -1;
    BW_TRY(read_id(t, g, "tokenizer.ggml.bos_token_id", &t->bos, err));
    for (size_t i = 0; i < 3; i++) {
        int32_t id = i == 0 && spm && t->n_tokens > 2 ? 2 : -1;
        BW_TRY(read_id(t, g, ends[i], &id, err));
        bw_tok_add_eos(t, id);
        BW_TRY(make_special(t, id, err));
    }
    BW_TRY(make_special(t, t->bos, err));
    if (spm) {
        t->unk = 0;
        BW_TRY(read_id(t, g, "tokenizer.ggml.unknown_token_id", &t->unk, err));
    }
    bool add_eos = false;
    BW_TRY(bw_gguf_get_bool(g, "tokenizer.ggml.add_bos_token", &add_bos, NULL, err));
    BW_TRY(bw_gguf_get_bool(g, "tokenizer.ggml.add_eos_token", &add_eos, NULL, err));
    return bw_tok_set_around(t, &t->bos, add_bos && t->bos >= 0, &t->eos, add_eos && t->eos >= 0, err);
}

/* Tokens with the form of a control token that converters sometimes leave as ordinary ones: not to be shown as text. */
static bw_status mend_types(bw_tokenizer *t, bw_err *err)
{
    static const char *const names[] = {"<|im_start|>",      "<|im_end|>",      "<|eot_id|>",
                                        "<|end_of_text|>",   "<|endoftext|>",   "<|start_header_id|>",
                                        "<|end_header_id|>", "<start_of_turn>", "<end_of_turn>"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        int32_t id = bw_tokenizer_find(t, names[i], strlen(names[i]));
        BW_TRY(make_special(t, id, err));
    }
    return BW_OK;
}

static bw_status read_templates(bw_tokenizer *t, const bw_gguf *g, bw_err *err)
{
    static const char key[] = "tokenizer.chat_template";
    for (size_t i = 0; i < bw_gguf_n_values(g); i++) {
        const char *name = bw_gguf_key(g, i);
        const bw_gguf_value *v = bw_gguf_value_at(g, i);
        if (!bw_str_starts(name, key) || v->type != BW_GGUF_STRING)
            continue;
        name += sizeof key - 1;
        if (*name == '.')
            name++;
        else if (*name)
            continue;
        if (!*name)
            name = "default";
        BW_TRY(bw_tok_add_template(t, name, strlen(name), v->s.data, v->s.n_bytes, err));
    }
    return BW_OK;
}

static bw_status load(bw_tokenizer *t, const bw_gguf *g, bw_err *err)
{
    bw_gguf_string model = {0}, pre = {"default", 7};
    bool found = false, add_bos = true;
    BW_TRY(bw_gguf_get_string(g, "tokenizer.ggml.model", &model, &found, err));
    if (!found)
        return bw_fail(err, BW_E_FORMAT, "%s: no tokenizer.ggml.model, so texts cannot be encoded", t->path);
    bool spm = model.n_bytes == 5 && memcmp(model.data, "llama", 5) == 0;
    if (!spm && !(model.n_bytes == 4 && memcmp(model.data, "gpt2", 4) == 0))
        return bw_fail(err, BW_E_UNSUPPORTED, "%s: the tokenizer model '%.*s' is not supported; gpt2 and llama are",
                       t->path, (int)(model.n_bytes > 60 ? 60 : model.n_bytes), model.data);
    BW_TRY(read_tokens(t, g, spm, err));
    if (spm) {
        BW_TRY(sentencepiece(t, g, err));
    } else {
        t->byte_level = t->decode_byte_level = true;
        BW_TRY(bw_gguf_get_string(g, "tokenizer.ggml.pre", &pre, NULL, err));
        BW_TRY(bw_tok_pre_by_name(t, pre.data, pre.n_bytes, &add_bos, err));
        BW_TRY(read_merges(t, g, err));
    }
    BW_TRY(read_special(t, g, spm, add_bos, err));
    BW_TRY(mend_types(t, err));
    BW_TRY(read_templates(t, g, err));
    return bw_tok_finish(t, err);
}

bw_status bw_tokenizer_from_gguf(const bw_gguf *gguf, bw_tokenizer **tokenizer, bw_err *err)
{
    *tokenizer = NULL;
    bw_tokenizer *t;
    BW_TRY(bw_tok_new(bw_gguf_path(gguf), &t, err));
    bw_status status = load(t, gguf, err);
    if (status != BW_OK) {
        bw_tokenizer_free(t);
        return status;
    }
    *tokenizer = t;
    return BW_OK;
}
