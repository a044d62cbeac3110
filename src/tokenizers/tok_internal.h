/* What the files of this module share: the tokenizer's parts and the steps of encoding. Private.
 *
 * Encoding follows Hugging Face tokenizers' order: added tokens are cut out of the text, the rest is normalised, tokens
 * that are defined on normalised text are cut out, each rest is split by the pre-tokenizer's steps, and every word is
 * merged by the BPE model. */
#ifndef BW_TOK_INTERNAL_H
#define BW_TOK_INTERNAL_H

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "bw_arena.h"
#include "bw_mem.h"
#include "bw_tokenizer.h"
#include "tok_unicode.h"

enum { TOK_MAX_ID = 1 << 24 };

/* ---- tables (tables.c) ---- */

typedef struct tok_text {
    const char *s;
    size_t n;
} tok_text;

/* Spelling to id: open addressing, linear probing; slots hold id + 1. */
typedef struct tok_words {
    uint32_t *slots;
    size_t n_slots; /* a power of two; 0 = empty */
} tok_words;

typedef struct tok_merge {
    uint64_t pair; /* left id << 32 | right id */
    uint32_t rank;
    int32_t id; /* -1 = free slot */
} tok_merge;

typedef struct tok_merges {
    tok_merge *slots;
    size_t n_slots, n;
} tok_merges;

typedef struct tok_added {
    tok_text text; /* as written */
    int32_t id;
    bool special, lstrip, rstrip, normalized, single_word;
    bool control; /* text of a request must not become it */
} tok_added;

/* A byte trie for "the longest added token that starts here"; edges in one hash table. */
typedef struct tok_trie {
    uint64_t *edges;   /* (node << 8 | byte) + 1; 0 = free */
    uint32_t *targets; /* [n_slots] */
    size_t n_slots, n_edges;
    int32_t *ends; /* [capacity] by node: index into added, or -1 */
    size_t n_nodes, capacity;
    bool starts[256];
} tok_trie;

bool bw_tok_words_init(tok_words *words, size_t n_words);
/* Later wins over earlier for one spelling. spellings[] gives the text of ids that are in the table. */
void bw_tok_words_add(tok_words *words, const tok_text *spellings, int32_t id);
int32_t bw_tok_words_find(const tok_words *words, const tok_text *spellings, const char *s, size_t n);
bool bw_tok_merges_init(tok_merges *merges, size_t n);
void bw_tok_merges_add(tok_merges *merges, int32_t left, int32_t right, uint32_t rank, int32_t id);
const tok_merge *bw_tok_merges_find(const tok_merges *merges, int32_t left, int32_t right);
bool bw_tok_trie_add(tok_trie *trie, const char *s, size_t n, int32_t index);
/* Index of the longest entry at s[0..n), its length in *length; -1 = none. */
int32_t bw_tok_trie_match(const tok_trie *trie, const char *s, size_t n, size_t *length);
void bw_tok_trie_deinit(tok_trie *trie);

/* ---- steps ---- */

typedef struct tok_regex {
    pcre2_code *code;
    pcre2_general_context *memory;
} tok_regex;

typedef enum tok_norm_kind {
    NORM_FORM,
    NORM_PREPEND,
    NORM_REPLACE,
    NORM_REPLACE_REGEX,
    NORM_LOWERCASE,
    NORM_STRIP
} tok_norm_kind;
typedef struct tok_norm {
    tok_norm_kind kind;
    tok_form form;
    tok_text from, to; /* PREPEND: to */
    tok_regex regex;
    bool left, right; /* STRIP */
} tok_norm;

typedef enum tok_behaviour {
    SPLIT_REMOVED,
    SPLIT_ISOLATED,
    SPLIT_MERGED_WITH_PREVIOUS,
    SPLIT_MERGED_WITH_NEXT,
    SPLIT_CONTIGUOUS
} tok_behaviour;
typedef enum tok_pre_kind {
    PRE_GPT2,   /* the GPT-2 expression */
    PRE_LLAMA3, /* the cl100k expression with max_digits numbers to a word */
    PRE_REGEX,
    PRE_LITERAL,
    PRE_DIGITS,
    PRE_PUNCTUATION,
    PRE_SPACES,
    PRE_BYTE_LEVEL, /* a space in front where `flag`; the words' bytes become symbols later */
    PRE_METASPACE
} tok_pre_kind;
typedef enum tok_scheme { SCHEME_ALWAYS, SCHEME_FIRST, SCHEME_NEVER } tok_scheme;
typedef struct tok_pre {
    tok_pre_kind kind;
    tok_behaviour behaviour;
    bool invert, flag; /* flag: DIGITS each on its own; BYTE_LEVEL add a space; METASPACE split */
    int max_digits;
    tok_scheme scheme;
    tok_text literal; /* METASPACE: the replacement */
    tok_regex regex;
} tok_pre;

