/* Text to tokens: cleaning, added tokens, normalisation, and the tokens around. */
#include <string.h>

#include "tok_internal.h"

/* ---- normalisation steps ------------------------------------------------------------------------------------- */

/* Steps can multiply a text, so a hostile tokenizer.json could ask for any amount of memory from a short one. */
static bw_status check_growth(tok_encoder *e, size_t n_in, const bw_str *out)
{
    if (out->len / 64 > n_in + 4096)
        return bw_fail(e->err, BW_E_UNSUPPORTED, "%s: the normaliser makes %zu bytes from %zu; 64 times is the limit",
                       e->t->path, out->len, n_in);
    return BW_OK;
}

static bw_status replace_literal(tok_encoder *e, const tok_norm *step, tok_text in, bw_str *out)
{
    size_t i = 0;
    while (i < in.n) {
        BW_TRY(check_growth(e, e->n_text, out));
        const char *at = memmem(in.s + i, in.n - i, step->from.s, step->from.n);
        size_t end = at ? (size_t)(at - in.s) : in.n;
        bw_str_add_bytes(out, in.s + i, end - i);
        if (at)
            bw_str_add_bytes(out, step->to.s, step->to.n);
        i = end + (at ? step->from.n : 0);
    }
    return BW_OK;
}

static bw_status replace_regex(tok_encoder *e, const tok_norm *step, tok_text in, bw_str *out)
{
    size_t done = 0, from = 0;
    while (from <= in.n) {
        tok_span m;
        bool found;
        BW_TRY(check_growth(e, e->n_text, out));
        BW_TRY(bw_tok_regex_next(e, &step->regex, in.s, in.n, from, &m, &found));
        if (!found)
            break;
        bw_str_add_bytes(out, in.s + done, m.start - done);
        bw_str_add_bytes(out, step->to.s, step->to.n);
        done = from = m.end;
        if (m.end == m.start) {
            uint32_t cp;
            int len = from < in.n ? bw_utf8_decode(in.s + from, in.n - from, &cp) : 1;
            from += len ? (size_t)len : 1;
        }
    }
    bw_str_add_bytes(out, in.s + done, in.n - done);
    return BW_OK;
}

static void lowercase(tok_text in, bw_str *out)
{
    for (size_t i = 0; i < in.n;) {
        uint32_t cp;
        int len = bw_utf8_decode(in.s + i, in.n - i, &cp);
        i += len ? (size_t)len : 1;
        if (len && cp == 0x130) {
            bw_str_add(out, "i\xCC\x87"); /* the only one whose lower case is two characters */
            continue;
        }
        bw_str_add_codepoint(out, len ? bw_tok_lowercase(cp) : 0xFFFD);
    }
}

static void strip(const tok_norm *step, tok_text in, bw_str *out)
{
    size_t start = 0, end = in.n;
    while (step->left && start < in.n) {
        uint32_t cp;
        int len = bw_utf8_decode(in.s + start, in.n - start, &cp);
        if (len == 0 || !bw_tok_is_space(cp))
            break;
        start += (size_t)len;
    }
    while (step->right && end > start) {
        size_t at = end - 1;
        while (at > start && ((unsigned char)in.s[at] & 0xC0) == 0x80)
            at--;
        uint32_t cp;
        if (bw_utf8_decode(in.s + at, end - at, &cp) == 0 || !bw_tok_is_space(cp))
            break;
        end = at;
    }
    bw_str_add_bytes(out, in.s + start, end - start);
}

