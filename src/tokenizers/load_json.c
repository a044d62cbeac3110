/* A tokenizer from Hugging Face's tokenizer.json: BPE models, byte-level or with byte fallback. What it describes but
 * this module cannot do exactly is refused by name, never approximated. */
#include <string.h>

#include "tok_load_json.h"

static bw_status read_added_ids(const bw_tokenizer *t, const tok_json *j, const tok_json_node *added, int32_t *max,
                                bw_err *err)
{
    if (!added || added->type != TOK_ARRAY)
        return BW_OK;
    const tok_json_node *a = added + 1;
    for (uint32_t i = 0; i < added->n; i++, a = bw_tok_json_next(j, a)) {
        int32_t id;
        const tok_json_node *content = bw_tok_json_get(j, a, "content");
        if (bw_tok_json_is_too_large(bw_tok_json_get(j, a, "id")))
            return bw_fail(err, BW_E_FORMAT, "%s: the id of added token %u is too large", t->path, (unsigned)i);
        if (!bw_tok_json_int(bw_tok_json_get(j, a, "id"), &id) || !content || content->type != TOK_STRING)
            return bw_fail(err, BW_E_FORMAT, "%s: added token %u has no id or no content", t->path, (unsigned)i);
        *max = id > *max ? id : *max;
    }
    return BW_OK;
}

static bw_status read_vocab(bw_tokenizer *t, const tok_json *j, const tok_json_node *vocab, const tok_json_node *added,
                            bw_err *err)
{
    int32_t max = -1, id;
    const tok_json_node *key = vocab + 1;
    for (uint32_t i = 0; i < vocab->n; i++, key = bw_tok_json_next(j, key + 1)) {
        if (!bw_tok_json_int(key + 1, &id))
            return bw_fail(err, BW_E_FORMAT, "%s: the id of token '%.*s' is %s", t->path,
                           (int)(key->n > 60 ? 60 : key->n), key->s,
                           bw_tok_json_is_too_large(key + 1) ? "too large" : "not a number from 0 up");
        max = id > max ? id : max;
    }
    BW_TRY(read_added_ids(t, j, added, &max, err));
    if (max >= TOK_MAX_ID)
        return bw_fail(err, BW_E_FORMAT, "%s: token id %d; ids up to %d are allowed", t->path, (int)max,
                       TOK_MAX_ID - 1);
    BW_TRY(bw_tok_set_size(t, max + 1, err));
    key = vocab + 1;
    for (uint32_t i = 0; i < vocab->n; i++, key = bw_tok_json_next(j, key + 1)) {
        if (!bw_tok_json_int(key + 1, &id) || t->spellings[id].s)
            return bw_fail(err, BW_E_FORMAT, "%s: token id %d is given to two tokens", t->path, (int)id);
        if (bw_tokenizer_find(t, key->s, key->n) >= 0)
            return bw_fail(err, BW_E_FORMAT, "%s: the token '%.*s' occurs twice", t->path,
                           (int)(key->n > 60 ? 60 : key->n), key->s);
        BW_TRY(bw_tok_set_spelling(t, id, key->s, key->n, err));
        t->flags[id] |= TOKEN_MODEL;
    }
    return BW_OK;
}

static bw_status read_added(bw_tokenizer *t, const tok_json *j, const tok_json_node *added, bw_err *err)
{
    if (!added || added->type != TOK_ARRAY)
        return BW_OK;
    const tok_json_node *a = added + 1;
    for (uint32_t i = 0; i < added->n; i++, a = bw_tok_json_next(j, a)) {
        const tok_json_node *content = bw_tok_json_get(j, a, "content");
        int32_t id = bw_tokenizer_find(t, content->s, content->n);
        if (id < 0) {
            bw_tok_json_int(bw_tok_json_get(j, a, "id"), &id);
            if (t->spellings[id].s)
                return bw_fail(err, BW_E_FORMAT, "%s: token id %d is given to two tokens", t->path, (int)id);
            BW_TRY(bw_tok_set_spelling(t, id, content->s, content->n, err));
        }
        tok_added token = {.text = t->spellings[id],
                           .id = id,
                           .special = bw_tok_json_flag(j, a, "special", false),
                           .lstrip = bw_tok_json_flag(j, a, "lstrip", false),
                           .rstrip = bw_tok_json_flag(j, a, "rstrip", false),
                           .single_word = bw_tok_json_flag(j, a, "single_word", false)};
        token.normalized = bw_tok_json_flag(j, a, "normalized", !token.special);
        BW_TRY(bw_tok_add_added(t, &token, err));
    }
    return BW_OK;
}

