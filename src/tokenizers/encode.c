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

/* Whether bytes start to end have one in common with spans [n], which are in order. */
static bool touches(const bw_text_span *spans, size_t n, size_t start, size_t end)
{
    size_t low = 0, high = n; /* the first span that ends behind `start` */
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (spans[middle].end <= start)
            low = middle + 1;
        else
            high = middle;
    }
    while (low < n && spans[low].start < end && spans[low].start == spans[low].end) /* an empty one */
        low++;
    return low < n && spans[low].start < end;
}

/* How long the first n bytes of what is being normalised are then. Each stretch asks for that anew, so it counts on the
 * text's budget of steps. */
static bw_status normalized_length(tok_encoder *e, size_t n, size_t *length)
{
    e->regex_budget -= (int64_t)n;
    if (e->regex_budget < 0)
        return bw_fail(e->err, BW_E_UNSUPPORTED,
                       "a text of %zu bytes with %zu literal stretches spells control tokens, and this tokenizer takes "
                       "too many steps to tell them apart: send fewer or shorter messages, or leave that text out",
                       e->n_input, e->n_literal);
    tok_encoder prefix = {.t = e->t, .err = e->err, .n_input = e->n_input, .regex_budget = e->regex_budget};
    tok_text text;
    bw_status status = bw_tok_normalize_text(&prefix, e->raw, n, &text);
    *length = status == BW_OK ? text.n : 0;
    e->regex_budget = prefix.regex_budget;
    bw_tok_encoder_deinit(&prefix);
    return status;
}

/* The literal stretches of what is being normalised, in the normalised text. */
static bw_status map_literal(tok_encoder *e)
{
    size_t begin = (size_t)(e->raw - e->input), end = begin + e->n_raw;
    e->is_mapped = true;
    e->n_mapped = 0;
    for (size_t i = 0; i < e->n_literal; i++) {
        bw_text_span at = e->literal[i], to;
        if (at.end <= begin || at.start >= end)
            continue;
        at.start = at.start > begin ? at.start - begin : 0;
        at.end = at.end < end ? at.end - begin : end - begin;
        if (!bw_reserve((void **)&e->mapped, &e->mapped_capacity, e->n_mapped + 1, sizeof *e->mapped))
            return bw_tok_no_memory(e->err);
        BW_TRY(normalized_length(e, at.start, &to.start));
        BW_TRY(normalized_length(e, at.end, &to.end));
        e->mapped[e->n_mapped++] = to;
    }
    return BW_OK;
}

/* Whether s[start..end), of the text or of the normalised one, has text of a request in it. */
static bw_status is_literal(tok_encoder *e, bool normalized, const char *s, size_t start, size_t end, bool *out)
{
    if (normalized) {
        if (!e->is_mapped)
            BW_TRY(map_literal(e));
        *out = touches(e->mapped, e->n_mapped, start, end);
        return BW_OK;
    }
    size_t base = (size_t)(s - e->input);
    *out = touches(e->literal, e->n_literal, base + start, base + end);
    return BW_OK;
}

/* The longest added token at s[i] that may be read there; *index -1 = none. */
static bw_status match_added(tok_encoder *e, const tok_trie *trie, const char *s, size_t n, size_t i, int32_t *index,
                             size_t *len)
{
    bool literal = true;
    *index = bw_tok_trie_match(trie, s + i, n - i, len);
    while (*index >= 0 && e->n_literal && e->t->added[*index].control) {
        BW_TRY(is_literal(e, trie == &e->t->normalized, s, i, i + *len, &literal));
        if (!literal)
            break;
        *index = bw_tok_trie_match(trie, s + i, *len - 1, len);
    }
    return BW_OK;
}

typedef bw_status rest_fn(tok_encoder *e, const char *s, size_t n, bool is_first);

