/* Filters over lists, dicts and other things with items. Where jinja2 gives a generator they give an iterator that can
 * be read once; unlike jinja2's, its items are made at once. */
#include "jinja.h"

#define FILTER(name) static bool name(jinja_runtime *rt, jinja_value v, jinja_value *arg, jinja_value *out)

static bool missing(jinja_value v)
{
    return v.kind == JINJA_MISSING || v.kind == JINJA_NONE;
}

static bool lower_case(jinja_runtime *rt, jinja_value *v)
{
    if (v->kind != JINJA_STRING)
        return true;
    jinja_text text = {0};
    if (!jinja_charge(rt, v->s->n_bytes / 8))
        return false;
    jinja_add_case(&text, v->s, 0, v->s->n_bytes, JINJA_LOWER);
    return jinja_finish_string(rt, &text, v);
}

/* One step of "a.0.b": an index when it is all digits. */
static bool get_part(jinja_runtime *rt, const char *data, size_t n, jinja_value *v)
{
    jinja_value key;
    int64_t index;
    bool digits = n > 0;
    for (size_t i = 0; i < n; i++)
        digits &= data[i] >= '0' && data[i] <= '9';
    if (digits) {
        if (!jinja_parse_int(data, n, 10, &index))
            return jinja_fail(rt, BW_E_RANGE, "an index has too many digits");
        key = jinja_int(index);
    } else if (!jinja_new_string(rt, data, n, &key)) {
        return false;
    }
    return jinja_getitem(rt, *v, key, v);
}

typedef struct getter {
    jinja_value attribute; /* MISSING = the item itself */
    jinja_value fallback;  /* MISSING = none */
    bool fold;             /* strings to lower case */
} getter;

static bool get_path(jinja_runtime *rt, const char *path, size_t n, jinja_value fallback, jinja_value *v)
{
    size_t begin = 0;
    while (true) {
        const char *dot = memchr(path + begin, '.', n - begin);
        size_t end = dot ? (size_t)(dot - path) : n;
        if (!get_part(rt, path + begin, end - begin, v))
            return false;
        if (v->kind == JINJA_UNDEFINED && !missing(fallback))
            *v = fallback;
        if (!dot)
            return true;
        begin = end + 1;
    }
}

static bool get(jinja_runtime *rt, const getter *g, jinja_value item, jinja_value *out)
{
    *out = item;
    if (g->attribute.kind == JINJA_STRING) {
        if (!get_path(rt, g->attribute.s->data, g->attribute.s->n_bytes, g->fallback, out))
            return false;
    } else if (!missing(g->attribute)) {
        if (!jinja_getitem(rt, item, g->attribute, out))
            return false;
        if (out->kind == JINJA_UNDEFINED && !missing(g->fallback))
            *out = g->fallback;
    }
    return !g->fold || lower_case(rt, out);
}

/* The sort key: a list, one value for each of "a,b.c". */
static bool get_keys(jinja_runtime *rt, const getter *g, jinja_value item, jinja_value *out)
{
    jinja_list *keys = jinja_new_list(rt, 1);
    getter one = *g;
    jinja_value v;
    if (!keys)
        return false;
    const jinja_string *s = g->attribute.kind == JINJA_STRING ? g->attribute.s : NULL;
    size_t begin = 0;
    do {
        const char *comma = s ? memchr(s->data + begin, ',', s->n_bytes - begin) : NULL;
        size_t end = comma ? (size_t)(comma - s->data) : s ? s->n_bytes : 0;
        if (s && !jinja_view_string(rt, s->data + begin, end - begin, &one.attribute))
            return false;
        if (!get(rt, &one, item, &v) || !jinja_push(rt, keys, v))
            return false;
        begin = comma ? end + 1 : 0;
    } while (begin);
    *out = jinja_list_value(JINJA_LIST, keys);
    return true;
}

typedef struct sort_item {
    jinja_value key, value;
} sort_item;

