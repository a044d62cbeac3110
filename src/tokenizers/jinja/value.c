/* Values: making them, truth, equality, order, hashes, dicts, lengths, items. Follows Python's rules for each type. */
#include <stdlib.h>

#include "jinja.h"

size_t jinja_count_chars(const char *data, size_t n_bytes)
{
    size_t n = 0;
    for (size_t i = 0; i < n_bytes; i++)
        n += ((unsigned char)data[i] & 0xC0) != 0x80;
    return n;
}

bool jinja_view_string(jinja_runtime *rt, const char *data, size_t n_bytes, jinja_value *out)
{
    jinja_string *s = jinja_alloc(rt, 1, sizeof *s);
    if (!s)
        return false;
    *s = (jinja_string){.data = data, .n_bytes = n_bytes, .n_chars = jinja_count_chars(data, n_bytes)};
    *out = (jinja_value){.kind = JINJA_STRING, .s = s};
    return jinja_charge(rt, n_bytes / 64);
}

bool jinja_new_string(jinja_runtime *rt, const char *data, size_t n_bytes, jinja_value *out)
{
    char *copy = jinja_alloc(rt, n_bytes + 1, 1);
    if (!copy)
        return false;
    memcpy(copy, data, n_bytes);
    return jinja_view_string(rt, copy, n_bytes, out);
}

bool jinja_part(jinja_runtime *rt, const jinja_string *s, size_t begin, size_t end, jinja_value *out)
{
    jinja_string *made;
    if (!(made = jinja_alloc(rt, 1, sizeof *made)))
        return false;
    *made = (jinja_string){.data = s->data + begin,
                           .n_bytes = end - begin,
                           .n_chars = jinja_count_chars(s->data + begin, end - begin),
                           .markup = s->markup,
                           .request = s->request,
                           .origin = s->origin ? s->origin + begin : NULL};
    *out = (jinja_value){.kind = JINJA_STRING, .s = made};
    return jinja_charge(rt, (end - begin) / 64);
}

void jinja_copy_origin(const jinja_string *s, char *origin)
{
    if (s->origin)
        memcpy(origin, s->origin, s->n_bytes);
    else
        memset(origin, s->request, s->n_bytes);
}

bool jinja_mark(jinja_runtime *rt, jinja_value string, bool markup, jinja_value *out)
{
    *out = string;
    if (string.s->markup == markup)
        return true;
    jinja_string *s = jinja_alloc(rt, 1, sizeof *s);
    if (!s)
        return false;
    *s = *string.s;
    s->markup = markup;
    out->s = s;
    return true;
}

static bool undefined(jinja_runtime *rt, jinja_undefined u, jinja_value *out)
{
    jinja_undefined *copy = jinja_alloc(rt, 1, sizeof *copy);
    if (!copy)
        return false;
    *copy = u;
    *out = (jinja_value){.kind = JINJA_UNDEFINED, .u = copy};
    return true;
}

bool jinja_undefined_name(jinja_runtime *rt, const jinja_string *name, jinja_value *out)
{
    return undefined(rt, (jinja_undefined){.name = name}, out);
}

bool jinja_undefined_hint(jinja_runtime *rt, const char *hint, jinja_value *out)
{
    return undefined(rt, (jinja_undefined){.hint = hint}, out);
}

bool jinja_undefined_member(jinja_runtime *rt, jinja_value owner, jinja_value name, jinja_value *out)
{
    jinja_undefined u = {.owner = jinja_type_name(owner), .name = name.kind == JINJA_STRING ? name.s : NULL};
    return undefined(rt, u, out);
}

bool jinja_fail_undefined(jinja_runtime *rt, jinja_value v)
{
    const jinja_undefined *u = v.u;
    if (u->hint)
        return jinja_fail(rt, BW_E_ARG, "%s", u->hint);
    int n = u->name ? (int)(u->name->n_bytes < 100 ? u->name->n_bytes : 100) : 0;
    const char *name = u->name ? u->name->data : "";
    if (u->owner && u->name)
        return jinja_fail(rt, BW_E_ARG, "a %s has no attribute or item '%.*s'", u->owner, n, name);
    if (u->owner)
        return jinja_fail(rt, BW_E_ARG, "a %s does not have this item", u->owner);
    return jinja_fail(rt, BW_E_ARG, "'%.*s' is undefined", n, name);
}

