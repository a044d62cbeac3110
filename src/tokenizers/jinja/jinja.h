/* The insides of the Jinja interpreter, shared by its own files only: values, syntax tree, run-time state.
 *
 * Values live in the arena of one rendering (or of the template, for constants) and are never changed after they were
 * made, except namespaces, loops, cyclers, joiners and half-read iterators. Everything fails by returning false after
 * jinja_fail has filled the error.
 */
#ifndef JINJA_H
#define JINJA_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "bw_arena.h"
#include "bw_jinja.h"
#include "bw_mem.h"

#define JINJA_MAX_SOURCE ((size_t)4 << 20)   /* bytes of a template */
#define JINJA_MAX_NESTING 120                /* brackets and blocks inside each other */
#define JINJA_MAX_TREE 400                   /* depth of a syntax tree, chains such as a+b+c included */
#define JINJA_MAX_DEPTH 600                  /* evaluations inside each other, macros and nested values included */
#define JINJA_MAX_STEPS 20000000             /* evaluations, items and blocks of 64 bytes */
#define JINJA_MAX_MEMORY ((size_t)256 << 20) /* bytes of all values of one rendering */
#define JINJA_MAX_OUTPUT ((size_t)64 << 20)  /* bytes of text */
#define JINJA_MAX_RANGE 100000               /* items of range(), as jinja2's sandbox has it */

typedef enum jinja_kind {
    JINJA_MISSING, /* an argument that was not given; never seen by a template */
    JINJA_UNDEFINED,
    JINJA_NONE,
    JINJA_BOOL,
    JINJA_INT,
    JINJA_FLOAT,
    JINJA_STRING,
    JINJA_LIST,
    JINJA_TUPLE,
    JINJA_DICT,
    JINJA_RANGE,
    JINJA_VIEW,     /* dict.keys(), values(), items() */
    JINJA_ITERATOR, /* what map, select and their like give: read once */
    JINJA_NAMESPACE,
    JINJA_MACRO,
    JINJA_FUNCTION, /* a global, or a method bound to its value */
    JINJA_LOOP,
    JINJA_CYCLER,
    JINJA_JOINER
} jinja_kind;

typedef struct jinja_string {
    const char *data; /* UTF-8, [n_bytes] */
    size_t n_bytes;
    size_t n_chars; /* code points; equal to n_bytes exactly when all is ASCII */
    bool markup;    /* result of |safe or |escape */
    bool request;   /* some of it came with the request; the rest, and all else, is the template's or the engine's */
    const char
        *origin; /* [n_bytes], 1 where a byte came with the request; NULL = all of it or, without `request`, none */
} jinja_string;

/* Text in the making, with the origin of each byte. What is added to str alone counts as the template's. */
typedef struct jinja_text {
    bw_str str;
    bw_str origin; /* at most as long as str; bytes that it does not have are the template's */
} jinja_text;

typedef struct jinja_value {
    jinja_kind kind;
    union {
        bool b;
        int64_t i;
        double f;
        const jinja_string *s;
        struct jinja_undefined *u;
        struct jinja_list *list; /* LIST, TUPLE, ITERATOR, CYCLER */
        struct jinja_dict *dict; /* DICT, NAMESPACE */
        struct jinja_range *range;
        struct jinja_view *view;
        struct jinja_macro *macro;
        struct jinja_function *function;
        struct jinja_loop *loop;
        struct jinja_joiner *joiner;
    };
} jinja_value;

typedef struct jinja_undefined {
    const char *hint;         /* the sentence, or NULL: made of the two below */
    const jinja_string *name; /* may be NULL */
    const char *owner;        /* the type whose attribute or item is absent, or NULL */
} jinja_undefined;

typedef struct jinja_list {
    jinja_value *items;
    size_t n, capacity;
    size_t next;  /* ITERATOR: items read so far. CYCLER: the current item */
    bool grouped; /* a TUPLE of |groupby: has the attributes grouper and list */
} jinja_list;

