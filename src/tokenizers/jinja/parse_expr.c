/* Expressions: tokens to trees, with jinja2's precedence. Owns the helpers of the whole parser. */
#include <stdarg.h>
#include <stdio.h>

#include "parser.h"

#define OP JINJA_T_OPERATOR
#define NAME JINJA_T_NAME

void *jinja_parse_fail(jinja_parser *p, const char *format, ...)
{
    if (p->status == BW_OK) {
        char text[400];
        va_list args;
        va_start(args, format);
        vsnprintf(text, sizeof text, format, args);
        va_end(args);
        p->status = bw_fail(p->err, BW_E_FORMAT, "template line %d: %s", p->tok->line, text);
    }
    return NULL;
}

bool jinja_parse_enter(jinja_parser *p)
{
    if (p->nesting == JINJA_MAX_NESTING) {
        jinja_parse_fail(p, "more than %d levels of nesting", JINJA_MAX_NESTING);
        return false;
    }
    p->nesting++;
    return true;
}

void *jinja_parse_alloc(jinja_parser *p, size_t n, size_t size)
{
    void *memory = bw_arena_alloc_zero(p->arena, n, size);
    if (!memory && p->status == BW_OK)
        p->status = bw_fail_memory(p->err, n * size, "a template's syntax tree");
    return memory;
}

jinja_node *jinja_parse_node(jinja_parser *p, jinja_node_kind kind)
{
    jinja_node *node = jinja_parse_alloc(p, 1, sizeof *node);
    if (node) {
        node->kind = kind;
        node->line = p->tok->line;
        node->depth = 1;
    }
    return node;
}

jinja_node *jinja_parse_done(jinja_parser *p, jinja_node *node)
{
    int depth = 0;
    for (int i = 0; i < 5; i++)
        if (node->kid[i] && node->kid[i]->depth > depth)
            depth = node->kid[i]->depth;
    for (size_t i = 0; i < node->n_list; i++)
        if (node->list[i]->depth > depth)
            depth = node->list[i]->depth;
    for (size_t i = 0; i < node->n_list2; i++)
        if (node->list2[i]->depth > depth)
            depth = node->list2[i]->depth;
    node->depth = depth + 1;
    if (node->depth > JINJA_MAX_TREE)
        return jinja_parse_fail(p, "an expression or statement is more than %d levels deep", JINJA_MAX_TREE);
    return node;
}

const jinja_string *jinja_parse_intern(jinja_parser *p, const char *data, size_t n_bytes)
{
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < n_bytes; i++)
        hash = (hash ^ (unsigned char)data[i]) * 16777619u;
    jinja_name **bucket = &p->names[hash % JINJA_N_BUCKETS];
    for (jinja_name *n = *bucket; n; n = n->next)
        if (n->string.n_bytes == n_bytes && memcmp(n->string.data, data, n_bytes) == 0)
            return &n->string;
    jinja_name *name = jinja_parse_alloc(p, 1, sizeof *name);
    char *copy = name ? jinja_parse_alloc(p, n_bytes + 1, 1) : NULL;
    if (!copy)
        return NULL;
    memcpy(copy, data, n_bytes);
    name->string = (jinja_string){.data = copy, .n_bytes = n_bytes, .n_chars = jinja_count_chars(data, n_bytes)};
    name->next = *bucket;
    *bucket = name;
    return &name->string;
}

bool jinja_parse_append(jinja_parser *p, jinja_nodes *list, jinja_node *node)
{
    if (!node)
        return false;
    if (list->n == list->capacity) {
        size_t capacity = list->capacity ? list->capacity * 2 : 4;
        jinja_node **items = jinja_parse_alloc(p, capacity, sizeof *items);
        if (!items)
            return false;
        if (list->n)
            memcpy(items, list->items, list->n * sizeof *items);
        list->items = items;
        list->capacity = capacity;
    }
    list->items[list->n++] = node;
    return true;
}

