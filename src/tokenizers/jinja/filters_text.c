/* Filters that make or change text and numbers, and tojson as transformers sets it up. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

#include "jinja.h"

#define FILTER(name) static bool name(jinja_runtime *rt, jinja_value v, jinja_value *arg, jinja_value *out)

static bool fail_text(jinja_text *text)
{
    jinja_text_deinit(text);
    return false;
}

static bool to_case(jinja_runtime *rt, jinja_value v, jinja_case how, jinja_value *out)
{
    jinja_value s;
    jinja_text text = {0};
    if (!jinja_str(rt, v, &s) || !jinja_charge(rt, s.s->n_bytes / 8))
        return false;
    jinja_add_case(&text, s.s, 0, s.s->n_bytes, how);
    return jinja_give(rt, &text, s.s, out);
}

FILTER(do_upper)
{
    (void)arg;
    return to_case(rt, v, JINJA_UPPER, out);
}

FILTER(do_lower)
{
    (void)arg;
    return to_case(rt, v, JINJA_LOWER, out);
}

FILTER(do_capitalize)
{
    (void)arg;
    return to_case(rt, v, JINJA_CAPITALIZE, out);
}

/* Words begin after white space and - ( { [ <; each is one piece. */
FILTER(do_title)
{
    (void)arg;
    jinja_value s;
    jinja_text text = {0};
    if (!jinja_str(rt, v, &s) || !jinja_charge(rt, s.s->n_bytes / 8))
        return false;
    const char *data = s.s->data;
    for (size_t i = 0, n = s.s->n_bytes; i < n;) {
        uint32_t c;
        size_t first = jinja_next_char(data + i, n - i, &c), end = i;
        bool border = jinja_is_space(c) || (c && c < 0x80 && strchr("-({[<", (int)c));
        while (end < n) {
            size_t k = jinja_next_char(data + end, n - end, &c);
            if ((jinja_is_space(c) || (c && c < 0x80 && strchr("-({[<", (int)c))) != border)
                break;
            end += k;
        }
        jinja_add_case(&text, s.s, i, first, JINJA_UPPER);
        jinja_add_case(&text, s.s, i + first, end - i - first, JINJA_LOWER);
        i = end;
    }
    return jinja_finish_string(rt, &text, out);
}

FILTER(do_trim)
{
    jinja_value s;
    return jinja_str(rt, v, &s) && jinja_strip(rt, s.s, arg[0], true, true, out);
}

FILTER(do_string)
{
    (void)arg;
    return jinja_str(rt, v, out);
}

FILTER(do_safe)
{
    (void)arg;
    return jinja_str(rt, v, out) && jinja_mark(rt, *out, true, out);
}

FILTER(do_escape)
{
    (void)arg;
    jinja_text text = {0};
    if (!jinja_add_escaped(rt, v, &text))
        return fail_text(&text);
    return jinja_finish_string(rt, &text, out) && jinja_mark(rt, *out, true, out);
}

FILTER(do_forceescape)
{
    (void)arg;
    jinja_value s;
    return jinja_str(rt, v, &s) && jinja_mark(rt, s, false, &s) && do_escape(rt, s, arg, out);
}

FILTER(do_replace)
{
    jinja_value s, old, fresh;
    int64_t count;
    jinja_text text = {0};
    if (arg[2].kind == JINJA_NONE)
        arg[2].kind = JINJA_MISSING;
    if (!jinja_str(rt, v, &s) || !jinja_str(rt, arg[0], &old) || !jinja_str(rt, arg[1], &fresh) ||
        !jinja_need_int(rt, arg[2], "the count", -1, &count))
        return false;
    if (!jinja_replace(rt, s.s, old.s, fresh.s, count, &text))
        return fail_text(&text);
    return jinja_finish_string(rt, &text, out);
}

FILTER(do_center)
{
    jinja_value s, none = {0};
    return jinja_str(rt, v, &s) && jinja_center(rt, s.s, arg[0], none, 'c', out);
}

