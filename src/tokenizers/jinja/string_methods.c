/* Methods of str that look for, split, join and replace. */
#include "jinja.h"

#define METHOD(name) static bool name(jinja_runtime *rt, jinja_value self, jinja_value *arg, jinja_value *out)

bool jinja_give(jinja_runtime *rt, jinja_text *text, const jinja_string *like, jinja_value *out)
{
    return jinja_finish_string(rt, text, out) && jinja_mark(rt, *out, like->markup, out);
}

bool jinja_need_int(jinja_runtime *rt, jinja_value v, const char *what, int64_t fallback, int64_t *out)
{
    *out = fallback;
    if (v.kind == JINJA_MISSING || jinja_as_int(v, out))
        return true;
    if (v.kind == JINJA_UNDEFINED)
        return jinja_fail_undefined(rt, v);
    return jinja_fail(rt, BW_E_ARG, "%s must be an integer, not a %s", what, jinja_type_name(v));
}

static bool need_string(jinja_runtime *rt, jinja_value v, const char *what)
{
    if (v.kind == JINJA_STRING)
        return true;
    if (v.kind == JINJA_UNDEFINED)
        return jinja_fail_undefined(rt, v);
    return jinja_fail(rt, BW_E_ARG, "%s must be a str, not a %s", what, jinja_type_name(v));
}

static bool missing(jinja_value v)
{
    return v.kind == JINJA_MISSING || v.kind == JINJA_NONE;
}

static bool push_part(jinja_runtime *rt, jinja_list *list, const jinja_string *s, size_t begin, size_t end)
{
    jinja_value v;
    return jinja_part(rt, s, begin, end, &v) && jinja_push(rt, list, v);
}

static bool stripped(uint32_t c, const jinja_string *chars)
{
    if (!chars)
        return jinja_is_space(c);
    char bytes[4];
    int n = bw_utf8_encode(c, bytes);
    return n > 0 && memmem(chars->data, chars->n_bytes, bytes, (size_t)n) != NULL;
}

bool jinja_strip(jinja_runtime *rt, const jinja_string *s, jinja_value chars, bool left, bool right, jinja_value *out)
{
    const jinja_string *set = NULL;
    if (!missing(chars)) {
        if (!need_string(rt, chars, "what is stripped"))
            return false;
        set = chars.s;
    }
    size_t begin = 0, end = s->n_bytes, work = 0;
    uint32_t c;
    while (left && begin < end) {
        size_t n = jinja_next_char(s->data + begin, end - begin, &c);
        if (!stripped(c, set))
            break;
        begin += n;
        work++;
    }
    while (right && begin < end) {
        size_t n = jinja_last_char(s->data + begin, end - begin, &c);
        if (!stripped(c, set))
            break;
        end -= n;
        work++;
    }
    return jinja_charge(rt, set ? work * (1 + set->n_bytes / 64) : work / 8) && jinja_part(rt, s, begin, end, out);
}

METHOD(str_strip)
{
    return jinja_strip(rt, self.s, arg[0], true, true, out);
}

METHOD(str_lstrip)
{
    return jinja_strip(rt, self.s, arg[0], true, false, out);
}

METHOD(str_rstrip)
{
    return jinja_strip(rt, self.s, arg[0], false, true, out);
}

/* Split at white space, at most `most` times. */
static bool split_space(jinja_runtime *rt, const jinja_string *s, int64_t most, bool from_right, jinja_list *list)
{
    size_t begin = 0, end = s->n_bytes, n;
    uint32_t c;
    while (true) {
        while (begin < end && (n = from_right ? jinja_last_char(s->data + begin, end - begin, &c)
                                              : jinja_next_char(s->data + begin, end - begin, &c),
                               jinja_is_space(c))) {
            if (from_right)
                end -= n;
            else
                begin += n;
        }
        if (begin >= end)
            return true;
        size_t word_begin = begin, word_end = end;
        if (most-- == 0) {
            while (from_right && (n = jinja_next_char(s->data + word_begin, end - word_begin, &c), jinja_is_space(c)))
                word_begin += n;
            while (!from_right && (n = jinja_last_char(s->data + begin, word_end - begin, &c), jinja_is_space(c)))
                word_end -= n;
            return push_part(rt, list, s, from_right ? begin : word_begin, from_right ? word_end : end);
        }
        if (from_right) {
            while (end > begin && (n = jinja_last_char(s->data + begin, end - begin, &c), !jinja_is_space(c)))
                end -= n;
            word_begin = end;
        } else {
            while (begin < end && (n = jinja_next_char(s->data + begin, end - begin, &c), !jinja_is_space(c)))
                begin += n;
            word_end = begin;
        }
        if (!push_part(rt, list, s, word_begin, word_end))
            return false;
    }
}

