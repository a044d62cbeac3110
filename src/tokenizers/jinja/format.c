/* Formatting: "..." % values (as C's printf, by Python's rules) and "...".format(values). */
#include <stdio.h>
#include <stdlib.h>

#include "jinja.h"

#define MAX_WIDTH 100000

typedef struct spec {
    char fill[5]; /* one character */
    char align;   /* < > = ^, 0 = by type */
    char sign;    /* + - or space */
    bool alternate, zero;
    char group;               /* , or _ or 0 */
    int64_t width, precision; /* precision -1 = none */
    char type;                /* 0 = none */
} spec;

static bool bad(jinja_runtime *rt, const char *what)
{
    return jinja_fail(rt, BW_E_ARG, "wrong format: %s", what);
}

/* prefix (sign, 0x) and body, filled up to the width. */
static void add_padded(jinja_text *out, const spec *s, const char *prefix, const char *body, size_t n_bytes,
                       bool number)
{
    size_t have = strlen(prefix) + jinja_count_chars(body, n_bytes);
    size_t pad = s->width > 0 && (size_t)s->width > have ? (size_t)s->width - have : 0;
    char align = s->align ? s->align : number ? '>' : '<';
    size_t left = align == '>' ? pad : align == '^' ? pad / 2 : 0;
    for (size_t i = 0; i < left; i++)
        bw_str_add(&out->str, s->fill);
    bw_str_add(&out->str, prefix);
    if (align == '=')
        for (size_t i = 0; i < pad; i++)
            bw_str_add(&out->str, s->fill);
    bw_str_add_bytes(&out->str, body, n_bytes);
    if (align == '<' || align == '^')
        for (size_t i = left; i < pad; i++)
            bw_str_add(&out->str, s->fill);
}

/* Put separators into the digits at the front of text; width: with zero padding, the digits fill this many columns. */
static void group_digits(const char *text, char separator, int every, int64_t fill_to, jinja_text *out)
{
    size_t n = strspn(text, every == 4 ? "0123456789abcdefABCDEF" : "0123456789"), rest = strlen(text) - n;
    size_t zeros = 0;
    while (fill_to > 0 && (int64_t)(n + zeros + (n + zeros - 1) / (size_t)every + rest) < fill_to)
        zeros++;
    for (size_t i = 0; i < n + zeros; i++) {
        if (i && (n + zeros - i) % (size_t)every == 0)
            bw_str_add_char(&out->str, separator);
        bw_str_add_char(&out->str, i < zeros ? '0' : text[i - zeros]);
    }
    bw_str_add(&out->str, text + n);
}

static bool add_number(const spec *s, bool negative, const char *mark, const char *digits, int every, jinja_text *out)
{
    char prefix[4];
    snprintf(prefix, sizeof prefix, "%s%s", negative ? "-" : s->sign == '+' ? "+" : s->sign == ' ' ? " " : "", mark);
    if (!s->group) {
        add_padded(out, s, prefix, digits, strlen(digits), true);
        return true;
    }
    jinja_text grouped = {0};
    int64_t fill_to = s->align == '=' && s->fill[0] == '0' ? s->width - (int64_t)strlen(prefix) : 0;
    group_digits(digits, s->group, every, fill_to, &grouped);
    bool ok = !grouped.str.failed;
    if (ok)
        add_padded(out, s, prefix, grouped.str.data ? grouped.str.data : "", grouped.str.len, true);
    jinja_text_deinit(&grouped);
    return ok;
}

