/* Operators: arithmetic, comparison, membership, attributes, items and slices, by Python's rules on 64-bit integers
 * (an overflow is an error) and by those of jinja2's immutable sandbox. */
#include <stdio.h>

#include "jinja.h"

static bool bad_operands(jinja_runtime *rt, const char *op, jinja_value a, jinja_value b)
{
    if (a.kind == JINJA_UNDEFINED)
        return jinja_fail_undefined(rt, a);
    if (b.kind == JINJA_UNDEFINED)
        return jinja_fail_undefined(rt, b);
    return jinja_fail(rt, BW_E_ARG, "%s between a %s and a %s is not possible", op, jinja_type_name(a),
                      jinja_type_name(b));
}

static bool overflow(jinja_runtime *rt)
{
    return jinja_fail(rt, BW_E_RANGE, "an integer does not fit into 64 bits");
}

static bool int_power(jinja_runtime *rt, int64_t base, int64_t exponent, jinja_value *out)
{
    int64_t result = 1;
    while (exponent > 0) {
        if ((exponent & 1) && !bw_mul_i64(result, base, &result))
            return overflow(rt);
        exponent >>= 1;
        if (exponent && !bw_mul_i64(base, base, &base))
            return overflow(rt);
    }
    *out = jinja_int(result);
    return true;
}

static bool int_math(jinja_runtime *rt, jinja_op op, int64_t a, int64_t b, jinja_value *out)
{
    int64_t r = 0;
    if ((op == JINJA_DIV || op == JINJA_FLOORDIV || op == JINJA_MOD) && b == 0)
        return jinja_fail(rt, BW_E_ARG, "division by zero");
    switch (op) {
    case JINJA_ADD:
        if (!bw_add_i64(a, b, &r))
            return overflow(rt);
        break;
    case JINJA_SUB:
        if (__builtin_sub_overflow(a, b, &r))
            return overflow(rt);
        break;
    case JINJA_MUL:
        if (!bw_mul_i64(a, b, &r))
            return overflow(rt);
        break;
    case JINJA_DIV:
        *out = jinja_float((double)((long double)a / (long double)b));
        return true;
    case JINJA_FLOORDIV:
        if (b == -1)
            return a == INT64_MIN ? overflow(rt) : (*out = jinja_int(-a), true);
        r = a / b - (a % b != 0 && (a % b < 0) != (b < 0));
        break;
    case JINJA_MOD:
        r = b == -1 ? 0 : a % b;
        if (r != 0 && (r < 0) != (b < 0))
            r += b;
        break;
    default:
        if (b >= 0)
            return int_power(rt, a, b, out);
        if (a == 0)
            return jinja_fail(rt, BW_E_ARG, "zero cannot have a negative power");
        *out = jinja_float(pow((double)a, (double)b));
        return true;
    }
    *out = jinja_int(r);
    return true;
}

static bool float_math(jinja_runtime *rt, jinja_op op, double a, double b, jinja_value *out)
{
    if ((op == JINJA_DIV || op == JINJA_FLOORDIV || op == JINJA_MOD) && b == 0)
        return jinja_fail(rt, BW_E_ARG, "division by zero");
    double r, mod;
    switch (op) {
    case JINJA_ADD:
        r = a + b;
        break;
    case JINJA_SUB:
        r = a - b;
        break;
    case JINJA_MUL:
        r = a * b;
        break;
    case JINJA_DIV:
        r = a / b;
        break;
    case JINJA_FLOORDIV:
    case JINJA_MOD:
        mod = fmod(a, b);
        if (mod != 0 && (b < 0) != (mod < 0))
            mod += b;
        else if (mod == 0)
            mod = copysign(0.0, b);
        if (op == JINJA_MOD) {
            r = mod;
        } else {
            double div = (a - mod) / b;
            r = floor(div);
            if (div == 0)
                r = copysign(0.0, a / b);
            else if (div - r > 0.5)
                r += 1.0;
        }
        break;
    default:
        if (a == 0 && b < 0)
            return jinja_fail(rt, BW_E_ARG, "zero cannot have a negative power");
        if (a < 0 && b != floor(b))
            return jinja_fail(rt, BW_E_UNSUPPORTED, "a fractional power of a negative number is not supported");
        r = pow(a, b);
        if (isinf(r) && isfinite(a) && isfinite(b))
            return jinja_fail(rt, BW_E_RANGE, "the power of a number is too large");
    }
    *out = jinja_float(r);
    return true;
}