void jinja_parse_next(jinja_parser *p)
{
    if (p->tok < p->last)
        p->tok++;
}

static bool token_is(const jinja_token *t, jinja_token_kind kind, const char *text)
{
    if (t->kind != kind)
        return false;
    if (!text)
        return true;
    if (kind == OP)
        return strcmp(t->op, text) == 0;
    return strlen(text) == t->n_bytes && memcmp(t->data, text, t->n_bytes) == 0;
}

bool jinja_parse_is(const jinja_parser *p, jinja_token_kind kind, const char *text)
{
    return token_is(p->tok, kind, text);
}

bool jinja_parse_skip(jinja_parser *p, jinja_token_kind kind, const char *text)
{
    if (!jinja_parse_is(p, kind, text))
        return false;
    jinja_parse_next(p);
    return true;
}

static void describe(const jinja_token *t, char *out, size_t size)
{
    switch (t->kind) {
    case JINJA_T_EOF:
        snprintf(out, size, "the end of the template");
        break;
    case JINJA_T_NAME:
        snprintf(out, size, "'%.*s'", (int)(t->n_bytes < 80 ? t->n_bytes : 80), t->data);
        break;
    case JINJA_T_OPERATOR:
        snprintf(out, size, "'%s'", t->op);
        break;
    case JINJA_T_STRING:
        snprintf(out, size, "a string");
        break;
    case JINJA_T_INTEGER:
    case JINJA_T_FLOAT:
        snprintf(out, size, "a number");
        break;
    case JINJA_T_BLOCK_END:
        snprintf(out, size, "'%%}'");
        break;
    case JINJA_T_VARIABLE_END:
        snprintf(out, size, "'}}'");
        break;
    default:
        snprintf(out, size, "text");
    }
}

bool jinja_parse_expect(jinja_parser *p, jinja_token_kind kind, const char *text)
{
    if (jinja_parse_skip(p, kind, text))
        return true;
    char got[100];
    describe(p->tok, got, sizeof got);
    const char *want = text ? text : kind == JINJA_T_BLOCK_END ? "%}" : kind == JINJA_T_VARIABLE_END ? "}}" : "a name";
    jinja_parse_fail(p, "expected %s, found %s", want, got);
    return false;
}

const jinja_string *jinja_parse_expect_name(jinja_parser *p)
{
    const jinja_token *t = p->tok;
    if (!jinja_parse_expect(p, NAME, NULL))
        return NULL;
    return jinja_parse_intern(p, t->data, t->n_bytes);
}

static jinja_node *binary(jinja_parser *p, jinja_node_kind kind, jinja_op op, jinja_node *a, jinja_node *b)
{
    jinja_node *node = a && b ? jinja_parse_node(p, kind) : NULL;
    if (!node)
        return NULL;
    node->line = a->line;
    node->op = op;
    node->kid[0] = a;
    node->kid[1] = b;
    return jinja_parse_done(p, node);
}

static jinja_node *constant(jinja_parser *p, jinja_value value)
{
    jinja_node *node = jinja_parse_node(p, JINJA_N_CONST);
    if (node)
        node->value = value;
    return node;
}

static jinja_node *parse_string(jinja_parser *p)
{
    size_t total = 0;
    const jinja_token *first = p->tok;
    while (jinja_parse_is(p, JINJA_T_STRING, NULL)) {
        total += p->tok->n_bytes;
        jinja_parse_next(p);
    }
    char *data = jinja_parse_alloc(p, total + 1, 1);
    jinja_string *s = data ? jinja_parse_alloc(p, 1, sizeof *s) : NULL;
    if (!s)
        return NULL;
    size_t n = 0;
    for (const jinja_token *t = first; t < p->tok; t++) {
        memcpy(data + n, t->data, t->n_bytes);
        n += t->n_bytes;
    }
    *s = (jinja_string){.data = data, .n_bytes = n, .n_chars = jinja_count_chars(data, n)};
    return constant(p, (jinja_value){.kind = JINJA_STRING, .s = s});
}