jinja_list *jinja_new_list(jinja_runtime *rt, size_t capacity)
{
    jinja_list *list = jinja_alloc(rt, 1, sizeof *list);
    if (list && capacity) {
        list->items = jinja_alloc(rt, capacity, sizeof *list->items);
        list->capacity = capacity;
        if (!list->items)
            return NULL;
    }
    return list;
}

bool jinja_push(jinja_runtime *rt, jinja_list *list, jinja_value v)
{
    if (list->n == list->capacity) {
        size_t capacity = list->capacity ? list->capacity * 2 : 8;
        jinja_value *items = jinja_alloc(rt, capacity, sizeof *items);
        if (!items)
            return false;
        if (list->n)
            memcpy(items, list->items, list->n * sizeof *items);
        list->items = items;
        list->capacity = capacity;
    }
    list->items[list->n++] = v;
    return jinja_charge(rt, 1);
}

jinja_value jinja_list_value(jinja_kind kind, jinja_list *list)
{
    return (jinja_value){.kind = kind, .list = list};
}

bool jinja_pair(jinja_runtime *rt, jinja_value a, jinja_value b, jinja_value *out)
{
    jinja_list *list = jinja_new_list(rt, 2);
    if (!list || !jinja_push(rt, list, a) || !jinja_push(rt, list, b))
        return false;
    *out = jinja_list_value(JINJA_TUPLE, list);
    return true;
}

jinja_dict *jinja_new_dict(jinja_runtime *rt)
{
    return jinja_alloc(rt, 1, sizeof(jinja_dict));
}

static uint64_t hash_bytes(const char *data, size_t n)
{
    uint64_t h = 14695981039346656037u;
    for (size_t i = 0; i < n; i++)
        h = (h ^ (unsigned char)data[i]) * 1099511628211u;
    return h ^ h >> 29;
}

static uint64_t hash_int(int64_t i)
{
    uint64_t h = (uint64_t)i * 0x9E3779B97F4A7C15u;
    return h ^ h >> 32;
}

bool jinja_hash(jinja_runtime *rt, jinja_value v, uint64_t *out)
{
    *out = (uint64_t)v.kind * 31;
    switch (v.kind) {
    case JINJA_STRING:
        *out = hash_bytes(v.s->data, v.s->n_bytes);
        return jinja_charge(rt, v.s->n_bytes / 64);
    case JINJA_BOOL:
        *out = hash_int(v.b);
        return true;
    case JINJA_INT:
        *out = hash_int(v.i);
        return true;
    case JINJA_FLOAT:
        if (v.f == floor(v.f) && fabs(v.f) < 9.2e18)
            *out = hash_int((int64_t)v.f);
        else
            *out = hash_bytes((const char *)&v.f, sizeof v.f);
        return true;
    case JINJA_TUPLE: {
        if (!jinja_enter(rt))
            return false;
        uint64_t h = 7, item;
        for (size_t i = 0; i < v.list->n; i++) {
            if (!jinja_hash(rt, v.list->items[i], &item))
                return false;
            h = (h ^ item) * 1099511628211u;
        }
        *out = h;
        jinja_leave(rt);
        return jinja_charge(rt, v.list->n);
    }
    case JINJA_LIST:
    case JINJA_DICT:
    case JINJA_VIEW:
        return jinja_fail(rt, BW_E_ARG, "a %s cannot be a key: it is not hashable", jinja_type_name(v));
    case JINJA_RANGE:
        *out = hash_int(v.range->n) ^ hash_int(v.range->start);
        return true;
    default:
        return true; /* same kind, same bucket; equality decides */
    }
}

/* Where the key's entry is, or dict->n; *slot where it would go in slots. */
static bool locate(jinja_runtime *rt, const jinja_dict *dict, jinja_value key, uint64_t hash, size_t *index,
                   size_t *slot)
{
    size_t tried = 0;
    *slot = dict->n_slots ? (size_t)hash & (dict->n_slots - 1) : 0;
    for (size_t i = 0;; i++, tried++) {
        size_t at = i;
        if (dict->slots) {
            if (!dict->slots[*slot])
                break;
            at = dict->slots[*slot] - 1;
        } else if (i == dict->n) {
            break;
        }
        if (dict->entries[at].hash == hash) {
            bool same;
            if (!jinja_equal(rt, dict->entries[at].key, key, &same))
                return false;
            if (same) {
                *index = at;
                return true;
            }
        }
        if (dict->slots)
            *slot = (*slot + 1) & (dict->n_slots - 1);
    }
    *index = dict->n;
    return jinja_charge(rt, tried / 8);
}