FILTER(do_indent)
{
    if (v.kind == JINJA_UNDEFINED)
        return jinja_fail_undefined(rt, v);
    if (v.kind != JINJA_STRING)
        return jinja_fail(rt, BW_E_ARG, "indent needs a str, not a %s", jinja_type_name(v));
    int64_t width = 4;
    bool first = jinja_truth(arg[1]), blank = jinja_truth(arg[2]);
    if (arg[0].kind != JINJA_STRING && !jinja_need_int(rt, arg[0], "the width", 4, &width))
        return false;
    if (width > 10000)
        return jinja_fail(rt, BW_E_RANGE, "an indentation of %lld is too large", (long long)width);
    jinja_value newline, with_newline, pad;
    jinja_list *lines;
    jinja_text text = {0};
    if (arg[0].kind == JINJA_STRING) {
        pad = arg[0];
    } else {
        for (int64_t i = 0; i < width; i++)
            bw_str_add_char(&text.str, ' ');
        if (!jinja_finish_string(rt, &text, &pad))
            return false;
    }
    jinja_value plain;
    if (!jinja_view_string(rt, "\n", 1, &newline) || !jinja_mark(rt, v, false, &plain) ||
        !jinja_binary(rt, JINJA_ADD, plain, newline, &with_newline) ||
        !jinja_split_lines(rt, with_newline.s, false, &lines))
        return false;
    for (size_t i = 0; i < lines->n; i++) {
        const jinja_string *line = lines->items[i].s;
        if (i)
            bw_str_add_char(&text.str, '\n');
        if (i ? blank || line->n_bytes : first)
            jinja_text_add(&text, pad.s, 0, pad.s->n_bytes);
        jinja_text_add(&text, line, 0, line->n_bytes);
        if (text.str.len > JINJA_MAX_OUTPUT || !jinja_charge(rt, 1 + pad.s->n_bytes / 64)) {
            jinja_fail(rt, BW_E_RANGE, "indent gives more than %zu bytes", JINJA_MAX_OUTPUT);
            return fail_text(&text);
        }
    }
    return jinja_give(rt, &text, v.s, out);
}

FILTER(do_truncate)
{
    int64_t length, leeway;
    jinja_value end = arg[2];
    if (v.kind != JINJA_STRING)
        return v.kind == JINJA_UNDEFINED
                   ? jinja_fail_undefined(rt, v)
                   : jinja_fail(rt, BW_E_ARG, "truncate needs a str, not a %s", jinja_type_name(v));
    if (arg[3].kind == JINJA_NONE)
        arg[3].kind = JINJA_MISSING;
    if (!jinja_need_int(rt, arg[0], "the length", 255, &length) ||
        !jinja_need_int(rt, arg[3], "the leeway", 5, &leeway) ||
        (end.kind == JINJA_MISSING && !jinja_new_string(rt, "...", 3, &end)))
        return false;
    if (end.kind != JINJA_STRING || length < (int64_t)end.s->n_chars || leeway < 0 || leeway > INT32_MAX ||
        length > INT32_MAX)
        return jinja_fail(rt, BW_E_ARG, "the length, leeway or end of truncate is wrong");
    *out = v;
    if ((int64_t)v.s->n_chars <= length + leeway)
        return true;
    size_t keep = jinja_byte_offset(v.s, (size_t)length - end.s->n_chars);
    if (!jinja_truth(arg[1])) {
        const char *space = keep ? memrchr(v.s->data, ' ', keep) : NULL;
        keep = space ? (size_t)(space - v.s->data) : keep;
    }
    jinja_text text = {0};
    jinja_text_add(&text, v.s, 0, keep);
    jinja_text_add(&text, end.s, 0, end.s->n_bytes);
    return jinja_give(rt, &text, v.s, out);
}

FILTER(do_wordcount)
{
    (void)arg;
    jinja_value s;
    int64_t n = 0;
    bool in_word = false;
    if (!jinja_str(rt, v, &s) || !jinja_charge(rt, s.s->n_bytes / 8))
        return false;
    for (size_t i = 0; i < s.s->n_bytes;) {
        uint32_t c;
        i += jinja_next_char(s.s->data + i, s.s->n_bytes - i, &c);
        bool word = jinja_is_word(c);
        n += word && !in_word;
        in_word = word;
    }
    *out = jinja_int(n);
    return true;
}