static bool add_lists(jinja_runtime *rt, jinja_value a, jinja_value b, jinja_value *out)
{
    jinja_list *list = jinja_new_list(rt, a.list->n + b.list->n);
    if (!list)
        return false;
    list->n = a.list->n + b.list->n;
    if (a.list->n)
        memcpy(list->items, a.list->items, a.list->n * sizeof *list->items);
    if (b.list->n)
        memcpy(list->items + a.list->n, b.list->items, b.list->n * sizeof *list->items);
    *out = jinja_list_value(a.kind, list);
    return jinja_charge(rt, list->n / 4);
}

static bool add_strings(jinja_runtime *rt, jinja_value a, jinja_value b, jinja_value *out)
{
    bool markup = a.s->markup || b.s->markup;
    if (markup) {
        jinja_text text = {0};
        bool ok = jinja_add_escaped(rt, a, &text) && jinja_add_escaped(rt, b, &text);
        if (!ok) {
            jinja_text_deinit(&text);
            return false;
        }
        return jinja_finish_string(rt, &text, out) && jinja_mark(rt, *out, true, out);
    }
    size_t n = a.s->n_bytes, total = n + b.s->n_bytes;
    bool from_a = a.s->request && n, from_b = b.s->request && b.s->n_bytes;
    bool mixed = a.s->origin || b.s->origin || (from_a != from_b && n && b.s->n_bytes);
    char *data = jinja_alloc(rt, total + 1, 1), *origin = NULL;
    if (!data || (mixed && !(origin = jinja_alloc(rt, total, 1))))
        return false;
    memcpy(data, a.s->data, n);
    memcpy(data + n, b.s->data, b.s->n_bytes);
    if (mixed) {
        jinja_copy_origin(a.s, origin);
        jinja_copy_origin(b.s, origin + n);
    }
    const jinja_string whole = {.data = data, .n_bytes = total, .request = from_a || from_b, .origin = origin};
    return jinja_part(rt, &whole, 0, total, out);
}

static bool repeat(jinja_runtime *rt, jinja_value v, int64_t times, jinja_value *out)
{
    size_t n = times > 0 ? (size_t)times : 0, total;
    if (v.kind == JINJA_STRING) {
        if (!bw_mul_size(v.s->n_bytes, n, &total) || total > JINJA_MAX_MEMORY)
            return jinja_fail(rt, BW_E_RANGE, "a repeated string is too long");
        char *data = jinja_alloc(rt, total + 1, 1), *origin = NULL;
        if (!data || (v.s->origin && !(origin = jinja_alloc(rt, total, 1))))
            return false;
        for (size_t i = 0; v.s->n_bytes && i < n; i++) {
            memcpy(data + i * v.s->n_bytes, v.s->data, v.s->n_bytes);
            if (origin)
                jinja_copy_origin(v.s, origin + i * v.s->n_bytes);
        }
        jinja_string whole = *v.s;
        whole.data = data;
        whole.origin = origin;
        return jinja_charge(rt, v.s->n_bytes ? n / 8 : 0) && jinja_part(rt, &whole, 0, total, out);
    }
    if (!bw_mul_size(v.list->n, n, &total) || total > JINJA_MAX_MEMORY / sizeof(jinja_value))
        return jinja_fail(rt, BW_E_RANGE, "a repeated list is too long");
    jinja_list *list = jinja_new_list(rt, total);
    for (size_t i = 0; list && i < total; i++)
        if (!jinja_push(rt, list, v.list->items[i % v.list->n]))
            return false;
    *out = jinja_list_value(v.kind, list);
    return list != NULL;
}

bool jinja_binary(jinja_runtime *rt, jinja_op op, jinja_value a, jinja_value b, jinja_value *out)
{
    static const char *const names[] = {"+", "-", "*", "/", "//", "%", "**"};
    int64_t i, j;
    if (jinja_as_int(a, &i) && jinja_as_int(b, &j))
        return int_math(rt, op, i, j, out);
    if (jinja_is_number(a) && jinja_is_number(b))
        return float_math(rt, op, jinja_as_double(a), jinja_as_double(b), out);
    if (a.kind == JINJA_UNDEFINED || b.kind == JINJA_UNDEFINED)
        return bad_operands(rt, names[op], a, b);
    if (op == JINJA_ADD && a.kind == b.kind && a.kind == JINJA_STRING)
        return add_strings(rt, a, b, out);
    if (op == JINJA_ADD && a.kind == b.kind && (a.kind == JINJA_LIST || a.kind == JINJA_TUPLE))
        return add_lists(rt, a, b, out);
    if (op == JINJA_MOD && a.kind == JINJA_STRING)
        return jinja_percent(rt, a.s, b, out);
    if (op == JINJA_MUL) {
        bool left = a.kind == JINJA_STRING || a.kind == JINJA_LIST || a.kind == JINJA_TUPLE;
        bool right = b.kind == JINJA_STRING || b.kind == JINJA_LIST || b.kind == JINJA_TUPLE;
        if (left && jinja_as_int(b, &j))
            return repeat(rt, a, j, out);
        if (right && jinja_as_int(a, &i))
            return repeat(rt, b, i, out);
    }
    return bad_operands(rt, names[op], a, b);
}