/* The two halves of a merge: ["a", "b"] or "a b". */
static bool halves(const tok_json *j, const tok_json_node *m, tok_text *left, tok_text *right)
{
    if (m->type == TOK_ARRAY && m->n == 2) {
        const tok_json_node *a = m + 1, *b = bw_tok_json_next(j, a);
        *left = (tok_text){a->s, a->n};
        *right = (tok_text){b->s, b->n};
        return a->type == TOK_STRING && b->type == TOK_STRING;
    }
    const char *space = m->type == TOK_STRING ? memchr(m->s, ' ', m->n) : NULL;
    if (!space)
        return false;
    *left = (tok_text){m->s, (size_t)(space - m->s)};
    *right = (tok_text){space + 1, m->n - left->n - 1};
    return memchr(right->s, ' ', right->n) == NULL;
}

static bw_status read_merges(bw_tokenizer *t, const tok_json *j, const tok_json_node *merges, bw_err *err)
{
    if (!merges || merges->type != TOK_ARRAY)
        return bw_fail(err, BW_E_FORMAT, "%s: the model has no list of merges", t->path);
    if (!bw_tok_merges_init(&t->merges, merges->n))
        return bw_fail_memory(err, merges->n * sizeof(tok_merge), "merges");
    bw_str joined = {0};
    bw_status status = BW_OK;
    const tok_json_node *m = merges + 1;
    for (uint32_t i = 0; status == BW_OK && i < merges->n; i++, m = bw_tok_json_next(j, m)) {
        tok_text a, b;
        if (!halves(j, m, &a, &b)) {
            status = bw_fail(err, BW_E_FORMAT, "%s: merge %u is not a pair of tokens", t->path, (unsigned)i);
            break;
        }
        bw_str_clear(&joined);
        bw_str_add_bytes(&joined, a.s, a.n);
        bw_str_add_bytes(&joined, b.s, b.n);
        if (joined.failed) {
            status = bw_fail_memory(err, a.n + b.n, "merges");
            break;
        }
        int32_t left = bw_tokenizer_find(t, a.s, a.n), right = bw_tokenizer_find(t, b.s, b.n);
        int32_t id = bw_tokenizer_find(t, joined.data, joined.len);
        if (left < 0 || right < 0 || id < 0)
            status = bw_fail(err, BW_E_FORMAT, "%s: merge %u names a token that is not in the vocabulary", t->path,
                             (unsigned)i);
        else
            bw_tok_merges_add(&t->merges, left, right, i, id);
    }
    bw_str_deinit(&joined);
    return status;
}

/* null, absent or "": false. */
static bool has_text(const tok_json_node *node)
{
    return node && !(node->type == TOK_NULL) && !(node->type == TOK_STRING && node->n == 0);
}