typedef struct jinja_entry {
    jinja_value key, value;
    uint64_t hash;
} jinja_entry;

typedef struct jinja_dict {
    jinja_entry *entries; /* in order of insertion */
    size_t n, capacity;
    uint32_t *slots; /* entry + 1, or 0; NULL while small */
    size_t n_slots;  /* a power of two */
} jinja_dict;

typedef struct jinja_range {
    int64_t start, stop, step, n;
} jinja_range;

typedef enum jinja_view_kind { JINJA_KEYS, JINJA_VALUES, JINJA_ITEMS } jinja_view_kind;
typedef struct jinja_view {
    jinja_dict *dict;
    jinja_view_kind kind;
} jinja_view;

typedef struct jinja_joiner {
    const jinja_string *separator;
    bool used;
} jinja_joiner;

/* ---- syntax tree ---- */

typedef enum jinja_node_kind {
    JINJA_N_CONST,
    JINJA_N_NAME,
    JINJA_N_TUPLE,
    JINJA_N_LIST,
    JINJA_N_DICT,
    JINJA_N_COND,
    JINJA_N_OR,
    JINJA_N_AND,
    JINJA_N_NOT,
    JINJA_N_COMPARE,
    JINJA_N_OPERAND,
    JINJA_N_BINARY,
    JINJA_N_CONCAT,
    JINJA_N_NEG,
    JINJA_N_POS,
    JINJA_N_GETATTR,
    JINJA_N_GETITEM,
    JINJA_N_SLICE,
    JINJA_N_CALL,
    JINJA_N_FILTER,
    JINJA_N_TEST,
    JINJA_N_KEYWORD,
    JINJA_N_NSREF,
    JINJA_N_BODY,
    JINJA_N_TEXT,
    JINJA_N_OUTPUT,
    JINJA_N_FOR,
    JINJA_N_IF,
    JINJA_N_SET,
    JINJA_N_SETBLOCK,
    JINJA_N_MACRO,
    JINJA_N_CALLBLOCK,
    JINJA_N_FILTERBLOCK,
    JINJA_N_GENERATION,
    JINJA_N_WITH,
    JINJA_N_BREAK,
    JINJA_N_CONTINUE,
    JINJA_N_BLOCK
} jinja_node_kind;

typedef enum jinja_op {
    JINJA_ADD,
    JINJA_SUB,
    JINJA_MUL,
    JINJA_DIV,
    JINJA_FLOORDIV,
    JINJA_MOD,
    JINJA_POW,
    JINJA_EQ,
    JINJA_NE,
    JINJA_LT,
    JINJA_LE,
    JINJA_GT,
    JINJA_GE,
    JINJA_IN,
    JINJA_NOT_IN
} jinja_op;

/* One shape for every node. Which fields count:
 * CONST, TEXT value; NAME name; TUPLE, LIST, DICT (keys and values in turn), CONCAT, BODY, OUTPUT list;
 * COND kid test, then, else or NULL; COMPARE kid[0], list of OPERAND (op, kid[0]); GETATTR kid[0] name;
 * GETITEM kid[0] kid[1]; SLICE kid start, stop, step (each may be NULL); CALL, FILTER, TEST kid[0] callee or input,
 * list arguments, list2 KEYWORDs (name, kid[0]), kid[1] *arguments, kid[2] **arguments; NSREF name.attr;
 * FOR kid target, iterable, condition, body, else, flag recursive; IF list of tests and bodies in turn, kid[0] else;
 * SET kid target, value; SETBLOCK kid target, filter or NULL, body; MACRO, CALLBLOCK name, list parameters, list2
 * defaults (of the last ones), kid[0] body, kid[1] the call; FILTERBLOCK kid body, filter; WITH list, list2, kid[0]. */
