/* Calls: binding arguments to built-in functions, the global functions, and the methods of loops and cyclers. */
#include <time.h>

#include "jinja.h"

const jinja_builtin *jinja_find_builtin(const jinja_builtin *table, const jinja_string *name)
{
    for (; table->name; table++)
        if (table->name[0] == name->data[0] && jinja_same_bytes(name, table->name))
            return table;
    return NULL;
}

const jinja_builtin *jinja_find_filter(const jinja_string *name)
{
    const jinja_builtin *b = jinja_find_builtin(jinja_filters_text, name);
    return b ? b : jinja_find_builtin(jinja_filters_list, name);
}

const jinja_builtin *jinja_find_test(const jinja_string *name)
{
    return jinja_find_builtin(jinja_tests, name);
}

bool jinja_bound(jinja_runtime *rt, const jinja_builtin *b, jinja_value self, jinja_value *out)
{
    jinja_function *f = jinja_alloc(rt, 1, sizeof *f);
    if (!f)
        return false;
    *f = (jinja_function){b, self};
    *out = (jinja_value){.kind = JINJA_FUNCTION, .function = f};
    return true;
}

/* The signature's i-th name: its bytes and whether it may be left out; false beyond the last. */
static bool parameter(const char *signature, size_t i, const char **name, size_t *n, bool *optional)
{
    const char *p = signature + (signature[0] == '/');
    for (size_t k = 0;; k++) {
        size_t len = strcspn(p, " ");
        if (len == 0)
            return false;
        if (k == i) {
            *optional = p[len - 1] == '=';
            *n = len - *optional;
            *name = p;
            return true;
        }
        p += len + (p[len] == ' ');
    }
}

bool jinja_call_builtin(jinja_runtime *rt, const jinja_builtin *b, jinja_value self, const jinja_args *args,
                        jinja_value *out)
{
    jinja_value bound[JINJA_MAX_PARAMETERS] = {0};
    if (b->call_fn)
        return b->call_fn(rt, self, args, out);
    const char *name;
    size_t n_bytes, n = 0, n_keywords = 0;
    bool optional;
    for (; n < JINJA_MAX_PARAMETERS && parameter(b->signature, n, &name, &n_bytes, &optional); n++) {
        const jinja_value *v = NULL;
        if (args->keywords && b->signature[0] != '/' && (v = jinja_dict_get(args->keywords, name, n_bytes)))
            n_keywords++;
        if (v && n < args->n)
            return jinja_fail(rt, BW_E_ARG, "%s() was given the argument '%.*s' twice", b->name, (int)n_bytes, name);
        if (n < args->n)
            bound[n] = args->items[n];
        else if (v)
            bound[n] = *v;
        else if (!optional)
            return jinja_fail(rt, BW_E_ARG, "%s() needs the argument '%.*s'", b->name, (int)n_bytes, name);
    }
    if (args->n > n)
        return jinja_fail(rt, BW_E_ARG, "%s() takes at most %zu arguments, not %zu", b->name, n, args->n);
    if (args->keywords && args->keywords->n > n_keywords)
        return jinja_fail(rt, BW_E_ARG, "%s() was given a keyword argument that it does not have", b->name);
    return b->fn(rt, self, bound, out);
}

static bool call_joiner(jinja_runtime *rt, jinja_joiner *joiner, const jinja_args *args, jinja_value *out)
{
    if (args->n || (args->keywords && args->keywords->n))
        return jinja_fail(rt, BW_E_ARG, "a joiner takes no arguments");
    if (!joiner->used) {
        joiner->used = true;
        return jinja_new_string(rt, "", 0, out);
    }
    *out = (jinja_value){.kind = JINJA_STRING, .s = joiner->separator};
    return true;
}

