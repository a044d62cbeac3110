/* Statements: running a tree writes text. Scopes as jinja2 has them: if shares the scope around it; for, with, filter
 * blocks, block sets, macros and call blocks have their own, a loop a fresh one for every item. */
#include "jinja.h"

static jinja_flow flow(bool ok)
{
    return ok ? JINJA_GO : JINJA_FAILED;
}

jinja_flow jinja_capture(jinja_runtime *rt, const jinja_node *body, jinja_scope *scope, jinja_value *out)
{
    jinja_text text = {0}, *outer = rt->out;
    rt->out = &text;
    jinja_flow f = jinja_exec(rt, body, scope);
    rt->out = outer;
    if (f != JINJA_GO) {
        jinja_text_deinit(&text);
        return f;
    }
    return flow(jinja_finish_string(rt, &text, out));
}

static bool assign(jinja_runtime *rt, const jinja_node *target, jinja_scope *scope, jinja_value v);

static bool unpack(jinja_runtime *rt, const jinja_node *target, jinja_scope *scope, jinja_value v)
{
    const jinja_list *items;
    if (!jinja_items(rt, v, &items))
        return false;
    if (items->n != target->n_list)
        return jinja_fail(rt, BW_E_ARG, "%zu values cannot be unpacked into %zu names", items->n, target->n_list);
    for (size_t i = 0; i < items->n; i++)
        if (!assign(rt, target->list[i], scope, items->items[i]))
            return false;
    return true;
}

static bool assign_attr(jinja_runtime *rt, const jinja_node *target, jinja_scope *scope, jinja_value v)
{
    const jinja_node name = {.kind = JINJA_N_NAME, .line = target->line, .name = target->name};
    jinja_value ns;
    if (!jinja_eval(rt, &name, scope, &ns))
        return false;
    if (ns.kind != JINJA_NAMESPACE)
        return jinja_fail(rt, BW_E_ARG, "an attribute can only be set on a namespace, not on a %s",
                          jinja_type_name(ns));
    if (target->attr->data[0] == '_')
        return jinja_fail(rt, BW_E_ARG, "an attribute of a namespace must not begin with an underscore");
    return jinja_dict_set(rt, ns.dict, (jinja_value){.kind = JINJA_STRING, .s = target->attr}, v);
}

static bool assign(jinja_runtime *rt, const jinja_node *target, jinja_scope *scope, jinja_value v)
{
    if (target->kind == JINJA_N_NAME)
        return jinja_set(rt, scope, target->name, v);
    if (target->kind == JINJA_N_NSREF)
        return assign_attr(rt, target, scope, v);
    if (!jinja_enter(rt))
        return false;
    bool ok = unpack(rt, target, scope, v);
    jinja_leave(rt);
    return ok;
}

/* The items for which the loop's condition holds. */
static bool filter_items(jinja_runtime *rt, const jinja_node *node, jinja_scope *scope, const jinja_list **items)
{
    jinja_list *kept = jinja_new_list(rt, 0);
    for (size_t i = 0; kept && i < (*items)->n; i++) {
        jinja_scope *inner = jinja_new_scope(rt, scope);
        jinja_value holds;
        if (!inner || !assign(rt, node->kid[0], inner, (*items)->items[i]) ||
            !jinja_eval(rt, node->kid[2], inner, &holds))
            return false;
        if (jinja_truth(holds) && !jinja_push(rt, kept, (*items)->items[i]))
            return false;
    }
    *items = kept;
    return kept != NULL;
}

static jinja_flow run_loop(jinja_runtime *rt, const jinja_node *node, jinja_scope *scope, jinja_value over,
                           int64_t depth0)
{
    const jinja_list *items;
    if (!jinja_items(rt, over, &items) || (node->kid[2] && !filter_items(rt, node, scope, &items)))
        return JINJA_FAILED;
    jinja_loop *loop = jinja_alloc(rt, 1, sizeof *loop);
    if (!loop)
        return JINJA_FAILED;
    *loop = (jinja_loop){.node = node, .scope = scope, .items = items, .depth0 = depth0};
    jinja_flow f = JINJA_GO;
    for (size_t i = 0; i < items->n && f != JINJA_BREAK; i++) {
        jinja_scope *inner = jinja_new_scope(rt, scope);
        loop->index0 = (int64_t)i;
        rt->line = node->line;
        if (!inner || !jinja_set(rt, inner, node->extra[0], (jinja_value){.kind = JINJA_LOOP, .loop = loop}) ||
            !assign(rt, node->kid[0], inner, items->items[i]))
            return JINJA_FAILED;
        f = jinja_exec(rt, node->kid[3], inner);
        if (f == JINJA_FAILED)
            return f;
    }
    if (items->n || !node->kid[4])
        return JINJA_GO;
    jinja_scope *inner = jinja_new_scope(rt, scope);
    return inner ? jinja_exec(rt, node->kid[4], inner) : JINJA_FAILED;
}