/* Stable merge sort; spare: [n]. */
static bool merge_sort(jinja_runtime *rt, sort_item *a, size_t n, sort_item *spare, bool reverse)
{
    if (n < 2)
        return true;
    size_t half = n / 2, i = 0, j = half, k = 0;
    if (!merge_sort(rt, a, half, spare, reverse) || !merge_sort(rt, a + half, n - half, spare, reverse))
        return false;
    while (i < half && j < n) {
        int order;
        const sort_item *first = reverse ? &a[i] : &a[j], *second = reverse ? &a[j] : &a[i];
        if (!jinja_order(rt, first->key, second->key, "<", &order))
            return false;
        spare[k++] = order == -1 ? a[j++] : a[i++];
    }
    while (i < half)
        spare[k++] = a[i++];
    memcpy(a, spare, k * sizeof *a);
    return true;
}

static bool sorted(jinja_runtime *rt, const jinja_list *items, const getter *g, bool many, bool reverse,
                   sort_item **out)
{
    sort_item *a = jinja_alloc(rt, items->n * 2 + 1, sizeof *a);
    if (!a)
        return false;
    for (size_t i = 0; i < items->n; i++) {
        a[i].value = items->items[i];
        if (!(many ? get_keys : get)(rt, g, items->items[i], &a[i].key))
            return false;
    }
    *out = a;
    return merge_sort(rt, a, items->n, a + items->n, reverse);
}

static bool list_of(jinja_runtime *rt, const sort_item *a, size_t n, jinja_value *out)
{
    jinja_list *list = jinja_new_list(rt, n);
    for (size_t i = 0; list && i < n; i++)
        if (!jinja_push(rt, list, a[i].value))
            return false;
    *out = jinja_list_value(JINJA_LIST, list);
    return list != NULL;
}

FILTER(do_sort)
{
    const jinja_list *items;
    sort_item *a;
    getter g = {.attribute = arg[2], .fold = !jinja_truth(arg[1])};
    return jinja_items(rt, v, &items) && sorted(rt, items, &g, true, jinja_truth(arg[0]), &a) &&
           list_of(rt, a, items->n, out);
}

FILTER(do_dictsort)
{
    bool by_value = arg[1].kind == JINJA_STRING && jinja_same_bytes(arg[1].s, "value");
    if (arg[1].kind != JINJA_MISSING && !by_value &&
        !(arg[1].kind == JINJA_STRING && jinja_same_bytes(arg[1].s, "key")))
        return jinja_fail(rt, BW_E_ARG, "dictsort sorts by \"key\" or \"value\"");
    if (v.kind != JINJA_DICT)
        return v.kind == JINJA_UNDEFINED
                   ? jinja_fail_undefined(rt, v)
                   : jinja_fail(rt, BW_E_ARG, "dictsort needs a dict, not a %s", jinja_type_name(v));
    jinja_view view = {v.dict, JINJA_ITEMS};
    const jinja_list *items;
    sort_item *a;
    getter g = {.attribute = jinja_int(by_value), .fold = !jinja_truth(arg[0])};
    return jinja_items(rt, (jinja_value){.kind = JINJA_VIEW, .view = &view}, &items) &&
           sorted(rt, items, &g, false, jinja_truth(arg[2]), &a) && list_of(rt, a, items->n, out);
}

FILTER(do_unique)
{
    const jinja_list *items;
    jinja_list *list = jinja_new_list(rt, 0);
    jinja_dict *seen = jinja_new_dict(rt);
    getter g = {.attribute = arg[1], .fold = !jinja_truth(arg[0])};
    if (!list || !seen || !jinja_items(rt, v, &items))
        return false;
    for (size_t i = 0; i < items->n; i++) {
        jinja_value key;
        const jinja_value *found;
        if (!get(rt, &g, items->items[i], &key) || !jinja_dict_find(rt, seen, key, &found))
            return false;
        if (!found && (!jinja_dict_set(rt, seen, key, jinja_none()) || !jinja_push(rt, list, items->items[i])))
            return false;
    }
    *out = jinja_list_value(JINJA_ITERATOR, list);
    return true;
}