static bool call_any(jinja_runtime *rt, jinja_value callee, const jinja_args *args, jinja_value *out)
{
    switch (callee.kind) {
    case JINJA_FUNCTION:
        return jinja_call_builtin(rt, callee.function->builtin, callee.function->self, args, out);
    case JINJA_MACRO:
        return jinja_call_macro(rt, callee.macro, args, out);
    case JINJA_LOOP: {
        const jinja_value *named = args->keywords ? jinja_dict_get(args->keywords, "iterable", 8) : NULL;
        if (args->n + (args->keywords ? args->keywords->n : 0) != 1 || (!args->n && !named))
            return jinja_fail(rt, BW_E_ARG, "loop() takes one argument");
        return jinja_call_loop(rt, callee.loop, args->n ? args->items[0] : *named, out);
    }
    case JINJA_JOINER:
        return call_joiner(rt, callee.joiner, args, out);
    case JINJA_UNDEFINED:
        return jinja_fail_undefined(rt, callee);
    default:
        return jinja_fail(rt, BW_E_ARG, "a %s cannot be called", jinja_type_name(callee));
    }
}

bool jinja_call(jinja_runtime *rt, jinja_value callee, const jinja_args *args, jinja_value *out)
{
    if (!jinja_charge(rt, 1) || !jinja_enter(rt))
        return false;
    bool ok = call_any(rt, callee, args, out);
    jinja_leave(rt);
    return ok;
}

bool jinja_call_filter(jinja_runtime *rt, const jinja_string *name, jinja_value v, const jinja_args *args,
                       jinja_value *out)
{
    const jinja_builtin *b = jinja_find_filter(name);
    if (!b)
        return jinja_fail(rt, BW_E_ARG, "there is no filter named '%.*s'",
                          (int)(name->n_bytes < 100 ? name->n_bytes : 100), name->data);
    if (!jinja_charge(rt, 1) || !jinja_enter(rt))
        return false;
    bool ok = jinja_call_builtin(rt, b, v, args, out);
    jinja_leave(rt);
    return ok;
}

bool jinja_call_test(jinja_runtime *rt, const jinja_string *name, jinja_value v, const jinja_args *args, bool *out)
{
    const jinja_builtin *b = jinja_find_test(name);
    jinja_value result;
    if (!b)
        return jinja_fail(rt, BW_E_ARG, "there is no test named '%.*s'",
                          (int)(name->n_bytes < 100 ? name->n_bytes : 100), name->data);
    if (!jinja_charge(rt, 1) || !jinja_call_builtin(rt, b, v, args, &result))
        return false;
    *out = jinja_truth(result);
    return true;
}

/* ---- global functions ---- */

static bool global_range(jinja_runtime *rt, jinja_value self, jinja_value *arg, jinja_value *out)
{
    const int64_t most = (int64_t)1 << 60;
    int64_t v[3] = {0, 0, 1};
    (void)self;
    for (int i = 0; i < 3; i++) {
        if (arg[i].kind == JINJA_UNDEFINED)
            return jinja_fail_undefined(rt, arg[i]);
        if (arg[i].kind != JINJA_MISSING && !jinja_as_int(arg[i], &v[i]))
            return jinja_fail(rt, BW_E_ARG, "range() takes integers, not a %s", jinja_type_name(arg[i]));
        if (v[i] > most || v[i] < -most)
            return jinja_fail(rt, BW_E_RANGE, "a number given to range() is too large");
    }
    jinja_range *r = jinja_alloc(rt, 1, sizeof *r);
    if (!r)
        return false;
    bool one = arg[1].kind == JINJA_MISSING;
    *r = (jinja_range){.start = one ? 0 : v[0], .stop = one ? v[0] : v[1], .step = v[2]};
    if (r->step == 0)
        return jinja_fail(rt, BW_E_ARG, "the step of range() is zero");
    if (r->step > 0 && r->start < r->stop)
        r->n = (r->stop - r->start - 1) / r->step + 1;
    if (r->step < 0 && r->start > r->stop)
        r->n = (r->start - r->stop - 1) / -r->step + 1;
    if (r->n > JINJA_MAX_RANGE)
        return jinja_fail(rt, BW_E_RANGE, "range() has %lld items; at most %d are allowed", (long long)r->n,
                          JINJA_MAX_RANGE);
    *out = (jinja_value){.kind = JINJA_RANGE, .range = r};
    return true;
}

