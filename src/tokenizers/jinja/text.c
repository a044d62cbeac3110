/* The text of values: Python's str() and repr(), shortest floats, numbers from text, HTML escapes, and JSON as
 * json.dumps writes it. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

#include "jinja.h"

void jinja_add_float(bw_str *out, double f)
{
    if (isnan(f) || isinf(f)) {
        bw_str_add(out, isnan(f) ? "nan" : f < 0 ? "-inf" : "inf");
        return;
    }
    char text[64];
    /* A decimal of up to 15 digits comes back from a normal double as it was, so where 15 digits are enough, fewer are
     * these without their trailing zeros. */
    for (int precision = fabs(f) < 1e-290 ? 0 : 14; precision < 17; precision++) {
        snprintf(text, sizeof text, "%.*e", precision, f);
        if (strtod(text, NULL) == f)
            break;
    }
    char *e = strchr(text, 'e');
    int exponent = (int)strtol(e + 1, NULL, 10);
    char digits[32];
    int n = 0;
    for (char *p = text; p < e; p++)
        if (isdigit((unsigned char)*p))
            digits[n++] = *p;
    while (n > 1 && digits[n - 1] == '0')
        n--;
    digits[n] = 0;
    if (text[0] == '-')
        bw_str_add_char(out, '-');
    if (exponent < -4 || exponent >= 16) {
        bw_str_add_char(out, digits[0]);
        if (n > 1)
            bw_str_add_format(out, ".%s", digits + 1);
        bw_str_add_format(out, "e%c%02d", exponent < 0 ? '-' : '+', abs(exponent));
    } else if (exponent < 0) {
        bw_str_add(out, "0.");
        for (int i = -1; i > exponent; i--)
            bw_str_add_char(out, '0');
        bw_str_add(out, digits);
    } else {
        for (int i = 0; i <= exponent; i++)
            bw_str_add_char(out, i < n ? digits[i] : '0');
        bw_str_add_char(out, '.');
        bw_str_add(out, n > exponent + 1 ? digits + exponent + 1 : "0");
    }
}