bool jinja_call_loop(jinja_runtime *rt, const jinja_loop *loop, jinja_value items, jinja_value *out)
{
    if (!loop->node->recursive)
        return jinja_fail(rt, BW_E_ARG, "a loop must be marked \"recursive\" to be called");
    if (!jinja_enter(rt))
        return false;
    jinja_text text = {0}, *outer = rt->out;
    rt->out = &text;
    jinja_flow f = run_loop(rt, loop->node, loop->scope, items, loop->depth0 + 1);
    rt->out = outer;
    jinja_leave(rt);
    if (f != JINJA_GO) {
        jinja_text_deinit(&text);
        return f == JINJA_FAILED ? false : jinja_fail(rt, BW_E_ARG, "break or continue left a recursive loop");
    }
    return jinja_finish_string(rt, &text, out);
}

static jinja_flow exec_for(jinja_runtime *rt, const jinja_node *node, jinja_scope *scope)
{
    jinja_value over;
    if (!jinja_eval(rt, node->kid[1], scope, &over))
        return JINJA_FAILED;
    return run_loop(rt, node, scope, over, 0);
}

static jinja_flow exec_if(jinja_runtime *rt, const jinja_node *node, jinja_scope *scope)
{
    for (size_t i = 0; i + 1 < node->n_list; i += 2) {
        jinja_value test;
        if (!jinja_eval(rt, node->list[i], scope, &test))
            return JINJA_FAILED;
        if (jinja_truth(test))
            return jinja_exec(rt, node->list[i + 1], scope);
    }
    return node->kid[0] ? jinja_exec(rt, node->kid[0], scope) : JINJA_GO;
}

/* Body in a scope of its own, its text through the filters (NULL = none). */
static jinja_flow filtered(jinja_runtime *rt, const jinja_node *body, const jinja_node *filter, jinja_scope *scope,
                           jinja_value *out)
{
    jinja_scope *inner = jinja_new_scope(rt, scope);
    jinja_flow f = inner ? jinja_capture(rt, body, inner, out) : JINJA_FAILED;
    if (f != JINJA_GO || !filter)
        return f;
    jinja_value outer = rt->block_input;
    rt->block_input = *out;
    bool ok = jinja_eval(rt, filter, inner, out);
    rt->block_input = outer;
    return flow(ok);
}

static bool emit_value(jinja_runtime *rt, jinja_value v)
{
    if (v.kind == JINJA_STRING)
        return jinja_emit(rt, v.s);
    jinja_value s;
    return jinja_str(rt, v, &s) && jinja_emit(rt, s.s);
}

static jinja_flow exec_output(jinja_runtime *rt, const jinja_node *node, jinja_scope *scope)
{
    for (size_t i = 0; i < node->n_list; i++) {
        jinja_value v;
        if (!jinja_eval(rt, node->list[i], scope, &v) || !emit_value(rt, v))
            return JINJA_FAILED;
    }
    return JINJA_GO;
}

static jinja_flow exec_with(jinja_runtime *rt, const jinja_node *node, jinja_scope *scope)
{
    jinja_scope *inner = jinja_new_scope(rt, scope);
    if (!inner)
        return JINJA_FAILED;
    for (size_t i = 0; i < node->n_list; i++) {
        jinja_value v;
        if (!jinja_eval(rt, node->list2[i], scope, &v) || !assign(rt, node->list[i], inner, v))
            return JINJA_FAILED;
    }
    return jinja_exec(rt, node->kid[0], inner);
}

