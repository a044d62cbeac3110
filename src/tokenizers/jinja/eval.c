/* Expressions: a tree and a scope give a value. Owns scopes and the look-up of names. */
#include "jinja.h"

jinja_scope *jinja_new_scope(jinja_runtime *rt, jinja_scope *parent)
{
    jinja_scope *scope = jinja_alloc(rt, 1, sizeof *scope);
    if (scope)
        scope->parent = parent;
    return scope;
}

bool jinja_set(jinja_runtime *rt, jinja_scope *scope, const jinja_string *name, jinja_value v)
{
    for (size_t i = 0; i < scope->n; i++)
        if (scope->variables[i].name == name) {
            scope->variables[i].value = v;
            return jinja_charge(rt, i / 8);
        }
    if (scope->n == scope->capacity) {
        size_t capacity = scope->capacity ? scope->capacity * 2 : 4;
        jinja_variable *variables = jinja_alloc(rt, capacity, sizeof *variables);
        if (!variables)
            return false;
        if (scope->n)
            memcpy(variables, scope->variables, scope->n * sizeof *variables);
        scope->variables = variables;
        scope->capacity = capacity;
    }
    scope->variables[scope->n++] = (jinja_variable){name, v};
    return jinja_charge(rt, scope->n / 8);
}

static bool eval_name(jinja_runtime *rt, const jinja_string *name, const jinja_scope *scope, jinja_value *out)
{
    size_t looked = 0;
    for (; scope; scope = scope->parent, looked++)
        for (size_t i = 0; i < scope->n; i++, looked++)
            if (scope->variables[i].name == name) {
                *out = scope->variables[i].value;
                return jinja_charge(rt, looked / 8);
            }
    if (!jinja_charge(rt, looked / 8))
        return false;
    const jinja_value *v = jinja_dict_get(rt->context, name->data, name->n_bytes);
    if (v) {
        *out = *v;
        return true;
    }
    const jinja_builtin *global = jinja_find_builtin(jinja_globals, name);
    if (global)
        return jinja_bound(rt, global, jinja_none(), out);
    return jinja_undefined_name(rt, name, out);
}

static bool eval_list(jinja_runtime *rt, const jinja_node *node, jinja_scope *scope, jinja_value *out)
{
    jinja_list *list = jinja_new_list(rt, node->n_list);
    for (size_t i = 0; list && i < node->n_list; i++) {
        jinja_value v;
        if (!jinja_eval(rt, node->list[i], scope, &v) || !jinja_push(rt, list, v))
            return false;
    }
    *out = jinja_list_value(node->kind == JINJA_N_LIST ? JINJA_LIST : JINJA_TUPLE, list);
    return list != NULL;
}

static bool eval_dict(jinja_runtime *rt, const jinja_node *node, jinja_scope *scope, jinja_value *out)
{
    jinja_dict *dict = jinja_new_dict(rt);
    for (size_t i = 0; dict && i + 1 < node->n_list; i += 2) {
        jinja_value key, value;
        if (!jinja_eval(rt, node->list[i], scope, &key) || !jinja_eval(rt, node->list[i + 1], scope, &value) ||
            !jinja_dict_set(rt, dict, key, value))
            return false;
    }
    *out = (jinja_value){.kind = JINJA_DICT, .dict = dict};
    return dict != NULL;
}

static bool eval_cond(jinja_runtime *rt, const jinja_node *node, jinja_scope *scope, jinja_value *out)
{
    jinja_value test;
    if (!jinja_eval(rt, node->kid[0], scope, &test))
        return false;
    const jinja_node *chosen = jinja_truth(test) ? node->kid[1] : node->kid[2];
    if (chosen)
        return jinja_eval(rt, chosen, scope, out);
    return jinja_undefined_hint(rt, "an inline if expression was false and has no else", out);
}

static bool eval_logic(jinja_runtime *rt, const jinja_node *node, jinja_scope *scope, jinja_value *out)
{
    if (!jinja_eval(rt, node->kid[0], scope, out))
        return false;
    if (jinja_truth(*out) == (node->kind == JINJA_N_OR))
        return true;
    return jinja_eval(rt, node->kid[1], scope, out);
}

