/* Tokenizers from GGUF metadata or tokenizer.json: byte-level BPE and SentencePiece (BPE scores with byte fallback).
 * Ids equal Hugging Face tokenizers'. A tokenizer is immutable after loading and may be used from several threads.
 * NULL is a tokenizer without a vocabulary, as of a model that takes token ids only: encoding is BW_E_UNSUPPORTED,
 * decoding gives no text.
 */
#ifndef BW_TOKENIZER_H
#define BW_TOKENIZER_H

#include "bw_err.h"
#include "bw_gguf.h"
#include "bw_str.h"

typedef struct bw_tokenizer bw_tokenizer;

bw_status bw_tokenizer_from_gguf(const bw_gguf *gguf, bw_tokenizer **tokenizer, bw_err *err);
/* json: tokenizer.json [n_bytes]; config_json: tokenizer_config.json or NULL; generation_json: generation_config.json
 * or NULL (several EOS). path for messages. */
bw_status bw_tokenizer_from_json(const char *json, size_t n_bytes, const char *config_json, size_t config_bytes,
                                 const char *generation_json, size_t generation_bytes, const char *path,
                                 bw_tokenizer **tokenizer, bw_err *err);
void bw_tokenizer_free(bw_tokenizer *tokenizer);

int32_t bw_tokenizer_n_tokens(const bw_tokenizer *tokenizer);
int32_t bw_tokenizer_bos(const bw_tokenizer *tokenizer); /* -1 = none */
int32_t bw_tokenizer_eos(const bw_tokenizer *tokenizer); /* the first; -1 = none */
/* Ends a generation: any EOS, end-of-turn or end-of-text token (such as <|im_end|>, <|eot_id|>, <end_of_turn>). O(1).
 */
bool bw_tokenizer_is_eos(const bw_tokenizer *tokenizer, int32_t token);
bool bw_tokenizer_is_special(const bw_tokenizer *tokenizer, int32_t token); /* control tokens: not shown as text */
bool bw_tokenizer_adds_bos(const bw_tokenizer *tokenizer);
bool bw_tokenizer_adds_eos(const bw_tokenizer *tokenizer);
/* The token written exactly like this ("<|im_end|>"), or -1. */
int32_t bw_tokenizer_find(const bw_tokenizer *tokenizer, const char *text, size_t n_bytes);
/* The vocabulary's own spelling of a token, NUL-terminated; NULL outside the vocabulary. */
const char *bw_tokenizer_spelling(const bw_tokenizer *tokenizer, int32_t token);
/* The bytes a token stands for in the middle of a text (special tokens: their spelling). Pointer lives as long as the
 * tokenizer. n_bytes may be 0. */
const char *bw_tokenizer_piece(const bw_tokenizer *tokenizer, int32_t token, size_t *n_bytes);
/* The chat template stored with the tokenizer, or NULL. name: NULL or "default" = the main one, else such as
 * "tool_use". */
const char *bw_tokenizer_chat_template(const bw_tokenizer *tokenizer, const char *name);

typedef struct bw_encode_options {
    bool add_special;   /* BOS and EOS around the text, as the tokenizer's file asks for them */
    bool parse_special; /* control tokens written in the text become those tokens */
    bool once;          /* add_special for a text that will be continued: no BOS where it begins with it, no EOS */
    /* [n_literal], in order and apart: where parse_special does not hold. Control tokens are those that the file calls
     * special, those that end a generation, and all that are spelt <|...|>; one that lies in these spans, even in part,
     * is text. Everything else is tokenised as without them. */
    const bw_text_span *literal;
    size_t n_literal;
    size_t max_tokens; /* 0 = any number; a text that has more is BW_E_RANGE, mostly before it was encoded */
} bw_encode_options;
/* Text (invalid UTF-8 is replaced by U+FFFD as Hugging Face does) to tokens, appended to *tokens (bw_free).
 * Time is O(n log n) in the text's bytes. */
bw_status bw_tokenizer_encode(const bw_tokenizer *tokenizer, const char *text, size_t n_bytes,
                              const bw_encode_options *options, int32_t **tokens, size_t *n_tokens, bw_err *err);
/* All tokens to text at once, appended to out. */
bw_status bw_tokenizer_decode(const bw_tokenizer *tokenizer, const int32_t *tokens, size_t n_tokens, bool show_special,
                              bw_str *out, bw_err *err);

/* Streaming decode: what was emitted so far, joined, always equals a prefix of the decode of all tokens so far; a
 * piece ends on a whole UTF-8 character; nothing is emitted twice or lost. O(1) per token. */
typedef struct bw_detokenizer {
    const bw_tokenizer *tokenizer;
    bool show_special;
    bool at_start;   /* a leading space that the tokenizer adds is still to be stripped */
    char pending[8]; /* bytes of an incomplete character */
    int n_pending;
} bw_detokenizer;
void bw_detokenizer_init(bw_detokenizer *d, const bw_tokenizer *tokenizer, bool show_special);
/* Append what this token completes to out (perhaps nothing). Bytes that can never become valid UTF-8 become U+FFFD.
 * Tokens beyond the vocabulary, which a model's padded table has, have no text; negative ones are BW_E_RANGE. */
bw_status bw_detokenizer_add(bw_detokenizer *d, int32_t token, bw_str *out, bw_err *err);
/* The end: an incomplete character becomes U+FFFD. */
bw_status bw_detokenizer_finish(bw_detokenizer *d, bw_str *out, bw_err *err);

#endif