static bw_status read_model(bw_tokenizer *t, const tok_json *j, const tok_json_node *root, bw_err *err)
{
    const tok_json_node *model = bw_tok_json_get(j, root, "model"), *type = bw_tok_json_get(j, model, "type");
    const tok_json_node *vocab = bw_tok_json_get(j, model, "vocab"), *added = bw_tok_json_get(j, root, "added_tokens");
    if (!model || model->type != TOK_OBJECT)
        return bw_fail(err, BW_E_FORMAT, "%s: no \"model\", so this is not a tokenizer.json", t->path);
    if (type && !bw_tok_json_is(type, "BPE"))
        return bw_fail(err, BW_E_UNSUPPORTED, "%s: a tokenizer model of type %.*s; only BPE is supported", t->path,
                       type->type == TOK_STRING ? (int)(type->n > 40 ? 40 : type->n) : 1,
                       type->type == TOK_STRING ? type->s : "?");
    if (!vocab || vocab->type != TOK_OBJECT)
        return bw_fail(err, BW_E_FORMAT, "%s: the model has no vocabulary", t->path);
    if (has_text(bw_tok_json_get(j, model, "continuing_subword_prefix")) ||
        has_text(bw_tok_json_get(j, model, "end_of_word_suffix")))
        return bw_fail(err, BW_E_UNSUPPORTED, "%s: BPE with word prefixes or suffixes is not supported", t->path);
    const tok_json_node *dropout = bw_tok_json_get(j, model, "dropout");
    if (dropout && dropout->type == TOK_NUMBER && dropout->number != 0)
        return bw_fail(err, BW_E_UNSUPPORTED, "%s: BPE with dropout gives random tokens; set it to null", t->path);
    BW_TRY(read_vocab(t, j, vocab, added, err));
    BW_TRY(read_merges(t, j, bw_tok_json_get(j, model, "merges"), err));
    t->byte_fallback = bw_tok_json_flag(j, model, "byte_fallback", false);
    t->fuse_unk = bw_tok_json_flag(j, model, "fuse_unk", false);
    t->ignore_merges = bw_tok_json_flag(j, model, "ignore_merges", false);
    const tok_json_node *unk = bw_tok_json_get(j, model, "unk_token");
    if (has_text(unk)) {
        if (unk->type == TOK_STRING)
            t->unk = bw_tokenizer_find(t, unk->s, unk->n);
        if (t->unk < 0)
            return bw_fail(err, BW_E_FORMAT, "%s: the unknown token is not in the vocabulary", t->path);
    }
    return read_added(t, j, added, err);
}

/* ---- companions ---------------------------------------------------------------------------------------------- */

/* A token given by its text or by an object with its "content"; -1 when neither or unknown. */
static int32_t named_token(const bw_tokenizer *t, const tok_json *j, const tok_json_node *node)
{
    if (node && node->type == TOK_OBJECT)
        node = bw_tok_json_get(j, node, "content");
    return node && node->type == TOK_STRING ? bw_tokenizer_find(t, node->s, node->n) : -1;
}

static bw_status read_templates(bw_tokenizer *t, const tok_json *j, const tok_json_node *root, bw_err *err)
{
    const tok_json_node *node = bw_tok_json_get(j, root, "chat_template");
    if (!node)
        return BW_OK;
    if (node->type == TOK_STRING)
        return bw_tok_add_template(t, "default", 7, node->s, node->n, err);
    if (node->type != TOK_ARRAY)
        return BW_OK;
    const tok_json_node *each = node + 1;
    for (uint32_t i = 0; i < node->n; i++, each = bw_tok_json_next(j, each)) {
        const tok_json_node *name = bw_tok_json_get(j, each, "name"), *text = bw_tok_json_get(j, each, "template");
        if (name && text && name->type == TOK_STRING && text->type == TOK_STRING)
            BW_TRY(bw_tok_add_template(t, name->s, name->n, text->s, text->n, err));
    }
    return BW_OK;
}