static bool extreme(jinja_runtime *rt, jinja_value v, const jinja_value *arg, int wanted, jinja_value *out)
{
    const jinja_list *items;
    getter g = {.attribute = arg[1], .fold = !jinja_truth(arg[0])};
    jinja_value best, key;
    if (!jinja_items(rt, v, &items))
        return false;
    if (items->n == 0)
        return jinja_undefined_hint(rt, "no aggregated item, the sequence was empty", out);
    for (size_t i = 0; i < items->n; i++) {
        int order = wanted;
        if (!get(rt, &g, items->items[i], &key))
            return false;
        if (i && !jinja_order(rt, key, best, wanted < 0 ? "<" : ">", &order))
            return false;
        if (order == wanted) {
            best = key;
            *out = items->items[i];
        }
    }
    return true;
}

FILTER(do_min)
{
    return extreme(rt, v, arg, -1, out);
}

FILTER(do_max)
{
    return extreme(rt, v, arg, 1, out);
}

FILTER(do_sum)
{
    const jinja_list *items;
    getter g = {.attribute = arg[0]};
    *out = arg[1].kind == JINJA_MISSING ? jinja_int(0) : arg[1];
    if (out->kind == JINJA_STRING)
        return jinja_fail(rt, BW_E_ARG, "sum does not add strings: use join");
    if (!jinja_items(rt, v, &items))
        return false;
    for (size_t i = 0; i < items->n; i++) {
        jinja_value item;
        if (!get(rt, &g, items->items[i], &item) || !jinja_binary(rt, JINJA_ADD, *out, item, out))
            return false;
    }
    return true;
}

FILTER(do_groupby)
{
    const jinja_list *items;
    sort_item *a;
    bool fold = !jinja_truth(arg[2]);
    getter g = {.attribute = arg[0], .fallback = arg[1], .fold = fold};
    jinja_list *groups = jinja_new_list(rt, 0);
    if (!groups || !jinja_items(rt, v, &items) || !sorted(rt, items, &g, false, false, &a))
        return false;
    g.fold = false;
    for (size_t i = 0; i < items->n;) {
        size_t j = i;
        bool same = true;
        jinja_value list, key, group;
        while (j < items->n) {
            if (!jinja_equal(rt, a[i].key, a[j].key, &same))
                return false;
            if (!same)
                break;
            j++;
        }
        j = j == i ? i + 1 : j;
        key = a[i].key;
        if (!list_of(rt, a + i, j - i, &list) || (fold && !get(rt, &g, a[i].value, &key)) ||
            !jinja_pair(rt, key, list, &group))
            return false;
        group.list->grouped = true;
        if (!jinja_push(rt, groups, group))
            return false;
        i = j;
    }
    *out = jinja_list_value(JINJA_LIST, groups);
    return true;
}

FILTER(do_first)
{
    (void)arg;
    const jinja_list *items;
    if (v.kind == JINJA_ITERATOR && v.list->next < v.list->n) {
        *out = v.list->items[v.list->next++];
        return true;
    }
    if (!jinja_items(rt, v, &items))
        return false;
    if (items->n == 0)
        return jinja_undefined_hint(rt, "no first item, the sequence was empty", out);
    *out = items->items[0];
    return true;
}

static bool reversible(jinja_value v)
{
    return jinja_iterable(v) && v.kind != JINJA_ITERATOR && v.kind != JINJA_LOOP;
}

FILTER(do_last)
{
    (void)arg;
    const jinja_list *items;
    if (!reversible(v))
        return jinja_fail(rt, BW_E_ARG, "a %s has no last item", jinja_type_name(v));
    if (!jinja_items(rt, v, &items))
        return false;
    if (items->n == 0)
        return jinja_undefined_hint(rt, "no last item, the sequence was empty", out);
    *out = items->items[items->n - 1];
    return true;
}

FILTER(do_length)
{
    (void)arg;
    int64_t n;
    if (!jinja_length(rt, v, &n))
        return false;
    *out = jinja_int(n);
    return true;
}

