/* See tok_load_json.h. Unknown kinds of steps are refused by name: leaving one out would give other ids. */
#include <string.h>

#include "tok_load_json.h"

typedef bw_status step_fn(bw_tokenizer *t, const tok_json *j, const tok_json_node *node, bw_err *err);

static bool is_none(const tok_json_node *node)
{
    return !node || node->type == TOK_NULL;
}

static bw_status unknown(const bw_tokenizer *t, const tok_json_node *type, const char *what, bw_err *err)
{
    bool named = type && type->type == TOK_STRING;
    return bw_fail(err, BW_E_UNSUPPORTED, "%s: the %s step '%.*s' is not supported", t->path, what,
                   named ? (int)(type->n > 60 ? 60 : type->n) : 1, named ? type->s : "?");
}

/* Every element of a member array through fn. */
static bw_status each(bw_tokenizer *t, const tok_json *j, const tok_json_node *list, step_fn *fn, bw_err *err)
{
    if (!list || list->type != TOK_ARRAY)
        return bw_fail(err, BW_E_FORMAT, "%s: a Sequence without its list", t->path);
    const tok_json_node *node = list + 1;
    for (uint32_t i = 0; i < list->n; i++, node = bw_tok_json_next(j, node))
        BW_TRY(fn(t, j, node, err));
    return BW_OK;
}

static bw_status keep_text(bw_tokenizer *t, const tok_json_node *node, const char *what, tok_text *out, bw_err *err)
{
    if (!node || node->type != TOK_STRING)
        return bw_fail(err, BW_E_FORMAT, "%s: a %s is missing or not a string", t->path, what);
    *out = bw_tok_keep(t, node->s, node->n);
    return out->s ? BW_OK : bw_fail_memory(err, node->n, "a tokenizer's step");
}

/* ---- normaliser ---------------------------------------------------------------------------------------------- */

static bw_status read_form(bw_tokenizer *t, const tok_json_node *type, bool *known, bw_err *err)
{
    static const char *const names[] = {"NFC", "NFD", "NFKC", "NFKD"};
    static const tok_form forms[] = {FORM_NFC, FORM_NFD, FORM_NFKC, FORM_NFKD};
    *known = false;
    for (size_t i = 0; i < 4; i++) {
        if (!bw_tok_json_is(type, names[i]))
            continue;
        tok_norm *step = bw_tok_next_norm(t, NORM_FORM, err);
        if (!step)
            return BW_E_UNSUPPORTED;
        step->form = forms[i];
        *known = true;
    }
    return BW_OK;
}

static bw_status read_replace(bw_tokenizer *t, const tok_json *j, const tok_json_node *node, bw_err *err)
{
    const tok_json_node *pattern = bw_tok_json_get(j, node, "pattern");
    const tok_json_node *text = bw_tok_json_get(j, pattern, "String"), *regex = bw_tok_json_get(j, pattern, "Regex");
    tok_norm *step = bw_tok_next_norm(t, text ? NORM_REPLACE : NORM_REPLACE_REGEX, err);
    if (!step)
        return BW_E_UNSUPPORTED;
    BW_TRY(keep_text(t, bw_tok_json_get(j, node, "content"), "replacement", &step->to, err));
    BW_TRY(keep_text(t, text ? text : regex, "pattern", &step->from, err));
    if (step->from.n == 0)
        return bw_fail(err, BW_E_UNSUPPORTED, "%s: a replacement of the empty text", t->path);
    return text ? BW_OK : bw_tok_regex_new(step->from.s, step->from.n, t->path, &step->regex, err);
}

bw_status bw_tok_read_normalizer(bw_tokenizer *t, const tok_json *j, const tok_json_node *node, bw_err *err)
{
    if (is_none(node))
        return BW_OK;
    const tok_json_node *type = bw_tok_json_get(j, node, "type");
    if (bw_tok_json_is(type, "Sequence"))
        return each(t, j, bw_tok_json_get(j, node, "normalizers"), bw_tok_read_normalizer, err);
    if (bw_tok_json_is(type, "Replace"))
        return read_replace(t, j, node, err);
    bool known;
    BW_TRY(read_form(t, type, &known, err));
    if (known)
        return BW_OK;
    tok_norm_kind kind = NORM_PREPEND;
    if (bw_tok_json_is(type, "Lowercase"))
        kind = NORM_LOWERCASE;
    else if (bw_tok_json_is(type, "Strip"))
        kind = NORM_STRIP;
    else if (!bw_tok_json_is(type, "Prepend"))
        return unknown(t, type, "normaliser", err);
    tok_norm *step = bw_tok_next_norm(t, kind, err);
    if (!step)
        return BW_E_UNSUPPORTED;
    step->left = bw_tok_json_flag(j, node, "strip_left", true);
    step->right = bw_tok_json_flag(j, node, "strip_right", true);
    return kind == NORM_PREPEND ? keep_text(t, bw_tok_json_get(j, node, "prepend"), "text to prepend", &step->to, err)
                                : BW_OK;
}