/* The last place of `what` in data[0..n) into *at, or n + 1. Counts its work: it is quadratic at worst. */
static bool find_last(jinja_runtime *rt, const char *data, size_t n, const jinja_string *what, size_t *at)
{
    size_t m = what->n_bytes, work = 0;
    *at = n + 1;
    for (size_t i = n >= m ? n - m + 1 : 0; i-- > 0;) {
        size_t k = 0;
        while (k < m && data[i + k] == what->data[k])
            k++;
        work += k + 1;
        if (k == m) {
            *at = i;
            break;
        }
        if (work > 1u << 16) {
            if (!jinja_charge(rt, work / 16))
                return false;
            work = 0;
        }
    }
    return jinja_charge(rt, work / 16);
}

static bool split_at(jinja_runtime *rt, const jinja_string *s, const jinja_string *sep, int64_t most, bool from_right,
                     jinja_list *list)
{
    size_t begin = 0, end = s->n_bytes;
    while (most-- != 0) {
        if (from_right) {
            size_t at;
            if (!find_last(rt, s->data, end, sep, &at))
                return false;
            if (at > end)
                break;
            if (!push_part(rt, list, s, at + sep->n_bytes, end))
                return false;
            end = at;
        } else {
            const char *at = memmem(s->data + begin, end - begin, sep->data, sep->n_bytes);
            if (!at)
                break;
            if (!push_part(rt, list, s, begin, (size_t)(at - s->data)))
                return false;
            begin = (size_t)(at - s->data) + sep->n_bytes;
        }
    }
    return push_part(rt, list, s, begin, end);
}

static bool split(jinja_runtime *rt, const jinja_string *s, jinja_value *arg, bool from_right, jinja_value *out)
{
    int64_t most;
    jinja_list *list = jinja_new_list(rt, 0);
    if (!list || !jinja_need_int(rt, arg[1], "the number of splits", -1, &most) || !jinja_charge(rt, s->n_bytes / 16))
        return false;
    bool ok;
    if (missing(arg[0])) {
        ok = split_space(rt, s, most < 0 ? -1 : most, from_right, list);
    } else {
        if (!need_string(rt, arg[0], "the separator"))
            return false;
        if (arg[0].s->n_bytes == 0)
            return jinja_fail(rt, BW_E_ARG, "the separator is empty");
        ok = split_at(rt, s, arg[0].s, most < 0 ? -1 : most, from_right, list);
    }
    for (size_t i = 0; ok && from_right && i < list->n / 2; i++) {
        jinja_value v = list->items[i];
        list->items[i] = list->items[list->n - 1 - i];
        list->items[list->n - 1 - i] = v;
    }
    *out = jinja_list_value(JINJA_LIST, list);
    return ok;
}

METHOD(str_split)
{
    return split(rt, self.s, arg, false, out);
}

METHOD(str_rsplit)
{
    return split(rt, self.s, arg, true, out);
}

bool jinja_split_lines(jinja_runtime *rt, const jinja_string *s, bool keep_ends, jinja_list **out)
{
    jinja_list *list = jinja_new_list(rt, 0);
    size_t begin = 0, i = 0;
    while (list && i < s->n_bytes) {
        uint32_t c;
        size_t n = jinja_next_char(s->data + i, s->n_bytes - i, &c);
        bool is_end = (c >= 10 && c <= 13) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
        if (is_end) {
            if (c == '\r' && i + 1 < s->n_bytes && s->data[i + 1] == '\n')
                n = 2;
            if (!push_part(rt, list, s, begin, keep_ends ? i + n : i))
                return false;
            begin = i + n;
        }
        i += n;
    }
    if (list && begin < s->n_bytes && !push_part(rt, list, s, begin, s->n_bytes))
        return false;
    *out = list;
    return list != NULL;
}

METHOD(str_splitlines)
{
    jinja_list *list;
    int64_t keep;
    if (!jinja_need_int(rt, arg[0], "keepends", 0, &keep) || !jinja_split_lines(rt, self.s, keep != 0, &list))
        return false;
    *out = jinja_list_value(JINJA_LIST, list);
    return true;
}