bw_status bw_tok_normalize_text(tok_encoder *e, const char *s, size_t n, tok_text *out)
{
    tok_text text = {s, n};
    e->n_text = n;
    for (int i = 0; i < e->t->n_norms; i++) {
        const tok_norm *step = &e->t->norms[i];
        bw_str *to = &e->norm[i & 1];
        bw_str_clear(to);
        bw_str_add_bytes(to, "", 0);
        switch (step->kind) {
        case NORM_FORM:
            if (!bw_tok_normalise(step->form, text.s, text.n, to))
                return bw_tok_no_memory(e->err);
            break;
        case NORM_PREPEND:
            if (text.n)
                bw_str_add_bytes(to, step->to.s, step->to.n);
            bw_str_add_bytes(to, text.s, text.n);
            break;
        case NORM_REPLACE:
            BW_TRY(replace_literal(e, step, text, to));
            break;
        case NORM_REPLACE_REGEX:
            BW_TRY(replace_regex(e, step, text, to));
            break;
        case NORM_LOWERCASE:
            lowercase(text, to);
            break;
        case NORM_STRIP:
            strip(step, text, to);
            break;
        }
        if (to->failed)
            return bw_tok_no_memory(e->err);
        BW_TRY(check_growth(e, n, to));
        text = (tok_text){to->data, to->len};
    }
    *out = text;
    return BW_OK;
}

/* ---- added tokens -------------------------------------------------------------------------------------------- */

static bool word_ends(const char *s, size_t n)
{
    size_t at = n;
    if (n == 0)
        return false;
    do
        at--;
    while (at > 0 && ((unsigned char)s[at] & 0xC0) == 0x80);
    uint32_t cp;
    return bw_utf8_decode(s + at, n - at, &cp) && bw_tok_is_word(cp, false);
}

static bool word_starts(const char *s, size_t n)
{
    uint32_t cp;
    return n && bw_utf8_decode(s, n, &cp) && bw_tok_is_word(cp, false);
}

/* Start of the white space that ends at `end`, not before `floor`. */
static size_t space_before(const char *s, size_t floor, size_t end)
{
    while (end > floor) {
        size_t at = end - 1;
        while (at > floor && ((unsigned char)s[at] & 0xC0) == 0x80)
            at--;
        uint32_t cp;
        if (bw_utf8_decode(s + at, end - at, &cp) == 0 || !bw_tok_is_space(cp))
            break;
        end = at;
    }
    return end;
}

static size_t space_after(const char *s, size_t n, size_t from)
{
    while (from < n) {
        uint32_t cp;
        int len = bw_utf8_decode(s + from, n - from, &cp);
        if (len == 0 || !bw_tok_is_space(cp))
            break;
        from += (size_t)len;
    }
    return from;
}

typedef bw_status rest_fn(tok_encoder *e, const char *s, size_t n, bool is_first);

/* Cut the trie's tokens out of s and hand each rest to `rest`. */
static bw_status cut_added(tok_encoder *e, const tok_trie *trie, const char *s, size_t n, bool is_first, rest_fn *rest)
{
    const bw_tokenizer *t = e->t;
    size_t done = 0;
    for (size_t i = 0; trie->n_edges && i < n;) {
        size_t len = 0;
        int32_t index = bw_tok_trie_match(trie, s + i, n - i, &len);
        if (index < 0) {
            i++;
            continue;
        }
        const tok_added *a = &t->added[index];
        size_t start = i, end = i + len;
        i = end;
        if (a->special && !e->parse_special)
            continue;
        if (a->single_word && (word_ends(s, start) || word_starts(s + end, n - end)))
            continue;
        if (a->lstrip)
            start = space_before(s, done, start);
        if (a->rstrip)
            end = space_after(s, n, end);
        if (start > done)
            BW_TRY(rest(e, s + done, start - done, is_first && done == 0));
        BW_TRY(bw_tok_emit(e, a->id));
        done = end;
        i = end > i ? end : i;
    }
    return done < n ? rest(e, s + done, n - done, is_first && done == 0) : BW_OK;
}

static bw_status encode_plain(tok_encoder *e, const char *s, size_t n, bool is_first)
{
    if (e->t->steps_keep_text)
        BW_TRY(bw_tok_check_room(e, s, n));
    return bw_tok_pretokenize(e, 0, s, n, is_first);
}