static bool dict_grow(jinja_runtime *rt, jinja_dict *dict)
{
    size_t capacity = dict->capacity ? dict->capacity * 2 : 8;
    jinja_entry *entries = jinja_alloc(rt, capacity, sizeof *entries);
    if (!entries)
        return false;
    if (dict->n)
        memcpy(entries, dict->entries, dict->n * sizeof *entries);
    dict->entries = entries;
    dict->capacity = capacity;
    if (capacity <= 8)
        return true;
    uint32_t *slots = jinja_alloc(rt, capacity * 2, sizeof *slots);
    if (!slots)
        return false;
    dict->slots = slots;
    dict->n_slots = capacity * 2;
    for (size_t i = 0; i < dict->n; i++) {
        size_t s = (size_t)entries[i].hash & (dict->n_slots - 1);
        while (slots[s])
            s = (s + 1) & (dict->n_slots - 1);
        slots[s] = (uint32_t)i + 1;
    }
    return true;
}

bool jinja_dict_set(jinja_runtime *rt, jinja_dict *dict, jinja_value key, jinja_value value)
{
    uint64_t hash;
    size_t index, slot;
    if (!jinja_hash(rt, key, &hash) || !locate(rt, dict, key, hash, &index, &slot))
        return false;
    if (index < dict->n) {
        dict->entries[index].value = value;
        return true;
    }
    if (dict->n == dict->capacity && (!dict_grow(rt, dict) || !locate(rt, dict, key, hash, &index, &slot)))
        return false;
    if (dict->slots)
        dict->slots[slot] = (uint32_t)dict->n + 1;
    dict->entries[dict->n++] = (jinja_entry){key, value, hash};
    return jinja_charge(rt, 1);
}

bool jinja_dict_find(jinja_runtime *rt, const jinja_dict *dict, jinja_value key, const jinja_value **found)
{
    uint64_t hash;
    size_t index, slot;
    *found = NULL;
    if (!jinja_hash(rt, key, &hash) || !locate(rt, dict, key, hash, &index, &slot))
        return false;
    if (index < dict->n)
        *found = &dict->entries[index].value;
    return true;
}

const jinja_value *jinja_dict_get(const jinja_dict *dict, const char *key, size_t n_bytes)
{
    uint64_t hash = hash_bytes(key, n_bytes);
    size_t slot = dict->n_slots ? (size_t)hash & (dict->n_slots - 1) : 0;
    for (size_t i = 0;; i++) {
        size_t at = i;
        if (dict->slots) {
            if (!dict->slots[slot])
                return NULL;
            at = dict->slots[slot] - 1;
            slot = (slot + 1) & (dict->n_slots - 1);
        } else if (i == dict->n) {
            return NULL;
        }
        const jinja_entry *e = &dict->entries[at];
        if (e->hash == hash && e->key.kind == JINJA_STRING && e->key.s->n_bytes == n_bytes &&
            memcmp(e->key.s->data, key, n_bytes) == 0)
            return &e->value;
    }
}

const char *jinja_type_name(jinja_value v)
{
    static const char *const names[] = {"missing argument",
                                        "undefined value",
                                        "none",
                                        "bool",
                                        "int",
                                        "float",
                                        "str",
                                        "list",
                                        "tuple",
                                        "dict",
                                        "range",
                                        "dict view",
                                        "generator",
                                        "namespace",
                                        "macro",
                                        "function",
                                        "loop",
                                        "cycler",
                                        "joiner"};
    return names[v.kind];
}

bool jinja_truth(jinja_value v)
{
    switch (v.kind) {
    case JINJA_MISSING:
    case JINJA_UNDEFINED:
    case JINJA_NONE:
        return false;
    case JINJA_BOOL:
        return v.b;
    case JINJA_INT:
        return v.i != 0;
    case JINJA_FLOAT:
        return v.f != 0;
    case JINJA_STRING:
        return v.s->n_bytes > 0;
    case JINJA_LIST:
    case JINJA_TUPLE:
        return v.list->n > 0;
    case JINJA_DICT:
        return v.dict->n > 0;
    case JINJA_RANGE:
        return v.range->n > 0;
    case JINJA_VIEW:
        return v.view->dict->n > 0;
    case JINJA_LOOP:
        return v.loop->items->n > 0;
    default:
        return true;
    }
}

