/* Regular expressions of a tokenizer.json that no native scanner covers, through PCRE2. The classes \p{..}, \s, \d and
 * \w are written out from our own tables, because the installed PCRE2 may know an older Unicode than Hugging Face
 * tokenizers does. Hostile expressions stop with an error when a text's budget of steps is used up. */
#include <string.h>

#include "tok_internal.h"

static void *pcre_alloc(size_t n, void *user)
{
    (void)user;
    return bw_alloc(n);
}

static void pcre_free(void *p, void *user)
{
    (void)user;
    bw_free(p);
}

typedef bool class_fn(uint32_t cp, uint32_t mask);

static bool in_mask(uint32_t cp, uint32_t mask)
{
    return mask >> bw_tok_category(cp) & 1;
}

static bool in_space(uint32_t cp, uint32_t mask)
{
    (void)mask;
    return bw_tok_is_space(cp);
}

static bool in_word(uint32_t cp, uint32_t mask)
{
    (void)mask;
    return bw_tok_is_word(cp, true) && bw_tok_category(cp) != CAT_NO;
}

/* A \w outside brackets, where Oniguruma also takes the six superscripts and fractions of Latin-1. */
static bool in_word_alone(uint32_t cp, uint32_t mask)
{
    (void)mask;
    return bw_tok_is_word(cp, true);
}

/* The next code point at which the class's answer can change. run: index of the category run that cp lies in, moved on.
 */
static uint32_t next_change(class_fn *fn, uint32_t cp, size_t *run)
{
    if (fn == in_space)
        return cp < 0x3001 ? cp + 1 : 0x110000;
    while (*run + 1 < bw_tok_n_category_runs && bw_tok_category_runs[*run + 1] >> 8 <= cp)
        ++*run;
    if ((fn == in_word || fn == in_word_alone) && cp < 0x20000) /* it has members besides categories there */
        return cp + 1;
    return *run + 1 < bw_tok_n_category_runs ? bw_tok_category_runs[*run + 1] >> 8 : 0x110000;
}

/* The class (or all else) as ranges inside brackets, without the surrogates. */
static void add_ranges(bw_str *out, class_fn *fn, uint32_t mask, bool negate)
{
    uint32_t start = 0, next;
    size_t run = 0;
    bool inside = false;
    for (uint32_t cp = 0; cp <= 0x110000; cp = next) {
        bool surrogate = cp >= 0xD800 && cp < 0xE000, member = cp < 0x110000 && !surrogate && fn(cp, mask) != negate;
        if (member && !inside)
            start = cp;
        if (!member && inside)
            bw_str_add_format(out, start == cp - 1 ? "\\x{%X}" : "\\x{%X}-\\x{%X}", start, cp - 1);
        inside = member;
        next = cp == 0x110000 ? cp + 1 : surrogate ? 0xE000 : next_change(fn, cp, &run);
        if (cp < 0xD800 && next > 0xD800)
            next = 0xD800;
    }
}

/* One escape at s[0] = '\\' that names a class: its length, or 0 when it is another escape. */
static size_t class_escape(const char *s, size_t n, class_fn **fn, uint32_t *mask, bool *negate)
{
    *mask = 0;
    *negate = s[1] == 'S' || s[1] == 'D' || s[1] == 'W' || s[1] == 'P';
    switch (s[1]) {
    case 's':
    case 'S':
        *fn = in_space;
        return 2;
    case 'w':
    case 'W':
        *fn = in_word;
        return 2;
    case 'd':
    case 'D':
        *fn = in_mask;
        *mask = 1u << CAT_ND;
        return 2;
    case 'p':
    case 'P': {
        *fn = in_mask;
        if (n < 3)
            return 0;
        if (s[2] != '{') {
            *mask = bw_tok_category_mask(s + 2, 1);
            return *mask ? 3 : 0;
        }
        const char *close = memchr(s, '}', n);
        if (!close)
            return 0;
        const char *name = s + 3;
        if (*name == '^') {
            *negate = !*negate;
            name++;
        }
        *mask = bw_tok_category_mask(name, (size_t)(close - name));
        return *mask ? (size_t)(close - s) + 1 : 0;
    }
    default:
        return 0;
    }
}

/* The expression with every class escape written out. */
static void expand(const char *s, size_t n, bw_str *out)
{
    bool in_class = false;
    for (size_t i = 0; i < n;) {
        class_fn *fn;
        uint32_t mask;
        bool negate;
        if (s[i] == '\\' && i + 1 < n) {
            size_t used = class_escape(s + i, n - i, &fn, &mask, &negate);
            if (used) {
                if (fn == in_word && !in_class)
                    fn = in_word_alone;
                bw_str_add(out, in_class ? "" : negate ? "[^" : "[");
                add_ranges(out, fn, mask, in_class && negate);
                bw_str_add(out, in_class ? "" : "]");
                i += used;
                continue;
            }
            bw_str_add_bytes(out, s + i, 2);
            i += 2;
            continue;
        }
        if (s[i] == '[' && in_class && !(i + 1 < n && s[i + 1] == ':'))
            bw_str_add_char(out, '\\');
        bool opens = s[i] == '[' && !in_class;
        if (s[i] == ']')
            in_class = false;
        bw_str_add_char(out, s[i++]);
        if (opens) {
            in_class = true;
            if (i < n && s[i] == '^')
                bw_str_add_char(out, s[i++]);
            if (i < n && s[i] == ']')
                bw_str_add_char(out, s[i++]);
        }
    }
}