/* dict(mapping or pairs, **keywords) */
static bool fill_dict(jinja_runtime *rt, const jinja_args *args, jinja_dict **out)
{
    jinja_dict *dict = jinja_new_dict(rt);
    if (!dict)
        return false;
    if (args->n > 1)
        return jinja_fail(rt, BW_E_ARG, "dict() takes at most one positional argument");
    const jinja_dict *from[2] = {NULL, args->keywords};
    if (args->n && args->items[0].kind == JINJA_DICT) {
        from[0] = args->items[0].dict;
    } else if (args->n) {
        const jinja_list *pairs, *pair;
        if (!jinja_items(rt, args->items[0], &pairs))
            return false;
        for (size_t i = 0; i < pairs->n; i++) {
            if (!jinja_items(rt, pairs->items[i], &pair))
                return false;
            if (pair->n != 2)
                return jinja_fail(rt, BW_E_ARG, "dict() takes pairs, not %zu values", pair->n);
            if (!jinja_dict_set(rt, dict, pair->items[0], pair->items[1]))
                return false;
        }
    }
    for (int k = 0; k < 2; k++)
        for (size_t i = 0; from[k] && i < from[k]->n; i++)
            if (!jinja_dict_set(rt, dict, from[k]->entries[i].key, from[k]->entries[i].value))
                return false;
    *out = dict;
    return true;
}

static bool global_dict(jinja_runtime *rt, jinja_value self, const jinja_args *args, jinja_value *out)
{
    (void)self;
    out->kind = JINJA_DICT;
    return fill_dict(rt, args, &out->dict);
}

static bool global_namespace(jinja_runtime *rt, jinja_value self, const jinja_args *args, jinja_value *out)
{
    (void)self;
    jinja_dict *dict;
    if (!fill_dict(rt, args, &dict))
        return false;
    for (size_t i = 0; i < dict->n; i++)
        if (dict->entries[i].key.kind == JINJA_STRING && dict->entries[i].key.s->n_bytes &&
            dict->entries[i].key.s->data[0] == '_')
            return jinja_fail(rt, BW_E_ARG, "an attribute of a namespace must not begin with an underscore");
    *out = (jinja_value){.kind = JINJA_NAMESPACE, .dict = dict};
    return true;
}

static bool global_cycler(jinja_runtime *rt, jinja_value self, const jinja_args *args, jinja_value *out)
{
    (void)self;
    if (args->n == 0 || (args->keywords && args->keywords->n))
        return jinja_fail(rt, BW_E_ARG, "cycler() needs at least one value and takes no names");
    jinja_list *list = jinja_new_list(rt, args->n);
    for (size_t i = 0; list && i < args->n; i++)
        if (!jinja_push(rt, list, args->items[i]))
            return false;
    *out = jinja_list_value(JINJA_CYCLER, list);
    return list != NULL;
}

static bool global_joiner(jinja_runtime *rt, jinja_value self, jinja_value *arg, jinja_value *out)
{
    (void)self;
    jinja_joiner *joiner = jinja_alloc(rt, 1, sizeof *joiner);
    jinja_value separator = arg[0];
    if (!joiner || (arg[0].kind == JINJA_MISSING ? !jinja_new_string(rt, ", ", 2, &separator)
                                                 : !jinja_str(rt, arg[0], &separator)))
        return false;
    joiner->separator = separator.s;
    *out = (jinja_value){.kind = JINJA_JOINER, .joiner = joiner};
    return true;
}

static bool global_raise(jinja_runtime *rt, jinja_value self, jinja_value *arg, jinja_value *out)
{
    (void)self;
    (void)out;
    jinja_value text;
    if (!jinja_str(rt, arg[0], &text))
        return false;
    int n = (int)(text.s->n_bytes < 480 ? text.s->n_bytes : 480);
    rt->status = bw_fail(rt->err, BW_E_ARG, "%.*s", n, text.s->data);
    return false;
}