typedef struct jinja_node {
    jinja_node_kind kind;
    jinja_op op;
    int line;
    int depth; /* of the tree below and with this node */
    bool recursive;
    bool uses_varargs, uses_kwargs, uses_caller; /* MACRO, CALLBLOCK: names that the body reads */
    const jinja_string *name, *attr;
    jinja_value value;
    struct jinja_node *kid[5];
    const jinja_string *const *extra; /* FOR: "loop". MACRO, CALLBLOCK: "caller", "kwargs", "varargs" */
    struct jinja_node **list, **list2;
    size_t n_list, n_list2;
} jinja_node;

struct bw_jinja {
    bw_arena arena;
    const jinja_node *body;
};

/* ---- run time ---- */

typedef struct jinja_variable {
    const jinja_string *name; /* interned: compared by address */
    jinja_value value;
} jinja_variable;

typedef struct jinja_scope {
    struct jinja_scope *parent;
    jinja_variable *variables;
    size_t n, capacity;
} jinja_scope;

typedef struct jinja_macro {
    const jinja_node *node;
    jinja_scope *scope; /* where it was defined */
    bool is_caller;
} jinja_macro;

typedef struct jinja_loop {
    const jinja_node *node;
    jinja_scope *scope; /* around the loop */
    const jinja_list *items;
    int64_t index0;
    int64_t depth0;
    const jinja_list *last_changed; /* NULL before the first call of changed() */
} jinja_loop;

typedef struct jinja_runtime {
    bw_arena arena;
    jinja_text *out; /* where text goes now */
    jinja_dict *context;
    jinja_scope *root;
    jinja_value block_input; /* what the filters of a filter block begin with */
    int64_t unix_time;
    int64_t steps;
    int depth;
    int line;
    size_t captured_bytes; /* text caught by macros and blocks that are still running */
    bw_err *err;
    bw_status status;
} jinja_runtime;

/* Arguments of a call. */
typedef struct jinja_args {
    const jinja_value *items;
    size_t n;
    const jinja_dict *keywords; /* NULL = none */
} jinja_args;

typedef bool jinja_builtin_fn(jinja_runtime *rt, jinja_value self, jinja_value *arg, jinja_value *out);

/* A filter, test, method or global. signature: names separated by spaces, a trailing '=' marks an optional one;
 * a leading '/' : positional only; NULL: gets all through call_fn. */
typedef struct jinja_builtin {
    const char *name;
    const char *signature;
    jinja_builtin_fn *fn;
    bool (*call_fn)(jinja_runtime *rt, jinja_value self, const jinja_args *args, jinja_value *out);
} jinja_builtin;

#define JINJA_MAX_PARAMETERS 8

typedef struct jinja_function {
    const jinja_builtin *builtin;
    jinja_value self;
} jinja_function;

/* runtime.c: failing, bounds, memory */
bool jinja_fail(jinja_runtime *rt, bw_status status, const char *format, ...) BW_PRINTF(3, 4);
bool jinja_fail_memory(jinja_runtime *rt, size_t n_bytes);
bool jinja_charge(jinja_runtime *rt, size_t n_units); /* count work; fails when there was too much */
bool jinja_enter(jinja_runtime *rt);                  /* one deeper; fails when too deep */
void jinja_leave(jinja_runtime *rt);
void *jinja_alloc(jinja_runtime *rt, size_t n, size_t size); /* zeroed; NULL after jinja_fail */
bool jinja_emit(jinja_runtime *rt, const jinja_string *s);
void jinja_text_deinit(jinja_text *text);
/* Bytes of s with their origins. */
void jinja_text_add(jinja_text *text, const jinja_string *s, size_t begin, size_t n_bytes);
/* What was added from byte `from` on was made of s: the request's, where anything of s is. */
void jinja_text_claim(jinja_text *text, size_t from, const jinja_string *s);
bool jinja_finish_string(jinja_runtime *rt, jinja_text *text, jinja_value *out); /* takes and empties text */

