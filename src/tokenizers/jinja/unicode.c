/* Letters: classes, upper and lower case, whitespace, as Python's str has them. Data from utf8proc and case.def. */
#include <utf8proc.h>

#include "jinja.h"

typedef struct special {
    uint32_t from, upper[3], title[3];
} special;

static const special specials[] = {
#define JINJA_SPECIAL(cp, a, b, c, d, e, f) {cp, {a, b, c}, {d, e, f}},
#include "case.def"
#undef JINJA_SPECIAL
};

size_t jinja_next_char(const char *data, size_t n_bytes, uint32_t *c)
{
    int n = bw_utf8_decode(data, n_bytes, c);
    if (n > 0)
        return (size_t)n;
    *c = 0xFFFD;
    return 1;
}

size_t jinja_last_char(const char *data, size_t n_bytes, uint32_t *c)
{
    size_t n = 1;
    while (n < n_bytes && n < 4 && ((unsigned char)data[n_bytes - n] & 0xC0) == 0x80)
        n++;
    jinja_next_char(data + n_bytes - n, n, c);
    return n;
}

size_t jinja_byte_offset(const jinja_string *s, size_t chars)
{
    if (chars >= s->n_chars)
        return s->n_bytes;
    if (s->n_chars == s->n_bytes)
        return chars;
    size_t i = 0;
    for (; chars > 0; chars--) {
        uint32_t c;
        i += jinja_next_char(s->data + i, s->n_bytes - i, &c);
    }
    return i;
}

bool jinja_same_bytes(const jinja_string *a, const char *text)
{
    return strlen(text) == a->n_bytes && memcmp(a->data, text, a->n_bytes) == 0;
}

static utf8proc_category_t category(uint32_t c)
{
    return utf8proc_category((utf8proc_int32_t)c);
}

bool jinja_is_space(uint32_t c)
{
    return (c >= 9 && c <= 13) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

static bool is_alpha(uint32_t c)
{
    utf8proc_category_t k = category(c);
    return k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_LO;
}

static bool is_numeric(uint32_t c)
{
    utf8proc_category_t k = category(c);
    return k == UTF8PROC_CATEGORY_ND || k == UTF8PROC_CATEGORY_NL || k == UTF8PROC_CATEGORY_NO;
}

static bool is_digit(uint32_t c)
{
    return category(c) == UTF8PROC_CATEGORY_ND || c == 0xB2 || c == 0xB3 || c == 0xB9 || c == 0x2070 ||
           (c >= 0x2074 && c <= 0x2079) || (c >= 0x2080 && c <= 0x2089) || (c >= 0x2460 && c <= 0x2468) ||
           (c >= 0x2474 && c <= 0x247C) || (c >= 0x2488 && c <= 0x2490) || c == 0x24EA || c == 0x24FF;
}

bool jinja_is_printable(uint32_t c)
{
    if (c == ' ')
        return true;
    switch (category(c)) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
        return false;
    default:
        return true;
    }
}

bool jinja_is_word(uint32_t c)
{
    return c == '_' || is_alpha(c) || is_numeric(c);
}

/* XID_Start XID_Continue*, near enough: letters, then also marks, digits and connectors. */
bool jinja_is_identifier(const char *data, size_t n_bytes)
{
    size_t i = 0;
    while (i < n_bytes) {
        uint32_t c;
        size_t n = jinja_next_char(data + i, n_bytes - i, &c);
        utf8proc_category_t k = category(c);
        bool start = c == '_' || is_alpha(c) || k == UTF8PROC_CATEGORY_NL;
        bool more = k == UTF8PROC_CATEGORY_MN || k == UTF8PROC_CATEGORY_MC || k == UTF8PROC_CATEGORY_ND ||
                    k == UTF8PROC_CATEGORY_PC;
        if (!start && (i == 0 || !more))
            return false;
        i += n;
    }
    return n_bytes > 0;
}

static bool is_lower(uint32_t c)
{
    return category(c) == UTF8PROC_CATEGORY_LL || c == 0xAA || c == 0xBA;
}

static bool is_upper(uint32_t c)
{
    return category(c) == UTF8PROC_CATEGORY_LU;
}

static bool is_cased(uint32_t c)
{
    return is_lower(c) || is_upper(c) || category(c) == UTF8PROC_CATEGORY_LT;
}

static bool is_case_ignorable(uint32_t c)
{
    utf8proc_category_t k = category(c);
    return k == UTF8PROC_CATEGORY_MN || k == UTF8PROC_CATEGORY_ME || k == UTF8PROC_CATEGORY_CF ||
           k == UTF8PROC_CATEGORY_LM || k == UTF8PROC_CATEGORY_SK || c == '\'' || c == '.' || c == ':' || c == 0xB7 ||
           c == 0x2018 || c == 0x2019 || c == 0x2024 || c == 0x2027;
}

static const special *find_special(uint32_t c)
{
    size_t lo = 0, hi = sizeof specials / sizeof *specials;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (specials[mid].from == c)
            return &specials[mid];
        if (specials[mid].from < c)
            lo = mid + 1;
        else
            hi = mid;
    }
    return NULL;
}