/* ---- pre-tokenizer ------------------------------------------------------------------------------------------- */

static bw_status read_behaviour(const bw_tokenizer *t, const tok_json_node *node, tok_behaviour *out, bw_err *err)
{
    static const char *const names[] = {"Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"};
    for (int i = 0; i < 5; i++) {
        if (bw_tok_json_is(node, names[i])) {
            *out = (tok_behaviour)i;
            return BW_OK;
        }
    }
    return bw_fail(err, BW_E_FORMAT, "%s: a split without a known behaviour", t->path);
}

static bw_status read_split(bw_tokenizer *t, const tok_json *j, const tok_json_node *node, bw_err *err)
{
    tok_behaviour behaviour = SPLIT_ISOLATED;
    BW_TRY(read_behaviour(t, bw_tok_json_get(j, node, "behavior"), &behaviour, err));
    bool invert = bw_tok_json_flag(j, node, "invert", false);
    const tok_json_node *pattern = bw_tok_json_get(j, node, "pattern");
    const tok_json_node *regex = bw_tok_json_get(j, pattern, "Regex");
    if (regex && regex->type == TOK_STRING)
        return bw_tok_add_regex_step(t, regex->s, regex->n, behaviour, invert, err);
    tok_pre *step = bw_tok_next_pre(t, PRE_LITERAL, err);
    if (!step)
        return BW_E_UNSUPPORTED;
    step->behaviour = behaviour;
    step->invert = invert;
    return keep_text(t, bw_tok_json_get(j, pattern, "String"), "pattern", &step->literal, err);
}

static bw_status read_scheme(const bw_tokenizer *t, const tok_json *j, const tok_json_node *node, tok_scheme *scheme,
                             bw_err *err)
{
    const tok_json_node *name = bw_tok_json_get(j, node, "prepend_scheme");
    static const char *const names[] = {"always", "first", "never"};
    *scheme = bw_tok_json_flag(j, node, "add_prefix_space", true) ? SCHEME_ALWAYS : SCHEME_NEVER;
    if (is_none(name))
        return BW_OK;
    for (int i = 0; i < 3; i++) {
        if (bw_tok_json_is(name, names[i])) {
            *scheme = (tok_scheme)i;
            return BW_OK;
        }
    }
    return bw_fail(err, BW_E_FORMAT, "%s: a Metaspace step with an unknown prepend_scheme", t->path);
}

static bw_status read_metaspace(bw_tokenizer *t, const tok_json *j, const tok_json_node *node, bw_err *err)
{
    tok_pre *step = bw_tok_next_pre(t, PRE_METASPACE, err);
    if (!step)
        return BW_E_UNSUPPORTED;
    BW_TRY(read_scheme(t, j, node, &step->scheme, err));
    step->flag = bw_tok_json_flag(j, node, "split", true);
    BW_TRY(keep_text(t, bw_tok_json_get(j, node, "replacement"), "replacement", &step->literal, err));
    uint32_t cp;
    if (step->literal.n == 0 || bw_utf8_decode(step->literal.s, step->literal.n, &cp) != (int)step->literal.n)
        return bw_fail(err, BW_E_FORMAT, "%s: a Metaspace step whose replacement is not one character", t->path);
    return BW_OK;
}

static bw_status read_byte_level(bw_tokenizer *t, const tok_json *j, const tok_json_node *node, bw_err *err)
{
    tok_pre *step = bw_tok_next_pre(t, PRE_BYTE_LEVEL, err);
    if (!step)
        return BW_E_UNSUPPORTED;
    step->flag = bw_tok_json_flag(j, node, "add_prefix_space", true);
    t->byte_level = true;
    if (bw_tok_json_flag(j, node, "use_regex", true) && !bw_tok_next_pre(t, PRE_GPT2, err))
        return BW_E_UNSUPPORTED;
    return BW_OK;
}