/* value.c: making and looking at values */
static inline jinja_value jinja_none(void)
{
    return (jinja_value){.kind = JINJA_NONE};
}
static inline jinja_value jinja_bool(bool b)
{
    return (jinja_value){.kind = JINJA_BOOL, .b = b};
}
static inline jinja_value jinja_int(int64_t i)
{
    return (jinja_value){.kind = JINJA_INT, .i = i};
}
static inline jinja_value jinja_float(double f)
{
    return (jinja_value){.kind = JINJA_FLOAT, .f = f};
}
size_t jinja_count_chars(const char *data, size_t n_bytes);
bool jinja_new_string(jinja_runtime *rt, const char *data, size_t n_bytes, jinja_value *out);  /* copies */
bool jinja_view_string(jinja_runtime *rt, const char *data, size_t n_bytes, jinja_value *out); /* borrows */
/* Bytes begin to end of s, of the same origins and markup; borrows. */
bool jinja_part(jinja_runtime *rt, const jinja_string *s, size_t begin, size_t end, jinja_value *out);
void jinja_copy_origin(const jinja_string *s, char *origin); /* origin: [s->n_bytes] */
bool jinja_mark(jinja_runtime *rt, jinja_value string, bool markup, jinja_value *out);
bool jinja_undefined_name(jinja_runtime *rt, const jinja_string *name, jinja_value *out);
bool jinja_undefined_hint(jinja_runtime *rt, const char *hint, jinja_value *out);
bool jinja_undefined_member(jinja_runtime *rt, jinja_value owner, jinja_value name, jinja_value *out);
bool jinja_fail_undefined(jinja_runtime *rt, jinja_value v);
jinja_list *jinja_new_list(jinja_runtime *rt, size_t capacity);
bool jinja_push(jinja_runtime *rt, jinja_list *list, jinja_value v);
jinja_value jinja_list_value(jinja_kind kind, jinja_list *list);
bool jinja_pair(jinja_runtime *rt, jinja_value a, jinja_value b, jinja_value *out);
jinja_dict *jinja_new_dict(jinja_runtime *rt);
bool jinja_dict_set(jinja_runtime *rt, jinja_dict *dict, jinja_value key, jinja_value value);
bool jinja_dict_find(jinja_runtime *rt, const jinja_dict *dict, jinja_value key, const jinja_value **found);
const jinja_value *jinja_dict_get(const jinja_dict *dict, const char *key, size_t n_bytes);
const char *jinja_type_name(jinja_value v);
bool jinja_truth(jinja_value v);
bool jinja_is_number(jinja_value v);            /* int, float or bool */
bool jinja_as_int(jinja_value v, int64_t *out); /* int or bool */
double jinja_as_double(jinja_value v);
bool jinja_equal(jinja_runtime *rt, jinja_value a, jinja_value b, bool *out);
bool jinja_order(jinja_runtime *rt, jinja_value a, jinja_value b, const char *op, int *out); /* -1, 0, 1; 2 = NaN */
bool jinja_same(jinja_value a, jinja_value b);
bool jinja_hash(jinja_runtime *rt, jinja_value v, uint64_t *out);
bool jinja_length(jinja_runtime *rt, jinja_value v, int64_t *out);
bool jinja_iterable(jinja_value v);
/* All items, in order; an iterator is used up. The list must not be changed. */
bool jinja_items(jinja_runtime *rt, jinja_value v, const jinja_list **out);
/* request: its strings came with the request. */
bool jinja_from_json(jinja_runtime *rt, const json_t *json, bool request, int depth, jinja_value *out);

/* text.c: text of values; unicode.c: letters */
bool jinja_add_str(jinja_runtime *rt, jinja_value v, jinja_text *out);  /* Python's str() */
bool jinja_add_repr(jinja_runtime *rt, jinja_value v, jinja_text *out); /* Python's repr() */
bool jinja_str(jinja_runtime *rt, jinja_value v, jinja_value *out);     /* a STRING */
void jinja_add_float(bw_str *out, double f);
bool jinja_add_escaped(jinja_runtime *rt, jinja_value v, jinja_text *out);      /* HTML; markup stays */
bool jinja_parse_float(const char *text, size_t n_bytes, double *out);          /* Python's float(str) */
bool jinja_parse_int(const char *text, size_t n_bytes, int base, int64_t *out); /* Python's int(str, base) */
bool jinja_tojson(jinja_runtime *rt, jinja_value v, bool ascii, const char *indent, const char *item_separator,
                  const char *key_separator, bool sort_keys, int level, jinja_text *out);