static bool do_format(jinja_runtime *rt, jinja_value v, const jinja_args *args, jinja_value *out)
{
    jinja_value s, values;
    if (args->n && args->keywords && args->keywords->n)
        return jinja_fail(rt, BW_E_ARG, "format takes positional or named values, not both");
    if (!jinja_str(rt, v, &s))
        return false;
    if (args->keywords && args->keywords->n) {
        values = (jinja_value){.kind = JINJA_DICT, .dict = (jinja_dict *)(uintptr_t)args->keywords};
    } else {
        jinja_list *list = jinja_new_list(rt, args->n);
        for (size_t i = 0; list && i < args->n; i++)
            if (!jinja_push(rt, list, args->items[i]))
                return false;
        if (!list)
            return false;
        values = jinja_list_value(JINJA_TUPLE, list);
    }
    return jinja_percent(rt, s.s, values, out);
}

static bool add_quoted(jinja_runtime *rt, jinja_value v, bool query, jinja_text *out)
{
    size_t from = out->str.len;
    jinja_value s;
    if (!jinja_str(rt, v, &s) || !jinja_charge(rt, s.s->n_bytes / 8))
        return false;
    for (size_t i = 0; i < s.s->n_bytes; i++) {
        unsigned char c = (unsigned char)s.s->data[i];
        if (isalnum(c) || (c && strchr("_.-~", c)) || (c == '/' && !query))
            bw_str_add_char(&out->str, (char)c);
        else if (c == ' ' && query)
            bw_str_add_char(&out->str, '+');
        else
            bw_str_add_format(&out->str, "%%%02X", c);
    }
    jinja_text_claim(out, from, s.s);
    return true;
}

FILTER(do_urlencode)
{
    (void)arg;
    jinja_text text = {0};
    if (v.kind == JINJA_STRING || !jinja_iterable(v)) {
        if (!add_quoted(rt, v, false, &text))
            return fail_text(&text);
        return jinja_finish_string(rt, &text, out);
    }
    const jinja_list *items, *pair;
    jinja_view view = {.kind = JINJA_ITEMS};
    if (v.kind == JINJA_DICT) {
        view.dict = v.dict;
        v = (jinja_value){.kind = JINJA_VIEW, .view = &view};
    }
    if (!jinja_items(rt, v, &items))
        return false;
    for (size_t i = 0; i < items->n; i++) {
        if (i)
            bw_str_add_char(&text.str, '&');
        bool ok = jinja_items(rt, items->items[i], &pair) &&
                  (pair->n == 2 || jinja_fail(rt, BW_E_ARG, "urlencode needs pairs"));
        if (!ok || !add_quoted(rt, pair->items[0], true, &text))
            return fail_text(&text);
        bw_str_add_char(&text.str, '=');
        if (!add_quoted(rt, pair->items[1], true, &text))
            return fail_text(&text);
    }
    return jinja_finish_string(rt, &text, out);
}

FILTER(do_tojson)
{
    char spaces[101];
    const char *indent = NULL, *item = ", ", *colon = ": ";
    int64_t n;
    if (arg[1].kind == JINJA_STRING) {
        if (arg[1].s->n_bytes > 100 || memchr(arg[1].s->data, 0, arg[1].s->n_bytes))
            return jinja_fail(rt, BW_E_RANGE, "the indentation of tojson is too long or has a zero byte");
        snprintf(spaces, sizeof spaces, "%.*s", (int)arg[1].s->n_bytes, arg[1].s->data);
        indent = spaces;
    } else if (arg[1].kind != JINJA_MISSING && arg[1].kind != JINJA_NONE) {
        if (!jinja_need_int(rt, arg[1], "the indentation of tojson", 0, &n))
            return false;
        if (n > 100)
            return jinja_fail(rt, BW_E_RANGE, "an indentation of %lld is too large", (long long)n);
        snprintf(spaces, sizeof spaces, "%*s", n > 0 ? (int)n : 0, "");
        indent = spaces;
    }
    char separators[2][32];
    const jinja_list *pair = NULL;
    if (indent)
        item = ",";
    if (arg[2].kind != JINJA_MISSING && arg[2].kind != JINJA_NONE) {
        if (!jinja_items(rt, arg[2], &pair))
            return false;
        for (size_t i = 0; i < 2; i++) {
            if (pair->n != 2 || pair->items[i].kind != JINJA_STRING || pair->items[i].s->n_bytes >= 32)
                return jinja_fail(rt, BW_E_ARG, "the separators of tojson must be two short strings");
            snprintf(separators[i], 32, "%.*s", (int)pair->items[i].s->n_bytes, pair->items[i].s->data);
        }
        item = separators[0];
        colon = separators[1];
    }
    jinja_text text = {0};
    if (!jinja_tojson(rt, v, jinja_truth(arg[0]), indent, item, colon, jinja_truth(arg[3]), 0, &text))
        return fail_text(&text);
    if (arg[1].kind == JINJA_STRING) /* what stands between the values */
        jinja_text_claim(&text, 0, arg[1].s);
    for (size_t i = 0; pair && i < 2; i++)
        jinja_text_claim(&text, 0, pair->items[i].s);
    return jinja_finish_string(rt, &text, out);
}