bool jinja_is_number(jinja_value v)
{
    return v.kind == JINJA_INT || v.kind == JINJA_FLOAT || v.kind == JINJA_BOOL;
}

bool jinja_as_int(jinja_value v, int64_t *out)
{
    if (v.kind != JINJA_INT && v.kind != JINJA_BOOL)
        return false;
    *out = v.kind == JINJA_INT ? v.i : v.b;
    return true;
}

double jinja_as_double(jinja_value v)
{
    return v.kind == JINJA_FLOAT ? v.f : v.kind == JINJA_INT ? (double)v.i : (double)v.b;
}

/* -1, 0, 1; 2 when one of them is not a number. Exact: an int64 fits a long double, or is compared as an int. */
static int order_numbers(jinja_value a, jinja_value b)
{
    int64_t i, j;
    if (jinja_as_int(a, &i) && jinja_as_int(b, &j))
        return i < j ? -1 : i > j;
    long double x = a.kind == JINJA_FLOAT ? (long double)a.f : jinja_as_int(a, &i) ? (long double)i : 0;
    long double y = b.kind == JINJA_FLOAT ? (long double)b.f : jinja_as_int(b, &j) ? (long double)j : 0;
    return x < y ? -1 : x > y ? 1 : x == y ? 0 : 2;
}

static int order_strings(const jinja_string *a, const jinja_string *b)
{
    size_t n = a->n_bytes < b->n_bytes ? a->n_bytes : b->n_bytes;
    int c = n ? memcmp(a->data, b->data, n) : 0;
    if (c)
        return c < 0 ? -1 : 1;
    return a->n_bytes < b->n_bytes ? -1 : a->n_bytes > b->n_bytes;
}

bool jinja_same(jinja_value a, jinja_value b)
{
    if (a.kind != b.kind)
        return false;
    switch (a.kind) {
    case JINJA_MISSING:
    case JINJA_NONE:
        return true;
    case JINJA_BOOL:
        return a.b == b.b;
    case JINJA_INT:
        return a.i == b.i;
    case JINJA_FLOAT:
        return memcmp(&a.f, &b.f, sizeof a.f) == 0;
    case JINJA_FUNCTION:
        return a.function->builtin == b.function->builtin && jinja_same(a.function->self, b.function->self);
    default:
        return a.list == b.list; /* all pointers of the union alike */
    }
}

static bool equal_lists(jinja_runtime *rt, const jinja_list *a, const jinja_list *b, bool *out)
{
    *out = a->n == b->n;
    if (!*out || a == b)
        return true;
    if (!jinja_enter(rt))
        return false;
    for (size_t i = 0; *out && i < a->n; i++)
        if (!jinja_equal(rt, a->items[i], b->items[i], out))
            return false;
    jinja_leave(rt);
    return true;
}

static bool equal_dicts(jinja_runtime *rt, const jinja_dict *a, const jinja_dict *b, bool *out)
{
    *out = a->n == b->n;
    if (!*out || a == b)
        return true;
    if (!jinja_enter(rt))
        return false;
    for (size_t i = 0; *out && i < a->n; i++) {
        const jinja_value *other;
        if (!jinja_dict_find(rt, b, a->entries[i].key, &other))
            return false;
        *out = other != NULL;
        if (other && !jinja_equal(rt, a->entries[i].value, *other, out))
            return false;
    }
    jinja_leave(rt);
    return true;
}

bool jinja_equal(jinja_runtime *rt, jinja_value a, jinja_value b, bool *out)
{
    if (!jinja_charge(rt, 1))
        return false;
    if (jinja_is_number(a) && jinja_is_number(b)) {
        *out = order_numbers(a, b) == 0;
        return true;
    }
    *out = false;
    if (a.kind != b.kind)
        return true;
    switch (a.kind) {
    case JINJA_UNDEFINED:
        *out = true;
        return true;
    case JINJA_STRING:
        *out = a.s->n_bytes == b.s->n_bytes && memcmp(a.s->data, b.s->data, a.s->n_bytes) == 0;
        return jinja_charge(rt, a.s->n_bytes / 64);
    case JINJA_LIST:
    case JINJA_TUPLE:
        return equal_lists(rt, a.list, b.list, out);
    case JINJA_DICT:
        return equal_dicts(rt, a.dict, b.dict, out);
    case JINJA_RANGE:
        *out = a.range->n == b.range->n && (a.range->n == 0 || (a.range->start == b.range->start &&
                                                                (a.range->n == 1 || a.range->step == b.range->step)));
        return true;
    default:
        *out = jinja_same(a, b);
        return true;
    }
}