static bool add_int(jinja_runtime *rt, const spec *s, int64_t i, jinja_text *out)
{
    char digits[80];
    uint64_t u = i < 0 ? 0 - (uint64_t)i : (uint64_t)i;
    const char *mark = "";
    if (s->type == 'c') {
        if (i < 0 || i > 0x10FFFF || (i >= 0xD800 && i <= 0xDFFF))
            return bad(rt, "a number is not a character");
        char text[5] = {0};
        int n = bw_utf8_encode((uint32_t)i, text);
        spec left = *s;
        left.align = s->align ? s->align : '<';
        add_padded(out, &left, "", text, (size_t)n, false);
        return true;
    }
    if (s->type == 'x' || s->type == 'X' || s->type == 'o') {
        snprintf(digits, sizeof digits,
                 s->type == 'x'   ? "%llx"
                 : s->type == 'X' ? "%llX"
                                  : "%llo",
                 (unsigned long long)u);
        mark = !s->alternate ? "" : s->type == 'x' ? "0x" : s->type == 'X' ? "0X" : "0o";
    } else if (s->type == 'b') {
        int n = 0;
        char reversed[80];
        do
            reversed[n++] = (char)('0' + (u & 1));
        while (u >>= 1);
        for (int k = 0; k < n; k++)
            digits[k] = reversed[n - 1 - k];
        digits[n] = 0;
        mark = s->alternate ? "0b" : "";
    } else {
        snprintf(digits, sizeof digits, "%llu", (unsigned long long)u);
    }
    return add_number(s, i < 0, mark, digits,
                      *mark || s->type == 'x' || s->type == 'X' || s->type == 'o' || s->type == 'b' ? 4 : 3, out);
}

static bool add_float(jinja_runtime *rt, const spec *s, double f, jinja_text *out)
{
    jinja_text digits = {0};
    int64_t precision = s->precision;
    char type = s->type;
    double magnitude = fabs(f);
    if (precision > 400)
        return bad(rt, "the precision is larger than 400");
    if (isnan(f) || isinf(f)) {
        bw_str_add(&digits.str, isnan(f) ? "nan" : "inf");
        for (size_t i = 0; i < digits.str.len && type >= 'A' && type <= 'Z'; i++)
            digits.str.data[i] = (char)(digits.str.data[i] - 32);
        if (type == '%')
            bw_str_add_char(&digits.str, '%');
    } else if (type == 0 && precision < 0) {
        jinja_add_float(&digits.str, magnitude);
    } else if (type == 0) {
        /* like g, but with at least one digit after the point */
        char text[500];
        int p = precision == 0 ? 1 : (int)precision;
        snprintf(text, sizeof text, "%.*e", p - 1, magnitude);
        int exponent = (int)strtol(strchr(text, 'e') + 1, NULL, 10);
        snprintf(text, sizeof text, "%.*g", p, magnitude);
        bw_str_add(&digits.str, text);
        if (exponent >= -4 && exponent < p - 1 && !strchr(text, '.'))
            bw_str_add(&digits.str, ".0");
        else if (exponent == p - 1 && !strchr(text, '.') && !strchr(text, 'e')) {
            /* Python's repr-like style switches to an exponent one digit earlier */
            bw_str_clear(&digits.str);
            snprintf(text, sizeof text, "%.*e", p - 1, magnitude);
            bw_str_add(&digits.str, text);
        }
    } else {
        char text[900];
        int p = precision < 0 ? 6 : (int)precision;
        double value = type == '%' ? magnitude * 100 : magnitude;
        const char *format;
        switch (type) {
        case 'e':
            format = s->alternate ? "%#.*e" : "%.*e";
            break;
        case 'E':
            format = s->alternate ? "%#.*E" : "%.*E";
            break;
        case 'g':
        case 'n':
            format = s->alternate ? "%#.*g" : "%.*g";
            break;
        case 'G':
            format = s->alternate ? "%#.*G" : "%.*G";
            break;
        default:
            format = s->alternate ? "%#.*f" : "%.*f";
        }
        snprintf(text, sizeof text, format, p, value);
        bw_str_add(&digits.str, text);
        if (type == '%')
            bw_str_add_char(&digits.str, '%');
    }
    bool ok = !digits.str.failed &&
              add_number(s, signbit(f) && !isnan(f), "", digits.str.data ? digits.str.data : "", 3, out);
    jinja_text_deinit(&digits);
    return ok || jinja_fail_memory(rt, 64);
}

static bool add_text(const spec *s, const jinja_string *text, jinja_text *out)
{
    size_t n = text->n_bytes;
    if (s->precision >= 0)
        n = jinja_byte_offset(text, (size_t)s->precision);
    size_t from = out->str.len;
    if (s->width <= 0 || (size_t)s->width <= jinja_count_chars(text->data, n)) {
        jinja_text_add(out, text, 0, n);
        return true;
    }
    add_padded(out, s, "", text->data, n, false);
    jinja_text_claim(out, from, text);
    return true;
}

/* ---- "..." % values ---- */