static bool new_macro(jinja_runtime *rt, const jinja_node *node, jinja_scope *scope, jinja_value *out)
{
    jinja_macro *macro = jinja_alloc(rt, 1, sizeof *macro);
    if (!macro)
        return false;
    *macro = (jinja_macro){.node = node, .scope = scope};
    *out = (jinja_value){.kind = JINJA_MACRO, .macro = macro};
    return true;
}

static jinja_flow exec_callblock(jinja_runtime *rt, const jinja_node *node, jinja_scope *scope)
{
    const jinja_node *call = node->kid[1];
    jinja_value callee, caller, text;
    jinja_args args;
    static const jinja_string name = {.data = "caller", .n_bytes = 6, .n_chars = 6};
    if (!jinja_eval(rt, call->kid[0], scope, &callee) || !jinja_eval_args(rt, call, scope, &args) ||
        !new_macro(rt, node, scope, &caller))
        return JINJA_FAILED;
    jinja_dict *keywords = jinja_new_dict(rt);
    for (size_t i = 0; keywords && args.keywords && i < args.keywords->n; i++)
        if (!jinja_dict_set(rt, keywords, args.keywords->entries[i].key, args.keywords->entries[i].value))
            return JINJA_FAILED;
    if (!keywords || !jinja_dict_set(rt, keywords, (jinja_value){.kind = JINJA_STRING, .s = &name}, caller))
        return JINJA_FAILED;
    args.keywords = keywords;
    rt->line = node->line;
    return flow(jinja_call(rt, callee, &args, &text) && emit_value(rt, text));
}

/* One parameter of a macro: given by position, by name, or by default. */
static bool bind_parameter(jinja_runtime *rt, const jinja_node *node, size_t i, const jinja_args *args,
                           jinja_scope *scope, size_t *n_used)
{
    const jinja_string *name = node->list[i]->name;
    jinja_value v;
    if (i < args->n) {
        v = args->items[i];
    } else {
        const jinja_value *given = args->keywords ? jinja_dict_get(args->keywords, name->data, name->n_bytes) : NULL;
        size_t n_plain = node->n_list - node->n_list2;
        if (given) {
            v = *given;
            ++*n_used;
        } else if (i >= n_plain) {
            if (!jinja_eval(rt, node->list2[i - n_plain], scope, &v))
                return false;
        } else if (!jinja_undefined_hint(rt, "a parameter of a macro was not given", &v)) {
            return false;
        }
    }
    return jinja_set(rt, scope, name, v);
}

/* What the body may read besides its parameters: caller, kwargs, varargs. */
static bool bind_extras(jinja_runtime *rt, const jinja_node *node, const jinja_args *args, jinja_scope *scope,
                        size_t n_used)
{
    const jinja_value *given = args->keywords ? jinja_dict_get(args->keywords, "caller", 6) : NULL;
    bool own_caller = false;
    for (size_t i = 0; i < node->n_list; i++)
        own_caller |= jinja_same_bytes(node->list[i]->name, "caller");
    if (node->uses_caller && !own_caller) {
        jinja_value caller;
        if (given)
            caller = *given;
        else if (!jinja_undefined_hint(rt, "No caller defined", &caller))
            return false;
        n_used += given != NULL;
        if (!jinja_set(rt, scope, node->extra[0], caller))
            return false;
    }
    size_t n_given = args->keywords ? args->keywords->n : 0;
    if (!node->uses_kwargs && n_given > n_used)
        return jinja_fail(rt, BW_E_ARG, "a macro was given a keyword argument that it does not have");
    if (!node->uses_varargs && args->n > node->n_list)
        return jinja_fail(rt, BW_E_ARG, "a macro takes %zu arguments, not %zu", node->n_list, args->n);
    if (node->uses_kwargs) {
        jinja_dict *rest = jinja_new_dict(rt);
        for (size_t i = 0; rest && i < n_given; i++) {
            const jinja_entry *e = &args->keywords->entries[i];
            bool taken = node->uses_caller && !own_caller && jinja_same_bytes(e->key.s, "caller");
            for (size_t k = args->n; k < node->n_list; k++)
                taken |= e->key.s->n_bytes == node->list[k]->name->n_bytes &&
                         memcmp(e->key.s->data, node->list[k]->name->data, e->key.s->n_bytes) == 0;
            if (!taken && !jinja_dict_set(rt, rest, e->key, e->value))
                return false;
        }
        if (!rest || !jinja_set(rt, scope, node->extra[1], (jinja_value){.kind = JINJA_DICT, .dict = rest}))
            return false;
    }
    if (node->uses_varargs) {
        jinja_list *rest = jinja_new_list(rt, 0);
        for (size_t i = node->n_list; rest && i < args->n; i++)
            if (!jinja_push(rt, rest, args->items[i]))
                return false;
        return rest && jinja_set(rt, scope, node->extra[2], jinja_list_value(JINJA_TUPLE, rest));
    }
    return true;
}