bool jinja_replace(jinja_runtime *rt, const jinja_string *s, const jinja_string *old, const jinja_string *fresh,
                   int64_t count, jinja_text *out)
{
    size_t i = 0;
    if (!jinja_charge(rt, s->n_bytes / 32))
        return false;
    while (count != 0) {
        const char *at = old->n_bytes ? memmem(s->data + i, s->n_bytes - i, old->data, old->n_bytes) : s->data + i;
        if (!at)
            break;
        size_t before = (size_t)(at - s->data) - i;
        jinja_text_add(out, s, i, before);
        jinja_text_add(out, fresh, 0, fresh->n_bytes);
        i += before + old->n_bytes;
        count--;
        if (!jinja_charge(rt, 1 + fresh->n_bytes / 64))
            return false;
        if (out->str.len > JINJA_MAX_OUTPUT)
            return jinja_fail(rt, BW_E_RANGE, "replace() gives more than %zu bytes", JINJA_MAX_OUTPUT);
        if (old->n_bytes == 0) {
            uint32_t c;
            if (i >= s->n_bytes)
                return true;
            size_t n = jinja_next_char(s->data + i, s->n_bytes - i, &c);
            jinja_text_add(out, s, i, n);
            i += n;
        }
    }
    jinja_text_add(out, s, i, s->n_bytes - i);
    return true;
}

METHOD(str_replace)
{
    jinja_text text = {0};
    int64_t count;
    if (!need_string(rt, arg[0], "what is replaced") || !need_string(rt, arg[1], "the replacement") ||
        !jinja_need_int(rt, arg[2], "the count", -1, &count))
        return false;
    if (!jinja_replace(rt, self.s, arg[0].s, arg[1].s, count, &text)) {
        jinja_text_deinit(&text);
        return false;
    }
    return jinja_give(rt, &text, self.s, out);
}

METHOD(str_join)
{
    const jinja_list *items;
    jinja_text text = {0};
    if (!jinja_items(rt, arg[0], &items))
        return false;
    bool ok = true;
    for (size_t i = 0; ok && i < items->n; i++) {
        if (i)
            jinja_text_add(&text, self.s, 0, self.s->n_bytes);
        ok = need_string(rt, items->items[i], "what is joined") && jinja_add_str(rt, items->items[i], &text) &&
             jinja_charge(rt, 1 + self.s->n_bytes / 64);
    }
    if (!ok) {
        jinja_text_deinit(&text);
        return false;
    }
    return jinja_give(rt, &text, self.s, out);
}

/* s[start:end] in bytes, from arguments 1 and 2. valid: start is not beyond the end. */
static bool window(jinja_runtime *rt, const jinja_string *s, const jinja_value *arg, size_t *begin, size_t *end,
                   bool *valid)
{
    int64_t n = (int64_t)s->n_chars, a = 0, b = n;
    if ((!missing(arg[1]) && !jinja_need_int(rt, arg[1], "a position", 0, &a)) ||
        (!missing(arg[2]) && !jinja_need_int(rt, arg[2], "a position", n, &b)))
        return false;
    a = a < 0 ? a + n : a;
    b = b < 0 ? b + n : b > n ? n : b;
    a = a < 0 ? 0 : a;
    b = b < 0 ? 0 : b;
    *valid = a <= n && a <= b;
    *begin = jinja_byte_offset(s, (size_t)a);
    *end = *valid ? jinja_byte_offset(s, (size_t)b) : *begin;
    return jinja_charge(rt, s->n_bytes / 64);
}

static bool find(jinja_runtime *rt, jinja_value self, jinja_value *arg, bool last, bool must, jinja_value *out)
{
    size_t begin, end;
    bool valid;
    if (!need_string(rt, arg[0], "what is looked for") || !window(rt, self.s, arg, &begin, &end, &valid))
        return false;
    const jinja_string *what = arg[0].s;
    const char *at = NULL, *data = self.s->data;
    if (valid && what->n_bytes == 0) {
        at = data + (last ? end : begin);
    } else if (valid && last) {
        size_t k;
        if (!find_last(rt, data + begin, end - begin, what, &k))
            return false;
        at = k > end - begin ? NULL : data + begin + k;
    } else if (valid) {
        at = memmem(data + begin, end - begin, what->data, what->n_bytes);
    }
    if (!at && must)
        return jinja_fail(rt, BW_E_ARG, "a str does not have the part that index() looks for");
    *out = jinja_int(at ? (int64_t)jinja_count_chars(data, (size_t)(at - data)) : -1);
    return true;
}

METHOD(str_find)
{
    return find(rt, self, arg, false, false, out);
}

METHOD(str_rfind)
{
    return find(rt, self, arg, true, false, out);
}

METHOD(str_index)
{
    return find(rt, self, arg, false, true, out);
}

METHOD(str_rindex)
{
    return find(rt, self, arg, true, true, out);
}

METHOD(str_count)
{
    size_t begin, end;
    bool valid;
    int64_t n = 0;
    if (!need_string(rt, arg[0], "what is counted") || !window(rt, self.s, arg, &begin, &end, &valid))
        return false;
    const jinja_string *what = arg[0].s;
    if (valid && what->n_bytes == 0) {
        n = (int64_t)jinja_count_chars(self.s->data + begin, end - begin) + 1;
    } else if (valid) {
        const char *at;
        while ((at = memmem(self.s->data + begin, end - begin, what->data, what->n_bytes))) {
            n++;
            begin = (size_t)(at - self.s->data) + what->n_bytes;
        }
    }
    *out = jinja_int(n);
    return true;
}

