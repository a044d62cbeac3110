/* Statements: tokens to the tree of a whole template, and bw_jinja_parse. Refuses extends, include, import and
 * autoescape: a chat template is one file. */
#include "parser.h"

#define NAME JINJA_T_NAME
#define OP JINJA_T_OPERATOR

static jinja_node *parse_body(jinja_parser *p, const char *const *ends);

static bool is_end(const jinja_parser *p, const char *const *ends)
{
    for (; ends && *ends; ends++)
        if (jinja_parse_is(p, NAME, *ends))
            return true;
    return false;
}

/* ":"? "%}" body, up to (not with) one of the end tags' names. */
static jinja_node *parse_statements(jinja_parser *p, const char *const *ends)
{
    jinja_parse_skip(p, OP, ":");
    if (!jinja_parse_expect(p, JINJA_T_BLOCK_END, NULL))
        return NULL;
    jinja_node *body = parse_body(p, ends);
    if (body && p->tok->kind == JINJA_T_EOF)
        return jinja_parse_fail(p, "the template ends inside a block; {%% %s %%} is missing", ends[0]);
    return body;
}

static jinja_node *parse_block_body(jinja_parser *p, const char *end)
{
    const char *const ends[] = {end, NULL};
    jinja_node *body = parse_statements(p, ends);
    if (body)
        jinja_parse_next(p);
    return body;
}

static bool check_target(jinja_parser *p, const jinja_node *target, bool namespaces)
{
    if (target->kind == JINJA_N_NAME) {
        if (p->for_nesting && jinja_same_bytes(target->name, "loop")) {
            jinja_parse_fail(p, "\"loop\" cannot be assigned inside a for loop");
            return false;
        }
        return true;
    }
    if (target->kind == JINJA_N_NSREF && namespaces)
        return true;
    if (target->kind == JINJA_N_TUPLE) {
        for (size_t i = 0; i < target->n_list; i++)
            if (!check_target(p, target->list[i], namespaces))
                return false;
        return true;
    }
    jinja_parse_fail(p, "this cannot be assigned to");
    return false;
}

static jinja_node *parse_target(jinja_parser *p, const char *end, bool namespaces)
{
    /* Names that are written to do not count as read by a macro's body. */
    int n_macros = p->n_macros;
    p->n_macros = 0;
    jinja_node *target =
        jinja_parse_tuple(p, (jinja_tuple_options){.simplified = true, .end = end, .namespaces = namespaces});
    p->n_macros = n_macros;
    return target && check_target(p, target, namespaces) ? target : NULL;
}

/* The interned forms of names that running the node sets. */
static bool set_extra(jinja_parser *p, jinja_node *node, const char *const names[3])
{
    const jinja_string **extra = jinja_parse_alloc(p, 3, sizeof *extra);
    for (int i = 0; extra && i < 3 && names[i]; i++)
        if (!(extra[i] = jinja_parse_intern(p, names[i], strlen(names[i]))))
            return false;
    node->extra = extra;
    return extra != NULL;
}

static jinja_node *parse_for(jinja_parser *p, jinja_node *node)
{
    static const char *const ends[] = {"endfor", "else", NULL};
    static const char *const names[3] = {"loop", NULL, NULL};
    node->kind = JINJA_N_FOR;
    p->for_nesting++;
    if (!set_extra(p, node, names))
        return NULL;
    if (!(node->kid[0] = parse_target(p, "in", false)) || !jinja_parse_expect(p, NAME, "in") ||
        !(node->kid[1] = jinja_parse_tuple(p, (jinja_tuple_options){.no_conditional = true, .end = "recursive"})))
        return NULL;
    if (jinja_parse_skip(p, NAME, "if") && !(node->kid[2] = jinja_parse_expression(p, true)))
        return NULL;
    node->recursive = jinja_parse_skip(p, NAME, "recursive");
    p->loops++;
    node->kid[3] = parse_statements(p, ends);
    p->loops--;
    if (!node->kid[3])
        return NULL;
    if (jinja_parse_skip(p, NAME, "else")) {
        if (!(node->kid[4] = parse_block_body(p, "endfor")))
            return NULL;
    } else {
        jinja_parse_next(p);
    }
    p->for_nesting--;
    return node;
}