bool jinja_negate(jinja_runtime *rt, jinja_value a, bool minus, jinja_value *out)
{
    int64_t i;
    if (a.kind == JINJA_FLOAT) {
        *out = jinja_float(minus ? -a.f : a.f);
        return true;
    }
    if (jinja_as_int(a, &i)) {
        if (minus && i == INT64_MIN)
            return overflow(rt);
        *out = jinja_int(minus ? -i : i);
        return true;
    }
    if (a.kind == JINJA_UNDEFINED)
        return jinja_fail_undefined(rt, a);
    return jinja_fail(rt, BW_E_ARG, "a %s has no sign", jinja_type_name(a));
}

static bool range_contains(const jinja_range *r, jinja_value v)
{
    int64_t i;
    if (v.kind == JINJA_FLOAT && v.f == floor(v.f) && fabs(v.f) < 9e18)
        v = jinja_int((int64_t)v.f);
    if (!jinja_as_int(v, &i) || r->n == 0)
        return false;
    int64_t last = r->start + (r->n - 1) * r->step;
    int64_t lo = r->step > 0 ? r->start : last, hi = r->step > 0 ? last : r->start;
    if (i < lo || i > hi)
        return false;
    return ((uint64_t)i - (uint64_t)lo) % (uint64_t)(r->step > 0 ? r->step : -r->step) == 0;
}

bool jinja_contains(jinja_runtime *rt, jinja_value needle, jinja_value in, bool *out)
{
    *out = false;
    if (in.kind == JINJA_STRING) {
        if (needle.kind != JINJA_STRING)
            return jinja_fail(rt, BW_E_ARG, "a %s cannot be in a str", jinja_type_name(needle));
        *out = needle.s->n_bytes == 0 || memmem(in.s->data, in.s->n_bytes, needle.s->data, needle.s->n_bytes) != NULL;
        return jinja_charge(rt, in.s->n_bytes / 64);
    }
    if (in.kind == JINJA_DICT || (in.kind == JINJA_VIEW && in.view->kind == JINJA_KEYS)) {
        const jinja_value *found;
        if (!jinja_dict_find(rt, in.kind == JINJA_DICT ? in.dict : in.view->dict, needle, &found))
            return false;
        *out = found != NULL;
        return true;
    }
    if (in.kind == JINJA_RANGE && jinja_is_number(needle)) {
        *out = range_contains(in.range, needle);
        return true;
    }
    if (!jinja_iterable(in) || in.kind == JINJA_LOOP)
        return jinja_fail(rt, BW_E_ARG, "nothing can be in a %s", jinja_type_name(in));
    const jinja_list *items;
    if (!jinja_items(rt, in, &items))
        return false;
    for (size_t i = 0; !*out && i < items->n; i++) {
        *out = jinja_same(items->items[i], needle);
        if (!*out && !jinja_equal(rt, items->items[i], needle, out))
            return false;
    }
    return true;
}

bool jinja_compare(jinja_runtime *rt, jinja_op op, jinja_value a, jinja_value b, bool *out)
{
    static const char *const names[] = {"<", "<=", ">", ">="};
    int order;
    if (op == JINJA_IN || op == JINJA_NOT_IN) {
        if (!jinja_contains(rt, a, b, out))
            return false;
        *out ^= op == JINJA_NOT_IN;
        return true;
    }
    if (op == JINJA_EQ || op == JINJA_NE) {
        if (!jinja_equal(rt, a, b, out))
            return false;
        *out ^= op == JINJA_NE;
        return true;
    }
    if (!jinja_order(rt, a, b, names[op - JINJA_LT], &order))
        return false;
    if (order == 2)
        *out = false;
    else
        *out = op == JINJA_LT ? order < 0 : op == JINJA_LE ? order <= 0 : op == JINJA_GT ? order > 0 : order >= 0;
    return true;
}