static bool copy_list(jinja_runtime *rt, jinja_value v, jinja_list **out)
{
    const jinja_list *items;
    jinja_list *list = NULL;
    if (!jinja_items(rt, v, &items) || !(list = jinja_new_list(rt, items->n)))
        return false;
    for (size_t i = 0; i < items->n; i++)
        if (!jinja_push(rt, list, items->items[i]))
            return false;
    *out = list;
    return true;
}

FILTER(do_list)
{
    (void)arg;
    jinja_list *list;
    if (!copy_list(rt, v, &list))
        return false;
    *out = jinja_list_value(JINJA_LIST, list);
    return true;
}

FILTER(do_reverse)
{
    (void)arg;
    jinja_list *list;
    if (v.kind == JINJA_STRING) {
        const jinja_value limit[3] = {jinja_none(), jinja_none(), jinja_int(-1)};
        return jinja_slice(rt, v, limit, out);
    }
    if (!copy_list(rt, v, &list))
        return false;
    for (size_t i = 0; i < list->n / 2; i++) {
        jinja_value item = list->items[i];
        list->items[i] = list->items[list->n - 1 - i];
        list->items[list->n - 1 - i] = item;
    }
    *out = jinja_list_value(reversible(v) ? JINJA_ITERATOR : JINJA_LIST, list);
    return true;
}

FILTER(do_join)
{
    const jinja_list *items;
    getter g = {.attribute = arg[1]};
    jinja_text text = {0};
    jinja_value separator = {0};
    if (!jinja_items(rt, v, &items) || (arg[0].kind != JINJA_MISSING && !jinja_str(rt, arg[0], &separator)))
        return false;
    for (size_t i = 0; i < items->n; i++) {
        jinja_value item;
        if (i && separator.kind == JINJA_STRING)
            jinja_text_add(&text, separator.s, 0, separator.s->n_bytes);
        if (!get(rt, &g, items->items[i], &item) || !jinja_add_str(rt, item, &text) ||
            !jinja_charge(rt, 1 + (separator.kind == JINJA_STRING ? separator.s->n_bytes / 64 : 0))) {
            jinja_text_deinit(&text);
            return false;
        }
    }
    return jinja_finish_string(rt, &text, out);
}

FILTER(do_default)
{
    *out = v;
    if (v.kind != JINJA_UNDEFINED && !(jinja_truth(arg[1]) && !jinja_truth(v)))
        return true;
    *out = arg[0];
    return arg[0].kind != JINJA_MISSING || jinja_new_string(rt, "", 0, out);
}

FILTER(do_items)
{
    (void)arg;
    jinja_list *list = NULL;
    if (v.kind == JINJA_UNDEFINED) {
        list = jinja_new_list(rt, 0);
    } else if (v.kind == JINJA_DICT) {
        jinja_view view = {v.dict, JINJA_ITEMS};
        if (!copy_list(rt, (jinja_value){.kind = JINJA_VIEW, .view = &view}, &list))
            return false;
    } else {
        return jinja_fail(rt, BW_E_ARG, "items needs a dict, not a %s", jinja_type_name(v));
    }
    *out = jinja_list_value(JINJA_ITERATOR, list);
    return list != NULL;
}

FILTER(do_batch)
{
    const jinja_list *items;
    int64_t n;
    jinja_list *batches = jinja_new_list(rt, 0), *now = NULL;
    if (!batches || !jinja_need_int(rt, arg[0], "the size of a batch", 1, &n) || !jinja_items(rt, v, &items))
        return false;
    for (size_t i = 0; i < items->n; i++) {
        if (!now || (int64_t)now->n == n) {
            if (!(now = jinja_new_list(rt, 0)) || !jinja_push(rt, batches, jinja_list_value(JINJA_LIST, now)))
                return false;
        }
        if (!jinja_push(rt, now, items->items[i]))
            return false;
    }
    while (now && !missing(arg[1]) && (int64_t)now->n < n)
        if (!jinja_push(rt, now, arg[1]))
            return false;
    if (n == 0 && items->n) { /* the first, empty batch is complete before its first item */
        jinja_list *all = jinja_new_list(rt, batches->n + 1), *empty = jinja_new_list(rt, 0);
        if (!all || !empty || !jinja_push(rt, all, jinja_list_value(JINJA_LIST, empty)))
            return false;
        for (size_t i = 0; i < batches->n; i++)
            if (!jinja_push(rt, all, batches->items[i]))
                return false;
        batches = all;
    }
    *out = jinja_list_value(JINJA_ITERATOR, batches);
    return true;
}