static jinja_node *parse_if(jinja_parser *p, jinja_node *node)
{
    static const char *const ends[] = {"elif", "else", "endif", NULL};
    jinja_nodes branches = {0};
    node->kind = JINJA_N_IF;
    while (true) {
        if (!jinja_parse_append(p, &branches, jinja_parse_tuple(p, (jinja_tuple_options){.no_conditional = true})) ||
            !jinja_parse_append(p, &branches, parse_statements(p, ends)))
            return NULL;
        if (jinja_parse_skip(p, NAME, "elif"))
            continue;
        if (jinja_parse_skip(p, NAME, "else")) {
            if (!(node->kid[0] = parse_block_body(p, "endif")))
                return NULL;
        } else {
            jinja_parse_next(p);
        }
        break;
    }
    node->list = branches.items;
    node->n_list = branches.n;
    return node;
}

static jinja_node *parse_set(jinja_parser *p, jinja_node *node)
{
    bool failed;
    node->kind = JINJA_N_SET;
    if (!(node->kid[0] = parse_target(p, NULL, true)))
        return NULL;
    if (jinja_parse_skip(p, OP, "=")) {
        node->kid[1] = jinja_parse_tuple(p, (jinja_tuple_options){0});
        return node->kid[1] ? node : NULL;
    }
    node->kind = JINJA_N_SETBLOCK;
    node->kid[1] = jinja_parse_filters(p, NULL, false, &failed);
    if (failed)
        return NULL;
    node->kid[2] = parse_block_body(p, "endset");
    return node->kid[2] ? node : NULL;
}

static bool parse_signature(jinja_parser *p, jinja_node *node)
{
    jinja_nodes names = {0}, defaults = {0};
    if (!jinja_parse_expect(p, OP, "("))
        return false;
    while (!jinja_parse_is(p, OP, ")")) {
        if (names.n && !jinja_parse_expect(p, OP, ","))
            return false;
        jinja_node *name = jinja_parse_node(p, JINJA_N_NAME);
        if (!name || !(name->name = jinja_parse_expect_name(p)))
            return false;
        for (size_t i = 0; i < names.n; i++)
            if (names.items[i]->name == name->name) {
                jinja_parse_fail(p, "two parameters have the same name");
                return false;
            }
        if (jinja_parse_skip(p, OP, "=")) {
            if (!jinja_parse_append(p, &defaults, jinja_parse_expression(p, true)))
                return false;
        } else if (defaults.n || jinja_same_bytes(name->name, "caller")) {
            jinja_parse_fail(p, "a parameter needs a default value here");
            return false;
        }
        if (!jinja_parse_append(p, &names, name))
            return false;
    }
    jinja_parse_next(p);
    node->list = names.items;
    node->n_list = names.n;
    node->list2 = defaults.items;
    node->n_list2 = defaults.n;
    return true;
}

/* The body of something that becomes a function: no break through it. */
static bool parse_function_body(jinja_parser *p, jinja_node *node, const char *end)
{
    static const char *const names[3] = {"caller", "kwargs", "varargs"};
    int loops = p->loops;
    p->loops = 0;
    if (!set_extra(p, node, names))
        return false;
    if (p->n_macros == JINJA_MAX_NESTING) {
        jinja_parse_fail(p, "macros are nested too deeply");
        return false;
    }
    p->macros[p->n_macros++] = node;
    node->kid[0] = parse_block_body(p, end);
    p->n_macros--;
    p->loops = loops;
    return node->kid[0] != NULL;
}