static bool loop_attr(jinja_runtime *rt, const jinja_loop *l, const jinja_string *name, jinja_value *out, bool *found)
{
    int64_t n = (int64_t)l->items->n;
    const struct {
        const char *name;
        jinja_value value;
    } plain[] = {
        {"index", jinja_int(l->index0 + 1)},
        {"index0", jinja_int(l->index0)},
        {"revindex", jinja_int(n - l->index0)},
        {"revindex0", jinja_int(n - l->index0 - 1)},
        {"first", jinja_bool(l->index0 == 0)},
        {"last", jinja_bool(l->index0 + 1 >= n)},
        {"length", jinja_int(n)},
        {"depth", jinja_int(l->depth0 + 1)},
        {"depth0", jinja_int(l->depth0)},
    };
    *found = true;
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        if (jinja_same_bytes(name, plain[i].name)) {
            *out = plain[i].value;
            return true;
        }
    if (jinja_same_bytes(name, "previtem")) {
        if (l->index0 <= 0 || l->index0 > n)
            return jinja_undefined_hint(rt, "there is no previous item", out);
        *out = l->items->items[l->index0 - 1];
        return true;
    }
    if (jinja_same_bytes(name, "nextitem")) {
        if (l->index0 + 1 >= n)
            return jinja_undefined_hint(rt, "there is no next item", out);
        *out = l->items->items[l->index0 + 1];
        return true;
    }
    *found = false;
    return true;
}

static bool macro_attr(jinja_runtime *rt, const jinja_macro *m, const jinja_string *name, jinja_value *out, bool *found)
{
    *found = true;
    const jinja_node *node = m->node;
    if (jinja_same_bytes(name, "name")) {
        *out = node->name ? (jinja_value){.kind = JINJA_STRING, .s = node->name} : jinja_none();
        return true;
    }
    if (jinja_same_bytes(name, "arguments")) {
        jinja_list *list = jinja_new_list(rt, node->n_list);
        for (size_t i = 0; list && i < node->n_list; i++)
            if (!jinja_push(rt, list, (jinja_value){.kind = JINJA_STRING, .s = node->list[i]->name}))
                return false;
        *out = jinja_list_value(JINJA_TUPLE, list);
        return list != NULL;
    }
    if (jinja_same_bytes(name, "catch_kwargs") || jinja_same_bytes(name, "catch_varargs")) {
        *out = jinja_bool(name->n_bytes == 12 ? node->uses_kwargs : node->uses_varargs);
        return true;
    }
    if (jinja_same_bytes(name, "caller")) {
        *out = jinja_bool(node->uses_caller);
        return true;
    }
    *found = false;
    return true;
}

static bool data_attr(jinja_runtime *rt, jinja_value v, const jinja_string *name, jinja_value *out, bool *found)
{
    *found = false;
    if (v.kind == JINJA_LOOP)
        return loop_attr(rt, v.loop, name, out, found);
    if (v.kind == JINJA_MACRO)
        return macro_attr(rt, v.macro, name, out, found);
    if (v.kind == JINJA_CYCLER && jinja_same_bytes(name, "current")) {
        *found = true;
        *out = v.list->items[v.list->next];
    } else if (v.kind == JINJA_TUPLE && v.list->grouped) {
        *found = jinja_same_bytes(name, "grouper") || jinja_same_bytes(name, "list");
        if (*found)
            *out = v.list->items[name->n_bytes == 4];
    } else if (v.kind == JINJA_RANGE) {
        *found = true;
        if (jinja_same_bytes(name, "start"))
            *out = jinja_int(v.range->start);
        else if (jinja_same_bytes(name, "stop"))
            *out = jinja_int(v.range->stop);
        else if (jinja_same_bytes(name, "step"))
            *out = jinja_int(v.range->step);
        else
            *found = false;
    } else if (v.kind == JINJA_INT || v.kind == JINJA_BOOL) {
        int64_t i = 0;
        jinja_as_int(v, &i);
        bool same = jinja_same_bytes(name, "real") || jinja_same_bytes(name, "numerator");
        bool one = jinja_same_bytes(name, "denominator"), zero = jinja_same_bytes(name, "imag");
        *found = same || one || zero;
        *out = jinja_int(same ? i : one);
    } else if (v.kind == JINJA_FLOAT) {
        bool same = jinja_same_bytes(name, "real"), zero = jinja_same_bytes(name, "imag");
        *found = same || zero;
        *out = jinja_float(same ? v.f : 0.0);
    }
    return true;
}