static jinja_node *parse_list(jinja_parser *p, bool is_dict)
{
    const char *end = is_dict ? "}" : "]";
    jinja_node *node = jinja_parse_node(p, is_dict ? JINJA_N_DICT : JINJA_N_LIST);
    jinja_nodes items = {0};
    if (!node)
        return NULL;
    jinja_parse_next(p);
    while (!jinja_parse_is(p, OP, end)) {
        if (items.n && !jinja_parse_expect(p, OP, ","))
            return NULL;
        if (jinja_parse_is(p, OP, end))
            break;
        if (!jinja_parse_append(p, &items, jinja_parse_expression(p, true)))
            return NULL;
        if (is_dict && (!jinja_parse_expect(p, OP, ":") ||
                        !jinja_parse_append(p, &items, jinja_parse_expression(p, true))))
            return NULL;
    }
    jinja_parse_next(p);
    node->list = items.items;
    node->n_list = items.n;
    return jinja_parse_done(p, node);
}

static jinja_node *parse_name(jinja_parser *p, bool namespaces)
{
    static const char *const words[] = {"true", "True", "false", "False", "none", "None"};
    for (size_t i = 0; i < 6; i++)
        if (jinja_parse_skip(p, NAME, words[i]))
            return constant(p, i < 4 ? jinja_bool(i < 2) : jinja_none());
    jinja_node *node = jinja_parse_node(p, JINJA_N_NAME);
    const jinja_string *name = node ? jinja_parse_expect_name(p) : NULL;
    if (!name)
        return NULL;
    node->name = name;
    if (namespaces && jinja_parse_skip(p, OP, ".")) {
        node->kind = JINJA_N_NSREF;
        node->attr = jinja_parse_expect_name(p);
        return node->attr ? node : NULL;
    }
    for (int i = 0; i < p->n_macros; i++) {
        p->macros[i]->uses_caller |= jinja_same_bytes(name, "caller");
        p->macros[i]->uses_kwargs |= jinja_same_bytes(name, "kwargs");
        p->macros[i]->uses_varargs |= jinja_same_bytes(name, "varargs");
    }
    return node;
}

jinja_node *jinja_parse_primary(jinja_parser *p, bool namespaces)
{
    const jinja_token *t = p->tok;
    if (!jinja_parse_enter(p))
        return NULL;
    jinja_node *node = NULL;
    if (t->kind == NAME) {
        node = parse_name(p, namespaces);
    } else if (t->kind == JINJA_T_STRING) {
        node = parse_string(p);
    } else if (t->kind == JINJA_T_INTEGER || t->kind == JINJA_T_FLOAT) {
        jinja_parse_next(p);
        node = constant(p, t->kind == JINJA_T_INTEGER ? jinja_int(t->i) : jinja_float(t->f));
    } else if (jinja_parse_skip(p, OP, "(")) {
        node = jinja_parse_tuple(p, (jinja_tuple_options){.parentheses = true});
        if (node && !jinja_parse_expect(p, OP, ")"))
            node = NULL;
    } else if (token_is(t, OP, "[") || token_is(t, OP, "{")) {
        node = parse_list(p, t->op[0] == '{');
    } else {
        char got[100];
        describe(t, got, sizeof got);
        jinja_parse_fail(p, "unexpected %s", got);
    }
    p->nesting--;
    return node;
}