bool jinja_is_space(uint32_t c);
bool jinja_is_printable(uint32_t c);
bool jinja_is_word(uint32_t c); /* \w */
bool jinja_is_identifier(const char *data, size_t n_bytes);
typedef enum jinja_case { JINJA_UPPER, JINJA_LOWER, JINJA_CAPITALIZE, JINJA_TITLE, JINJA_SWAP, JINJA_FOLD } jinja_case;
void jinja_add_case(jinja_text *out, const jinja_string *s, size_t begin, size_t n_bytes, jinja_case how);
typedef enum jinja_class {
    JINJA_IS_ALNUM,
    JINJA_IS_ALPHA,
    JINJA_IS_DECIMAL,
    JINJA_IS_DIGIT,
    JINJA_IS_NUMERIC,
    JINJA_IS_SPACE,
    JINJA_IS_PRINTABLE,
    JINJA_IS_ASCII,
    JINJA_IS_LOWER,
    JINJA_IS_UPPER,
    JINJA_IS_TITLE
} jinja_class;
bool jinja_has_class(const char *data, size_t n_bytes, jinja_class which);
size_t jinja_next_char(const char *data, size_t n_bytes, uint32_t *c); /* n_bytes > 0; always moves */
size_t jinja_last_char(const char *data, size_t n_bytes, uint32_t *c);
size_t jinja_byte_offset(const jinja_string *s, size_t chars);
bool jinja_same_bytes(const jinja_string *a, const char *text);

/* string_methods.c, strings.c: what filters share with the methods */
typedef bool jinja_char_fn(uint32_t c);
bool jinja_give(jinja_runtime *rt, jinja_text *text, const jinja_string *like, jinja_value *out); /* markup as `like` */
bool jinja_strip(jinja_runtime *rt, const jinja_string *s, jinja_value chars, bool left, bool right, jinja_value *out);
bool jinja_center(jinja_runtime *rt, const jinja_string *s, jinja_value width, jinja_value fill, char where,
                  jinja_value *out);
bool jinja_replace(jinja_runtime *rt, const jinja_string *s, const jinja_string *old, const jinja_string *fresh,
                   int64_t count, jinja_text *out);
bool jinja_split_lines(jinja_runtime *rt, const jinja_string *s, bool keep_ends, jinja_list **out);
bool jinja_need_int(jinja_runtime *rt, jinja_value v, const char *what, int64_t fallback, int64_t *out);

/* format.c: "..." % values and "...".format(values) */
bool jinja_percent(jinja_runtime *rt, const jinja_string *format, jinja_value values, jinja_value *out);
bool jinja_format(jinja_runtime *rt, const jinja_string *format, const jinja_args *args, jinja_value *out);

/* ops.c */
bool jinja_binary(jinja_runtime *rt, jinja_op op, jinja_value a, jinja_value b, jinja_value *out);
bool jinja_negate(jinja_runtime *rt, jinja_value a, bool minus, jinja_value *out);
bool jinja_compare(jinja_runtime *rt, jinja_op op, jinja_value a, jinja_value b, bool *out);
bool jinja_contains(jinja_runtime *rt, jinja_value needle, jinja_value in, bool *out);
bool jinja_getattr(jinja_runtime *rt, jinja_value v, const jinja_string *name, jinja_value *out);
/* An attribute only, never an item; undefined when there is none. */
bool jinja_attribute(jinja_runtime *rt, jinja_value v, const jinja_string *name, jinja_value *out);
bool jinja_getitem(jinja_runtime *rt, jinja_value v, jinja_value key, jinja_value *out);
bool jinja_slice(jinja_runtime *rt, jinja_value v, const jinja_value limit[3], jinja_value *out);