bool jinja_order(jinja_runtime *rt, jinja_value a, jinja_value b, const char *op, int *out)
{
    if (!jinja_charge(rt, 1))
        return false;
    if (jinja_is_number(a) && jinja_is_number(b)) {
        *out = order_numbers(a, b);
        return true;
    }
    if (a.kind == JINJA_UNDEFINED || b.kind == JINJA_UNDEFINED)
        return jinja_fail_undefined(rt, a.kind == JINJA_UNDEFINED ? a : b);
    if (a.kind == JINJA_STRING && b.kind == JINJA_STRING) {
        *out = order_strings(a.s, b.s);
        return jinja_charge(rt, a.s->n_bytes / 64);
    }
    if (a.kind != b.kind || (a.kind != JINJA_LIST && a.kind != JINJA_TUPLE))
        return jinja_fail(rt, BW_E_ARG, "%s between a %s and a %s is not possible", op, jinja_type_name(a),
                          jinja_type_name(b));
    if (!jinja_enter(rt))
        return false;
    size_t n = a.list->n < b.list->n ? a.list->n : b.list->n;
    for (size_t i = 0; i < n; i++) {
        bool same = jinja_same(a.list->items[i], b.list->items[i]);
        if (!same && !jinja_equal(rt, a.list->items[i], b.list->items[i], &same))
            return false;
        if (same)
            continue;
        bool ok = jinja_order(rt, a.list->items[i], b.list->items[i], op, out);
        jinja_leave(rt);
        return ok;
    }
    *out = a.list->n < b.list->n ? -1 : a.list->n > b.list->n;
    jinja_leave(rt);
    return true;
}

bool jinja_length(jinja_runtime *rt, jinja_value v, int64_t *out)
{
    switch (v.kind) {
    case JINJA_UNDEFINED:
        *out = 0;
        return true;
    case JINJA_STRING:
        *out = (int64_t)v.s->n_chars;
        return true;
    case JINJA_LIST:
    case JINJA_TUPLE:
        *out = (int64_t)v.list->n;
        return true;
    case JINJA_DICT:
        *out = (int64_t)v.dict->n;
        return true;
    case JINJA_VIEW:
        *out = (int64_t)v.view->dict->n;
        return true;
    case JINJA_RANGE:
        *out = v.range->n;
        return true;
    case JINJA_LOOP:
        *out = (int64_t)v.loop->items->n;
        return true;
    default:
        return jinja_fail(rt, BW_E_ARG, "a %s has no length", jinja_type_name(v));
    }
}

bool jinja_iterable(jinja_value v)
{
    switch (v.kind) {
    case JINJA_UNDEFINED:
    case JINJA_STRING:
    case JINJA_LIST:
    case JINJA_TUPLE:
    case JINJA_DICT:
    case JINJA_VIEW:
    case JINJA_RANGE:
    case JINJA_ITERATOR:
    case JINJA_LOOP:
        return true;
    default:
        return false;
    }
}

static bool string_items(jinja_runtime *rt, jinja_value v, jinja_list *list)
{
    size_t i = 0;
    while (i < v.s->n_bytes) {
        uint32_t c;
        size_t n = jinja_next_char(v.s->data + i, v.s->n_bytes - i, &c);
        jinja_value item;
        if (!jinja_part(rt, v.s, i, i + n, &item) || !jinja_push(rt, list, item))
            return false;
        i += n;
    }
    return true;
}