jinja_node *jinja_parse_tuple(jinja_parser *p, jinja_tuple_options o)
{
    jinja_nodes items = {0};
    bool is_tuple = false;
    while (true) {
        if (items.n && !jinja_parse_expect(p, OP, ","))
            return NULL;
        if (jinja_parse_is(p, JINJA_T_VARIABLE_END, NULL) || jinja_parse_is(p, JINJA_T_BLOCK_END, NULL) ||
            jinja_parse_is(p, OP, ")") || (o.end && jinja_parse_is(p, NAME, o.end)))
            break;
        jinja_node *item =
            o.simplified ? jinja_parse_primary(p, o.namespaces) : jinja_parse_expression(p, !o.no_conditional);
        if (!jinja_parse_append(p, &items, item))
            return NULL;
        if (!jinja_parse_is(p, OP, ","))
            break;
        is_tuple = true;
    }
    if (!is_tuple && items.n)
        return items.items[0];
    if (!is_tuple && !o.parentheses)
        return jinja_parse_fail(p, "an expression is missing");
    jinja_node *node = jinja_parse_node(p, JINJA_N_TUPLE);
    if (!node)
        return NULL;
    node->list = items.items;
    node->n_list = items.n;
    return jinja_parse_done(p, node);
}

/* "(" arguments ")" into node's list, list2, kid[1] and kid[2]. */
static bool parse_args(jinja_parser *p, jinja_node *node)
{
    jinja_nodes args = {0}, keywords = {0};
    bool comma = false, ok = jinja_parse_expect(p, OP, "(");
    while (ok && !jinja_parse_is(p, OP, ")")) {
        if (comma && !jinja_parse_expect(p, OP, ","))
            return false;
        if (comma && jinja_parse_is(p, OP, ")"))
            break;
        comma = true;
        if (jinja_parse_is(p, OP, "*")) {
            ok = !node->kid[1] && !node->kid[2];
            jinja_parse_next(p);
            if (ok && !(node->kid[1] = jinja_parse_expression(p, true)))
                return false;
        } else if (jinja_parse_is(p, OP, "**")) {
            ok = !node->kid[2];
            jinja_parse_next(p);
            if (ok && !(node->kid[2] = jinja_parse_expression(p, true)))
                return false;
        } else if (p->tok->kind == NAME && token_is(p->tok + 1, OP, "=")) {
            ok = !node->kid[2];
            jinja_node *keyword = jinja_parse_node(p, JINJA_N_KEYWORD);
            if (!keyword || !(keyword->name = jinja_parse_expect_name(p)))
                return false;
            jinja_parse_next(p);
            if (!(keyword->kid[0] = jinja_parse_expression(p, true)) || !jinja_parse_done(p, keyword))
                return false;
            for (size_t i = 0; i < keywords.n; i++)
                ok = ok && keywords.items[i]->name != keyword->name;
            if (!jinja_parse_append(p, &keywords, keyword))
                return false;
        } else {
            ok = !node->kid[1] && !node->kid[2] && !keywords.n;
            if (!jinja_parse_append(p, &args, jinja_parse_expression(p, true)))
                return false;
        }
    }
    if (!ok) {
        jinja_parse_fail(p, "the arguments of a call are out of order or repeated");
        return false;
    }
    jinja_parse_next(p);
    node->list = args.items;
    node->n_list = args.n;
    node->list2 = keywords.items;
    node->n_list2 = keywords.n;
    return true;
}

static jinja_node *parse_call(jinja_parser *p, jinja_node *callee)
{
    jinja_node *node = jinja_parse_node(p, JINJA_N_CALL);
    if (!node)
        return NULL;
    node->kid[0] = callee;
    return parse_args(p, node) ? jinja_parse_done(p, node) : NULL;
}

/* A dotted name, as filters and tests may have. */
static const jinja_string *dotted_name(jinja_parser *p)
{
    const jinja_string *name = jinja_parse_expect_name(p);
    if (name && jinja_parse_is(p, OP, ".") && p->tok[1].kind == NAME)
        return jinja_parse_fail(p, "there is no filter or test with a dot in its name");
    return name;
}

