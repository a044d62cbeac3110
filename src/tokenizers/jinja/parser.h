/* What the two halves of the parser share: parse_expr.c (expressions) and parser.c (statements). */
#ifndef JINJA_PARSER_H
#define JINJA_PARSER_H

#include "jinja.h"

#define JINJA_N_BUCKETS 256

typedef struct jinja_name {
    struct jinja_name *next;
    jinja_string string;
} jinja_name;

typedef struct jinja_parser {
    bw_arena *arena;
    const jinja_token *tok; /* the current token */
    const jinja_token *last;
    bw_err *err;
    bw_status status;
    int nesting;
    int loops;       /* loops whose body is being parsed, up to the innermost macro */
    int for_nesting; /* for statements being parsed at all: "loop" must not be assigned inside */
    jinja_name *names[JINJA_N_BUCKETS];
    struct jinja_node *macros[JINJA_MAX_NESTING]; /* being parsed, outermost first */
    int n_macros;
} jinja_parser;

/* All return NULL or false after filling the error. */
void *jinja_parse_fail(jinja_parser *p, const char *format, ...) BW_PRINTF(2, 3);
bool jinja_parse_enter(jinja_parser *p);
void *jinja_parse_alloc(jinja_parser *p, size_t n, size_t size);
jinja_node *jinja_parse_node(jinja_parser *p, jinja_node_kind kind);
/* Sets the node's depth from its children's; NULL when too deep. */
jinja_node *jinja_parse_done(jinja_parser *p, jinja_node *node);
const jinja_string *jinja_parse_intern(jinja_parser *p, const char *data, size_t n_bytes);

typedef struct jinja_nodes {
    jinja_node **items; /* in the arena; grown by copying */
    size_t n, capacity;
} jinja_nodes;
bool jinja_parse_append(jinja_parser *p, jinja_nodes *list, jinja_node *node);

void jinja_parse_next(jinja_parser *p);
bool jinja_parse_is(const jinja_parser *p, jinja_token_kind kind, const char *text); /* NAME or OPERATOR with text */
bool jinja_parse_skip(jinja_parser *p, jinja_token_kind kind, const char *text);
bool jinja_parse_expect(jinja_parser *p, jinja_token_kind kind, const char *text);
const jinja_string *jinja_parse_expect_name(jinja_parser *p);

jinja_node *jinja_parse_expression(jinja_parser *p, bool conditional);
typedef struct jinja_tuple_options {
    bool simplified, no_conditional, parentheses, namespaces;
    const char *end; /* a name that ends the tuple, or NULL */
} jinja_tuple_options;
jinja_node *jinja_parse_tuple(jinja_parser *p, jinja_tuple_options options);
jinja_node *jinja_parse_primary(jinja_parser *p, bool namespaces);
jinja_node *jinja_parse_filters(jinja_parser *p, jinja_node *input, bool start_inline, bool *failed);

#endif