static bool affix(jinja_runtime *rt, jinja_value self, jinja_value *arg, bool at_end, jinja_value *out)
{
    size_t begin, end;
    bool valid, holds = false;
    const jinja_value *options = arg;
    size_t n = 1;
    if (arg[0].kind == JINJA_TUPLE) {
        options = arg[0].list->items;
        n = arg[0].list->n;
    }
    if (!window(rt, self.s, arg, &begin, &end, &valid))
        return false;
    for (size_t i = 0; i < n; i++) {
        if (!need_string(rt, options[i], "a prefix or suffix"))
            return false;
        size_t m = options[i].s->n_bytes;
        if (valid && end - begin >= m &&
            memcmp(self.s->data + (at_end ? end - m : begin), options[i].s->data, m) == 0) {
            holds = true;
            break;
        }
    }
    *out = jinja_bool(holds);
    return true;
}

METHOD(str_startswith)
{
    return affix(rt, self, arg, false, out);
}

METHOD(str_endswith)
{
    return affix(rt, self, arg, true, out);
}

static bool remove_affix(jinja_runtime *rt, jinja_value self, jinja_value affix_, bool at_end, jinja_value *out)
{
    if (!need_string(rt, affix_, "a prefix or suffix"))
        return false;
    size_t m = affix_.s->n_bytes, n = self.s->n_bytes;
    bool has = n >= m && memcmp(self.s->data + (at_end ? n - m : 0), affix_.s->data, m) == 0;
    return jinja_part(rt, self.s, has && !at_end ? m : 0, has && at_end ? n - m : n, out);
}

METHOD(str_removeprefix)
{
    return remove_affix(rt, self, arg[0], false, out);
}

METHOD(str_removesuffix)
{
    return remove_affix(rt, self, arg[0], true, out);
}

static bool partition(jinja_runtime *rt, jinja_value self, jinja_value sep, bool last, jinja_value *out)
{
    if (!need_string(rt, sep, "the separator"))
        return false;
    if (sep.s->n_bytes == 0)
        return jinja_fail(rt, BW_E_ARG, "the separator is empty");
    const jinja_string *s = self.s;
    size_t n = s->n_bytes, at;
    const char *p = memmem(s->data, n, sep.s->data, sep.s->n_bytes);
    at = p ? (size_t)(p - s->data) : n + 1;
    if (last && !find_last(rt, s->data, n, sep.s, &at))
        return false;
    jinja_list *list = jinja_new_list(rt, 3);
    bool found = at <= n;
    size_t first = found ? at : last ? 0 : n, second = found ? at + sep.s->n_bytes : last ? 0 : n;
    if (!list || !jinja_charge(rt, n / 16) || !push_part(rt, list, s, 0, first) ||
        !push_part(rt, list, s, first, second) || !push_part(rt, list, s, second, n))
        return false;
    *out = jinja_list_value(JINJA_TUPLE, list);
    return true;
}

METHOD(str_partition)
{
    return partition(rt, self, arg[0], false, out);
}

METHOD(str_rpartition)
{
    return partition(rt, self, arg[0], true, out);
}

const jinja_builtin jinja_string_methods[] = {
    {"strip", "/chars=", str_strip, NULL},
    {"lstrip", "/chars=", str_lstrip, NULL},
    {"rstrip", "/chars=", str_rstrip, NULL},
    {"split", "sep= maxsplit=", str_split, NULL},
    {"rsplit", "sep= maxsplit=", str_rsplit, NULL},
    {"splitlines", "keepends=", str_splitlines, NULL},
    {"replace", "/old new count=", str_replace, NULL},
    {"join", "/iterable", str_join, NULL},
    {"find", "/sub start= end=", str_find, NULL},
    {"rfind", "/sub start= end=", str_rfind, NULL},
    {"index", "/sub start= end=", str_index, NULL},
    {"rindex", "/sub start= end=", str_rindex, NULL},
    {"count", "/sub start= end=", str_count, NULL},
    {"startswith", "/prefix start= end=", str_startswith, NULL},
    {"endswith", "/suffix start= end=", str_endswith, NULL},
    {"removeprefix", "/prefix", str_removeprefix, NULL},
    {"removesuffix", "/suffix", str_removesuffix, NULL},
    {"partition", "/sep", str_partition, NULL},
    {"rpartition", "/sep", str_rpartition, NULL},
    {0},
};