static jinja_node *parse_macro(jinja_parser *p, jinja_node *node)
{
    node->kind = JINJA_N_MACRO;
    if (!(node->name = jinja_parse_expect_name(p)))
        return NULL;
    if (p->for_nesting && jinja_same_bytes(node->name, "loop"))
        return jinja_parse_fail(p, "\"loop\" cannot be assigned inside a for loop");
    return parse_signature(p, node) && parse_function_body(p, node, "endmacro") ? node : NULL;
}

static jinja_node *parse_callblock(jinja_parser *p, jinja_node *node)
{
    node->kind = JINJA_N_CALLBLOCK;
    if (jinja_parse_is(p, OP, "(") && !parse_signature(p, node))
        return NULL;
    if (!(node->kid[1] = jinja_parse_expression(p, true)))
        return NULL;
    if (node->kid[1]->kind != JINJA_N_CALL)
        return jinja_parse_fail(p, "{%% call %%} needs a call");
    return parse_function_body(p, node, "endcall") ? node : NULL;
}

static jinja_node *parse_filterblock(jinja_parser *p, jinja_node *node)
{
    bool failed;
    node->kind = JINJA_N_FILTERBLOCK;
    node->kid[1] = jinja_parse_filters(p, NULL, true, &failed);
    if (failed || !(node->kid[0] = parse_block_body(p, "endfilter")))
        return NULL;
    return node;
}

static jinja_node *parse_with(jinja_parser *p, jinja_node *node)
{
    jinja_nodes targets = {0}, values = {0};
    node->kind = JINJA_N_WITH;
    while (!jinja_parse_is(p, JINJA_T_BLOCK_END, NULL)) {
        if (targets.n && !jinja_parse_expect(p, OP, ","))
            return NULL;
        if (!jinja_parse_append(p, &targets, parse_target(p, NULL, false)) || !jinja_parse_expect(p, OP, "=") ||
            !jinja_parse_append(p, &values, jinja_parse_expression(p, true)))
            return NULL;
    }
    node->list = targets.items;
    node->n_list = targets.n;
    node->list2 = values.items;
    node->n_list2 = values.n;
    node->kid[0] = parse_block_body(p, "endwith");
    return node->kid[0] ? node : NULL;
}

static jinja_node *parse_print(jinja_parser *p, jinja_node *node)
{
    jinja_nodes items = {0};
    node->kind = JINJA_N_OUTPUT;
    while (!jinja_parse_is(p, JINJA_T_BLOCK_END, NULL)) {
        if (items.n && !jinja_parse_expect(p, OP, ","))
            return NULL;
        if (!jinja_parse_append(p, &items, jinja_parse_expression(p, true)))
            return NULL;
    }
    node->list = items.items;
    node->n_list = items.n;
    return node;
}

static jinja_node *parse_block(jinja_parser *p, jinja_node *node)
{
    node->kind = JINJA_N_BLOCK;
    if (!(node->name = jinja_parse_expect_name(p)))
        return NULL;
    node->recursive = jinja_parse_skip(p, NAME, "scoped");
    if (jinja_parse_is(p, NAME, "required"))
        return jinja_parse_fail(p, "required blocks are not supported: a chat template extends nothing");
    if (!parse_function_body(p, node, "endblock"))
        return NULL;
    if (p->tok->kind == NAME && jinja_parse_intern(p, p->tok->data, p->tok->n_bytes) == node->name)
        jinja_parse_next(p);
    return node;
}

static jinja_node *parse_jump(jinja_parser *p, jinja_node *node, jinja_node_kind kind)
{
    node->kind = kind;
    return p->loops ? node : jinja_parse_fail(p, "break or continue outside a loop");
}