jinja_node *jinja_parse_filters(jinja_parser *p, jinja_node *input, bool start_inline, bool *failed)
{
    *failed = true;
    while (start_inline || jinja_parse_skip(p, OP, "|")) {
        start_inline = false;
        jinja_node *node = jinja_parse_node(p, JINJA_N_FILTER);
        if (!node || !(node->name = dotted_name(p)))
            return NULL;
        node->kid[0] = input;
        if (jinja_parse_is(p, OP, "(") && !parse_args(p, node))
            return NULL;
        if (!jinja_parse_done(p, node))
            return NULL;
        input = node;
    }
    *failed = false;
    return input;
}

static jinja_node *parse_postfix(jinja_parser *p, jinja_node *node);

static jinja_node *parse_test(jinja_parser *p, jinja_node *input)
{
    jinja_parse_next(p);
    bool negated = jinja_parse_skip(p, NAME, "not");
    jinja_node *node = jinja_parse_node(p, JINJA_N_TEST);
    if (!node || !(node->name = dotted_name(p)))
        return NULL;
    node->kid[0] = input;
    jinja_token_kind k = p->tok->kind;
    if (jinja_parse_is(p, OP, "(")) {
        if (!parse_args(p, node))
            return NULL;
    } else if ((k == NAME || k == JINJA_T_STRING || k == JINJA_T_INTEGER || k == JINJA_T_FLOAT ||
                jinja_parse_is(p, OP, "[") || jinja_parse_is(p, OP, "{")) &&
               !jinja_parse_is(p, NAME, "else") && !jinja_parse_is(p, NAME, "or") && !jinja_parse_is(p, NAME, "and")) {
        if (jinja_parse_is(p, NAME, "is"))
            return jinja_parse_fail(p, "tests cannot be chained with \"is\"");
        jinja_nodes args = {0};
        jinja_node *arg = jinja_parse_primary(p, false);
        if (!arg || !jinja_parse_append(p, &args, parse_postfix(p, arg)))
            return NULL;
        node->list = args.items;
        node->n_list = 1;
    }
    if (!jinja_parse_done(p, node) || !negated)
        return p->status == BW_OK ? node : NULL;
    jinja_node *no = jinja_parse_node(p, JINJA_N_NOT);
    if (!no)
        return NULL;
    no->kid[0] = node;
    return jinja_parse_done(p, no);
}

static jinja_node *parse_subscribed(jinja_parser *p)
{
    jinja_node *limits[3] = {0};
    if (!jinja_parse_is(p, OP, ":")) {
        limits[0] = jinja_parse_expression(p, true);
        if (!limits[0] || !jinja_parse_is(p, OP, ":"))
            return limits[0];
    }
    for (int i = 1; i < 3 && jinja_parse_skip(p, OP, ":"); i++)
        if (!jinja_parse_is(p, OP, ":") && !jinja_parse_is(p, OP, "]") && !jinja_parse_is(p, OP, ",") &&
            !(limits[i] = jinja_parse_expression(p, true)))
            return NULL;
    jinja_node *node = jinja_parse_node(p, JINJA_N_SLICE);
    if (!node)
        return NULL;
    memcpy(node->kid, limits, sizeof limits);
    return jinja_parse_done(p, node);
}

static jinja_node *parse_subscript(jinja_parser *p, jinja_node *object)
{
    jinja_node *node = jinja_parse_node(p, JINJA_N_GETITEM);
    if (!node)
        return NULL;
    node->kid[0] = object;
    if (jinja_parse_skip(p, OP, ".")) {
        const jinja_token *t = p->tok;
        if (t->kind == NAME) {
            node->kind = JINJA_N_GETATTR;
            node->name = jinja_parse_expect_name(p);
            return node->name ? jinja_parse_done(p, node) : NULL;
        }
        if (t->kind != JINJA_T_INTEGER)
            return jinja_parse_fail(p, "a name or number must follow the dot");
        jinja_parse_next(p);
        node->kid[1] = constant(p, jinja_int(t->i));
        return node->kid[1] ? jinja_parse_done(p, node) : NULL;
    }
    jinja_parse_next(p);
    jinja_nodes items = {0};
    while (!jinja_parse_is(p, OP, "]")) {
        if (items.n && !jinja_parse_expect(p, OP, ","))
            return NULL;
        if (!jinja_parse_append(p, &items, parse_subscribed(p)))
            return NULL;
    }
    jinja_parse_next(p);
    if (items.n == 1) {
        node->kid[1] = items.items[0];
        return jinja_parse_done(p, node);
    }
    jinja_node *tuple = jinja_parse_node(p, JINJA_N_TUPLE);
    if (!tuple)
        return NULL;
    tuple->list = items.items;
    tuple->n_list = items.n;
    node->kid[1] = jinja_parse_done(p, tuple);
    return node->kid[1] ? jinja_parse_done(p, node) : NULL;
}