bw_status bw_tok_read_pre_tokenizer(bw_tokenizer *t, const tok_json *j, const tok_json_node *node, bw_err *err)
{
    if (is_none(node))
        return BW_OK;
    const tok_json_node *type = bw_tok_json_get(j, node, "type");
    if (bw_tok_json_is(type, "Sequence"))
        return each(t, j, bw_tok_json_get(j, node, "pretokenizers"), bw_tok_read_pre_tokenizer, err);
    if (t->byte_level)
        return bw_fail(err, BW_E_UNSUPPORTED, "%s: pre-tokenizer steps behind ByteLevel are not supported", t->path);
    if (bw_tok_json_is(type, "ByteLevel"))
        return read_byte_level(t, j, node, err);
    if (bw_tok_json_is(type, "Split"))
        return read_split(t, j, node, err);
    if (bw_tok_json_is(type, "Metaspace"))
        return read_metaspace(t, j, node, err);
    tok_pre_kind kind = PRE_DIGITS;
    if (bw_tok_json_is(type, "Punctuation"))
        kind = PRE_PUNCTUATION;
    else if (bw_tok_json_is(type, "WhitespaceSplit"))
        kind = PRE_SPACES;
    else if (!bw_tok_json_is(type, "Digits"))
        return unknown(t, type, "pre-tokenizer", err);
    tok_pre *step = bw_tok_next_pre(t, kind, err);
    if (!step)
        return BW_E_UNSUPPORTED;
    step->flag = bw_tok_json_flag(j, node, "individual_digits", false);
    step->behaviour = kind == PRE_SPACES ? SPLIT_REMOVED : SPLIT_ISOLATED;
    const tok_json_node *behaviour = bw_tok_json_get(j, node, "behavior");
    return kind == PRE_PUNCTUATION && behaviour ? read_behaviour(t, behaviour, &step->behaviour, err) : BW_OK;
}

/* ---- decoder ------------------------------------------------------------------------------------------------- */

static bw_status add_replace(bw_tokenizer *t, tok_text from, tok_text to, bw_err *err)
{
    int max = (int)(sizeof t->replace / sizeof *t->replace);
    if (t->n_replace == max || from.n == 0)
        return bw_fail(err, BW_E_UNSUPPORTED, "%s: a decoder with more than %d replacements or one of nothing", t->path,
                       max);
    t->replace[t->n_replace].from = from;
    t->replace[t->n_replace++].to = to;
    return BW_OK;
}

bw_status bw_tok_read_decoder(bw_tokenizer *t, const tok_json *j, const tok_json_node *node, bw_err *err)
{
    if (is_none(node))
        return BW_OK;
    const tok_json_node *type = bw_tok_json_get(j, node, "type");
    tok_text from, to;
    if (bw_tok_json_is(type, "Sequence"))
        return each(t, j, bw_tok_json_get(j, node, "decoders"), bw_tok_read_decoder, err);
    if (bw_tok_json_is(type, "ByteLevel")) {
        t->decode_byte_level = true;
    } else if (bw_tok_json_is(type, "ByteFallback")) {
        t->decode_bytes = true;
    } else if (bw_tok_json_is(type, "Replace")) {
        BW_TRY(keep_text(t, bw_tok_json_get(j, bw_tok_json_get(j, node, "pattern"), "String"), "pattern", &from, err));
        BW_TRY(keep_text(t, bw_tok_json_get(j, node, "content"), "replacement", &to, err));
        return add_replace(t, from, to, err);
    } else if (bw_tok_json_is(type, "Metaspace")) {
        tok_scheme scheme = SCHEME_ALWAYS;
        BW_TRY(read_scheme(t, j, node, &scheme, err));
        t->strip_start = scheme != SCHEME_NEVER;
        BW_TRY(keep_text(t, bw_tok_json_get(j, node, "replacement"), "replacement", &from, err));
        return add_replace(t, from, (tok_text){" ", 1}, err);
    } else if (bw_tok_json_is(type, "Strip")) {
        int32_t start = 0, stop = 0;
        if (!bw_tok_json_is(bw_tok_json_get(j, node, "content"), " ") ||
            !bw_tok_json_int(bw_tok_json_get(j, node, "start"), &start) ||
            !bw_tok_json_int(bw_tok_json_get(j, node, "stop"), &stop) || start > 1 || stop > 0)
            return bw_fail(err, BW_E_UNSUPPORTED, "%s: a decoder that strips anything but one leading space", t->path);
        t->strip_start = start == 1;
    } else if (!bw_tok_json_is(type, "Fuse")) {
        return unknown(t, type, "decoder", err);
    }
    return BW_OK;
}