static size_t number_at(const jinja_string *f, size_t i, int64_t *out)
{
    int64_t v = 0;
    while (i < f->n_bytes && f->data[i] >= '0' && f->data[i] <= '9') {
        v = v > MAX_WIDTH ? v : v * 10 + (f->data[i] - '0');
        i++;
    }
    *out = v;
    return i;
}

static bool percent_value(jinja_runtime *rt, spec *s, jinja_value v, jinja_text *out)
{
    int64_t i;
    jinja_value text;
    switch (s->type) {
    case 's':
    case 'r':
    case 'a': {
        jinja_text repr = {0};
        if (s->type == 's') {
            if (!jinja_str(rt, v, &text))
                return false;
        } else if (!jinja_add_repr(rt, v, &repr) || !jinja_finish_string(rt, &repr, &text)) {
            jinja_text_deinit(&repr);
            return false;
        }
        if (s->type == 'a' && text.s->n_bytes != text.s->n_chars)
            return jinja_fail(rt, BW_E_UNSUPPORTED, "%%a of text beyond ASCII is not supported");
        s->align = s->align == '<' ? '<' : '>';
        memcpy(s->fill, " ", 2);
        return add_text(s, text.s, out);
    }
    case 'c':
        if (v.kind == JINJA_STRING && v.s->n_chars == 1) {
            s->align = s->align == '<' ? '<' : '>';
            return add_text(s, v.s, out);
        }
        if (!jinja_as_int(v, &i))
            return bad(rt, "%c needs a character or its number");
        s->align = s->align == '<' ? '<' : '>';
        return add_int(rt, s, i, out);
    case 'd':
    case 'i':
    case 'u':
        s->type = 'd';
        if (v.kind == JINJA_FLOAT && isfinite(v.f) && fabs(v.f) < 9.2e18)
            v = jinja_int((int64_t)v.f);
        break;
    case 'x':
    case 'X':
    case 'o':
        break;
    case 'e':
    case 'E':
    case 'f':
    case 'F':
    case 'g':
    case 'G':
        if (!jinja_is_number(v))
            return v.kind == JINJA_UNDEFINED ? jinja_fail_undefined(rt, v) : bad(rt, "a number is needed");
        return add_float(rt, s, jinja_as_double(v), out);
    default:
        return bad(rt, "an unknown conversion after %");
    }
    if (!jinja_as_int(v, &i))
        return v.kind == JINJA_UNDEFINED ? jinja_fail_undefined(rt, v) : bad(rt, "an integer is needed");
    if (s->precision < 0)
        return add_int(rt, s, i, out);
    spec digits = *s;
    jinja_text body = {0};
    if (s->precision > 400)
        return bad(rt, "the precision is larger than 400");
    digits.width = s->precision + (i < 0 || s->sign);
    digits.align = '=';
    memcpy(digits.fill, "0", 2);
    bool ok = add_int(rt, &digits, i, &body);
    if (s->align == '=')
        memcpy(s->fill, " ", 2);
    s->align = s->align == '<' ? '<' : '>';
    if (ok)
        add_padded(out, s, "", body.str.data ? body.str.data : "", body.str.len, true);
    jinja_text_deinit(&body);
    return ok;
}

typedef struct percent_source {
    jinja_value values;
    size_t next;
    bool by_name;
} percent_source;

static bool percent_next(jinja_runtime *rt, percent_source *from, jinja_value *out)
{
    if (from->values.kind == JINJA_TUPLE) {
        if (from->next >= from->values.list->n)
            return bad(rt, "there are fewer values than conversions");
        *out = from->values.list->items[from->next++];
        return true;
    }
    if (from->next++)
        return bad(rt, "there are fewer values than conversions");
    *out = from->values;
    return true;
}

static bool percent_star(jinja_runtime *rt, percent_source *from, const jinja_string *f, size_t *i, int64_t *out)
{
    jinja_value v;
    if (*i >= f->n_bytes || f->data[*i] != '*') {
        *i = number_at(f, *i, out);
        return true;
    }
    ++*i;
    return percent_next(rt, from, &v) && (jinja_as_int(v, out) || bad(rt, "* needs an integer"));
}

