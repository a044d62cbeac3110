/* A JSON document as a flat array of nodes, for tokenizer.json and its companions. Owns parsing (RFC 8259, strict);
 * refuses invalid UTF-8, lone surrogates, nesting beyond 64 and anything after the document. Private to this module. */
#ifndef BW_TOK_JSON_H
#define BW_TOK_JSON_H

#include "bw_arena.h"
#include "bw_err.h"

typedef enum tok_json_type {
    TOK_NULL,
    TOK_FALSE,
    TOK_TRUE,
    TOK_NUMBER,
    TOK_STRING,
    TOK_ARRAY,
    TOK_OBJECT
} tok_json_type;

/* A node's children follow it directly; `next` is the index behind its last descendant. An object's children
 * alternate: key, value. */
typedef struct tok_json_node {
    tok_json_type type;
    uint32_t n; /* STRING: bytes; ARRAY: elements; OBJECT: members */
    uint32_t next;
    union {
        const char *s; /* not NUL-terminated; into the source text or the document's arena */
        double number;
    };
} tok_json_node;

typedef struct tok_json {
    tok_json_node *nodes; /* [0] is the document */
    size_t n_nodes, capacity;
    bw_arena arena;
} tok_json;

/* text must outlive the document. BW_E_FORMAT with the byte offset of what is wrong. deinit also after a failure. */
bw_status bw_tok_json_parse(tok_json *json, const char *text, size_t n_bytes, const char *path, bw_err *err);
void bw_tok_json_deinit(tok_json *json);

/* The member of an object node, or NULL (also when node is NULL or no object). */
const tok_json_node *bw_tok_json_get(const tok_json *json, const tok_json_node *node, const char *key);
/* The child behind this one; for arrays: first = node + 1. */
const tok_json_node *bw_tok_json_next(const tok_json *json, const tok_json_node *node);
bool bw_tok_json_is(const tok_json_node *node, const char *text);
/* false when node is NULL, no number, or no integer in 0..2^31-1. */
bool bw_tok_json_int(const tok_json_node *node, int32_t *out);
/* A number above 2^31-1. */
bool bw_tok_json_is_too_large(const tok_json_node *node);
/* A boolean member, or fallback. */
bool bw_tok_json_flag(const tok_json *json, const tok_json_node *node, const char *key, bool fallback);

#endif