static bw_status read_config(bw_tokenizer *t, const char *text, size_t n, bw_err *err)
{
    tok_json j;
    bw_status status = bw_tok_json_parse(&j, text, n, "tokenizer_config.json", err);
    if (status == BW_OK) {
        const tok_json_node *root = j.nodes;
        int32_t bos = named_token(t, &j, bw_tok_json_get(&j, root, "bos_token"));
        int32_t eos = named_token(t, &j, bw_tok_json_get(&j, root, "eos_token"));
        if (bos >= 0)
            t->bos = bos;
        bw_tok_add_eos(t, eos);
        /* Only where tokenizer.json itself says nothing about tokens around a text. */
        bool add_bos = t->bos >= 0 && bw_tok_json_flag(&j, root, "add_bos_token", false);
        bool add_eos = eos >= 0 && bw_tok_json_flag(&j, root, "add_eos_token", false);
        if (t->n_prefix + t->n_suffix == 0)
            status = bw_tok_set_around(t, &t->bos, add_bos, &eos, add_eos, err);
        if (status == BW_OK)
            status = read_templates(t, &j, root, err);
    }
    bw_tok_json_deinit(&j);
    return status;
}

static bw_status read_generation(bw_tokenizer *t, const char *text, size_t n, bw_err *err)
{
    tok_json j;
    bw_status status = bw_tok_json_parse(&j, text, n, "generation_config.json", err);
    if (status == BW_OK) {
        const tok_json_node *eos = bw_tok_json_get(&j, j.nodes, "eos_token_id");
        int32_t id;
        if (bw_tok_json_int(eos, &id))
            bw_tok_add_eos(t, id);
        if (eos && eos->type == TOK_ARRAY) {
            const tok_json_node *each = eos + 1;
            for (uint32_t i = 0; i < eos->n; i++, each = bw_tok_json_next(&j, each))
                if (bw_tok_json_int(each, &id))
                    bw_tok_add_eos(t, id);
        }
        if (t->bos < 0 && bw_tok_json_int(bw_tok_json_get(&j, j.nodes, "bos_token_id"), &id) && id < t->n_tokens)
            t->bos = id;
    }
    bw_tok_json_deinit(&j);
    return status;
}

static bw_status load(bw_tokenizer *t, const char *json, size_t n_bytes, bw_err *err)
{
    tok_json j;
    bw_status status = bw_tok_json_parse(&j, json, n_bytes, t->path, err);
    if (status == BW_OK)
        status = read_model(t, &j, j.nodes, err);
    if (status == BW_OK)
        status = bw_tok_read_normalizer(t, &j, bw_tok_json_get(&j, j.nodes, "normalizer"), err);
    if (status == BW_OK)
        status = bw_tok_read_pre_tokenizer(t, &j, bw_tok_json_get(&j, j.nodes, "pre_tokenizer"), err);
    if (status == BW_OK)
        status = bw_tok_read_decoder(t, &j, bw_tok_json_get(&j, j.nodes, "decoder"), err);
    if (status == BW_OK)
        status = bw_tok_read_post_processor(t, &j, bw_tok_json_get(&j, j.nodes, "post_processor"), err);
    bw_tok_json_deinit(&j);
    return status;
}

bw_status bw_tokenizer_from_json(const char *json, size_t n_bytes, const char *config_json, size_t config_bytes,
                                 const char *generation_json, size_t generation_bytes, const char *path,
                                 bw_tokenizer **tokenizer, bw_err *err)
{
    *tokenizer = NULL;
    bw_tokenizer *t;
    BW_TRY(bw_tok_new(path, &t, err));
    bw_status status = load(t, json, n_bytes, err);
    if (status == BW_OK && config_json)
        status = read_config(t, config_json, config_bytes, err);
    if (status == BW_OK && generation_json)
        status = read_generation(t, generation_json, generation_bytes, err);
    if (status == BW_OK && t->bos < 0 && t->n_prefix)
        t->bos = t->prefix[0];
    if (status == BW_OK && t->eos < 0 && t->n_suffix)
        bw_tok_add_eos(t, t->suffix[t->n_suffix - 1]);
    if (status == BW_OK)
        status = bw_tok_finish(t, err);
    if (status != BW_OK) {
        bw_tokenizer_free(t);
        return status;
    }
    *tokenizer = t;
    return BW_OK;
}