/* The conversion after the '%' at *i. */
static bool percent_one(jinja_runtime *rt, percent_source *from, const jinja_string *f, size_t *i, jinja_text *out)
{
    spec s = {.fill = " ", .precision = -1, .align = '>'};
    jinja_value v = {0}, key;
    if (*i < f->n_bytes && f->data[*i] == '(') {
        size_t begin = ++*i;
        int depth = 1;
        for (; *i < f->n_bytes; ++*i) {
            depth += f->data[*i] == '(' ? 1 : f->data[*i] == ')' ? -1 : 0;
            if (depth == 0)
                break;
        }
        const jinja_value *found = NULL;
        if (from->values.kind != JINJA_DICT || *i >= f->n_bytes)
            return bad(rt, "a named conversion needs a dict and a closing bracket");
        if (!jinja_view_string(rt, f->data + begin, *i - begin, &key) ||
            !jinja_dict_find(rt, from->values.dict, key, &found))
            return false;
        if (!found)
            return bad(rt, "the dict does not have a name that is used");
        v = *found;
        from->by_name = true;
        ++*i;
    }
    for (bool more = true; more && *i < f->n_bytes; *i += more) {
        char c = f->data[*i];
        more = c && strchr("-+ #0", c);
        s.align = c == '-' ? '<' : c == '0' && s.align != '<' ? '=' : s.align;
        s.sign = c == '+' ? '+' : c == ' ' && s.sign != '+' ? ' ' : s.sign;
        s.alternate |= c == '#';
    }
    if (s.align == '=')
        memcpy(s.fill, "0", 2);
    if (!percent_star(rt, from, f, i, &s.width))
        return false;
    if (s.width < 0) {
        s.align = '<';
        memcpy(s.fill, " ", 2);
        s.width = s.width == INT64_MIN ? INT64_MAX : -s.width;
    }
    if (*i < f->n_bytes && f->data[*i] == '.') {
        ++*i;
        if (!percent_star(rt, from, f, i, &s.precision))
            return false;
        s.precision = s.precision < 0 ? 0 : s.precision;
    }
    while (*i < f->n_bytes && (f->data[*i] == 'l' || f->data[*i] == 'h' || f->data[*i] == 'L'))
        ++*i;
    if (*i >= f->n_bytes)
        return bad(rt, "the format ends after %");
    s.type = f->data[(*i)++];
    if (s.width > MAX_WIDTH)
        return bad(rt, "a width is too large");
    if (s.type == '%') {
        bw_str_add_char(&out->str, '%');
        return true;
    }
    if (v.kind == JINJA_MISSING && !percent_next(rt, from, &v))
        return false;
    return jinja_charge(rt, 1 + (size_t)s.width / 64) && percent_value(rt, &s, v, out);
}

bool jinja_percent(jinja_runtime *rt, const jinja_string *f, jinja_value values, jinja_value *out)
{
    percent_source from = {.values = values};
    jinja_text text = {0};
    size_t i = 0;
    bool ok = jinja_charge(rt, f->n_bytes / 16);
    while (ok && i < f->n_bytes) {
        if (text.str.len > JINJA_MAX_OUTPUT)
            ok = jinja_fail(rt, BW_E_RANGE, "formatting gives more than %zu bytes", JINJA_MAX_OUTPUT);
        else if (f->data[i] != '%')
            jinja_text_add(&text, f, i++, 1);
        else {
            i++;
            ok = percent_one(rt, &from, f, &i, &text);
        }
    }
    if (ok && !from.by_name && values.kind != JINJA_DICT && values.kind != JINJA_LIST && values.kind != JINJA_VIEW &&
        from.next < (values.kind == JINJA_TUPLE ? values.list->n : 1))
        ok = bad(rt, "there are more values than conversions");
    if (!ok) {
        jinja_text_deinit(&text);
        return false;
    }
    return jinja_give(rt, &text, f, out);
}

/* ---- "...".format(values) ---- */

