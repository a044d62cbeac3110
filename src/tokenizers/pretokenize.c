/* The pre-tokenizer's steps: each cuts the words of the step before. The expressions of GPT-2 and of Llama 3 and its
 * relatives are scanned natively in linear time; others go through regex.c. */
#include <string.h>

#include "tok_internal.h"

/* ---- native scanners: each returns the length of the word at s[0..n), n > 0 ---------------------------------- */

typedef struct look {
    uint32_t cp;
    size_t len;
    unsigned cls;
} look;

static look look_at(const char *s, size_t n, size_t i)
{
    look l = {0};
    if (i >= n)
        return l;
    unsigned char c = (unsigned char)s[i];
    if (c < 0x80) {
        l.cp = c;
        l.len = 1;
    } else {
        int len = bw_utf8_decode(s + i, n - i, &l.cp);
        if (len == 0)
            l.cp = 0xFFFD;
        l.len = len ? (size_t)len : 1;
    }
    l.cls = bw_tok_class(l.cp);
    return l;
}

/* End of the stretch of one class from i on; at most max characters. */
static size_t run_of(const char *s, size_t n, size_t i, unsigned cls, size_t max)
{
    for (size_t k = 0; i < n && k < max; k++) {
        look l = look_at(s, n, i);
        if (l.cls != cls)
            break;
        i += l.len;
    }
    return i;
}