static jinja_node *parse_postfix(jinja_parser *p, jinja_node *node)
{
    while (node) {
        if (jinja_parse_is(p, OP, ".") || jinja_parse_is(p, OP, "["))
            node = parse_subscript(p, node);
        else if (jinja_parse_is(p, OP, "("))
            node = parse_call(p, node);
        else
            break;
    }
    return node;
}

static jinja_node *parse_unary(jinja_parser *p, bool with_filter)
{
    jinja_node *node;
    if (jinja_parse_is(p, OP, "-") || jinja_parse_is(p, OP, "+")) {
        node = jinja_parse_enter(p) ? jinja_parse_node(p, p->tok->op[0] == '-' ? JINJA_N_NEG : JINJA_N_POS) : NULL;
        if (!node)
            return NULL;
        jinja_parse_next(p);
        node->kid[0] = parse_unary(p, false);
        p->nesting--;
        if (!node->kid[0] || !jinja_parse_done(p, node))
            return NULL;
    } else {
        node = jinja_parse_primary(p, false);
    }
    node = parse_postfix(p, node);
    while (node && with_filter) {
        bool failed;
        if (jinja_parse_is(p, OP, "|"))
            node = jinja_parse_filters(p, node, false, &failed);
        else if (jinja_parse_is(p, NAME, "is"))
            node = parse_test(p, node);
        else if (jinja_parse_is(p, OP, "("))
            node = parse_call(p, node);
        else
            break;
    }
    return node;
}

static jinja_node *parse_pow(jinja_parser *p)
{
    jinja_node *left = parse_unary(p, true);
    while (left && jinja_parse_skip(p, OP, "**"))
        left = binary(p, JINJA_N_BINARY, JINJA_POW, left, parse_unary(p, true));
    return left;
}

static jinja_node *parse_math2(jinja_parser *p)
{
    static const struct {
        const char *text;
        jinja_op op;
    } ops[] = {{"*", JINJA_MUL}, {"/", JINJA_DIV}, {"//", JINJA_FLOORDIV}, {"%", JINJA_MOD}};
    jinja_node *left = parse_pow(p);
    for (size_t i = 0; left && i < 4; i++)
        if (jinja_parse_skip(p, OP, ops[i].text)) {
            left = binary(p, JINJA_N_BINARY, ops[i].op, left, parse_pow(p));
            i = (size_t)-1;
        }
    return left;
}

static jinja_node *parse_concat(jinja_parser *p)
{
    jinja_node *first = parse_math2(p);
    if (!first || !jinja_parse_is(p, OP, "~"))
        return first;
    jinja_nodes items = {0};
    jinja_node *node = jinja_parse_node(p, JINJA_N_CONCAT);
    if (!node || !jinja_parse_append(p, &items, first))
        return NULL;
    while (jinja_parse_skip(p, OP, "~"))
        if (!jinja_parse_append(p, &items, parse_math2(p)))
            return NULL;
    node->list = items.items;
    node->n_list = items.n;
    return jinja_parse_done(p, node);
}