static bw_status encode_rest(tok_encoder *e, const char *s, size_t n, bool is_first)
{
    tok_text text;
    BW_TRY(bw_tok_normalize_text(e, s, n, &text));
    return cut_added(e, &e->t->normalized, text.s, text.n, is_first, encode_plain);
}

/* ---- the whole ----------------------------------------------------------------------------------------------- */

void bw_tok_encoder_deinit(tok_encoder *e)
{
    bw_free(e->symbols);
    bw_free(e->heap);
    bw_str_deinit(&e->word);
    bw_str_deinit(&e->norm[0]);
    bw_str_deinit(&e->norm[1]);
    for (int i = 0; i < TOK_MAX_STEPS; i++) {
        bw_str_deinit(&e->text[i]);
        bw_free(e->spans[i].v);
    }
    pcre2_match_data_free(e->match);
    pcre2_match_context_free(e->limits);
}

/* Each longest part of an invalid sequence that could have begun a character becomes one U+FFFD. */
static void clean(const char *s, size_t n, bw_str *out)
{
    for (size_t i = 0; i < n;) {
        size_t good = bw_utf8_valid_prefix(s + i, n - i);
        bw_str_add_bytes(out, s + i, good);
        i += good;
        if (i == n)
            break;
        size_t bad = 1;
        while (i + bad < n && bad < 3 && bw_utf8_is_incomplete(s + i, bad + 1))
            bad++;
        bw_str_add_codepoint(out, 0xFFFD);
        i += bad;
    }
}

static bw_status encode_all(tok_encoder *e, const char *text, size_t n_bytes, bool add_special)
{
    const bw_tokenizer *t = e->t;
    for (size_t i = 0; add_special && i < t->n_prefix; i++)
        BW_TRY(bw_tok_emit(e, t->prefix[i]));
    if (bw_utf8_valid_prefix(text, n_bytes) == n_bytes) {
        BW_TRY(cut_added(e, &t->raw, text, n_bytes, true, encode_rest));
    } else {
        bw_str good = {0};
        clean(text, n_bytes, &good);
        bw_status status =
            good.failed ? bw_tok_no_memory(e->err) : cut_added(e, &t->raw, good.data, good.len, true, encode_rest);
        bw_str_deinit(&good);
        BW_TRY(status);
    }
    for (size_t i = 0; add_special && i < t->n_suffix; i++)
        BW_TRY(bw_tok_emit(e, t->suffix[i]));
    return BW_OK;
}

bw_status bw_tokenizer_encode(const bw_tokenizer *tokenizer, const char *text, size_t n_bytes,
                              const bw_encode_options *options, int32_t **tokens, size_t *n_tokens, bw_err *err)
{
    if (!tokenizer)
        return bw_fail(err, BW_E_UNSUPPORTED, "the model has no tokenizer: it takes token ids, not text");
    tok_encoder e = {.t = tokenizer,
                     .err = err,
                     .parse_special = options->parse_special,
                     .n_input = n_bytes,
                     .regex_budget = bw_tok_regex_budget(n_bytes),
                     .max_ids = options->max_tokens ? options->max_tokens : SIZE_MAX};
    bw_status status = encode_all(&e, text, n_bytes, options->add_special);
    bw_tok_encoder_deinit(&e);
    size_t total;
    if (status == BW_OK && e.n_ids) {
        int32_t *all = *tokens;
        if (all == NULL && *n_tokens == 0) {
            *tokens = e.ids;
            *n_tokens = e.n_ids;
            return BW_OK;
        }
        all = bw_add_size(*n_tokens, e.n_ids, &total) ? bw_realloc_array(all, total, sizeof *all) : NULL;
        if (all) {
            memcpy(all + *n_tokens, e.ids, e.n_ids * sizeof *all);
            *tokens = all;
            *n_tokens = total;
        } else {
            status = bw_tok_no_memory(err);
        }
    }
    bw_free(e.ids);
    return status;
}