static bool global_strftime(jinja_runtime *rt, jinja_value self, jinja_value *arg, jinja_value *out)
{
    (void)self;
    if (arg[0].kind != JINJA_STRING)
        return jinja_fail(rt, BW_E_ARG, "strftime_now() takes a str, not a %s", jinja_type_name(arg[0]));
    const jinja_string *format = arg[0].s;
    char pattern[1024], text[4096];
    size_t n = 0;
    pattern[n++] = '|'; /* so that an empty result differs from a failure */
    for (size_t i = 0; i < format->n_bytes; i++) {
        const char *put = NULL;
        if (format->data[i] == '%' && i + 1 < format->n_bytes) {
            char c = format->data[i + 1];
            put = c == 'f' ? "000000" : c == 'z' || c == 'Z' ? "" : c == '%' ? "%%" : NULL;
        }
        size_t need = put ? strlen(put) : 1;
        if (n + need >= sizeof pattern || format->data[i] == 0)
            return jinja_fail(rt, BW_E_RANGE, "strftime_now()'s format is too long or has a zero byte");
        memcpy(pattern + n, put ? put : format->data + i, need);
        n += need;
        i += put != NULL;
    }
    pattern[n] = 0;
    time_t now = (time_t)rt->unix_time;
    struct tm tm;
    size_t len = gmtime_r(&now, &tm) ? strftime(text, sizeof text, pattern, &tm) : 0;
    if (len == 0)
        return jinja_fail(rt, BW_E_RANGE, "strftime_now() gives too much text");
    jinja_text made = {0};
    bw_str_add_bytes(&made.str, text + 1, len - 1);
    jinja_text_claim(&made, 0, format);
    return jinja_finish_string(rt, &made, out);
}

const jinja_builtin jinja_globals[] = {
    {"range", "/start stop= step=", global_range, NULL},
    {"dict", NULL, NULL, global_dict},
    {"namespace", NULL, NULL, global_namespace},
    {"cycler", NULL, NULL, global_cycler},
    {"joiner", "sep=", global_joiner, NULL},
    {"raise_exception", "message", global_raise, NULL},
    {"strftime_now", "format", global_strftime, NULL},
    {0},
};

/* ---- methods of loops and cyclers ---- */

static bool loop_cycle(jinja_runtime *rt, jinja_value self, const jinja_args *args, jinja_value *out)
{
    if (args->n == 0 || (args->keywords && args->keywords->n))
        return jinja_fail(rt, BW_E_ARG, "loop.cycle() needs at least one value and takes no names");
    *out = args->items[(size_t)self.loop->index0 % args->n];
    return true;
}

static bool loop_changed(jinja_runtime *rt, jinja_value self, const jinja_args *args, jinja_value *out)
{
    if (args->keywords && args->keywords->n)
        return jinja_fail(rt, BW_E_ARG, "loop.changed() takes no names");
    jinja_list *now = jinja_new_list(rt, args->n);
    for (size_t i = 0; now && i < args->n; i++)
        if (!jinja_push(rt, now, args->items[i]))
            return false;
    if (!now)
        return false;
    bool same = false;
    jinja_value a = jinja_list_value(JINJA_TUPLE, now), b = a;
    if (self.loop->last_changed) {
        b.list = (jinja_list *)(uintptr_t)self.loop->last_changed;
        if (!jinja_equal(rt, a, b, &same))
            return false;
    }
    self.loop->last_changed = now;
    *out = jinja_bool(!same);
    return true;
}

const jinja_builtin jinja_loop_methods[] = {
    {"cycle", NULL, NULL, loop_cycle},
    {"changed", NULL, NULL, loop_changed},
    {0},
};

static bool cycler_next(jinja_runtime *rt, jinja_value self, jinja_value *arg, jinja_value *out)
{
    (void)rt;
    (void)arg;
    *out = self.list->items[self.list->next];
    self.list->next = (self.list->next + 1) % self.list->n;
    return true;
}

static bool cycler_reset(jinja_runtime *rt, jinja_value self, jinja_value *arg, jinja_value *out)
{
    (void)rt;
    (void)arg;
    self.list->next = 0;
    *out = jinja_none();
    return true;
}

const jinja_builtin jinja_cycler_methods[] = {
    {"next", "", cycler_next, NULL},
    {"reset", "", cycler_reset, NULL},
    {0},
};