static bool parse_spec(jinja_runtime *rt, const jinja_string *f, spec *s)
{
    *s = (spec){.fill = " ", .precision = -1};
    size_t i = 0, n = f->n_bytes;
    const char *d = f->data;
    if (n) {
        uint32_t c;
        size_t k = jinja_next_char(d, n, &c);
        if (k < n && d[k] && strchr("<>=^", d[k])) {
            memcpy(s->fill, d, k);
            s->fill[k] = 0;
            s->align = d[k];
            i = k + 1;
        } else if (d[0] && strchr("<>=^", d[0])) {
            s->align = d[0];
            i = 1;
        }
    }
    if (i < n && d[i] && strchr("+- ", d[i]))
        s->sign = d[i++];
    if (i < n && d[i] == '#') {
        s->alternate = true;
        i++;
    }
    if (i < n && d[i] == '0') {
        s->zero = true;
        if (!s->align) {
            memcpy(s->fill, "0", 2);
            s->align = '=';
        }
        i++;
    }
    i = number_at(f, i, &s->width);
    if (i < n && (d[i] == ',' || d[i] == '_'))
        s->group = d[i++];
    if (i < n && d[i] == '.') {
        size_t begin = ++i;
        i = number_at(f, i, &s->precision);
        if (i == begin)
            return bad(rt, "a precision is missing");
    }
    if (i < n)
        s->type = d[i++];
    if (i < n || s->width > MAX_WIDTH)
        return bad(rt, "a specification is not understood, or its width is too large");
    return jinja_charge(rt, 1 + (size_t)s->width / 64);
}

static bool format_value(jinja_runtime *rt, jinja_value v, const jinja_string *how, jinja_text *out)
{
    spec s;
    int64_t i;
    if (how->n_bytes == 0)
        return jinja_add_str(rt, v, out);
    if (!parse_spec(rt, how, &s))
        return false;
    if (v.kind == JINJA_STRING) {
        if ((s.type && s.type != 's') || s.sign || s.alternate || s.group || (s.align == '=' && !s.zero))
            return bad(rt, "a specification does not fit a str");
        if (s.align == '=')
            s.align = '<';
        return add_text(&s, v.s, out);
    }
    if (!jinja_is_number(v))
        return bad(rt, "a specification needs a str or a number");
    bool as_float = v.kind == JINJA_FLOAT || (s.type && strchr("eEfFgG%", s.type));
    if (as_float) {
        if (s.type && !strchr("eEfFgGn%", s.type))
            return bad(rt, "a specification does not fit a float");
        return add_float(rt, &s, jinja_as_double(v), out);
    }
    if (s.precision >= 0 || (s.type && !strchr("bcdoxXn", s.type)) || (s.group == ',' && s.type && s.type != 'd') ||
        (s.type == 'c' && s.sign))
        return bad(rt, "a specification does not fit an int");
    jinja_as_int(v, &i);
    return add_int(rt, &s, i, out);
}

typedef struct format_state {
    const jinja_string *format;
    const jinja_args *args;
    int64_t next; /* the number of the next {}; -1 after a numbered one */
    bool numbered;
} format_state;

/* The field's first name, up to '.' or '[': a number, nothing, or a keyword. */
static bool first_value(jinja_runtime *rt, format_state *st, const char *name, size_t n, jinja_value *out)
{
    int64_t index = -1;
    bool digits = n > 0;
    for (size_t k = 0; k < n; k++)
        digits &= name[k] >= '0' && name[k] <= '9';
    if (n == 0) {
        if (st->numbered)
            return bad(rt, "numbered and unnumbered fields are mixed");
        index = st->next++;
    } else if (digits) {
        if (st->next > 0)
            return bad(rt, "numbered and unnumbered fields are mixed");
        st->numbered = true;
        if (!jinja_parse_int(name, n, 10, &index))
            return bad(rt, "a field's number is too large");
    }
    if (index >= 0) {
        if ((uint64_t)index >= st->args->n)
            return bad(rt, "there are fewer values than fields");
        *out = st->args->items[index];
        return true;
    }
    const jinja_value *found = st->args->keywords ? jinja_dict_get(st->args->keywords, name, n) : NULL;
    if (!found)
        return bad(rt, "a field's name was not given a value");
    *out = *found;
    return true;
}

static bool field_value(jinja_runtime *rt, format_state *st, const char *name, size_t n, jinja_value *out)
{
    size_t i = 0;
    while (i < n && name[i] != '.' && name[i] != '[')
        i++;
    if (!first_value(rt, st, name, i, out))
        return false;
    while (i < n) {
        jinja_value key;
        bool item = name[i++] == '[';
        size_t begin = i;
        while (i < n && (item ? name[i] != ']' : name[i] != '.' && name[i] != '['))
            i++;
        if (i == begin || (item && i >= n))
            return bad(rt, "an empty or unclosed part in a field's name");
        int64_t index;
        if (!jinja_new_string(rt, name + begin, i - begin, &key))
            return false;
        bool digits = true;
        for (size_t k = begin; k < i; k++)
            digits &= name[k] >= '0' && name[k] <= '9';
        if (item && digits && jinja_parse_int(name + begin, i - begin, 10, &index))
            key = jinja_int(index);
        if (!(item ? jinja_getitem(rt, *out, key, out) : jinja_getattr(rt, *out, key.s, out)))
            return false;
        i += item;
        if (item && i < n && name[i] != '.' && name[i] != '[')
            return bad(rt, "only . or [ may follow ]");
    }
    return true;
}