/* ---- post-processor ------------------------------------------------------------------------------------------ */

enum { MAX_AROUND = 64 };

/* The ids of a special token of a template, appended. */
static bw_status template_ids(const bw_tokenizer *t, const tok_json *j, const tok_json_node *post,
                              const tok_json_node *name, int32_t *ids, size_t *n, bw_err *err)
{
    const tok_json_node *tokens = bw_tok_json_get(j, post, "special_tokens"), *found = NULL;
    if (tokens && tokens->type == TOK_OBJECT && name && name->type == TOK_STRING) {
        const tok_json_node *key = tokens + 1;
        for (uint32_t i = 0; i < tokens->n; i++, key = bw_tok_json_next(j, key + 1))
            if (key->n == name->n && memcmp(key->s, name->s, key->n) == 0)
                found = bw_tok_json_get(j, key + 1, "ids");
    }
    if (!found || found->type != TOK_ARRAY)
        return bw_fail(err, BW_E_FORMAT, "%s: the post-processor names a special token that it does not define",
                       t->path);
    const tok_json_node *id = found + 1;
    for (uint32_t i = 0; i < found->n; i++, id = bw_tok_json_next(j, id)) {
        if (*n == MAX_AROUND || !bw_tok_json_int(id, &ids[*n]))
            return bw_fail(err, BW_E_FORMAT, "%s: the post-processor has more than %d tokens or a bad id", t->path,
                           MAX_AROUND);
        ++*n;
    }
    return BW_OK;
}

static bw_status read_template(bw_tokenizer *t, const tok_json *j, const tok_json_node *post, bw_err *err)
{
    int32_t ids[2][MAX_AROUND];
    size_t n[2] = {0, 0};
    int side = 0; /* 0: in front of the text */
    const tok_json_node *single = bw_tok_json_get(j, post, "single");
    if (!single || single->type != TOK_ARRAY)
        return bw_fail(err, BW_E_FORMAT, "%s: a template without its parts", t->path);
    const tok_json_node *part = single + 1;
    for (uint32_t i = 0; i < single->n; i++, part = bw_tok_json_next(j, part)) {
        const tok_json_node *special = bw_tok_json_get(j, part, "SpecialToken");
        if (special)
            BW_TRY(template_ids(t, j, post, bw_tok_json_get(j, special, "id"), ids[side], &n[side], err));
        else if (side++ > 0 || !bw_tok_json_get(j, part, "Sequence"))
            return bw_fail(err, BW_E_UNSUPPORTED, "%s: a template that is not tokens, one text, tokens", t->path);
    }
    return bw_tok_set_around(t, ids[0], n[0], ids[1], n[1], err);
}

bw_status bw_tok_read_post_processor(bw_tokenizer *t, const tok_json *j, const tok_json_node *node, bw_err *err)
{
    if (is_none(node))
        return BW_OK;
    const tok_json_node *type = bw_tok_json_get(j, node, "type");
    if (bw_tok_json_is(type, "Sequence"))
        return each(t, j, bw_tok_json_get(j, node, "processors"), bw_tok_read_post_processor, err);
    if (bw_tok_json_is(type, "TemplateProcessing"))
        return read_template(t, j, node, err);
    if (bw_tok_json_is(type, "ByteLevel")) /* changes offsets only */
        return BW_OK;
    if (!bw_tok_json_is(type, "RobertaProcessing") && !bw_tok_json_is(type, "BertProcessing"))
        return unknown(t, type, "post-processor", err);
    static const char *const keys[] = {"cls", "sep"}; /* each ["text", id] */
    int32_t ids[2];
    for (int i = 0; i < 2; i++) {
        const tok_json_node *pair = bw_tok_json_get(j, node, keys[i]);
        if (!pair || pair->type != TOK_ARRAY || pair->n != 2 ||
            !bw_tok_json_int(bw_tok_json_next(j, pair + 1), &ids[i]))
            return bw_fail(err, BW_E_FORMAT, "%s: the post-processor's %s is not a token with its id", t->path,
                           keys[i]);
    }
    return bw_tok_set_around(t, &ids[0], 1, &ids[1], 1, err);
}
