/* Methods of str that change case, pad or classify; methods of dict, list and tuple. What would change a dict or list
 * is listed without a function: jinja2's immutable sandbox hides it. */
#include "jinja.h"

#define METHOD(name) static bool name(jinja_runtime *rt, jinja_value self, jinja_value *arg, jinja_value *out)

#define CASE_METHOD(name, how)                                                                                         \
    METHOD(name)                                                                                                       \
    {                                                                                                                  \
        (void)arg;                                                                                                     \
        jinja_text text = {0};                                                                                         \
        jinja_add_case(&text, self.s, 0, self.s->n_bytes, how);                                                        \
        return jinja_charge(rt, self.s->n_bytes / 8) ? jinja_give(rt, &text, self.s, out)                              \
                                                     : (jinja_text_deinit(&text), false);                              \
    }
CASE_METHOD(str_upper, JINJA_UPPER)
CASE_METHOD(str_lower, JINJA_LOWER)
CASE_METHOD(str_capitalize, JINJA_CAPITALIZE)
CASE_METHOD(str_title, JINJA_TITLE)
CASE_METHOD(str_swapcase, JINJA_SWAP)
CASE_METHOD(str_casefold, JINJA_FOLD)

#define CLASS_METHOD(name, which)                                                                                      \
    METHOD(name)                                                                                                       \
    {                                                                                                                  \
        (void)arg;                                                                                                     \
        *out = jinja_bool(jinja_has_class(self.s->data, self.s->n_bytes, which));                                      \
        return jinja_charge(rt, self.s->n_bytes / 8);                                                                  \
    }
CLASS_METHOD(str_isalnum, JINJA_IS_ALNUM)
CLASS_METHOD(str_isalpha, JINJA_IS_ALPHA)
CLASS_METHOD(str_isdecimal, JINJA_IS_DECIMAL)
CLASS_METHOD(str_isdigit, JINJA_IS_DIGIT)
CLASS_METHOD(str_isnumeric, JINJA_IS_NUMERIC)
CLASS_METHOD(str_isspace, JINJA_IS_SPACE)
CLASS_METHOD(str_isprintable, JINJA_IS_PRINTABLE)
CLASS_METHOD(str_isascii, JINJA_IS_ASCII)
CLASS_METHOD(str_islower, JINJA_IS_LOWER)
CLASS_METHOD(str_isupper, JINJA_IS_UPPER)
CLASS_METHOD(str_istitle, JINJA_IS_TITLE)

METHOD(str_isidentifier)
{
    (void)arg;
    *out = jinja_bool(jinja_is_identifier(self.s->data, self.s->n_bytes));
    return jinja_charge(rt, self.s->n_bytes / 8);
}

/* where: 'l' text to the left, 'r' to the right, 'c' in the middle. */
bool jinja_center(jinja_runtime *rt, const jinja_string *s, jinja_value width, jinja_value fill, char where,
                  jinja_value *out)
{
    int64_t n;
    static const jinja_string space = {.data = " ", .n_bytes = 1, .n_chars = 1};
    const jinja_string *unit = &space;
    if (!jinja_need_int(rt, width, "a width", 80, &n))
        return false;
    if (fill.kind != JINJA_MISSING) {
        if (fill.kind != JINJA_STRING || fill.s->n_chars != 1)
            return jinja_fail(rt, BW_E_ARG, "the fill must be a str of one character");
        unit = fill.s;
    }
    if (n > (int64_t)JINJA_MAX_OUTPUT / 4)
        return jinja_fail(rt, BW_E_RANGE, "a width of %lld is too large", (long long)n);
    size_t pad = n > (int64_t)s->n_chars ? (size_t)n - s->n_chars : 0;
    size_t left = where == 'l' ? 0 : where == 'r' ? pad : pad / 2 + (pad & (size_t)n & 1);
    jinja_text text = {0};
    for (size_t i = 0; i < left; i++)
        jinja_text_add(&text, unit, 0, unit->n_bytes);
    jinja_text_add(&text, s, 0, s->n_bytes);
    for (size_t i = left; i < pad; i++)
        jinja_text_add(&text, unit, 0, unit->n_bytes);
    return jinja_charge(rt, pad / 8) ? jinja_give(rt, &text, s, out) : (jinja_text_deinit(&text), false);
}

METHOD(str_center)
{
    return jinja_center(rt, self.s, arg[0], arg[1], 'c', out);
}