static void add_upper(jinja_text *out, uint32_t c, bool title)
{
    const special *s = c < 0x80 ? NULL : find_special(c);
    if (s) {
        const uint32_t *to = title ? s->title : s->upper;
        for (int i = 0; i < 3 && to[i]; i++)
            bw_str_add_codepoint(&out->str, to[i]);
        return;
    }
    utf8proc_int32_t p = (utf8proc_int32_t)c;
    bw_str_add_codepoint(&out->str, (uint32_t)(title ? utf8proc_totitle(p) : utf8proc_toupper(p)));
}

/* Sigma at i ends a word: letters before it, none after it (Unicode's Final_Sigma). */
static bool final_sigma(const char *data, size_t n_bytes, size_t i)
{
    uint32_t c = 0;
    size_t before = i, after = i + 2;
    bool found = false;
    while (before > 0) {
        before -= jinja_last_char(data, before, &c);
        if (!is_case_ignorable(c)) {
            found = is_cased(c);
            break;
        }
    }
    while (found && after < n_bytes) {
        after += jinja_next_char(data + after, n_bytes - after, &c);
        if (!is_case_ignorable(c))
            return !is_cased(c);
    }
    return found;
}

static void add_lower(jinja_text *out, const char *data, size_t n_bytes, size_t i, uint32_t c)
{
    if (c == 0x130) {
        bw_str_add_codepoint(&out->str, 'i');
        bw_str_add_codepoint(&out->str, 0x307);
    } else if (c == 0x3A3) {
        bw_str_add_codepoint(&out->str, final_sigma(data, n_bytes, i) ? 0x3C2 : 0x3C3);
    } else {
        bw_str_add_codepoint(&out->str, (uint32_t)utf8proc_tolower((utf8proc_int32_t)c));
    }
}

static void add_folded(jinja_text *out, uint32_t c)
{
    utf8proc_int32_t to[16];
    int last = 0;
    utf8proc_ssize_t n = utf8proc_decompose_char((utf8proc_int32_t)c, to, 16, UTF8PROC_CASEFOLD, &last);
    for (utf8proc_ssize_t k = 0; k < n && k < 16; k++)
        bw_str_add_codepoint(&out->str, (uint32_t)to[k]);
}

void jinja_add_case(jinja_text *out, const jinja_string *s, size_t begin, size_t n_bytes, jinja_case how)
{
    const char *data = s->data + begin;
    size_t from = out->str.len;
    bool in_word = false;
    for (size_t i = 0; i < n_bytes;) {
        uint32_t c;
        size_t n = jinja_next_char(data + i, n_bytes - i, &c);
        switch (how) {
        case JINJA_UPPER:
            add_upper(out, c, false);
            break;
        case JINJA_LOWER:
            add_lower(out, data, n_bytes, i, c);
            break;
        case JINJA_CAPITALIZE:
        case JINJA_TITLE:
            if (in_word)
                add_lower(out, data, n_bytes, i, c);
            else
                add_upper(out, c, true);
            in_word = how == JINJA_CAPITALIZE || is_cased(c);
            break;
        case JINJA_SWAP:
            if (is_upper(c))
                add_lower(out, data, n_bytes, i, c);
            else if (is_lower(c))
                add_upper(out, c, false);
            else
                bw_str_add_codepoint(&out->str, c);
            break;
        case JINJA_FOLD:
            add_folded(out, c);
            break;
        }
        i += n;
    }
    jinja_text_claim(out, from, s);
}

static bool char_has(uint32_t c, jinja_class which)
{
    switch (which) {
    case JINJA_IS_ALNUM:
        return is_alpha(c) || is_numeric(c);
    case JINJA_IS_ALPHA:
        return is_alpha(c);
    case JINJA_IS_DECIMAL:
        return category(c) == UTF8PROC_CATEGORY_ND;
    case JINJA_IS_DIGIT:
        return is_digit(c);
    case JINJA_IS_NUMERIC:
        return is_numeric(c);
    case JINJA_IS_SPACE:
        return jinja_is_space(c);
    case JINJA_IS_PRINTABLE:
        return jinja_is_printable(c);
    default:
        return c < 0x80;
    }
}

bool jinja_has_class(const char *data, size_t n_bytes, jinja_class which)
{
    bool any = false, in_word = false;
    bool by_case = which == JINJA_IS_LOWER || which == JINJA_IS_UPPER || which == JINJA_IS_TITLE;
    for (size_t i = 0; i < n_bytes;) {
        uint32_t c;
        i += jinja_next_char(data + i, n_bytes - i, &c);
        if (!by_case) {
            if (!char_has(c, which))
                return false;
            continue;
        }
        bool up = is_upper(c) || category(c) == UTF8PROC_CATEGORY_LT, low = is_lower(c);
        any |= up || low;
        if (which == JINJA_IS_LOWER   ? up
            : which == JINJA_IS_UPPER ? low || category(c) == UTF8PROC_CATEGORY_LT
                                      : (up && in_word) || (low && !in_word))
            return false;
        in_word = up || low;
    }
    return by_case ? any : n_bytes > 0 || which == JINJA_IS_PRINTABLE || which == JINJA_IS_ASCII;
}