enum { TOK_MAX_STEPS = 32 };

struct bw_tokenizer {
    bw_arena arena; /* spellings, pieces, names, step texts */
    char *path;     /* for messages */
    int32_t n_tokens;
    tok_text *spellings; /* [n_tokens], NUL-terminated; s NULL = no such id */
    tok_text *pieces;    /* [n_tokens] */
    uint8_t *flags;      /* [n_tokens] TOKEN_* */
    tok_words words;     /* every spelling */
    tok_merges merges;
    int32_t byte_ids[256]; /* byte-level: the symbol of a byte; else its <0xNN> token; -1 = none */
    bool byte_level, byte_fallback, fuse_unk, ignore_merges;
    bool steps_keep_text; /* no pre-tokenizer step leaves out or replaces bytes */
    /* By byte: at least this share of a token, in 2^-20, that each such byte of a word costs: that of the longest token
     * with the byte in it. 0 where a byte may give no token of its own. */
    uint32_t share[256];
    int32_t unk; /* -1 = none */
    int32_t bos, eos;
    tok_added *added;
    size_t n_added, added_capacity;
    tok_trie raw, normalized; /* over added */
    tok_norm norms[TOK_MAX_STEPS];
    tok_pre pres[TOK_MAX_STEPS];
    int n_norms, n_pres;
    int32_t *prefix, *suffix; /* ids around a text */
    size_t n_prefix, n_suffix;
    struct {
        tok_text from, to;
    } replace[4]; /* decoder: in the spelling of a token */
    int n_replace;
    bool decode_byte_level, decode_bytes, strip_start;
    struct {
        const char *name, *text;
    } templates[32];
    int n_templates;
};

enum {
    TOKEN_SPECIAL = 1, /* not shown as text */
    TOKEN_EOS = 2,
    TOKEN_MODEL = 4, /* the BPE model may produce it from text */
    TOKEN_ADDED = 8
};

/* ---- encoding (encode.c, bpe.c, pretokenize.c, normalize.c) ---- */

typedef struct tok_symbol {
    int32_t id;
    int32_t prev, next; /* -1 = none */
} tok_symbol;
typedef struct tok_heap_entry {
    uint64_t order; /* rank << 32 | position */
    int32_t id;
} tok_heap_entry;
typedef struct tok_span {
    size_t start, end;
    bool match;
} tok_span;

typedef struct tok_encoder {
    const bw_tokenizer *t;
    bw_err *err;
    int32_t *ids;
    size_t n_ids, ids_capacity, max_ids; /* max_ids: SIZE_MAX = no limit */
    bool parse_special;
    const char *input; /* what is encoded; literal [n_literal] are stretches of it */
    const bw_text_span *literal;
    size_t n_literal;
    const char *raw; /* what is being normalised: raw [n_raw] of input */
    size_t n_raw;
    bw_text_span *mapped; /* [n_mapped] the literal stretches of it when normalised, found when first asked for */
    size_t n_mapped, mapped_capacity;
    bool is_mapped;
    tok_symbol *symbols;
    size_t symbols_capacity;
    tok_heap_entry *heap;
    size_t n_heap, heap_capacity;
    bw_str word;                         /* a spelling for ignore_merges */
    size_t n_text;                       /* bytes of what is being normalised */
    bw_str norm[2], text[TOK_MAX_STEPS]; /* normalisation; a step's changed text */
    struct {
        tok_span *v;
        size_t n, capacity;
    } spans[TOK_MAX_STEPS];
    pcre2_match_data *match;
    pcre2_match_context *limits;
    size_t n_input;       /* bytes of the whole text */
    int64_t regex_budget; /* steps that are left to it */
    size_t regex_at;      /* where the last step was */
} tok_encoder;