static void add_string_repr(jinja_text *out, const jinja_string *s)
{
    size_t from = out->str.len;
    bool single = memchr(s->data, '\'', s->n_bytes) != NULL, twice = memchr(s->data, '"', s->n_bytes) != NULL;
    char quote = single && !twice ? '"' : '\'';
    bw_str_add_char(&out->str, quote);
    for (size_t i = 0; i < s->n_bytes;) {
        uint32_t c;
        size_t n = jinja_next_char(s->data + i, s->n_bytes - i, &c);
        if (c == (unsigned char)quote || c == '\\')
            bw_str_add_format(&out->str, "\\%c", (char)c);
        else if (c == '\n' || c == '\r' || c == '\t')
            bw_str_add(&out->str, c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t");
        else if (c >= 0x20 && c < 0x7F)
            bw_str_add_char(&out->str, (char)c);
        else if (c >= 0x80 && jinja_is_printable(c))
            bw_str_add_bytes(&out->str, s->data + i, n);
        else
            bw_str_add_format(&out->str, c < 0x100 ? "\\x%02x" : c < 0x10000 ? "\\u%04x" : "\\U%08x", c);
        i += n;
    }
    bw_str_add_char(&out->str, quote);
    jinja_text_claim(out, from, s);
}

static bool add_sequence(jinja_runtime *rt, jinja_value v, jinja_text *out)
{
    bool tuple = v.kind == JINJA_TUPLE;
    bw_str_add_char(&out->str, tuple ? '(' : '[');
    for (size_t i = 0; i < v.list->n; i++) {
        if (i)
            bw_str_add(&out->str, ", ");
        if (!jinja_add_repr(rt, v.list->items[i], out))
            return false;
    }
    bw_str_add(&out->str, tuple ? (v.list->n == 1 ? ",)" : ")") : "]");
    return true;
}

static bool add_dict(jinja_runtime *rt, const jinja_dict *dict, jinja_text *out)
{
    bw_str_add_char(&out->str, '{');
    for (size_t i = 0; i < dict->n; i++) {
        if (i)
            bw_str_add(&out->str, ", ");
        if (!jinja_add_repr(rt, dict->entries[i].key, out))
            return false;
        bw_str_add(&out->str, ": ");
        if (!jinja_add_repr(rt, dict->entries[i].value, out))
            return false;
    }
    bw_str_add_char(&out->str, '}');
    return true;
}

static bool add_view(jinja_runtime *rt, jinja_value v, jinja_text *out)
{
    static const char *const names[] = {"dict_keys(", "dict_values(", "dict_items("};
    const jinja_list *items;
    if (!jinja_items(rt, v, &items))
        return false;
    bw_str_add(&out->str, names[v.view->kind]);
    bool ok = add_sequence(rt, (jinja_value){.kind = JINJA_LIST, .list = (jinja_list *)(uintptr_t)items}, out);
    bw_str_add_char(&out->str, ')');
    return ok;
}

static void add_range(jinja_text *out, const jinja_range *r)
{
    bw_str_add_format(&out->str, "range(%lld, %lld", (long long)r->start, (long long)r->stop);
    if (r->step != 1)
        bw_str_add_format(&out->str, ", %lld", (long long)r->step);
    bw_str_add_char(&out->str, ')');
}

static bool add_nested(jinja_runtime *rt, jinja_value v, jinja_text *out)
{
    if (!jinja_enter(rt))
        return false;
    bool ok = true;
    if (v.kind == JINJA_LIST || v.kind == JINJA_TUPLE)
        ok = add_sequence(rt, v, out);
    else if (v.kind == JINJA_DICT)
        ok = add_dict(rt, v.dict, out);
    else if (v.kind == JINJA_VIEW)
        ok = add_view(rt, v, out);
    else {
        bw_str_add(&out->str, "<Namespace ");
        ok = add_dict(rt, v.dict, out);
        bw_str_add_char(&out->str, '>');
    }
    jinja_leave(rt);
    return ok;
}

bool jinja_add_repr(jinja_runtime *rt, jinja_value v, jinja_text *out)
{
    if (!jinja_charge(rt, 1))
        return false;
    if (out->str.len > JINJA_MAX_OUTPUT)
        return jinja_fail(rt, BW_E_RANGE, "a value's text has more than %zu bytes", JINJA_MAX_OUTPUT);
    switch (v.kind) {
    case JINJA_STRING:
        if (v.s->markup)
            bw_str_add(&out->str, "Markup(");
        add_string_repr(out, v.s);
        if (v.s->markup)
            bw_str_add_char(&out->str, ')');
        return jinja_charge(rt, v.s->n_bytes / 64);
    case JINJA_UNDEFINED:
        bw_str_add(&out->str, "Undefined");
        return true;
    case JINJA_NONE:
        bw_str_add(&out->str, "None");
        return true;
    case JINJA_BOOL:
        bw_str_add(&out->str, v.b ? "True" : "False");
        return true;
    case JINJA_INT:
        bw_str_add_format(&out->str, "%lld", (long long)v.i);
        return true;
    case JINJA_FLOAT:
        jinja_add_float(&out->str, v.f);
        return jinja_charge(rt, 8);
    case JINJA_RANGE:
        add_range(out, v.range);
        return true;
    case JINJA_LIST:
    case JINJA_TUPLE:
    case JINJA_DICT:
    case JINJA_NAMESPACE:
    case JINJA_VIEW:
        return add_nested(rt, v, out);
    case JINJA_LOOP:
        bw_str_add_format(&out->str, "<LoopContext %lld/%zu>", (long long)v.loop->index0 + 1, v.loop->items->n);
        return true;
    case JINJA_MACRO:
        if (v.macro->node->kind != JINJA_N_MACRO) {
            bw_str_add(&out->str, "<Macro anonymous>");
        } else {
            bw_str_add(&out->str, "<Macro ");
            add_string_repr(out, v.macro->node->name);
            bw_str_add_char(&out->str, '>');
        }
        return true;
    default:
        bw_str_add_format(&out->str, "<%s>", jinja_type_name(v));
        return true;
    }
}

bool jinja_add_str(jinja_runtime *rt, jinja_value v, jinja_text *out)
{
    if (v.kind == JINJA_UNDEFINED)
        return true;
    if (v.kind != JINJA_STRING)
        return jinja_add_repr(rt, v, out);
    if (out->str.len > JINJA_MAX_OUTPUT)
        return jinja_fail(rt, BW_E_RANGE, "a value's text has more than %zu bytes", JINJA_MAX_OUTPUT);
    jinja_text_add(out, v.s, 0, v.s->n_bytes);
    return jinja_charge(rt, v.s->n_bytes / 64);
}

bool jinja_str(jinja_runtime *rt, jinja_value v, jinja_value *out)
{
    if (v.kind == JINJA_STRING) {
        *out = v;
        return true;
    }
    jinja_text text = {0};
    if (!jinja_add_str(rt, v, &text)) {
        jinja_text_deinit(&text);
        return false;
    }
    return jinja_finish_string(rt, &text, out);
}

bool jinja_add_escaped(jinja_runtime *rt, jinja_value v, jinja_text *out)
{
    jinja_value s;
    if (!jinja_str(rt, v, &s))
        return false;
    if (s.s->markup) {
        jinja_text_add(out, s.s, 0, s.s->n_bytes);
        return jinja_charge(rt, s.s->n_bytes / 64);
    }
    for (size_t i = 0; i < s.s->n_bytes; i++) {
        char c = s.s->data[i];
        const char *escaped = c == '&'    ? "&amp;"
                              : c == '<'  ? "&lt;"
                              : c == '>'  ? "&gt;"
                              : c == '"'  ? "&#34;"
                              : c == '\'' ? "&#39;"
                                          : NULL;
        size_t from = out->str.len;
        if (!escaped) {
            jinja_text_add(out, s.s, i, 1);
            continue;
        }
        bw_str_add(&out->str, escaped);
        if (!s.s->origin || s.s->origin[i])
            jinja_text_claim(out, from, s.s);
    }
    return jinja_charge(rt, s.s->n_bytes / 16);
}

static void strip(const char **text, size_t *n)
{
    uint32_t c;
    size_t k;
    while (*n && (k = jinja_next_char(*text, *n, &c), jinja_is_space(c))) {
        *text += k;
        *n -= k;
    }
    while (*n && (k = jinja_last_char(*text, *n, &c), jinja_is_space(c)))
        *n -= k;
}

bool jinja_parse_float(const char *text, size_t n, double *out)
{
    char clean[512];
    size_t m = 0;
    strip(&text, &n);
    if (n == 0 || n >= sizeof clean)
        return false;
    for (size_t i = 0; i < n; i++) {
        char c = text[i];
        if (c == '_') {
            if (i == 0 || i + 1 == n || !isdigit((unsigned char)text[i - 1]) || !isdigit((unsigned char)text[i + 1]))
                return false;
            continue;
        }
        if (!c || !strchr("0123456789+-.eEinfatyINFATY", c))
            return false;
        clean[m++] = c;
    }
    clean[m] = 0;
    char *end;
    *out = strtod(clean, &end);
    return *end == 0 && end != clean;
}

bool jinja_parse_int(const char *text, size_t n, int base, int64_t *out)
{
    strip(&text, &n);
    bool minus = n && text[0] == '-';
    if (n && (text[0] == '-' || text[0] == '+')) {
        text++;
        n--;
    }
    int marked = n > 1 && text[0] == '0' ? (text[1] | 32) == 'x'   ? 16
                                           : (text[1] | 32) == 'o' ? 8
                                           : (text[1] | 32) == 'b' ? 2
                                                                   : 0
                                         : 0;
    if (marked && (base == marked || base == 0)) {
        base = marked;
        text += 2;
        n -= 2;
        if (n && text[0] == '_') {
            text++;
            n--;
        }
    } else if (base == 0) {
        base = 10;
    }
    uint64_t v = 0, limit = (uint64_t)INT64_MAX + minus;
    bool digit = false;
    for (size_t i = 0; i < n; i++) {
        char c = text[i];
        if (c == '_' && digit && i + 1 < n) {
            digit = false;
            continue;
        }
        int d = isdigit((unsigned char)c) ? c - '0' : isalpha((unsigned char)c) ? (c | 32) - 'a' + 10 : 99;
        if (d >= base || v > (limit - (uint64_t)d) / (uint64_t)base)
            return false;
        v = v * (uint64_t)base + (uint64_t)d;
        digit = true;
    }
    if (!digit)
        return false;
    *out = minus ? (v > (uint64_t)INT64_MAX ? INT64_MIN : -(int64_t)v) : (int64_t)v;
    return true;
}

static void add_json_string(jinja_text *out, const jinja_string *s, bool ascii)
{
    size_t from = out->str.len;
    bw_str_add_char(&out->str, '"');
    for (size_t i = 0; i < s->n_bytes;) {
        uint32_t c;
        size_t n = jinja_next_char(s->data + i, s->n_bytes - i, &c);
        const char *found = c && c < 0x80 ? strchr("\"\"\\\\\nn\rr\tt\bb\ff", (int)c) : NULL;
        if (c == '"' || c == '\\')
            bw_str_add_format(&out->str, "\\%c", (char)c);
        else if (c < 0x20 && found)
            bw_str_add_format(&out->str, "\\%c", found[1]);
        else if (c < 0x20 || (ascii && c >= 0x7F && c < 0x10000 && c != 0x7F))
            bw_str_add_format(&out->str, "\\u%04x", c);
        else if (ascii && c >= 0x10000)
            bw_str_add_format(&out->str, "\\u%04x\\u%04x", 0xD800 + ((c - 0x10000) >> 10),
                              0xDC00 + ((c - 0x10000) & 0x3FF));
        else
            bw_str_add_bytes(&out->str, s->data + i, n);
        i += n;
    }
    bw_str_add_char(&out->str, '"');
    jinja_text_claim(out, from, s);
}

typedef struct json_style {
    bool ascii, sort_keys;
    const char *indent, *item_separator, *key_separator;
} json_style;

static void json_break(const json_style *style, int level, jinja_text *out)
{
    if (!style->indent)
        return;
    bw_str_add_char(&out->str, '\n');
    for (int i = 0; i < level; i++)
        bw_str_add(&out->str, style->indent);
}

static bool json_key(jinja_runtime *rt, jinja_value key, bool ascii, jinja_text *out)
{
    jinja_value text = key;
    if (key.kind == JINJA_NONE || key.kind == JINJA_BOOL) {
        bw_str_add(&out->str, key.kind == JINJA_NONE ? "\"null\"" : key.b ? "\"true\"" : "\"false\"");
        return true;
    }
    if (key.kind != JINJA_STRING && key.kind != JINJA_INT && key.kind != JINJA_FLOAT)
        return jinja_fail(rt, BW_E_ARG, "a %s cannot be a key in JSON", jinja_type_name(key));
    if (!jinja_str(rt, key, &text))
        return false;
    add_json_string(out, text.s, ascii);
    return true;
}

static bool by_key(jinja_runtime *rt, const jinja_entry **a, size_t n, const jinja_entry **spare)
{
    if (n < 2)
        return true;
    size_t half = n / 2, i = 0, j = half, k = 0;
    if (!by_key(rt, a, half, spare) || !by_key(rt, a + half, n - half, spare))
        return false;
    while (i < half && j < n) {
        int order;
        if (!jinja_order(rt, a[j]->key, a[i]->key, "<", &order))
            return false;
        spare[k++] = order == -1 ? a[j++] : a[i++];
    }
    while (i < half)
        spare[k++] = a[i++];
    memcpy(a, spare, k * sizeof *a);
    return true;
}

static bool json_value(jinja_runtime *rt, jinja_value v, const json_style *style, int level, jinja_text *out);

static bool json_dict(jinja_runtime *rt, const jinja_dict *dict, const json_style *style, int level, jinja_text *out)
{
    if (dict->n == 0) {
        bw_str_add(&out->str, "{}");
        return true;
    }
    const jinja_entry **order = jinja_alloc(rt, dict->n * 2, sizeof *order);
    if (!order)
        return false;
    for (size_t i = 0; i < dict->n; i++)
        order[i] = &dict->entries[i];
    if (style->sort_keys && !by_key(rt, order, dict->n, order + dict->n))
        return false;
    bw_str_add_char(&out->str, '{');
    for (size_t i = 0; i < dict->n; i++) {
        if (i)
            bw_str_add(&out->str, style->item_separator);
        json_break(style, level + 1, out);
        if (!json_key(rt, order[i]->key, style->ascii, out))
            return false;
        bw_str_add(&out->str, style->key_separator);
        if (!json_value(rt, order[i]->value, style, level + 1, out))
            return false;
    }
    json_break(style, level, out);
    bw_str_add_char(&out->str, '}');
    return true;
}

static bool json_list(jinja_runtime *rt, const jinja_list *list, const json_style *style, int level, jinja_text *out)
{
    if (list->n == 0) {
        bw_str_add(&out->str, "[]");
        return true;
    }
    bw_str_add_char(&out->str, '[');
    for (size_t i = 0; i < list->n; i++) {
        if (i)
            bw_str_add(&out->str, style->item_separator);
        json_break(style, level + 1, out);
        if (!json_value(rt, list->items[i], style, level + 1, out))
            return false;
    }
    json_break(style, level, out);
    bw_str_add_char(&out->str, ']');
    return true;
}

static bool json_value(jinja_runtime *rt, jinja_value v, const json_style *style, int level, jinja_text *out)
{
    if (!jinja_charge(rt, 1 + (style->indent ? (size_t)level : 0)) || !jinja_enter(rt))
        return false;
    if (out->str.len > JINJA_MAX_OUTPUT)
        return jinja_fail(rt, BW_E_RANGE, "a value's JSON has more than %zu bytes", JINJA_MAX_OUTPUT);
    bool ok = true;
    switch (v.kind) {
    case JINJA_NONE:
        bw_str_add(&out->str, "null");
        break;
    case JINJA_BOOL:
        bw_str_add(&out->str, v.b ? "true" : "false");
        break;
    case JINJA_INT:
        bw_str_add_format(&out->str, "%lld", (long long)v.i);
        break;
    case JINJA_FLOAT:
        if (isfinite(v.f))
            jinja_add_float(&out->str, v.f);
        else
            bw_str_add(&out->str, isnan(v.f) ? "NaN" : v.f < 0 ? "-Infinity" : "Infinity");
        break;
    case JINJA_STRING:
        add_json_string(out, v.s, style->ascii);
        ok = jinja_charge(rt, v.s->n_bytes / 64);
        break;
    case JINJA_LIST:
    case JINJA_TUPLE:
        ok = json_list(rt, v.list, style, level, out);
        break;
    case JINJA_DICT:
        ok = json_dict(rt, v.dict, style, level, out);
        break;
    default:
        return jinja_fail(rt, BW_E_ARG, "a %s cannot be written as JSON", jinja_type_name(v));
    }
    jinja_leave(rt);
    return ok;
}

bool jinja_tojson(jinja_runtime *rt, jinja_value v, bool ascii, const char *indent, const char *item_separator,
                  const char *key_separator, bool sort_keys, int level, jinja_text *out)
{
    const json_style style = {ascii, sort_keys, indent, item_separator, key_separator};
    return json_value(rt, v, &style, level, out);
}