bool jinja_call_macro(jinja_runtime *rt, const jinja_macro *macro, const jinja_args *args, jinja_value *out)
{
    const jinja_node *node = macro->node;
    jinja_scope *scope = jinja_new_scope(rt, macro->scope);
    size_t n_used = 0;
    if (!scope || !jinja_enter(rt))
        return false;
    for (size_t i = 0; i < node->n_list; i++)
        if (!bind_parameter(rt, node, i, args, scope, &n_used))
            return false;
    if (!bind_extras(rt, node, args, scope, n_used))
        return false;
    jinja_flow f = jinja_capture(rt, node->kid[0], scope, out);
    jinja_leave(rt);
    if (f == JINJA_GO)
        return true;
    return f == JINJA_FAILED ? false : jinja_fail(rt, BW_E_INTERNAL, "break or continue left a macro");
}

static jinja_flow exec_scoped(jinja_runtime *rt, const jinja_node *body, jinja_scope *parent)
{
    jinja_scope *inner = jinja_new_scope(rt, parent);
    return inner ? jinja_exec(rt, body, inner) : JINJA_FAILED;
}

static jinja_flow exec_node(jinja_runtime *rt, const jinja_node *node, jinja_scope *scope)
{
    jinja_value v;
    jinja_flow f;
    switch (node->kind) {
    case JINJA_N_TEXT:
        return flow(jinja_emit(rt, node->value.s));
    case JINJA_N_OUTPUT:
        return exec_output(rt, node, scope);
    case JINJA_N_FOR:
        return exec_for(rt, node, scope);
    case JINJA_N_IF:
        return exec_if(rt, node, scope);
    case JINJA_N_SET:
        return flow(jinja_eval(rt, node->kid[1], scope, &v) && assign(rt, node->kid[0], scope, v));
    case JINJA_N_SETBLOCK:
        f = filtered(rt, node->kid[2], node->kid[1], scope, &v);
        return f == JINJA_GO ? flow(assign(rt, node->kid[0], scope, v)) : f;
    case JINJA_N_MACRO:
        return flow(new_macro(rt, node, scope, &v) && jinja_set(rt, scope, node->name, v));
    case JINJA_N_CALLBLOCK:
        return exec_callblock(rt, node, scope);
    case JINJA_N_FILTERBLOCK:
        f = filtered(rt, node->kid[0], node->kid[1], scope, &v);
        return f == JINJA_GO ? flow(emit_value(rt, v)) : f;
    case JINJA_N_GENERATION:
        return exec_scoped(rt, node->kid[0], scope);
    case JINJA_N_BLOCK:
        return exec_scoped(rt, node->kid[0], node->recursive ? scope : rt->root);
    case JINJA_N_WITH:
        return exec_with(rt, node, scope);
    case JINJA_N_BREAK:
        return JINJA_BREAK;
    case JINJA_N_CONTINUE:
        return JINJA_CONTINUE;
    default:
        jinja_fail(rt, BW_E_INTERNAL, "node %d is not a statement", (int)node->kind);
        return JINJA_FAILED;
    }
}

jinja_flow jinja_exec(jinja_runtime *rt, const jinja_node *node, jinja_scope *scope)
{
    if (!jinja_enter(rt))
        return JINJA_FAILED;
    jinja_flow f = JINJA_GO;
    for (size_t i = 0; f == JINJA_GO && i < node->n_list; i++) {
        rt->line = node->list[i]->line;
        f = jinja_charge(rt, 1) ? exec_node(rt, node->list[i], scope) : JINJA_FAILED;
    }
    jinja_leave(rt);
    return f;
}