static jinja_node *parse_statement(jinja_parser *p)
{
    jinja_node *node = jinja_parse_node(p, JINJA_N_BODY);
    const jinja_token *t = p->tok;
    if (!node || !jinja_parse_expect(p, NAME, NULL))
        return NULL;
    const jinja_string word = {.data = t->data, .n_bytes = t->n_bytes};
    if (jinja_same_bytes(&word, "for"))
        return parse_for(p, node);
    if (jinja_same_bytes(&word, "if"))
        return parse_if(p, node);
    if (jinja_same_bytes(&word, "set"))
        return parse_set(p, node);
    if (jinja_same_bytes(&word, "macro"))
        return parse_macro(p, node);
    if (jinja_same_bytes(&word, "call"))
        return parse_callblock(p, node);
    if (jinja_same_bytes(&word, "filter"))
        return parse_filterblock(p, node);
    if (jinja_same_bytes(&word, "with"))
        return parse_with(p, node);
    if (jinja_same_bytes(&word, "print"))
        return parse_print(p, node);
    if (jinja_same_bytes(&word, "block"))
        return parse_block(p, node);
    if (jinja_same_bytes(&word, "break"))
        return parse_jump(p, node, JINJA_N_BREAK);
    if (jinja_same_bytes(&word, "continue"))
        return parse_jump(p, node, JINJA_N_CONTINUE);
    if (jinja_same_bytes(&word, "generation")) {
        node->kind = JINJA_N_GENERATION;
        return parse_function_body(p, node, "endgeneration") ? node : NULL;
    }
    return jinja_parse_fail(p, "unknown or misplaced tag '%.*s'", (int)(t->n_bytes < 80 ? t->n_bytes : 80), t->data);
}

static jinja_node *text_node(jinja_parser *p)
{
    jinja_node *node = jinja_parse_node(p, JINJA_N_TEXT);
    jinja_string *s = node ? jinja_parse_alloc(p, 1, sizeof *s) : NULL;
    char *copy = s ? jinja_parse_alloc(p, p->tok->n_bytes + 1, 1) : NULL;
    if (!copy)
        return NULL;
    memcpy(copy, p->tok->data, p->tok->n_bytes);
    *s = (jinja_string){.data = copy, .n_bytes = p->tok->n_bytes};
    node->value = (jinja_value){.kind = JINJA_STRING, .s = s};
    jinja_parse_next(p);
    return node;
}

static jinja_node *output_node(jinja_parser *p)
{
    jinja_node *node = jinja_parse_node(p, JINJA_N_OUTPUT);
    jinja_nodes items = {0};
    jinja_parse_next(p);
    if (!node || !jinja_parse_append(p, &items, jinja_parse_tuple(p, (jinja_tuple_options){0})) ||
        !jinja_parse_expect(p, JINJA_T_VARIABLE_END, NULL))
        return NULL;
    node->list = items.items;
    node->n_list = 1;
    return jinja_parse_done(p, node);
}

static jinja_node *parse_body(jinja_parser *p, const char *const *ends)
{
    jinja_node *body = jinja_parse_enter(p) ? jinja_parse_node(p, JINJA_N_BODY) : NULL;
    jinja_nodes items = {0};
    while (body && p->tok->kind != JINJA_T_EOF) {
        jinja_node *node;
        if (p->tok->kind == JINJA_T_DATA) {
            node = text_node(p);
        } else if (p->tok->kind == JINJA_T_VARIABLE_BEGIN) {
            node = output_node(p);
        } else {
            jinja_parse_next(p);
            if (is_end(p, ends))
                break;
            node = parse_statement(p);
            if (node && (!jinja_parse_done(p, node) || !jinja_parse_expect(p, JINJA_T_BLOCK_END, NULL)))
                node = NULL;
        }
        if (!jinja_parse_append(p, &items, node))
            return NULL;
    }
    if (!body)
        return NULL;
    p->nesting--;
    body->list = items.items;
    body->n_list = items.n;
    return jinja_parse_done(p, body);
}

/* jinja2 knows at once when a filter or test does not exist, except inside if and conditional expressions, where only
 * its use is an error. */
