/* The lexer: template text to tokens, by jinja2's rules with trim_blocks and lstrip_blocks on.
 * Owns whitespace control and string escapes; refuses \N{...} escapes and surrogate code points. */
#include <stdlib.h>

#include "jinja.h"

typedef struct lexer {
    bw_arena *arena;
    const char *src;
    size_t n, pos;
    int line;
    bool line_starting; /* the last match ended with a newline, or nothing was matched yet */
    char brackets[JINJA_MAX_NESTING];
    int n_brackets;
    jinja_tokens *tokens;
    bw_err *err;
} lexer;

static bw_status fail(lexer *lx, const char *what)
{
    return bw_fail(lx->err, BW_E_FORMAT, "template line %d: %s", lx->line, what);
}

static bw_status push(lexer *lx, jinja_token token)
{
    jinja_tokens *t = lx->tokens;
    if (!bw_reserve((void **)&t->items, &t->capacity, t->n + 1, sizeof *t->items))
        return bw_fail_memory(lx->err, (t->n + 1) * sizeof *t->items, "a template's tokens");
    t->items[t->n++] = token;
    return BW_OK;
}

static bool at(const lexer *lx, size_t pos, const char *text)
{
    size_t n = strlen(text);
    return lx->n - pos >= n && memcmp(lx->src + pos, text, n) == 0;
}

static size_t skip_space(const lexer *lx, size_t pos)
{
    while (pos < lx->n) {
        uint32_t c;
        size_t n = jinja_next_char(lx->src + pos, lx->n - pos, &c);
        if (!jinja_is_space(c))
            break;
        pos += n;
    }
    return pos;
}

/* Move to `end`, counting lines. */
static void move(lexer *lx, size_t end)
{
    if (end > lx->pos)
        lx->line_starting = lx->src[end - 1] == '\n';
    for (; lx->pos < end; lx->pos++)
        lx->line += lx->src[lx->pos] == '\n';
}

/* Length of a tag's end at pos ("%}", "-%}" with the space after it, "+%}"), 0 = none. plus: '+' is allowed;
 * trim: one newline after it belongs to it. */
static size_t tag_end(const lexer *lx, size_t pos, const char *end, bool plus, bool trim)
{
    if (pos < lx->n && lx->src[pos] == '-' && at(lx, pos + 1, end))
        return skip_space(lx, pos + 3) - pos;
    if (plus && pos < lx->n && lx->src[pos] == '+' && at(lx, pos + 1, end))
        return 3;
    if (at(lx, pos, end))
        return trim && pos + 2 < lx->n && lx->src[pos + 2] == '\n' ? 3 : 2;
    return 0;
}

/* Text in front of a tag, stripped as the tag's sign and lstrip_blocks ask. */
static bw_status push_data(lexer *lx, size_t end, char sign, bool is_variable)
{
    size_t begin = lx->pos, stop = end;
    if (sign == '-') {
        uint32_t c;
        size_t n;
        while (stop > begin && (n = jinja_last_char(lx->src + begin, stop - begin, &c), jinja_is_space(c)))
            stop -= n;
    } else if (sign != '+' && !is_variable) {
        size_t line = stop;
        while (line > begin && lx->src[line - 1] != '\n')
            line--;
        if ((line > begin || lx->line_starting) && line < stop) {
            lexer part = *lx;
            part.n = stop;
            if (skip_space(&part, line) == stop)
                stop = line;
        }
    }
    if (stop == begin)
        return BW_OK;
    return push(lx, (jinja_token){.kind = JINJA_T_DATA, .line = lx->line, .data = lx->src + begin, .n_bytes = stop - begin});
}

/* "{%- raw %}" or "{%- endraw %}" at pos: its length, 0 = none; *sign the sign after "{%". */
static size_t raw_tag(const lexer *lx, size_t pos, const char *word, bool is_end, char *sign)
{
    if (!at(lx, pos, "{%"))
        return 0;
    size_t p = pos + 2;
    *sign = 0;
    if (p < lx->n && (lx->src[p] == '-' || lx->src[p] == '+'))
        *sign = lx->src[p++];
    p = skip_space(lx, p);
    if (!at(lx, p, word))
        return 0;
    p = skip_space(lx, p + strlen(word));
    size_t n = tag_end(lx, p, "%}", is_end, is_end);
    return n ? p + n - pos : 0;
}