/* call.c */
bool jinja_call(jinja_runtime *rt, jinja_value callee, const jinja_args *args, jinja_value *out);
bool jinja_call_builtin(jinja_runtime *rt, const jinja_builtin *b, jinja_value self, const jinja_args *args,
                        jinja_value *out);
bool jinja_bound(jinja_runtime *rt, const jinja_builtin *b, jinja_value self, jinja_value *out);
const jinja_builtin *jinja_find_builtin(const jinja_builtin *table, const jinja_string *name);
const jinja_builtin *jinja_find_filter(const jinja_string *name);
const jinja_builtin *jinja_find_test(const jinja_string *name);
bool jinja_call_filter(jinja_runtime *rt, const jinja_string *name, jinja_value v, const jinja_args *args,
                       jinja_value *out);
bool jinja_call_test(jinja_runtime *rt, const jinja_string *name, jinja_value v, const jinja_args *args, bool *out);

extern const jinja_builtin jinja_globals[], jinja_tests[], jinja_filters_text[], jinja_filters_list[],
    jinja_string_methods[], jinja_string_methods_more[], jinja_dict_methods[], jinja_list_methods[],
    jinja_tuple_methods[], jinja_loop_methods[], jinja_cycler_methods[];

/* eval.c, exec.c */
bool jinja_eval(jinja_runtime *rt, const jinja_node *node, jinja_scope *scope, jinja_value *out);
typedef enum jinja_flow { JINJA_GO, JINJA_BREAK, JINJA_CONTINUE, JINJA_FAILED } jinja_flow;
jinja_flow jinja_exec(jinja_runtime *rt, const jinja_node *node, jinja_scope *scope);
/* Run body and catch its text as a STRING. */
jinja_flow jinja_capture(jinja_runtime *rt, const jinja_node *body, jinja_scope *scope, jinja_value *out);
bool jinja_call_macro(jinja_runtime *rt, const jinja_macro *macro, const jinja_args *args, jinja_value *out);
bool jinja_call_loop(jinja_runtime *rt, const jinja_loop *loop, jinja_value items, jinja_value *out);
bool jinja_eval_args(jinja_runtime *rt, const jinja_node *node, jinja_scope *scope, jinja_args *args);
jinja_scope *jinja_new_scope(jinja_runtime *rt, jinja_scope *parent);
bool jinja_set(jinja_runtime *rt, jinja_scope *scope, const jinja_string *name, jinja_value v);

/* lexer.c, parser.c */
typedef enum jinja_token_kind {
    JINJA_T_EOF,
    JINJA_T_DATA,
    JINJA_T_VARIABLE_BEGIN,
    JINJA_T_VARIABLE_END,
    JINJA_T_BLOCK_BEGIN,
    JINJA_T_BLOCK_END,
    JINJA_T_NAME,
    JINJA_T_STRING,
    JINJA_T_INTEGER,
    JINJA_T_FLOAT,
    JINJA_T_OPERATOR
} jinja_token_kind;
typedef struct jinja_token {
    jinja_token_kind kind;
    int line;
    char op[3];       /* OPERATOR: its characters */
    const char *data; /* DATA, NAME, STRING: the text, escapes resolved */
    size_t n_bytes;
    int64_t i;
    double f;
} jinja_token;
typedef struct jinja_tokens {
    jinja_token *items; /* bw_free; the last is EOF */
    size_t n, capacity;
} jinja_tokens;
/* source: [n_bytes] valid UTF-8, line ends already "\n". Texts go to the arena or point into source. */
bw_status jinja_lex(bw_arena *arena, const char *source, size_t n_bytes, jinja_tokens *tokens, bw_err *err);
bw_status jinja_parse_tokens(bw_arena *arena, const jinja_tokens *tokens, const jinja_node **body, bw_err *err);

#endif