static bool check_names(jinja_parser *p, const jinja_node *node, bool soft)
{
    if (!node)
        return true;
    bool is_filter = node->kind == JINJA_N_FILTER;
    if (!soft && (is_filter || node->kind == JINJA_N_TEST) &&
        !(is_filter ? jinja_find_filter(node->name) : jinja_find_test(node->name))) {
        p->status = bw_fail(p->err, BW_E_FORMAT, "template line %d: there is no %s named '%.100s'", node->line,
                            is_filter ? "filter" : "test", node->name->data);
        return false;
    }
    if (node->kind == JINJA_N_IF || node->kind == JINJA_N_COND)
        soft = true;
    bool inner = soft;
    switch (node->kind) {
    case JINJA_N_FOR: case JINJA_N_SETBLOCK: case JINJA_N_MACRO: case JINJA_N_CALLBLOCK: case JINJA_N_FILTERBLOCK:
    case JINJA_N_GENERATION: case JINJA_N_WITH: case JINJA_N_BLOCK:
        inner = false;
        break;
    default:
        break;
    }
    for (int i = 0; i < 5; i++) {
        bool outside = (node->kind == JINJA_N_FOR && i == 1) || (node->kind == JINJA_N_CALLBLOCK && i == 1);
        if (!check_names(p, node->kid[i], outside ? soft : inner))
            return false;
    }
    for (size_t i = 0; i < node->n_list; i++)
        if (!check_names(p, node->list[i], inner))
            return false;
    for (size_t i = 0; i < node->n_list2; i++)
        if (!check_names(p, node->list2[i], inner))
            return false;
    return true;
}

bw_status jinja_parse_tokens(bw_arena *arena, const jinja_tokens *tokens, const jinja_node **body, bw_err *err)
{
    jinja_parser *p = bw_alloc_zero(1, sizeof *p);
    if (!p)
        return bw_fail_memory(err, sizeof *p, "a template parser");
    p->arena = arena;
    p->tok = tokens->items;
    p->last = tokens->items + tokens->n - 1;
    p->err = err;
    *body = parse_body(p, NULL);
    if (*body)
        check_names(p, *body, false);
    bw_status status = p->status;
    if (status == BW_OK && !*body)
        status = bw_fail(err, BW_E_INTERNAL, "the template parser failed without a reason");
    bw_free(p);
    return status;
}

bw_status bw_jinja_parse(const char *source, size_t n_bytes, bw_jinja **jinja, bw_err *err)
{
    *jinja = NULL;
    if (n_bytes > JINJA_MAX_SOURCE)
        return bw_fail(err, BW_E_RANGE, "a template has %zu bytes; at most %zu are allowed", n_bytes, JINJA_MAX_SOURCE);
    size_t valid = bw_utf8_valid_prefix(source, n_bytes);
    if (valid != n_bytes)
        return bw_fail(err, BW_E_FORMAT, "a template is not UTF-8 at byte %zu", valid);
    bw_jinja *j = bw_alloc_zero(1, sizeof *j);
    char *text = j ? bw_alloc(n_bytes + 1) : NULL;
    if (!text) {
        bw_free(j);
        return bw_fail_memory(err, n_bytes, "a template");
    }
    bw_arena_init(&j->arena, 0);
    size_t n = 0;
    for (size_t i = 0; i < n_bytes; i++) {
        if (source[i] == '\r' && i + 1 < n_bytes && source[i + 1] == '\n')
            continue;
        text[n++] = source[i] == '\r' ? '\n' : source[i];
    }
    if (n && text[n - 1] == '\n')
        n--;
    text[n] = 0;
    jinja_tokens tokens = {0};
    bw_status status = jinja_lex(&j->arena, text, n, &tokens, err);
    if (status == BW_OK)
        status = jinja_parse_tokens(&j->arena, &tokens, &j->body, err);
    bw_free(tokens.items);
    bw_free(text);
    if (status != BW_OK) {
        bw_jinja_free(j);
        return status;
    }
    *jinja = j;
    return BW_OK;
}

void bw_jinja_free(bw_jinja *jinja)
{
    if (jinja) {
        bw_arena_deinit(&jinja->arena);
        bw_free(jinja);
    }
}
