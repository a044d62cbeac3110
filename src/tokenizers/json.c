/* See tok_json.h. */
#include "tok_json.h"

#include <stdlib.h>
#include <string.h>

#include "bw_mem.h"
#include "bw_str.h"

enum { MAX_DEPTH = 64 };

typedef struct parser {
    tok_json *json;
    const char *text, *path;
    size_t n, i;
    bw_err *err;
} parser;

static bw_status fail(parser *p, const char *what)
{
    return bw_fail(p->err, BW_E_FORMAT, "%s: not valid JSON at byte %zu: %s", p->path, p->i, what);
}

static void skip_space(parser *p)
{
    while (p->i < p->n &&
           (p->text[p->i] == ' ' || p->text[p->i] == '\n' || p->text[p->i] == '\r' || p->text[p->i] == '\t'))
        p->i++;
}

/* The new node's index. Indices, not pointers, because the array moves as it grows. */
static bw_status add_node(parser *p, tok_json_type type, size_t *index)
{
    tok_json *j = p->json;
    if (j->n_nodes >= UINT32_MAX - 1)
        return bw_fail(p->err, BW_E_RANGE, "%s: more than 4 billion JSON values", p->path);
    if (!bw_reserve((void **)&j->nodes, &j->capacity, j->n_nodes + 1, sizeof *j->nodes))
        return bw_fail_memory(p->err, (j->n_nodes + 1) * sizeof *j->nodes, "JSON nodes");
    j->nodes[j->n_nodes] = (tok_json_node){.type = type, .next = (uint32_t)(j->n_nodes + 1)};
    *index = j->n_nodes++;
    return BW_OK;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

static bool parse_hex4(const char *s, size_t n, uint32_t *out)
{
    if (n < 4)
        return false;
    uint32_t v = 0;
    for (int i = 0; i < 4; i++) {
        int d = hex_digit(s[i]);
        if (d < 0)
            return false;
        v = v << 4 | (uint32_t)d;
    }
    *out = v;
    return true;
}

/* One escape at text[p->i] = '\\'; writes at most 4 bytes. */
static bw_status unescape(parser *p, char *out, size_t *n_out)
{
    const char *s = p->text + p->i;
    size_t left = p->n - p->i;
    if (left < 2)
        return fail(p, "the text ends inside a string");
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    const char *at = s[1] ? strchr(from, s[1]) : NULL;
    if (at) {
        out[0] = to[at - from];
        *n_out = 1;
        p->i += 2;
        return BW_OK;
    }
    uint32_t cp, low;
    if (s[1] != 'u' || !parse_hex4(s + 2, left - 2, &cp))
        return fail(p, "an unknown escape");
    size_t used = 6;
    if (cp >= 0xD800 && cp < 0xDC00) {
        if (left < 12 || s[6] != '\\' || s[7] != 'u' || !parse_hex4(s + 8, 4, &low) || low < 0xDC00 || low > 0xDFFF)
            return fail(p, "half of a surrogate pair");
        cp = 0x10000 + ((cp - 0xD800) << 10) + (low - 0xDC00);
        used = 12;
    }
    int n = bw_utf8_encode(cp, out);
    if (n == 0)
        return fail(p, "half of a surrogate pair");
    *n_out = (size_t)n;
    p->i += used;
    return BW_OK;
}

static bw_status parse_string(parser *p)
{
    size_t index, start = ++p->i;
    BW_TRY(add_node(p, TOK_STRING, &index));
    size_t end = start;
    while (end < p->n && p->text[end] != '"' && p->text[end] != '\\' && (unsigned char)p->text[end] >= 0x20)
        end++;
    size_t raw_end = end; /* where the closing quote is, for the size of the copy */
    while (raw_end < p->n && p->text[raw_end] != '"')
        raw_end += p->text[raw_end] == '\\' ? 2 : 1;
    p->i = end;
    if (raw_end >= p->n)
        return fail(p, "the text ends inside a string");
    if (end - start > UINT32_MAX || raw_end - start > UINT32_MAX)
        return fail(p, "a string of more than 4 GiB");
    if (p->text[end] == '"') {
        p->json->nodes[index].s = p->text + start;
        p->json->nodes[index].n = (uint32_t)(end - start);
        p->i = end + 1;
        return BW_OK;
    }
    char *copy = bw_arena_alloc(&p->json->arena, raw_end - start + 1);
    if (!copy)
        return bw_fail_memory(p->err, raw_end - start + 1, "a JSON string");
    size_t len = end - start;
    memcpy(copy, p->text + start, len);
    while (p->text[p->i] != '"') {
        if ((unsigned char)p->text[p->i] < 0x20)
            return fail(p, "a control character inside a string");
        if (p->text[p->i] != '\\') {
            copy[len++] = p->text[p->i++];
            continue;
        }
        size_t n = 0;
        BW_TRY(unescape(p, copy + len, &n));
        len += n;
        if (p->i >= p->n)
            return fail(p, "the text ends inside a string");
    }
    p->i++;
    p->json->nodes[index].s = copy;
    p->json->nodes[index].n = (uint32_t)len;
    return BW_OK;
}

static bool is_digit(const parser *p, size_t i)
{
    return i < p->n && p->text[i] >= '0' && p->text[i] <= '9';
}

static bw_status parse_number(parser *p)
{
    size_t i = p->i, index;
    if (p->text[i] == '-')
        i++;
    if (!is_digit(p, i))
        return fail(p, "a value was expected");
    if (p->text[i] == '0')
        i++;
    else
        while (is_digit(p, i))
            i++;
    if (i < p->n && p->text[i] == '.') {
        if (!is_digit(p, ++i))
            return fail(p, "a digit was expected");
        while (is_digit(p, i))
            i++;
    }
    if (i < p->n && (p->text[i] == 'e' || p->text[i] == 'E')) {
        i++;
        if (i < p->n && (p->text[i] == '+' || p->text[i] == '-'))
            i++;
        if (!is_digit(p, i))
            return fail(p, "a digit was expected");
        while (is_digit(p, i))
            i++;
    }
    char copy[400];
    if (i - p->i >= sizeof copy)
        return fail(p, "a number of 400 characters or more");
    memcpy(copy, p->text + p->i, i - p->i);
    copy[i - p->i] = 0;
    BW_TRY(add_node(p, TOK_NUMBER, &index));
    p->json->nodes[index].number = strtod(copy, NULL);
    p->i = i;
    return BW_OK;
}

static bw_status parse_word(parser *p)
{
    static const struct {
        const char *text;
        tok_json_type type;
    } words[] = {{"null", TOK_NULL}, {"false", TOK_FALSE}, {"true", TOK_TRUE}};
    for (size_t k = 0; k < 3; k++) {
        size_t len = strlen(words[k].text), index;
        if (p->n - p->i >= len && memcmp(p->text + p->i, words[k].text, len) == 0) {
            p->i += len;
            return add_node(p, words[k].type, &index);
        }
    }
    return parse_number(p);
}

static bw_status parse_value(parser *p, int depth);

static bw_status parse_children(parser *p, int depth, bool object)
{
    size_t index;
    uint32_t n = 0;
    char close = object ? '}' : ']';
    BW_TRY(add_node(p, object ? TOK_OBJECT : TOK_ARRAY, &index));
    p->i++;
    for (;; n++) {
        skip_space(p);
        if (p->i < p->n && p->text[p->i] == close && n == 0)
            break;
        if (object) {
            if (p->i >= p->n || p->text[p->i] != '"')
                return fail(p, "a member's name was expected");
            BW_TRY(parse_string(p));
            skip_space(p);
            if (p->i >= p->n || p->text[p->i] != ':')
                return fail(p, "':' was expected");
            p->i++;
        }
        BW_TRY(parse_value(p, depth + 1));
        skip_space(p);
        if (p->i < p->n && p->text[p->i] == ',') {
            p->i++;
            continue;
        }
        if (p->i >= p->n || p->text[p->i] != close)
            return fail(p, object ? "',' or '}' was expected" : "',' or ']' was expected");
        n++;
        break;
    }
    p->i++;
    p->json->nodes[index].n = n;
    p->json->nodes[index].next = (uint32_t)p->json->n_nodes;
    return BW_OK;
}

static bw_status parse_value(parser *p, int depth)
{
    if (depth > MAX_DEPTH)
        return fail(p, "nested more than 64 deep");
    skip_space(p);
    if (p->i >= p->n)
        return fail(p, "the text ends too early");
    switch (p->text[p->i]) {
    case '{':
        return parse_children(p, depth, true);
    case '[':
        return parse_children(p, depth, false);
    case '"':
        return parse_string(p);
    default:
        return parse_word(p);
    }
}

bw_status bw_tok_json_parse(tok_json *json, const char *text, size_t n_bytes, const char *path, bw_err *err)
{
    *json = (tok_json){0};
    bw_arena_init(&json->arena, 0);
    parser p = {.json = json, .text = text, .path = path ? path : "tokenizer.json", .n = n_bytes, .err = err};
    p.i = bw_utf8_valid_prefix(text, n_bytes);
    if (p.i != n_bytes)
        return fail(&p, "invalid UTF-8");
    p.i = 0;
    BW_TRY(parse_value(&p, 0));
    skip_space(&p);
    if (p.i != n_bytes)
        return fail(&p, "something follows the document");
    return BW_OK;
}

void bw_tok_json_deinit(tok_json *json)
{
    bw_free(json->nodes);
    bw_arena_deinit(&json->arena);
    *json = (tok_json){0};
}

const tok_json_node *bw_tok_json_next(const tok_json *json, const tok_json_node *node)
{
    return json->nodes + node->next;
}

bool bw_tok_json_is(const tok_json_node *node, const char *text)
{
    return node && node->type == TOK_STRING && node->n == strlen(text) && memcmp(node->s, text, node->n) == 0;
}

const tok_json_node *bw_tok_json_get(const tok_json *json, const tok_json_node *node, const char *key)
{
    if (!node || node->type != TOK_OBJECT)
        return NULL;
    const tok_json_node *child = node + 1;
    for (uint32_t i = 0; i < node->n; i++) {
        const tok_json_node *value = child + 1; /* a key is one node */
        if (bw_tok_json_is(child, key))
            return value;
        child = bw_tok_json_next(json, value);
    }
    return NULL;
}

bool bw_tok_json_int(const tok_json_node *node, int32_t *out)
{
    if (!node || node->type != TOK_NUMBER || !(node->number >= 0) || node->number > 2147483647.0)
        return false;
    int32_t v = (int32_t)node->number;
    if ((double)v != node->number)
        return false;
    *out = v;
    return true;
}

bool bw_tok_json_is_too_large(const tok_json_node *node)
{
    return node && node->type == TOK_NUMBER && node->number > 2147483647.0;
}

bool bw_tok_json_flag(const tok_json *json, const tok_json_node *node, const char *key, bool fallback)
{
    const tok_json_node *value = bw_tok_json_get(json, node, key);
    if (!value || (value->type != TOK_TRUE && value->type != TOK_FALSE))
        return fallback;
    return value->type == TOK_TRUE;
}