static bw_status lex_raw(lexer *lx)
{
    if (lx->pos >= lx->n)
        return BW_OK;
    for (size_t p = lx->pos; p < lx->n; p++) {
        char sign;
        size_t n = lx->src[p] == '{' ? raw_tag(lx, p, "endraw", true, &sign) : 0;
        if (n) {
            BW_TRY(push_data(lx, p, sign, false));
            move(lx, p + n);
            return BW_OK;
        }
    }
    return fail(lx, "{% raw %} has no {% endraw %}");
}

static bw_status lex_comment(lexer *lx)
{
    if (lx->pos >= lx->n)
        return BW_OK;
    for (size_t p = lx->pos; p < lx->n; p++) {
        size_t n = tag_end(lx, p, "#}", true, true);
        if (n) {
            move(lx, p + n);
            return BW_OK;
        }
    }
    return fail(lx, "a comment has no end, #}");
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Digits with single underscores between them, from p; returns the end. */
static size_t digits(const lexer *lx, size_t p)
{
    if (p >= lx->n || !is_digit(lx->src[p]))
        return p;
    while (p < lx->n && (is_digit(lx->src[p]) || (lx->src[p] == '_' && p + 1 < lx->n && is_digit(lx->src[p + 1]))))
        p++;
    return p;
}

static bool digit_of_base(char c, int base)
{
    return base == 16 ? is_digit(c) || ((c | 32) >= 'a' && (c | 32) <= 'f') : c >= '0' && c < '0' + base;
}

static size_t integer_end(const lexer *lx, size_t p, int *base)
{
    const char *s = lx->src;
    *base = 10;
    if (s[p] == '0' && p + 1 < lx->n) {
        char mark = (char)(s[p + 1] | 32);
        int b = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 0;
        size_t e = p + 2;
        while (b && e < lx->n &&
               (digit_of_base(s[e], b) || (s[e] == '_' && e + 1 < lx->n && digit_of_base(s[e + 1], b))))
            e++;
        if (b && e > p + 2) {
            *base = b;
            return e;
        }
    }
    if (s[p] == '0') {
        while (p < lx->n && (s[p] == '0' || (s[p] == '_' && p + 1 < lx->n && s[p + 1] == '0')))
            p++;
        return p;
    }
    return digits(lx, p);
}

static bw_status lex_number(lexer *lx)
{
    const char *s = lx->src;
    size_t begin = lx->pos, end = digits(lx, begin);
    bool is_float = false;
    if (!(begin > 0 && s[begin - 1] == '.')) {
        if (end + 1 < lx->n && s[end] == '.' && is_digit(s[end + 1])) {
            end = digits(lx, end + 1);
            is_float = true;
        }
        if (end < lx->n && (s[end] | 32) == 'e') {
            size_t e = end + 1;
            if (e < lx->n && (s[e] == '+' || s[e] == '-'))
                e++;
            size_t stop = digits(lx, e);
            if (stop > e) {
                end = stop;
                is_float = true;
            }
        }
    }
    int base = 10;
    if (!is_float)
        end = integer_end(lx, begin, &base);
    char text[400];
    size_t n = 0;
    for (size_t i = begin; i < end; i++) {
        if (s[i] == '_')
            continue;
        if (n + 1 >= sizeof text)
            return fail(lx, "a number has too many digits");
        text[n++] = s[i];
    }
    text[n] = 0;
    jinja_token token = {.kind = is_float ? JINJA_T_FLOAT : JINJA_T_INTEGER, .line = lx->line};
    if (is_float)
        token.f = strtod(text, NULL);
    else if (!jinja_parse_int(text, n, base, &token.i))
        return fail(lx, "an integer does not fit into 64 bits");
    BW_TRY(push(lx, token));
    move(lx, end);
    return BW_OK;
}

static bool hex_value(const char *s, size_t n, uint32_t *out)
{
    uint32_t v = 0;
    for (size_t i = 0; i < n; i++) {
        char c = (char)(s[i] | 32);
        if (!digit_of_base(s[i], 16))
            return false;
        v = v << 4 | (uint32_t)(is_digit(s[i]) ? s[i] - '0' : c - 'a' + 10);
    }
    *out = v;
    return true;
}

/* One escape whose backslash is at s[i]; appends and returns how many bytes it has, 0 = wrong. */
static size_t unescape(const char *s, size_t n, bw_str *out)
{
    static const char from[] = "\\'\"abfnrtv", to[] = "\\'\"\a\b\f\n\r\t\v";
    char c = s[1];
    const char *simple = c ? strchr(from, c) : NULL;
    if (simple) {
        bw_str_add_char(out, to[simple - from]);
        return 2;
    }
    if (c == '\n')
        return 2;
    if (c >= '0' && c <= '7') {
        uint32_t v = 0;
        size_t i = 1;
        for (; i < 4 && i < n && s[i] >= '0' && s[i] <= '7'; i++)
            v = v * 8 + (uint32_t)(s[i] - '0');
        bw_str_add_codepoint(out, v);
        return i;
    }
    size_t width = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (width) {
        uint32_t v;
        if (n < 2 + width || !hex_value(s + 2, width, &v) || v > 0x10FFFF || (v >= 0xD800 && v <= 0xDFFF))
            return 0;
        bw_str_add_codepoint(out, v);
        return 2 + width;
    }
    if (c == 'N')
        return 0;
    bw_str_add_char(out, '\\');
    if ((unsigned char)c < 0x80)
        return 1;
    /* Python escapes the text to ASCII first, so that the second backslash is eaten by the one in front of it. */
    uint32_t v;
    size_t k = jinja_next_char(s + 1, n - 1, &v);
    bw_str_add_format(out, v < 0x100 ? "x%02x" : v < 0x10000 ? "u%04x" : "U%08x", v);
    return 1 + k;
}

static bw_status lex_string(lexer *lx)
{
    const char *s = lx->src;
    char quote = s[lx->pos];
    size_t begin = lx->pos + 1, end = begin;
    bool escapes = false;
    while (end < lx->n && s[end] != quote) {
        escapes |= s[end] == '\\';
        end += s[end] == '\\' ? 2 : 1;
    }
    if (end >= lx->n)
        return fail(lx, "a string has no closing quote");
    jinja_token token = {.kind = JINJA_T_STRING, .line = lx->line, .data = s + begin, .n_bytes = end - begin};
    if (escapes) {
        bw_str text = {0};
        size_t i = begin;
        while (i < end) {
            if (s[i] != '\\') {
                bw_str_add_char(&text, s[i++]);
                continue;
            }
            size_t used = unescape(s + i, end - i, &text);
            if (!used) {
                bw_str_deinit(&text);
                return fail(lx, "a string has a wrong escape after a backslash");
            }
            i += used;
        }
        token.data = text.failed ? NULL : bw_arena_strndup(lx->arena, text.data ? text.data : "", text.len);
        token.n_bytes = text.len;
        bw_str_deinit(&text);
        if (!token.data)
            return bw_fail_memory(lx->err, end - begin, "a string of a template");
    }
    BW_TRY(push(lx, token));
    move(lx, end + 1);
    return BW_OK;
}

static bw_status lex_operator(lexer *lx)
{
    static const char two[][3] = {"//", "**", "==", "!=", ">=", "<="};
    jinja_token token = {.kind = JINJA_T_OPERATOR, .line = lx->line};
    char c = lx->src[lx->pos];
    token.op[0] = c;
    for (size_t i = 0; i < sizeof two / sizeof *two; i++)
        if (at(lx, lx->pos, two[i]))
            token.op[1] = two[i][1];
    if (!token.op[1] && (!c || !strchr("+-/*%~[](){}><=.:|,;", c)))
        return bw_fail(lx->err, BW_E_FORMAT, "template line %d: unexpected character 0x%02x", lx->line,
                       (unsigned)(unsigned char)c);
    if (strchr("([{", c)) {
        if (lx->n_brackets == JINJA_MAX_NESTING)
            return fail(lx, "brackets are nested too deeply");
        lx->brackets[lx->n_brackets++] = c == '(' ? ')' : c == '[' ? ']' : '}';
    } else if (strchr(")]}", c)) {
        if (lx->n_brackets == 0 || lx->brackets[--lx->n_brackets] != c)
            return bw_fail(lx->err, BW_E_FORMAT, "template line %d: unexpected '%c'", lx->line, c);
    }
    BW_TRY(push(lx, token));
    move(lx, lx->pos + (token.op[1] ? 2 : 1));
    return BW_OK;
}

/* The inside of "{{ }}" or "{% %}", to its end or the end of the source. */
static bw_status lex_tag(lexer *lx, bool is_block)
{
    lx->n_brackets = 0;
    while (lx->pos < lx->n) {
        size_t n = lx->n_brackets ? 0 : tag_end(lx, lx->pos, is_block ? "%}" : "}}", is_block, is_block);
        if (n) {
            BW_TRY(push(lx, (jinja_token){.kind = is_block ? JINJA_T_BLOCK_END : JINJA_T_VARIABLE_END, .line = lx->line}));
            move(lx, lx->pos + n);
            return BW_OK;
        }
        size_t p = skip_space(lx, lx->pos);
        if (p > lx->pos) {
            move(lx, p);
            continue;
        }
        char c = lx->src[p];
        if (is_digit(c)) {
            BW_TRY(lex_number(lx));
        } else if (c == '"' || c == '\'') {
            BW_TRY(lex_string(lx));
        } else {
            uint32_t cp;
            size_t k;
            while (p < lx->n && (k = jinja_next_char(lx->src + p, lx->n - p, &cp), jinja_is_word(cp)))
                p += k;
            if (p == lx->pos) {
                BW_TRY(lex_operator(lx));
                continue;
            }
            if (!jinja_is_identifier(lx->src + lx->pos, p - lx->pos))
                return fail(lx, "a name has a character that names may not have");
            BW_TRY(push(lx, (jinja_token){.kind = JINJA_T_NAME, .line = lx->line, .data = lx->src + lx->pos,
                                          .n_bytes = p - lx->pos}));
            move(lx, p);
        }
    }
    return BW_OK;
}

static bw_status lex_root(lexer *lx)
{
    for (size_t p = lx->pos; p + 1 < lx->n; p++) {
        if (lx->src[p] != '{' || !strchr("{%#", lx->src[p + 1]) || !lx->src[p + 1])
            continue;
        char kind = lx->src[p + 1], sign = 0;
        size_t n_raw = raw_tag(lx, p, "raw", false, &sign);
        size_t n = 2;
        sign = p + 2 < lx->n ? lx->src[p + 2] : (char)0;
        if (sign == '-' || sign == '+')
            n = 3;
        BW_TRY(push_data(lx, p, n == 3 ? sign : (char)0, kind == '{'));
        move(lx, p + (n_raw ? n_raw : n));
        if (n_raw)
            return lex_raw(lx);
        if (kind == '#')
            return lex_comment(lx);
        BW_TRY(push(lx, (jinja_token){.kind = kind == '{' ? JINJA_T_VARIABLE_BEGIN : JINJA_T_BLOCK_BEGIN, .line = lx->line}));
        return lex_tag(lx, kind == '%');
    }
    jinja_token rest = {.kind = JINJA_T_DATA, .line = lx->line, .data = lx->src + lx->pos, .n_bytes = lx->n - lx->pos};
    move(lx, lx->n);
    return push(lx, rest);
}

bw_status jinja_lex(bw_arena *arena, const char *source, size_t n_bytes, jinja_tokens *tokens, bw_err *err)
{
    lexer lx = {.arena = arena, .src = source, .n = n_bytes, .line = 1, .line_starting = true, .tokens = tokens, .err = err};
    while (lx.pos < lx.n)
        BW_TRY(lex_root(&lx));
    return push(&lx, (jinja_token){.kind = JINJA_T_EOF, .line = lx.line});
}