static const jinja_builtin *find_method(jinja_value v, const jinja_string *name)
{
    const jinja_builtin *b;
    switch (v.kind) {
    case JINJA_STRING:
        b = jinja_find_builtin(jinja_string_methods, name);
        return b ? b : jinja_find_builtin(jinja_string_methods_more, name);
    case JINJA_DICT:
        return jinja_find_builtin(jinja_dict_methods, name);
    case JINJA_LIST:
        return jinja_find_builtin(jinja_list_methods, name);
    case JINJA_TUPLE:
        return jinja_find_builtin(jinja_tuple_methods, name);
    case JINJA_LOOP:
        return jinja_find_builtin(jinja_loop_methods, name);
    case JINJA_CYCLER:
        return jinja_find_builtin(jinja_cycler_methods, name);
    default:
        return NULL;
    }
}

/* What getattr() finds, before any item is looked at. */
static bool attribute(jinja_runtime *rt, jinja_value v, const jinja_string *name, jinja_value *out, bool *found)
{
    if (v.kind == JINJA_UNDEFINED) {
        if (name->n_bytes >= 2 && memcmp(name->data, "__", 2) == 0) {
            *found = false;
            return true;
        }
        return jinja_fail_undefined(rt, v);
    }
    if (v.kind == JINJA_NAMESPACE) {
        const jinja_value *attr = jinja_dict_get(v.dict, name->data, name->n_bytes);
        *found = attr != NULL;
        if (attr)
            *out = *attr;
        return true;
    }
    if (!data_attr(rt, v, name, out, found))
        return false;
    const jinja_builtin *method = *found ? NULL : find_method(v, name);
    if (!method)
        return true;
    *found = true;
    if (!method->fn && !method->call_fn)
        return jinja_undefined_hint(rt, "this method would change its value, which a template may not do", out);
    return jinja_bound(rt, method, v, out);
}

/* What v[key] finds. Wrong types are no error: there is nothing. */
static bool item(jinja_runtime *rt, jinja_value v, jinja_value key, jinja_value *out, bool *found)
{
    int64_t i, n;
    *found = false;
    if (v.kind == JINJA_UNDEFINED)
        return jinja_fail_undefined(rt, v);
    if (v.kind == JINJA_DICT) {
        const jinja_value *value;
        if (key.kind == JINJA_LIST || key.kind == JINJA_DICT || key.kind == JINJA_VIEW)
            return true;
        if (!jinja_dict_find(rt, v.dict, key, &value))
            return false;
        *found = value != NULL;
        if (value)
            *out = *value;
        return true;
    }
    if ((v.kind != JINJA_LIST && v.kind != JINJA_TUPLE && v.kind != JINJA_STRING && v.kind != JINJA_RANGE) ||
        !jinja_as_int(key, &i))
        return true;
    if (!jinja_length(rt, v, &n))
        return false;
    if (i < 0)
        i += n;
    if (i < 0 || i >= n)
        return true;
    *found = true;
    if (v.kind == JINJA_RANGE) {
        *out = jinja_int(v.range->start + i * v.range->step);
    } else if (v.kind == JINJA_STRING) {
        uint32_t c;
        size_t at = jinja_byte_offset(v.s, (size_t)i);
        size_t k = jinja_next_char(v.s->data + at, v.s->n_bytes - at, &c);
        return jinja_charge(rt, v.s->n_bytes == v.s->n_chars ? 0 : at / 64) && jinja_part(rt, v.s, at, at + k, out);
    } else {
        *out = v.list->items[i];
    }
    return true;
}

static jinja_value string_value(const jinja_string *s)
{
    return (jinja_value){.kind = JINJA_STRING, .s = s};
}

bool jinja_getattr(jinja_runtime *rt, jinja_value v, const jinja_string *name, jinja_value *out)
{
    bool found;
    if (!attribute(rt, v, name, out, &found))
        return false;
    if (!found && !item(rt, v, string_value(name), out, &found))
        return false;
    return found || jinja_undefined_member(rt, v, string_value(name), out);
}

bool jinja_attribute(jinja_runtime *rt, jinja_value v, const jinja_string *name, jinja_value *out)
{
    bool found;
    if (!attribute(rt, v, name, out, &found))
        return false;
    return found || jinja_undefined_member(rt, v, string_value(name), out);
}