static jinja_node *parse_math1(jinja_parser *p)
{
    jinja_node *left = parse_concat(p);
    while (left && (jinja_parse_is(p, OP, "+") || jinja_parse_is(p, OP, "-"))) {
        jinja_op op = p->tok->op[0] == '+' ? JINJA_ADD : JINJA_SUB;
        jinja_parse_next(p);
        left = binary(p, JINJA_N_BINARY, op, left, parse_concat(p));
    }
    return left;
}

static bool comparison(jinja_parser *p, jinja_op *op)
{
    static const struct {
        const char *text;
        jinja_op op;
    } ops[] = {{"==", JINJA_EQ}, {"!=", JINJA_NE}, {"<", JINJA_LT}, {"<=", JINJA_LE}, {">", JINJA_GT}, {">=", JINJA_GE}};
    for (size_t i = 0; i < 6; i++)
        if (jinja_parse_skip(p, OP, ops[i].text)) {
            *op = ops[i].op;
            return true;
        }
    if (jinja_parse_skip(p, NAME, "in")) {
        *op = JINJA_IN;
        return true;
    }
    if (jinja_parse_is(p, NAME, "not") && token_is(p->tok + 1, NAME, "in")) {
        jinja_parse_next(p);
        jinja_parse_next(p);
        *op = JINJA_NOT_IN;
        return true;
    }
    return false;
}

static jinja_node *parse_compare(jinja_parser *p)
{
    jinja_node *first = parse_math1(p);
    jinja_nodes operands = {0};
    jinja_op op;
    while (first && comparison(p, &op)) {
        jinja_node *operand = jinja_parse_node(p, JINJA_N_OPERAND);
        if (!operand || !(operand->kid[0] = parse_math1(p)) || !jinja_parse_done(p, operand) ||
            !jinja_parse_append(p, &operands, operand))
            return NULL;
        operand->op = op;
    }
    if (!first || !operands.n)
        return first;
    jinja_node *node = jinja_parse_node(p, JINJA_N_COMPARE);
    if (!node)
        return NULL;
    node->kid[0] = first;
    node->list = operands.items;
    node->n_list = operands.n;
    return jinja_parse_done(p, node);
}

static jinja_node *parse_not(jinja_parser *p)
{
    if (!jinja_parse_is(p, NAME, "not"))
        return parse_compare(p);
    jinja_node *node = jinja_parse_enter(p) ? jinja_parse_node(p, JINJA_N_NOT) : NULL;
    if (!node)
        return NULL;
    jinja_parse_next(p);
    node->kid[0] = parse_not(p);
    p->nesting--;
    return node->kid[0] ? jinja_parse_done(p, node) : NULL;
}

static jinja_node *parse_and(jinja_parser *p)
{
    jinja_node *left = parse_not(p);
    while (left && jinja_parse_skip(p, NAME, "and"))
        left = binary(p, JINJA_N_AND, JINJA_EQ, left, parse_not(p));
    return left;
}

static jinja_node *parse_or(jinja_parser *p)
{
    jinja_node *left = parse_and(p);
    while (left && jinja_parse_skip(p, NAME, "or"))
        left = binary(p, JINJA_N_OR, JINJA_EQ, left, parse_and(p));
    return left;
}

jinja_node *jinja_parse_expression(jinja_parser *p, bool conditional)
{
    if (!jinja_parse_enter(p))
        return NULL;
    jinja_node *value = parse_or(p);
    while (value && conditional && jinja_parse_skip(p, NAME, "if")) {
        jinja_node *node = jinja_parse_node(p, JINJA_N_COND);
        if (!node || !(node->kid[0] = parse_or(p)))
            value = NULL;
        else {
            node->kid[1] = value;
            if (jinja_parse_skip(p, NAME, "else") && !(node->kid[2] = jinja_parse_expression(p, true)))
                value = NULL;
            else
                value = jinja_parse_done(p, node);
        }
    }
    p->nesting--;
    return value;
}