/* ---- numbers ---- */

FILTER(do_int)
{
    int64_t base, i;
    double f;
    jinja_value fallback = arg[0].kind == JINJA_MISSING ? jinja_int(0) : arg[0];
    if (v.kind == JINJA_UNDEFINED)
        return jinja_fail_undefined(rt, v);
    if (!jinja_need_int(rt, arg[1], "the base", 10, &base))
        return false;
    *out = fallback;
    if (jinja_as_int(v, &i)) {
        *out = jinja_int(i);
        return true;
    }
    if (v.kind == JINJA_STRING) {
        if (!jinja_charge(rt, v.s->n_bytes / 64))
            return false;
        bool base_ok = base == 0 || (base >= 2 && base <= 36);
        if (base_ok && jinja_parse_int(v.s->data, v.s->n_bytes, (int)base, &i)) {
            *out = jinja_int(i);
            return true;
        }
        if (!jinja_parse_float(v.s->data, v.s->n_bytes, &f))
            return true;
    } else if (v.kind == JINJA_FLOAT) {
        f = v.f;
    } else {
        return true;
    }
    if (isinf(f) && v.kind == JINJA_FLOAT)
        return true;
    if (isnan(f) || isinf(f))
        return true;
    if (fabs(f) >= 9.2e18)
        return jinja_fail(rt, BW_E_RANGE, "an integer does not fit into 64 bits");
    *out = jinja_int((int64_t)f);
    return true;
}

FILTER(do_float)
{
    double f;
    if (v.kind == JINJA_UNDEFINED)
        return jinja_fail_undefined(rt, v);
    *out = arg[0].kind == JINJA_MISSING ? jinja_float(0) : arg[0];
    if (jinja_is_number(v))
        *out = jinja_float(jinja_as_double(v));
    else if (v.kind == JINJA_STRING && jinja_parse_float(v.s->data, v.s->n_bytes, &f))
        *out = jinja_float(f);
    return true;
}

FILTER(do_abs)
{
    (void)arg;
    int64_t i;
    if (v.kind == JINJA_FLOAT) {
        *out = jinja_float(fabs(v.f));
        return true;
    }
    if (!jinja_as_int(v, &i))
        return v.kind == JINJA_UNDEFINED ? jinja_fail_undefined(rt, v)
                                         : jinja_fail(rt, BW_E_ARG, "a %s has no absolute value", jinja_type_name(v));
    if (i < 0)
        return jinja_negate(rt, v, true, out);
    *out = jinja_int(i);
    return true;
}

/* Python's round(): half to even, decided on the exact value. */
static double round_places(double f, int places)
{
    if (!isfinite(f) || places > 322)
        return f;
    if (places < -308)
        return copysign(0.0, f);
    if (places >= 0) {
        char text[800];
        snprintf(text, sizeof text, "%.*f", places, f);
        return strtod(text, NULL);
    }
    long double unit = powl(10.0L, -places);
    return (double)(rintl((long double)f / unit) * unit);
}

static bool round_int(jinja_runtime *rt, int64_t i, int64_t places, jinja_value *out)
{
    *out = jinja_int(i);
    if (places >= 0)
        return true;
    if (places < -18) {
        *out = jinja_int(0);
        return true;
    }
    int64_t unit = 1;
    for (int64_t k = 0; k < -places; k++)
        unit *= 10;
    int64_t rest = i % unit, down = i - rest;
    if (rest < 0) {
        rest += unit;
        if (__builtin_sub_overflow(down, unit, &down))
            return jinja_fail(rt, BW_E_RANGE, "an integer does not fit into 64 bits");
    }
    bool up = rest > unit - rest || (rest == unit - rest && (down / unit) % 2 != 0);
    if (up && !bw_add_i64(down, unit, &down))
        return jinja_fail(rt, BW_E_RANGE, "an integer does not fit into 64 bits");
    *out = jinja_int(down);
    return true;
}