/* 's 't 're 've 'm 'll 'd behind an apostrophe at s[0]; with fold also capitals and the long s. 0 = none. */
static size_t contraction(const char *s, size_t n, bool fold)
{
    if (n < 2)
        return 0;
    unsigned char a = (unsigned char)s[1], b = n > 2 ? (unsigned char)s[2] : 0;
    if (fold) {
        if (a == 0xC5 && b == 0xBF)
            return 3; /* U+017F folds to s */
        if (a >= 'A' && a <= 'Z')
            a = (unsigned char)(a + 32);
        if (b >= 'A' && b <= 'Z')
            b = (unsigned char)(b + 32);
    }
    if (a == 's' || a == 't' || a == 'm' || a == 'd')
        return 2;
    return (a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l') ? 3 : 0;
}

/* \s+(?!\S)|\s+ : a stretch of white space, without its last character when more follows. */
static size_t space_run(const char *s, size_t n)
{
    size_t i = 0, last = 0;
    while (i < n) {
        look l = look_at(s, n, i);
        if (l.cls != TOK_IS_SPACE)
            break;
        last = i;
        i += l.len;
    }
    return i < n && last > 0 ? last : i;
}

/* 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+ */
static size_t scan_gpt2(const char *s, size_t n)
{
    if (s[0] == '\'') {
        size_t c = contraction(s, n, false);
        if (c)
            return c;
    }
    size_t i = s[0] == ' ';
    look l = look_at(s, n, i);
    if (l.len && l.cls != TOK_IS_SPACE)
        return run_of(s, n, i, l.cls, SIZE_MAX);
    return space_run(s, n);
}

/* (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,max}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
 */
static size_t scan_llama3(const char *s, size_t n, size_t max_digits)
{
    if (s[0] == '\'') {
        size_t c = contraction(s, n, true);
        if (c)
            return c;
    }
    look first = look_at(s, n, 0);
    if (first.cls == TOK_IS_LETTER)
        return run_of(s, n, 0, TOK_IS_LETTER, SIZE_MAX);
    if (first.cls == TOK_IS_NUMBER)
        return run_of(s, n, 0, TOK_IS_NUMBER, max_digits);
    look second = look_at(s, n, first.len);
    if (second.len && second.cls == TOK_IS_LETTER && first.cp != '\r' && first.cp != '\n')
        return run_of(s, n, first.len, TOK_IS_LETTER, SIZE_MAX);
    size_t i = first.cp == ' ' && second.len && second.cls == 0 ? 1 : 0;
    if (i || first.cls == 0) {
        i = run_of(s, n, i, 0, SIZE_MAX);
        while (i < n && (s[i] == '\r' || s[i] == '\n'))
            i++;
        return i;
    }
    size_t end = 0; /* behind the last line end of the white space here */
    for (i = 0; i < n;) {
        look l = look_at(s, n, i);
        if (l.cls != TOK_IS_SPACE)
            break;
        i += l.len;
        if (l.cp == '\r' || l.cp == '\n')
            end = i;
    }
    return end ? end : space_run(s, n);
}

/* ---- splitting by matches ------------------------------------------------------------------------------------ */

static bw_status add_span(tok_encoder *e, int step, size_t start, size_t end, bool match)
{
    if (!bw_reserve((void **)&e->spans[step].v, &e->spans[step].capacity, e->spans[step].n + 1, sizeof(tok_span)))
        return bw_tok_no_memory(e->err);
    e->spans[step].v[e->spans[step].n++] = (tok_span){start, end, match};
    return BW_OK;
}

/* A character class as matches: one per character, or one per stretch. */
static bool is_member(const tok_pre *p, uint32_t cp)
{
    if (p->kind == PRE_DIGITS)
        return bw_tok_is_numeric(cp);
    if (p->kind == PRE_SPACES)
        return bw_tok_is_space(cp);
    return bw_tok_is_punctuation(cp);
}

static bw_status find_class(tok_encoder *e, int step, const tok_pre *p, const char *s, size_t n)
{
    size_t gap = 0;
    for (size_t i = 0; i < n;) {
        look l = look_at(s, n, i);
        if (is_member(p, l.cp)) {
            if (i > gap)
                BW_TRY(add_span(e, step, gap, i, false));
            BW_TRY(add_span(e, step, i, i + l.len, true));
            gap = i + l.len;
        }
        i += l.len;
    }
    return gap < n ? add_span(e, step, gap, n, false) : BW_OK;
}

static bw_status find_matches(tok_encoder *e, int step, const tok_pre *p, const char *s, size_t n)
{
    if (p->kind != PRE_REGEX && p->kind != PRE_LITERAL)
        return find_class(e, step, p, s, n);
    size_t gap = 0, from = 0;
    while (from <= n) {
        tok_span m = {0};
        bool found = false;
        if (p->kind == PRE_REGEX) {
            BW_TRY(bw_tok_regex_next(e, &p->regex, s, n, from, &m, &found));
        } else if (p->literal.n) {
            const char *at = memmem(s + from, n - from, p->literal.s, p->literal.n);
            found = at != NULL;
            if (found)
                m = (tok_span){.start = (size_t)(at - s), .end = (size_t)(at - s) + p->literal.n};
        }
        if (!found)
            break;
        if (m.start > gap)
            BW_TRY(add_span(e, step, gap, m.start, false));
        BW_TRY(add_span(e, step, m.start, m.end, true));
        gap = m.end;
        from = m.end;
        if (m.end == m.start) /* an empty match: go on behind the next character */
            from += from < n ? look_at(s, n, from).len : 1;
    }
    return gap < n ? add_span(e, step, gap, n, false) : BW_OK;
}

/* Join spans as the behaviour says; in place. */
static void apply_behaviour(tok_encoder *e, int step, tok_behaviour behaviour, bool invert)
{
    tok_span *v = e->spans[step].v;
    size_t n = e->spans[step].n, out = 0;
    if (invert)
        for (size_t i = 0; i < n; i++)
            v[i].match = !v[i].match;
    bool previous = false;
    if (behaviour == SPLIT_REMOVED) {
        for (size_t i = 0; i < n; i++)
            if (!v[i].match)
                v[out++] = v[i];
        e->spans[step].n = out;
    } else if (behaviour == SPLIT_CONTIGUOUS || behaviour == SPLIT_MERGED_WITH_PREVIOUS) {
        for (size_t i = 0; i < n; i++) {
            tok_span at = v[i];
            bool join = behaviour == SPLIT_CONTIGUOUS ? at.match == previous : at.match && !previous;
            previous = at.match;
            if (join && out > 0)
                v[out - 1].end = at.end;
            else
                v[out++] = at;
        }
        e->spans[step].n = out;
    } else if (behaviour == SPLIT_MERGED_WITH_NEXT) {
        out = n;
        for (size_t i = n; i-- > 0;) {
            tok_span at = v[i];
            if (at.match && !previous && out < n)
                v[out].start = at.start;
            else
                v[--out] = at;
            previous = at.match;
        }
        memmove(v, v + out, (n - out) * sizeof *v);
        e->spans[step].n = n - out;
    }
}

static bw_status split(tok_encoder *e, int step, const tok_pre *p, const char *s, size_t n, bool is_first)
{
    e->spans[step].n = 0;
    BW_TRY(find_matches(e, step, p, s, n));
    if (p->kind != PRE_DIGITS)
        apply_behaviour(e, step, p->behaviour, p->invert);
    else
        apply_behaviour(e, step, p->flag ? SPLIT_ISOLATED : SPLIT_CONTIGUOUS, false);
    for (size_t i = 0; i < e->spans[step].n; i++) {
        tok_span at = e->spans[step].v[i];
        BW_TRY(bw_tok_pretokenize(e, step + 1, s + at.start, at.end - at.start, is_first && at.start == 0));
    }
    return BW_OK;
}

static bw_status scan(tok_encoder *e, int step, const tok_pre *p, const char *s, size_t n, bool is_first)
{
    for (size_t i = 0; i < n;) {
        size_t len = p->kind == PRE_LLAMA3 ? scan_llama3(s + i, n - i, (size_t)p->max_digits) : scan_gpt2(s + i, n - i);
        BW_TRY(bw_tok_pretokenize(e, step + 1, s + i, len, is_first && i == 0));
        i += len;
    }
    return BW_OK;
}

static bw_status metaspace(tok_encoder *e, int step, const tok_pre *p, const char *s, size_t n, bool is_first)
{
    bw_str *text = &e->text[step];
    bw_str_clear(text);
    bool has = n >= p->literal.n && memcmp(s, p->literal.s, p->literal.n) == 0;
    bool wants = p->scheme == SCHEME_ALWAYS || (p->scheme == SCHEME_FIRST && is_first);
    if (wants && !has && s[0] != ' ')
        bw_str_add_bytes(text, p->literal.s, p->literal.n);
    for (size_t i = 0; i < n;) {
        const char *space = memchr(s + i, ' ', n - i);
        size_t end = space ? (size_t)(space - s) : n;
        bw_str_add_bytes(text, s + i, end - i);
        if (space)
            bw_str_add_bytes(text, p->literal.s, p->literal.n);
        i = end + (space != NULL);
    }
    if (text->failed)
        return bw_tok_no_memory(e->err);
    if (!p->flag)
        return bw_tok_pretokenize(e, step + 1, text->data, text->len, is_first);
    tok_pre by = {.kind = PRE_LITERAL, .behaviour = SPLIT_MERGED_WITH_NEXT, .literal = p->literal};
    return split(e, step, &by, text->data, text->len, is_first);
}

bw_status bw_tok_pretokenize(tok_encoder *e, int step, const char *s, size_t n, bool is_first)
{
    if (n == 0)
        return BW_OK;
    if (step == e->t->n_pres)
        return bw_tok_encode_word(e, s, n);
    const tok_pre *p = &e->t->pres[step];
    switch (p->kind) {
    case PRE_GPT2:
    case PRE_LLAMA3:
        return scan(e, step, p, s, n, is_first);
    case PRE_METASPACE:
        return metaspace(e, step, p, s, n, is_first);
    case PRE_BYTE_LEVEL:
        if (p->flag && s[0] != ' ') {
            bw_str_clear(&e->text[step]);
            bw_str_add_char(&e->text[step], ' ');
            bw_str_add_bytes(&e->text[step], s, n);
            if (e->text[step].failed)
                return bw_tok_no_memory(e->err);
            return bw_tok_pretokenize(e, step + 1, e->text[step].data, e->text[step].len, is_first);
        }
        return bw_tok_pretokenize(e, step + 1, s, n, is_first);
    default:
        return split(e, step, p, s, n, is_first);
    }
}