static bool eval_compare(jinja_runtime *rt, const jinja_node *node, jinja_scope *scope, jinja_value *out)
{
    jinja_value left, right;
    bool holds = true;
    if (!jinja_eval(rt, node->kid[0], scope, &left))
        return false;
    for (size_t i = 0; holds && i < node->n_list; i++) {
        if (!jinja_eval(rt, node->list[i]->kid[0], scope, &right) ||
            !jinja_compare(rt, node->list[i]->op, left, right, &holds))
            return false;
        left = right;
    }
    *out = jinja_bool(holds);
    return true;
}

static bool eval_concat(jinja_runtime *rt, const jinja_node *node, jinja_scope *scope, jinja_value *out)
{
    jinja_text text = {0};
    for (size_t i = 0; i < node->n_list; i++) {
        jinja_value v;
        if (!jinja_eval(rt, node->list[i], scope, &v) || !jinja_add_str(rt, v, &text)) {
            jinja_text_deinit(&text);
            return false;
        }
    }
    return jinja_finish_string(rt, &text, out);
}

static bool eval_binary(jinja_runtime *rt, const jinja_node *node, jinja_scope *scope, jinja_value *out)
{
    jinja_value a, b;
    if (!jinja_eval(rt, node->kid[0], scope, &a) || !jinja_eval(rt, node->kid[1], scope, &b))
        return false;
    rt->line = node->line;
    return jinja_binary(rt, node->op, a, b, out);
}

static bool eval_getitem(jinja_runtime *rt, const jinja_node *node, jinja_scope *scope, jinja_value *out)
{
    jinja_value object, key;
    if (!jinja_eval(rt, node->kid[0], scope, &object))
        return false;
    if (node->kid[1]->kind != JINJA_N_SLICE) {
        if (!jinja_eval(rt, node->kid[1], scope, &key))
            return false;
        return jinja_getitem(rt, object, key, out);
    }
    jinja_value limit[3];
    for (int i = 0; i < 3; i++) {
        limit[i] = jinja_none();
        if (node->kid[1]->kid[i] && !jinja_eval(rt, node->kid[1]->kid[i], scope, &limit[i]))
            return false;
    }
    return jinja_slice(rt, object, limit, out);
}

static bool add_keyword(jinja_runtime *rt, jinja_dict *dict, jinja_value key, jinja_value value)
{
    const jinja_value *old;
    if (key.kind != JINJA_STRING)
        return jinja_fail(rt, BW_E_ARG, "the names of keyword arguments must be strings");
    if (!jinja_dict_find(rt, dict, key, &old))
        return false;
    if (old)
        return jinja_fail(rt, BW_E_ARG, "a keyword argument is given twice");
    return jinja_dict_set(rt, dict, key, value);
}

bool jinja_eval_args(jinja_runtime *rt, const jinja_node *node, jinja_scope *scope, jinja_args *args)
{
    *args = (jinja_args){0};
    jinja_value v;
    if (node->n_list || node->kid[1]) {
        jinja_list *list = jinja_new_list(rt, node->n_list);
        if (!list)
            return false;
        for (size_t i = 0; i < node->n_list; i++)
            if (!jinja_eval(rt, node->list[i], scope, &v) || !jinja_push(rt, list, v))
                return false;
        if (node->kid[1]) {
            const jinja_list *more;
            if (!jinja_eval(rt, node->kid[1], scope, &v) || !jinja_items(rt, v, &more))
                return false;
            for (size_t i = 0; i < more->n; i++)
                if (!jinja_push(rt, list, more->items[i]))
                    return false;
        }
        args->items = list->items;
        args->n = list->n;
    }
    if (!node->n_list2 && !node->kid[2])
        return true;
    jinja_dict *dict = jinja_new_dict(rt);
    if (!dict)
        return false;
    args->keywords = dict;
    for (size_t i = 0; i < node->n_list2; i++)
        if (!jinja_eval(rt, node->list2[i]->kid[0], scope, &v) ||
            !add_keyword(rt, dict, (jinja_value){.kind = JINJA_STRING, .s = node->list2[i]->name}, v))
            return false;
    if (!node->kid[2])
        return true;
    if (!jinja_eval(rt, node->kid[2], scope, &v))
        return false;
    if (v.kind != JINJA_DICT)
        return jinja_fail(rt, BW_E_ARG, "the argument after ** must be a dict, not a %s", jinja_type_name(v));
    for (size_t i = 0; i < v.dict->n; i++)
        if (!add_keyword(rt, dict, v.dict->entries[i].key, v.dict->entries[i].value))
            return false;
    return true;
}