/* Cut the trie's tokens out of s and hand each rest to `rest`. */
static bw_status cut_added(tok_encoder *e, const tok_trie *trie, const char *s, size_t n, bool is_first, rest_fn *rest)
{
    const bw_tokenizer *t = e->t;
    size_t done = 0;
    for (size_t i = 0; trie->n_edges && i < n;) {
        size_t len = 0;
        int32_t index;
        BW_TRY(match_added(e, trie, s, n, i, &index, &len));
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
    e->raw = s;
    e->n_raw = n;
    e->is_mapped = false;
    BW_TRY(bw_tok_normalize_text(e, s, n, &text));
    return cut_added(e, &e->t->normalized, text.s, text.n, is_first, encode_plain);
}

/* ---- the whole ----------------------------------------------------------------------------------------------- */

void bw_tok_encoder_deinit(tok_encoder *e)
{
    bw_free(e->symbols);
    bw_free(e->mapped);
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

/* Each longest part of an invalid sequence that could have begun a character becomes one U+FFFD. spans [n_spans] of s
 * become those of out. */
static void clean(const char *s, size_t n, bw_str *out, bw_text_span *spans, size_t n_spans)
{
    size_t k = 0, kept = 0; /* borders of spans that are moved; where the last good stretch began in out */
    for (size_t i = 0; i < n;) {
        size_t good = bw_utf8_valid_prefix(s + i, n - i), bad = 0;
        kept = out->len;
        bw_str_add_bytes(out, s + i, good);
        if (i + good < n) {
            bad = 1;
            while (i + good + bad < n && bad < 3 && bw_utf8_is_incomplete(s + i + good, bad + 1))
                bad++;
            bw_str_add_codepoint(out, 0xFFFD);
        }
        for (; k < 2 * n_spans; k++) {
            size_t *border = k % 2 ? &spans[k / 2].end : &spans[k / 2].start;
            if (*border > i + good + bad || (k % 2 == 0 && *border == i + good + bad))
                break;
            size_t into = *border - i;
            *border = into <= good ? kept + into : k % 2 ? out->len : kept + good;
        }
        i += good + bad;
    }
    for (; k < 2 * n_spans; k++)
        *(k % 2 ? &spans[k / 2].end : &spans[k / 2].start) = out->len;
}

static bw_status encode_clean(tok_encoder *e, const char *text, size_t n_bytes)
{
    bw_str good = {0};
    bw_text_span *spans = bw_alloc_array(e->n_literal + 1, sizeof *spans);
    bw_status status = BW_OK;
    if (spans) {
        if (e->n_literal)
            memcpy(spans, e->literal, e->n_literal * sizeof *spans);
        clean(text, n_bytes, &good, spans, e->n_literal);
        e->literal = spans;
        e->input = good.data;
    }
    if (!spans || good.failed)
        status = bw_tok_no_memory(e->err);
    else
        status = cut_added(e, &e->t->raw, good.data, good.len, true, encode_rest);
    bw_free(spans);
    bw_str_deinit(&good);
    return status;
}

/* Whether the text's tokens, from the first-th on, begin with those that are to be put before a text. */
static bool has_prefix(const tok_encoder *e, size_t first)
{
    const bw_tokenizer *t = e->t;
    return t->n_prefix && e->n_ids - first >= t->n_prefix &&
           memcmp(e->ids + first, t->prefix, t->n_prefix * sizeof *t->prefix) == 0;
}

static bw_status encode_all(tok_encoder *e, const char *text, size_t n_bytes, const bw_encode_options *o)
{
    const bw_tokenizer *t = e->t;
    size_t n_prefix = o->add_special ? t->n_prefix : 0;
    for (size_t i = 0; i < n_prefix; i++)
        BW_TRY(bw_tok_emit(e, t->prefix[i]));
    e->input = text;
    if (bw_utf8_valid_prefix(text, n_bytes) == n_bytes)
        BW_TRY(cut_added(e, &t->raw, text, n_bytes, true, encode_rest));
    else
        BW_TRY(encode_clean(e, text, n_bytes));
    if (o->once && n_prefix && has_prefix(e, n_prefix)) {
        e->n_ids -= n_prefix;
        memmove(e->ids, e->ids + n_prefix, e->n_ids * sizeof *e->ids);
    }
    if (o->max_tokens) {
        e->max_ids = o->max_tokens;
        BW_TRY(bw_tok_check_count(e));
    }
    for (size_t i = 0; o->add_special && !o->once && i < t->n_suffix; i++)
        BW_TRY(bw_tok_emit(e, t->suffix[i]));
    return BW_OK;
}

static bool in_order(const bw_encode_options *o, size_t n_bytes)
{
    size_t end = 0;
    for (size_t i = 0; i < o->n_literal; i++) {
        if (o->literal[i].start < end || o->literal[i].end < o->literal[i].start || o->literal[i].end > n_bytes)
            return false;
        end = o->literal[i].end;
    }
    return true;
}

bw_status bw_tokenizer_encode(const bw_tokenizer *tokenizer, const char *text, size_t n_bytes,
                              const bw_encode_options *options, int32_t **tokens, size_t *n_tokens, bw_err *err)
{
    if (!tokenizer)
        return bw_fail(err, BW_E_UNSUPPORTED, "the model has no tokenizer: it takes token ids, not text");
    if (!in_order(options, n_bytes))
        return bw_fail(err, BW_E_ARG, "the literal stretches of a text of %zu bytes overlap or lie outside it",
                       n_bytes);
    size_t most = options->max_tokens ? options->max_tokens : SIZE_MAX;
    if (options->once && options->max_tokens)
        most += tokenizer->n_prefix; /* which may turn out to be in the text */
    tok_encoder e = {.t = tokenizer,
                     .err = err,
                     .parse_special = options->parse_special,
                     .literal = options->literal,
                     .n_literal = options->n_literal,
                     .n_input = n_bytes,
                     .regex_budget = bw_tok_regex_budget(n_bytes),
                     .max_ids = most};
    bw_status status = encode_all(&e, text, n_bytes, options);
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