FILTER(do_slice)
{
    const jinja_list *items;
    int64_t n;
    jinja_list *slices = jinja_new_list(rt, 0);
    if (!slices || !jinja_need_int(rt, arg[0], "the number of slices", 1, &n) || !jinja_items(rt, v, &items))
        return false;
    if (n == 0)
        return jinja_fail(rt, BW_E_ARG, "slice cannot make zero slices");
    int64_t each = n > 0 ? (int64_t)items->n / n : 0, extra = n > 0 ? (int64_t)items->n % n : 0, at = 0;
    for (int64_t k = 0; k < n; k++) {
        jinja_list *now = jinja_new_list(rt, 0);
        if (!now || !jinja_push(rt, slices, jinja_list_value(JINJA_LIST, now)))
            return false;
        for (int64_t i = 0; i < each + (k < extra); i++)
            if (!jinja_push(rt, now, items->items[at++]))
                return false;
        if (!missing(arg[1]) && k >= extra && !jinja_push(rt, now, arg[1]))
            return false;
    }
    *out = jinja_list_value(JINJA_ITERATOR, slices);
    return true;
}

FILTER(do_attr)
{
    if (arg[0].kind != JINJA_STRING)
        return jinja_fail(rt, BW_E_ARG, "attr needs the name of an attribute");
    return jinja_attribute(rt, v, arg[0].s, out);
}

static bool need_name(jinja_runtime *rt, jinja_value name, const char *what)
{
    return name.kind == JINJA_STRING || jinja_fail(rt, BW_E_ARG, "%s must be a str", what);
}

static bool do_map(jinja_runtime *rt, jinja_value v, const jinja_args *args, jinja_value *out)
{
    const jinja_list *items;
    jinja_list *list = jinja_new_list(rt, 0);
    if (!list)
        return false;
    *out = jinja_list_value(JINJA_ITERATOR, list);
    if (!jinja_truth(v))
        return true;
    const jinja_value *attribute = args->keywords ? jinja_dict_get(args->keywords, "attribute", 9) : NULL;
    const jinja_value *fallback = args->keywords ? jinja_dict_get(args->keywords, "default", 7) : NULL;
    getter g = {0};
    if (args->n == 0) {
        if (!attribute || args->keywords->n > (fallback ? 2u : 1u))
            return jinja_fail(rt, BW_E_ARG, "map needs the name of a filter, or attribute=");
        g.attribute = *attribute;
        if (fallback)
            g.fallback = *fallback;
    } else if (!need_name(rt, args->items[0], "the filter of map")) {
        return false;
    }
    const jinja_args rest = {args->n ? args->items + 1 : NULL, args->n ? args->n - 1 : 0, args->keywords};
    if (!jinja_items(rt, v, &items))
        return false;
    for (size_t i = 0; i < items->n; i++) {
        jinja_value item;
        bool ok = args->n ? jinja_call_filter(rt, args->items[0].s, items->items[i], &rest, &item)
                          : get(rt, &g, items->items[i], &item);
        if (!ok || !jinja_push(rt, list, item))
            return false;
    }
    return true;
}