bw_status bw_tok_no_memory(bw_err *err);
bw_status bw_tok_emit(tok_encoder *e, int32_t id);
/* BW_E_RANGE when there are more tokens than allowed. */
bw_status bw_tok_check_count(tok_encoder *e);
/* BW_E_RANGE when s, words of the model, has certainly more tokens than are still allowed. */
bw_status bw_tok_check_room(tok_encoder *e, const char *s, size_t n);
/* One word (or all the text, without a pre-tokenizer) through the merges. */
bw_status bw_tok_encode_word(tok_encoder *e, const char *s, size_t n);
/* All steps from `step` on; is_first: the text starts at the input's beginning. */
bw_status bw_tok_pretokenize(tok_encoder *e, int step, const char *s, size_t n, bool is_first);
/* The normalised text, in one of the encoder's buffers or the input itself. */
bw_status bw_tok_normalize_text(tok_encoder *e, const char *s, size_t n, tok_text *out);
void bw_tok_encoder_deinit(tok_encoder *e);

/* ---- regular expressions (regex.c) ---- */

bw_status bw_tok_regex_new(const char *pattern, size_t n, const char *path, tok_regex *regex, bw_err *err);
void bw_tok_regex_deinit(tok_regex *regex);
/* Steps that all regular expressions together may take on a text of so many bytes, beside a few for each byte. */
int64_t bw_tok_regex_budget(size_t n_text);
/* The next match at or after `from`; false in *found when there is none. BW_E_UNSUPPORTED beyond the text's budget. */
bw_status bw_tok_regex_next(tok_encoder *e, const tok_regex *regex, const char *s, size_t n, size_t from, tok_span *out,
                            bool *found);

/* ---- loading (vocabulary.c, load_gguf.c, load_json.c, pre_gguf.c) ---- */

bw_status bw_tok_new(const char *path, bw_tokenizer **out, bw_err *err);
/* Room for ids 0..n-1. */
bw_status bw_tok_set_size(bw_tokenizer *t, int32_t n, bw_err *err);
/* Copy into the arena; s NULL when there is no memory. */
tok_text bw_tok_keep(bw_tokenizer *t, const char *s, size_t n);
bw_status bw_tok_set_spelling(bw_tokenizer *t, int32_t id, const char *s, size_t n, bw_err *err);
bw_status bw_tok_add_added(bw_tokenizer *t, const tok_added *added, bw_err *err);
/* Merges from scores, as converters to Hugging Face's format make them: every way to cut a piece into two, by falling
 * score, then the longer left half. scores [n_tokens]. */
bw_status bw_tok_merges_from_scores(bw_tokenizer *t, const float *scores, bw_err *err);
/* After spellings, flags, merges, steps and added tokens are set: byte symbols, tries, pieces. */
bw_status bw_tok_finish(bw_tokenizer *t, bw_err *err);
/* Marks an end of generation; the first becomes eos. Ids outside the vocabulary are ignored. */
void bw_tok_add_eos(bw_tokenizer *t, int32_t id);
/* Marks special tokens whose names say that they end a turn or a text. */
void bw_tok_add_named_eos(bw_tokenizer *t);
bw_status bw_tok_add_template(bw_tokenizer *t, const char *name, size_t name_bytes, const char *text, size_t n,
                              bw_err *err);
bw_status bw_tok_set_around(bw_tokenizer *t, const int32_t *prefix, size_t n_prefix, const int32_t *suffix,
                            size_t n_suffix, bw_err *err);
/* A zeroed next step, or NULL with err when there are too many. */
tok_norm *bw_tok_next_norm(bw_tokenizer *t, tok_norm_kind kind, bw_err *err);
tok_pre *bw_tok_next_pre(bw_tokenizer *t, tok_pre_kind kind, bw_err *err);
/* An expression as a step: native where it is one of the known ones. */
bw_status bw_tok_add_regex_step(bw_tokenizer *t, const char *pattern, size_t n, tok_behaviour behaviour, bool invert,
                                bw_err *err);
/* The steps that a GGUF's tokenizer.ggml.pre names, and what goes with them. */
bw_status bw_tok_pre_by_name(bw_tokenizer *t, const char *name, size_t n, bool *add_bos, bw_err *err);
/* The byte-level alphabet: the character that stands for a byte, and back (-1 = not in the alphabet). */
uint32_t bw_tok_byte_to_char(unsigned char byte);
int bw_tok_char_to_byte(uint32_t cp);

#endif