static bool eval_call(jinja_runtime *rt, const jinja_node *node, jinja_scope *scope, jinja_value *out)
{
    jinja_value callee;
    jinja_args args;
    if (!jinja_eval(rt, node->kid[0], scope, &callee) || !jinja_eval_args(rt, node, scope, &args))
        return false;
    rt->line = node->line;
    return jinja_call(rt, callee, &args, out);
}

static bool eval_filter(jinja_runtime *rt, const jinja_node *node, jinja_scope *scope, jinja_value *out)
{
    jinja_value input = rt->block_input;
    jinja_args args;
    if (node->kid[0] && !jinja_eval(rt, node->kid[0], scope, &input))
        return false;
    if (!jinja_eval_args(rt, node, scope, &args))
        return false;
    rt->line = node->line;
    if (node->kind == JINJA_N_FILTER)
        return jinja_call_filter(rt, node->name, input, &args, out);
    bool holds;
    if (!jinja_call_test(rt, node->name, input, &args, &holds))
        return false;
    *out = jinja_bool(holds);
    return true;
}

static bool eval_node(jinja_runtime *rt, const jinja_node *node, jinja_scope *scope, jinja_value *out)
{
    switch (node->kind) {
    case JINJA_N_LIST:
    case JINJA_N_TUPLE:
        return eval_list(rt, node, scope, out);
    case JINJA_N_DICT:
        return eval_dict(rt, node, scope, out);
    case JINJA_N_COND:
        return eval_cond(rt, node, scope, out);
    case JINJA_N_OR:
    case JINJA_N_AND:
        return eval_logic(rt, node, scope, out);
    case JINJA_N_NOT:
        if (!jinja_eval(rt, node->kid[0], scope, out))
            return false;
        *out = jinja_bool(!jinja_truth(*out));
        return true;
    case JINJA_N_COMPARE:
        return eval_compare(rt, node, scope, out);
    case JINJA_N_BINARY:
        return eval_binary(rt, node, scope, out);
    case JINJA_N_CONCAT:
        return eval_concat(rt, node, scope, out);
    case JINJA_N_NEG:
    case JINJA_N_POS:
        return jinja_eval(rt, node->kid[0], scope, out) && jinja_negate(rt, *out, node->kind == JINJA_N_NEG, out);
    case JINJA_N_GETATTR:
        return jinja_eval(rt, node->kid[0], scope, out) && jinja_getattr(rt, *out, node->name, out);
    case JINJA_N_GETITEM:
        return eval_getitem(rt, node, scope, out);
    case JINJA_N_CALL:
        return eval_call(rt, node, scope, out);
    case JINJA_N_FILTER:
    case JINJA_N_TEST:
        return eval_filter(rt, node, scope, out);
    case JINJA_N_SLICE:
        return jinja_fail(rt, BW_E_UNSUPPORTED, "a slice inside a tuple is not supported");
    default:
        return jinja_fail(rt, BW_E_INTERNAL, "node %d is not an expression", (int)node->kind);
    }
}

bool jinja_eval(jinja_runtime *rt, const jinja_node *node, jinja_scope *scope, jinja_value *out)
{
    rt->line = node->line;
    if (node->kind == JINJA_N_CONST) {
        *out = node->value;
        return true;
    }
    if (!jinja_charge(rt, 1))
        return false;
    if (node->kind == JINJA_N_NAME)
        return eval_name(rt, node->name, scope, out);
    if (!jinja_enter(rt))
        return false;
    bool ok = eval_node(rt, node, scope, out);
    jinja_leave(rt);
    return ok;
}