FILTER(do_round)
{
    int64_t places, i;
    if (v.kind == JINJA_UNDEFINED)
        return jinja_fail_undefined(rt, v);
    if (!jinja_is_number(v))
        return jinja_fail(rt, BW_E_ARG, "round needs a number, not a %s", jinja_type_name(v));
    if (!jinja_need_int(rt, arg[0], "the precision", 0, &places))
        return false;
    places = places > 400 ? 400 : places < -400 ? -400 : places;
    bool common = arg[1].kind == JINJA_MISSING || (arg[1].kind == JINJA_STRING && jinja_same_bytes(arg[1].s, "common"));
    bool ceiling = arg[1].kind == JINJA_STRING && jinja_same_bytes(arg[1].s, "ceil");
    bool flooring = arg[1].kind == JINJA_STRING && jinja_same_bytes(arg[1].s, "floor");
    if (!common && !ceiling && !flooring)
        return jinja_fail(rt, BW_E_ARG, "the method of round must be common, ceil or floor");
    if (common) {
        if (jinja_as_int(v, &i))
            return round_int(rt, i, places, out);
        *out = jinja_float(round_places(v.f, (int)places));
        return true;
    }
    double unit = pow(10, (double)places), f = jinja_as_double(v) * unit;
    f = ceiling ? ceil(f) : floor(f);
    if (!isfinite(f) || unit == 0)
        return jinja_fail(rt, BW_E_RANGE, "a number is too large to be rounded");
    *out = jinja_float(f == 0 ? 0.0 : f / unit);
    return true;
}

FILTER(do_filesizeformat)
{
    static const char *const prefixes[] = {"k", "M", "G", "T", "P", "E", "Z", "Y"};
    double n, base = jinja_truth(arg[0]) ? 1024 : 1000;
    char text[400];
    if (v.kind == JINJA_STRING ? !jinja_parse_float(v.s->data, v.s->n_bytes, &n) : !jinja_is_number(v))
        return jinja_fail(rt, BW_E_ARG, "filesizeformat needs a number, not a %s", jinja_type_name(v));
    if (v.kind != JINJA_STRING)
        n = jinja_as_double(v);
    if (n == 1) {
        snprintf(text, sizeof text, "1 Byte");
    } else if (n < base) {
        snprintf(text, sizeof text, "%.0f Bytes", trunc(n));
    } else {
        double unit = base;
        int i = -1;
        do {
            unit *= base;
            i++;
        } while (i < 7 && n >= unit);
        bool binary = base == 1024;
        snprintf(text, sizeof text, "%.1f %s%s", base * n / unit, binary && i == 0 ? "K" : prefixes[i],
                 binary ? "iB" : "B");
    }
    return jinja_new_string(rt, text, strlen(text), out);
}

const jinja_builtin jinja_filters_text[] = {
    {"trim", "chars=", do_trim, NULL},
    {"upper", "", do_upper, NULL},
    {"lower", "", do_lower, NULL},
    {"title", "", do_title, NULL},
    {"capitalize", "", do_capitalize, NULL},
    {"replace", "old new count=", do_replace, NULL},
    {"tojson", "ensure_ascii= indent= separators= sort_keys=", do_tojson, NULL},
    {"string", "", do_string, NULL},
    {"safe", "", do_safe, NULL},
    {"escape", "", do_escape, NULL},
    {"e", "", do_escape, NULL},
    {"forceescape", "", do_forceescape, NULL},
    {"center", "width=", do_center, NULL},
    {"indent", "width= first= blank=", do_indent, NULL},
    {"truncate", "length= killwords= end= leeway=", do_truncate, NULL},
    {"wordcount", "", do_wordcount, NULL},
    {"format", NULL, NULL, do_format},
    {"urlencode", "", do_urlencode, NULL},
    {"int", "default= base=", do_int, NULL},
    {"float", "default=", do_float, NULL},
    {"abs", "", do_abs, NULL},
    {"round", "precision= method=", do_round, NULL},
    {"filesizeformat", "binary=", do_filesizeformat, NULL},
    {0},
};