bool jinja_items(jinja_runtime *rt, jinja_value v, const jinja_list **out)
{
    if (v.kind == JINJA_LIST || v.kind == JINJA_TUPLE) {
        *out = v.list;
        return true;
    }
    jinja_list *list = jinja_new_list(rt, 0);
    if (!list)
        return false;
    *out = list;
    switch (v.kind) {
    case JINJA_UNDEFINED:
        return true;
    case JINJA_ITERATOR:
        list->items = v.list->n ? v.list->items + v.list->next : NULL;
        list->n = list->capacity = v.list->n - v.list->next;
        v.list->next = v.list->n;
        return true;
    case JINJA_STRING:
        return string_items(rt, v, list);
    case JINJA_RANGE:
        for (int64_t i = 0; i < v.range->n; i++)
            if (!jinja_push(rt, list, jinja_int(v.range->start + i * v.range->step)))
                return false;
        return true;
    case JINJA_DICT:
    case JINJA_VIEW: {
        const jinja_dict *dict = v.kind == JINJA_DICT ? v.dict : v.view->dict;
        jinja_view_kind kind = v.kind == JINJA_DICT ? JINJA_KEYS : v.view->kind;
        for (size_t i = 0; i < dict->n; i++) {
            jinja_value item = kind == JINJA_KEYS ? dict->entries[i].key : dict->entries[i].value;
            if (kind == JINJA_ITEMS && !jinja_pair(rt, dict->entries[i].key, dict->entries[i].value, &item))
                return false;
            if (!jinja_push(rt, list, item))
                return false;
        }
        return true;
    }
    default:
        return jinja_fail(rt, BW_E_ARG, "a %s has no items to go through", jinja_type_name(v));
    }
}

static bool from_json_string(jinja_runtime *rt, const char *data, size_t n_bytes, bool request, jinja_value *out)
{
    const jinja_string whole = {.data = data, .n_bytes = n_bytes, .request = request};
    return jinja_part(rt, &whole, 0, n_bytes, out);
}

/* Templates make control tokens of roles, such as <|user|>. These words are theirs, whoever wrote them. */
static bool is_role(const char *key, const json_t *v)
{
    static const char *const roles[] = {"system",   "user",    "assistant", "tool",        "developer",
                                        "function", "ipython", "model",     "observation", "tool_response"};
    if (strcmp(key, "role") != 0 || !json_is_string(v))
        return false;
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
        if (strlen(roles[i]) == json_string_length(v) && strcmp(roles[i], json_string_value(v)) == 0)
            return true;
    return false;
}

bool jinja_from_json(jinja_runtime *rt, const json_t *json, bool request, int depth, jinja_value *out)
{
    if (depth > JINJA_MAX_DEPTH / 2)
        return jinja_fail(rt, BW_E_RANGE, "the variables are nested more than %d deep", JINJA_MAX_DEPTH / 2);
    switch (json_typeof(json)) {
    case JSON_OBJECT: {
        jinja_dict *dict = jinja_new_dict(rt);
        const char *key;
        const json_t *item;
        if (!dict)
            return false;
        for (void *it = json_object_iter((json_t *)(uintptr_t)json); it;
             it = json_object_iter_next((json_t *)(uintptr_t)json, it)) {
            jinja_value name, value;
            key = json_object_iter_key(it);
            item = json_object_iter_value(it);
            if (!from_json_string(rt, key, strlen(key), request, &name) ||
                !jinja_from_json(rt, item, request && !is_role(key, item), depth + 1, &value) ||
                !jinja_dict_set(rt, dict, name, value))
                return false;
        }
        *out = (jinja_value){.kind = JINJA_DICT, .dict = dict};
        return true;
    }
    case JSON_ARRAY: {
        jinja_list *list = jinja_new_list(rt, json_array_size(json));
        for (size_t i = 0; list && i < json_array_size(json); i++) {
            jinja_value value;
            if (!jinja_from_json(rt, json_array_get(json, i), request, depth + 1, &value) ||
                !jinja_push(rt, list, value))
                return false;
        }
        *out = jinja_list_value(JINJA_LIST, list);
        return list != NULL;
    }
    case JSON_STRING:
        return from_json_string(rt, json_string_value(json), json_string_length(json), request, out);
    case JSON_INTEGER:
        *out = jinja_int(json_integer_value(json));
        return true;
    case JSON_REAL:
        *out = jinja_float(json_real_value(json));
        return true;
    case JSON_TRUE:
    case JSON_FALSE:
        *out = jinja_bool(json_is_true(json));
        return true;
    default:
        *out = jinja_none();
        return true;
    }
}