bool jinja_getitem(jinja_runtime *rt, jinja_value v, jinja_value key, jinja_value *out)
{
    bool found;
    if (!item(rt, v, key, out, &found))
        return false;
    if (!found && key.kind == JINJA_STRING && !attribute(rt, v, key.s, out, &found))
        return false;
    return found || jinja_undefined_member(rt, v, key, out);
}

/* Python's rules for v[start:stop:step]: the first index and the count. */
static bool slice_bounds(jinja_runtime *rt, const jinja_value limit[3], int64_t n, int64_t *start, int64_t *step,
                         int64_t *count, bool *applies)
{
    int64_t v[3] = {0, 0, 1};
    bool given[3];
    for (int k = 0; k < 3; k++) {
        given[k] = limit[k].kind != JINJA_NONE;
        *applies = !given[k] || jinja_as_int(limit[k], &v[k]);
        if (limit[k].kind == JINJA_UNDEFINED || !*applies) {
            *applies = false;
            return true;
        }
    }
    if (v[2] == 0)
        return jinja_fail(rt, BW_E_ARG, "the step of a slice is zero");
    if (v[2] == INT64_MIN)
        v[2]++;
    int64_t lo = v[2] < 0 ? -1 : 0, hi = v[2] < 0 ? n - 1 : n;
    for (int k = 0; k < 2; k++) {
        if (!given[k])
            v[k] = (k == 0) == (v[2] > 0) ? lo : hi;
        else {
            if (v[k] < 0)
                v[k] += n;
            v[k] = v[k] < lo ? lo : v[k] > hi ? hi : v[k];
        }
    }
    *start = v[0];
    *step = v[2];
    *count = 0;
    if (v[2] > 0 && v[0] < v[1])
        *count = (v[1] - v[0] - 1) / v[2] + 1;
    if (v[2] < 0 && v[0] > v[1])
        *count = (v[0] - v[1] - 1) / -v[2] + 1;
    return true;
}

static bool slice_string(jinja_runtime *rt, const jinja_string *s, int64_t start, int64_t step, int64_t count,
                         jinja_value *out)
{
    if (!jinja_charge(rt, s->n_bytes / 64))
        return false;
    if (step == 1 || count == 0) {
        size_t a = count ? jinja_byte_offset(s, (size_t)start) : 0;
        size_t b = count ? jinja_byte_offset(s, (size_t)(start + count)) : 0;
        return jinja_part(rt, s, a, b, out);
    }
    const jinja_list *chars;
    jinja_text text = {0};
    if (!jinja_items(rt, string_value(s), &chars))
        return false;
    for (int64_t i = 0; i < count; i++) {
        const jinja_string *c = chars->items[start + i * step].s;
        jinja_text_add(&text, c, 0, c->n_bytes);
    }
    return jinja_finish_string(rt, &text, out) && jinja_mark(rt, *out, s->markup, out);
}

bool jinja_slice(jinja_runtime *rt, jinja_value v, const jinja_value limit[3], jinja_value *out)
{
    int64_t n, start = 0, step = 1, count = 0;
    bool applies = false;
    jinja_value none = jinja_none();
    if (v.kind == JINJA_UNDEFINED)
        return jinja_fail_undefined(rt, v);
    if (v.kind != JINJA_STRING && v.kind != JINJA_LIST && v.kind != JINJA_TUPLE && v.kind != JINJA_RANGE)
        return jinja_undefined_member(rt, v, none, out);
    if (!jinja_length(rt, v, &n) || !slice_bounds(rt, limit, n, &start, &step, &count, &applies))
        return false;
    if (!applies)
        return jinja_undefined_member(rt, v, none, out);
    if (v.kind == JINJA_STRING)
        return slice_string(rt, v.s, start, step, count, out);
    if (v.kind == JINJA_RANGE) {
        jinja_range *r = jinja_alloc(rt, 1, sizeof *r);
        if (!r)
            return false;
        r->step = v.range->step * step;
        r->start = v.range->start + start * v.range->step;
        r->stop = r->start + count * r->step;
        r->n = count;
        *out = (jinja_value){.kind = JINJA_RANGE, .range = r};
        return true;
    }
    jinja_list *list = jinja_new_list(rt, (size_t)count);
    for (int64_t i = 0; list && i < count; i++)
        if (!jinja_push(rt, list, v.list->items[start + i * step]))
            return false;
    *out = jinja_list_value(v.kind, list);
    return list != NULL;
}