static bool choose(jinja_runtime *rt, jinja_value v, const jinja_args *args, bool wanted, bool by_attribute,
                   jinja_value *out)
{
    const jinja_list *items;
    jinja_list *list = jinja_new_list(rt, 0);
    if (!list)
        return false;
    *out = jinja_list_value(JINJA_ITERATOR, list);
    if (!jinja_truth(v))
        return true;
    size_t skip = by_attribute;
    if (args->n < skip)
        return jinja_fail(rt, BW_E_ARG, "selectattr and rejectattr need the name of an attribute");
    getter g = {0};
    if (by_attribute)
        g.attribute = args->items[0];
    bool has_test = args->n > skip;
    if ((has_test && !need_name(rt, args->items[skip], "the test of select")) || !jinja_items(rt, v, &items))
        return false;
    const jinja_args rest = {has_test ? args->items + skip + 1 : NULL, has_test ? args->n - skip - 1 : 0,
                             args->keywords};
    for (size_t i = 0; i < items->n; i++) {
        jinja_value looked;
        bool holds;
        if (!get(rt, &g, items->items[i], &looked))
            return false;
        holds = jinja_truth(looked);
        if (has_test && !jinja_call_test(rt, args->items[skip].s, looked, &rest, &holds))
            return false;
        if (holds == wanted && !jinja_push(rt, list, items->items[i]))
            return false;
    }
    return true;
}

static bool do_select(jinja_runtime *rt, jinja_value v, const jinja_args *args, jinja_value *out)
{
    return choose(rt, v, args, true, false, out);
}

static bool do_reject(jinja_runtime *rt, jinja_value v, const jinja_args *args, jinja_value *out)
{
    return choose(rt, v, args, false, false, out);
}

static bool do_selectattr(jinja_runtime *rt, jinja_value v, const jinja_args *args, jinja_value *out)
{
    return choose(rt, v, args, true, true, out);
}

static bool do_rejectattr(jinja_runtime *rt, jinja_value v, const jinja_args *args, jinja_value *out)
{
    return choose(rt, v, args, false, true, out);
}

static bool unsupported(jinja_runtime *rt, jinja_value v, const jinja_args *args, jinja_value *out)
{
    (void)v;
    (void)args;
    (void)out;
    return jinja_fail(rt, BW_E_UNSUPPORTED,
                      "the filters pprint, random, striptags, urlize, wordwrap and xmlattr are not supported");
}

const jinja_builtin jinja_filters_list[] = {
    {"first", "", do_first, NULL},
    {"last", "", do_last, NULL},
    {"length", "", do_length, NULL},
    {"count", "", do_length, NULL},
    {"list", "", do_list, NULL},
    {"join", "d= attribute=", do_join, NULL},
    {"map", NULL, NULL, do_map},
    {"select", NULL, NULL, do_select},
    {"reject", NULL, NULL, do_reject},
    {"selectattr", NULL, NULL, do_selectattr},
    {"rejectattr", NULL, NULL, do_rejectattr},
    {"default", "default_value= boolean=", do_default, NULL},
    {"d", "default_value= boolean=", do_default, NULL},
    {"items", "", do_items, NULL},
    {"dictsort", "case_sensitive= by= reverse=", do_dictsort, NULL},
    {"sort", "reverse= case_sensitive= attribute=", do_sort, NULL},
    {"reverse", "", do_reverse, NULL},
    {"unique", "case_sensitive= attribute=", do_unique, NULL},
    {"min", "case_sensitive= attribute=", do_min, NULL},
    {"max", "case_sensitive= attribute=", do_max, NULL},
    {"sum", "attribute= start=", do_sum, NULL},
    {"batch", "linecount fill_with=", do_batch, NULL},
    {"slice", "slices fill_with=", do_slice, NULL},
    {"groupby", "attribute default= case_sensitive=", do_groupby, NULL},
    {"attr", "name", do_attr, NULL},
    {"pprint", NULL, NULL, unsupported},
    {"random", NULL, NULL, unsupported},
    {"striptags", NULL, NULL, unsupported},
    {"urlize", NULL, NULL, unsupported},
    {"wordwrap", NULL, NULL, unsupported},
    {"xmlattr", NULL, NULL, unsupported},
    {0},
};