METHOD(str_ljust)
{
    return jinja_center(rt, self.s, arg[0], arg[1], 'l', out);
}

METHOD(str_rjust)
{
    return jinja_center(rt, self.s, arg[0], arg[1], 'r', out);
}

METHOD(str_zfill)
{
    int64_t n;
    if (!jinja_need_int(rt, arg[0], "a width", 0, &n))
        return false;
    if (n > (int64_t)JINJA_MAX_OUTPUT / 4)
        return jinja_fail(rt, BW_E_RANGE, "a width of %lld is too large", (long long)n);
    bool sign = self.s->n_bytes && (self.s->data[0] == '-' || self.s->data[0] == '+');
    jinja_text text = {0};
    if (sign)
        bw_str_add_char(&text.str, self.s->data[0]);
    for (int64_t i = (int64_t)self.s->n_chars; i < n; i++)
        bw_str_add_char(&text.str, '0');
    bw_str_add_bytes(&text.str, self.s->data + sign, self.s->n_bytes - sign);
    jinja_text_claim(&text, 0, self.s);
    return jinja_give(rt, &text, self.s, out);
}

METHOD(str_expandtabs)
{
    int64_t size, column = 0;
    if (!jinja_need_int(rt, arg[0], "a tab's width", 8, &size))
        return false;
    if (size > 1000)
        return jinja_fail(rt, BW_E_RANGE, "a tab's width of %lld is too large", (long long)size);
    jinja_text text = {0};
    for (size_t i = 0; i < self.s->n_bytes && text.str.len < JINJA_MAX_OUTPUT; i++) {
        char c = self.s->data[i];
        if (c == '\t') {
            int64_t n = size > 0 ? size - column % size : 0;
            column += n;
            while (n-- > 0)
                bw_str_add_char(&text.str, ' ');
            continue;
        }
        bw_str_add_char(&text.str, c);
        column = c == '\n' || c == '\r' ? 0 : column + (((unsigned char)c & 0xC0) != 0x80);
    }
    jinja_text_claim(&text, 0, self.s);
    return jinja_give(rt, &text, self.s, out);
}

static bool str_format(jinja_runtime *rt, jinja_value self, const jinja_args *args, jinja_value *out)
{
    return jinja_format(rt, self.s, args, out);
}

METHOD(str_format_map)
{
    if (arg[0].kind != JINJA_DICT)
        return jinja_fail(rt, BW_E_ARG, "format_map() takes a dict, not a %s", jinja_type_name(arg[0]));
    const jinja_args args = {.keywords = arg[0].dict};
    return jinja_format(rt, self.s, &args, out);
}

METHOD(str_unsupported)
{
    (void)self;
    (void)arg;
    (void)out;
    return jinja_fail(rt, BW_E_UNSUPPORTED, "the methods encode, maketrans and translate are not supported");
}

const jinja_builtin jinja_string_methods_more[] = {
    {"upper", "", str_upper, NULL},
    {"lower", "", str_lower, NULL},
    {"capitalize", "", str_capitalize, NULL},
    {"title", "", str_title, NULL},
    {"swapcase", "", str_swapcase, NULL},
    {"casefold", "", str_casefold, NULL},
    {"isalnum", "", str_isalnum, NULL},
    {"isalpha", "", str_isalpha, NULL},
    {"isdecimal", "", str_isdecimal, NULL},
    {"isdigit", "", str_isdigit, NULL},
    {"isnumeric", "", str_isnumeric, NULL},
    {"isspace", "", str_isspace, NULL},
    {"isprintable", "", str_isprintable, NULL},
    {"isascii", "", str_isascii, NULL},
    {"islower", "", str_islower, NULL},
    {"isupper", "", str_isupper, NULL},
    {"istitle", "", str_istitle, NULL},
    {"isidentifier", "", str_isidentifier, NULL},
    {"center", "/width fillchar=", str_center, NULL},
    {"ljust", "/width fillchar=", str_ljust, NULL},
    {"rjust", "/width fillchar=", str_rjust, NULL},
    {"zfill", "/width", str_zfill, NULL},
    {"expandtabs", "tabsize=", str_expandtabs, NULL},
    {"format", NULL, NULL, str_format},
    {"format_map", "/mapping", str_format_map, NULL},
    {"encode", "encoding= errors=", str_unsupported, NULL},
    {"maketrans", "/x y= z=", str_unsupported, NULL},
    {"translate", "/table", str_unsupported, NULL},
    {0},
};