static bool format_text(jinja_runtime *rt, format_state *st, const char *f, size_t n, int depth, jinja_text *out);

static bool format_field(jinja_runtime *rt, format_state *st, const char *f, size_t n, int depth, jinja_text *out)
{
    size_t name = 0;
    int brackets = 0;
    while (name < n && (brackets || (f[name] != '!' && f[name] != ':'))) {
        brackets += f[name] == '[' ? 1 : f[name] == ']' && brackets ? -1 : 0;
        if (f[name] == '{')
            return bad(rt, "{ in a field's name");
        name++;
    }
    jinja_value v, how;
    if (!field_value(rt, st, f, name, &v))
        return false;
    size_t i = name;
    if (i < n && f[i] == '!') {
        char conversion = i + 1 < n ? f[i + 1] : (char)0;
        i += 2;
        if ((i < n && f[i] != ':') || !conversion || !strchr("sra", conversion))
            return bad(rt, "the conversion after ! must be s, r or a");
        jinja_text text = {0};
        if (!(conversion == 's' ? jinja_add_str : jinja_add_repr)(rt, v, &text)) {
            jinja_text_deinit(&text);
            return false;
        }
        if (!jinja_finish_string(rt, &text, &v))
            return false;
        if (conversion == 'a' && v.s->n_bytes != v.s->n_chars)
            return jinja_fail(rt, BW_E_UNSUPPORTED, "!a of text beyond ASCII is not supported");
    }
    jinja_text spec_text = {0};
    if (i < n && !format_text(rt, st, f + i + 1, n - i - 1, depth + 1, &spec_text)) {
        jinja_text_deinit(&spec_text);
        return false;
    }
    size_t from = out->str.len;
    if (!jinja_finish_string(rt, &spec_text, &how) || !format_value(rt, v, how.s, out))
        return false;
    jinja_text_claim(out, from, how.s); /* it may say with what to fill up */
    return true;
}

static bool format_text(jinja_runtime *rt, format_state *st, const char *f, size_t n, int depth, jinja_text *out)
{
    if (depth > 2)
        return bad(rt, "fields are nested too deeply");
    for (size_t i = 0; i < n; i++) {
        char c = f[i];
        if ((c != '{' && c != '}') || (c == '}' && depth > 1)) {
            jinja_text_add(out, st->format, (size_t)(f - st->format->data) + i, 1);
            continue;
        }
        if (i + 1 < n && f[i + 1] == c) {
            jinja_text_add(out, st->format, (size_t)(f - st->format->data) + i, 1);
            i++;
            continue;
        }
        if (c == '}')
            return bad(rt, "a single }");
        size_t begin = ++i;
        int open = 1;
        for (; i < n; i++) {
            open += f[i] == '{' ? 1 : f[i] == '}' ? -1 : 0;
            if (!open)
                break;
        }
        if (i >= n)
            return bad(rt, "a { without }");
        if (!jinja_charge(rt, 1) || !format_field(rt, st, f + begin, i - begin, depth, out))
            return false;
        if (out->str.len > JINJA_MAX_OUTPUT)
            return jinja_fail(rt, BW_E_RANGE, "formatting gives more than %zu bytes", JINJA_MAX_OUTPUT);
    }
    return true;
}

bool jinja_format(jinja_runtime *rt, const jinja_string *f, const jinja_args *args, jinja_value *out)
{
    format_state st = {.format = f, .args = args};
    jinja_text text = {0};
    if (!jinja_charge(rt, f->n_bytes / 16) || !format_text(rt, &st, f->data, f->n_bytes, 1, &text)) {
        jinja_text_deinit(&text);
        return false;
    }
    return jinja_give(rt, &text, f, out);
}