bw_status bw_tok_regex_new(const char *pattern, size_t n, const char *path, tok_regex *regex, bw_err *err)
{
    *regex = (tok_regex){0};
    if (n > 4096)
        return bw_fail(err, BW_E_UNSUPPORTED, "%s: a regular expression of %zu bytes; 4096 are the limit", path, n);
    regex->memory = pcre2_general_context_create(pcre_alloc, pcre_free, NULL);
    if (!regex->memory)
        return bw_fail_memory(err, n, "a regular expression");
    pcre2_compile_context *context = pcre2_compile_context_create(regex->memory);
    bw_str full = {0};
    expand(pattern, n, &full);
    bw_status status = BW_OK;
    if (!context || full.failed) {
        status = bw_fail_memory(err, n, "a regular expression");
    } else {
        int code = 0;
        PCRE2_SIZE at = 0;
        pcre2_set_parens_nest_limit(context, 50);
        regex->code = pcre2_compile((PCRE2_SPTR)(full.data ? full.data : ""), full.len,
                                    PCRE2_UTF | PCRE2_NEVER_BACKSLASH_C | PCRE2_AUTO_CALLOUT, &code, &at, context);
        if (!regex->code) {
            char text[200] = "";
            pcre2_get_error_message(code, (PCRE2_UCHAR *)text, sizeof text);
            status = code == PCRE2_ERROR_HEAP_FAILED
                         ? bw_fail_memory(err, full.len, "a regular expression")
                         : bw_fail(err, BW_E_FORMAT, "%s: the regular expression '%.*s' is not understood: %s", path,
                                   (int)(n > 150 ? 150 : n), pattern, text);
        }
    }
    pcre2_compile_context_free(context);
    bw_str_deinit(&full);
    if (status != BW_OK)
        bw_tok_regex_deinit(regex);
    return status;
}

void bw_tok_regex_deinit(tok_regex *regex)
{
    pcre2_code_free(regex->code);
    pcre2_general_context_free(regex->memory);
    *regex = (tok_regex){0};
}

/* ---- matching within a budget of steps ----------------------------------------------------------------------------
 *
 * PCRE2's own limits count neither the characters that a repeat runs over nor what many matches take together. So every
 * expression is compiled with a call-out before each of its items. Each counts one step and the bytes that lie between
 * it and the last one, which is what matching takes time for, and all expressions draw on one budget of the text. */

enum { BUDGET_STEPS = 64 << 20, BUDGET_STEPS_PER_BYTE = 64 };

int64_t bw_tok_regex_budget(size_t n_text)
{
    return BUDGET_STEPS + BUDGET_STEPS_PER_BYTE * (int64_t)n_text;
}

static int count_step(pcre2_callout_block *at, void *user)
{
    tok_encoder *e = user;
    size_t now = at->current_position, last = e->regex_at;
    e->regex_at = now;
    e->regex_budget -= 1 + (int64_t)(now > last ? now - last : last - now);
    return e->regex_budget < 0 ? PCRE2_ERROR_CALLOUT : 0;
}

static bw_status prepare(tok_encoder *e, const tok_regex *regex)
{
    if (e->match)
        return BW_OK;
    e->match = pcre2_match_data_create(1, regex->memory);
    e->limits = pcre2_match_context_create(regex->memory);
    if (!e->match || !e->limits)
        return bw_tok_no_memory(e->err);
    pcre2_set_match_limit(e->limits, UINT32_MAX);
    pcre2_set_depth_limit(e->limits, UINT32_MAX);
    pcre2_set_heap_limit(e->limits, 1 << 16); /* KiB */
    pcre2_set_callout(e->limits, count_step, e);
    return BW_OK;
}

bw_status bw_tok_regex_next(tok_encoder *e, const tok_regex *regex, const char *s, size_t n, size_t from, tok_span *out,
                            bool *found)
{
    *found = false;
    BW_TRY(prepare(e, regex));
    e->regex_at = from;
    int rc = pcre2_match(regex->code, (PCRE2_SPTR)s, n, from, PCRE2_NO_UTF_CHECK, e->match, e->limits);
    if (rc == PCRE2_ERROR_NOMATCH)
        return BW_OK;
    if (rc == PCRE2_ERROR_NOMEMORY)
        return bw_tok_no_memory(e->err);
    if (rc == PCRE2_ERROR_CALLOUT)
        return bw_fail(e->err, BW_E_UNSUPPORTED,
                       "%s: a regular expression of this tokenizer takes too many steps: more than %lld on a text of "
                       "%zu bytes",
                       e->t->path, (long long)bw_tok_regex_budget(e->n_input), e->n_input);
    if (rc < 0)
        return bw_fail(e->err, BW_E_UNSUPPORTED,
                       "%s: a regular expression of this tokenizer takes too much memory on a text of %zu bytes "
                       "(PCRE2 %d)",
                       e->t->path, e->n_input, rc);
    PCRE2_SIZE *at = pcre2_get_ovector_pointer(e->match);
    if (at[0] < from || at[1] < at[0] || at[1] > n) /* \K can move the start */
        return bw_fail(e->err, BW_E_UNSUPPORTED, "%s: a regular expression of this tokenizer matches backwards",
                       e->t->path);
    *out = (tok_span){.start = at[0], .end = at[1], .match = true};
    *found = true;
    return BW_OK;
}