/* ---- dict ---- */

static bool view_of(jinja_runtime *rt, jinja_value self, jinja_view_kind kind, jinja_value *out)
{
    jinja_view *view = jinja_alloc(rt, 1, sizeof *view);
    if (!view)
        return false;
    *view = (jinja_view){self.dict, kind};
    *out = (jinja_value){.kind = JINJA_VIEW, .view = view};
    return true;
}

METHOD(dict_keys)
{
    (void)arg;
    return view_of(rt, self, JINJA_KEYS, out);
}

METHOD(dict_values)
{
    (void)arg;
    return view_of(rt, self, JINJA_VALUES, out);
}

METHOD(dict_items)
{
    (void)arg;
    return view_of(rt, self, JINJA_ITEMS, out);
}

METHOD(dict_get)
{
    const jinja_value *found;
    if (!jinja_dict_find(rt, self.dict, arg[0], &found))
        return false;
    *out = found ? *found : arg[1].kind == JINJA_MISSING ? jinja_none() : arg[1];
    return true;
}

METHOD(dict_copy)
{
    (void)rt;
    (void)arg;
    *out = self;
    return true;
}

METHOD(dict_fromkeys)
{
    (void)self;
    const jinja_list *keys;
    jinja_dict *dict = jinja_new_dict(rt);
    jinja_value value = arg[1].kind == JINJA_MISSING ? jinja_none() : arg[1];
    if (!dict || !jinja_items(rt, arg[0], &keys))
        return false;
    for (size_t i = 0; i < keys->n; i++)
        if (!jinja_dict_set(rt, dict, keys->items[i], value))
            return false;
    *out = (jinja_value){.kind = JINJA_DICT, .dict = dict};
    return true;
}

const jinja_builtin jinja_dict_methods[] = {
    {"items", "", dict_items, NULL},   {"keys", "", dict_keys, NULL},
    {"values", "", dict_values, NULL}, {"get", "/key default=", dict_get, NULL},
    {"copy", "", dict_copy, NULL},     {"fromkeys", "/iterable value=", dict_fromkeys, NULL},
    {"clear", "", NULL, NULL},         {"pop", "", NULL, NULL},
    {"popitem", "", NULL, NULL},       {"setdefault", "", NULL, NULL},
    {"update", "", NULL, NULL},        {0},
};

/* ---- list and tuple ---- */

METHOD(list_count)
{
    int64_t n = 0;
    for (size_t i = 0; i < self.list->n; i++) {
        bool same = jinja_same(self.list->items[i], arg[0]);
        if (!same && !jinja_equal(rt, self.list->items[i], arg[0], &same))
            return false;
        n += same;
    }
    *out = jinja_int(n);
    return true;
}

METHOD(list_index)
{
    int64_t n = (int64_t)self.list->n, begin, end;
    if (!jinja_need_int(rt, arg[1], "a position", 0, &begin) || !jinja_need_int(rt, arg[2], "a position", n, &end))
        return false;
    begin = begin < 0 ? begin + n : begin;
    end = end < 0 ? end + n : end > n ? n : end;
    for (int64_t i = begin < 0 ? 0 : begin; i < end; i++) {
        bool same = jinja_same(self.list->items[i], arg[0]);
        if (!same && !jinja_equal(rt, self.list->items[i], arg[0], &same))
            return false;
        if (same) {
            *out = jinja_int(i);
            return true;
        }
    }
    return jinja_fail(rt, BW_E_ARG, "index(): the value is not in the %s", jinja_type_name(self));
}

METHOD(list_copy)
{
    (void)rt;
    (void)arg;
    *out = self;
    return true;
}

const jinja_builtin jinja_list_methods[] = {
    {"count", "/value", list_count, NULL},
    {"index", "/value start= stop=", list_index, NULL},
    {"copy", "", list_copy, NULL},
    {"append", "", NULL, NULL},
    {"clear", "", NULL, NULL},
    {"pop", "", NULL, NULL},
    {"reverse", "", NULL, NULL},
    {"insert", "", NULL, NULL},
    {"sort", "", NULL, NULL},
    {"extend", "", NULL, NULL},
    {"remove", "", NULL, NULL},
    {0},
};

const jinja_builtin jinja_tuple_methods[] = {
    {"count", "/value", list_count, NULL},
    {"index", "/value start= stop=", list_index, NULL},
    {0},
};
