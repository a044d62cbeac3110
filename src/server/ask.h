/* What a client asked for, read from a request's body. No sockets here, so that tests and the fuzzer call it directly.
 *
 * Three forms of body: rbee's tagged operation, the flat one that rbee's queen sends, and OpenAI's two. */
#ifndef BW_SERVER_ASK_H
#define BW_SERVER_ASK_H

#include "bw_arena.h"
#include "bw_str.h"

typedef enum bw_ask_api { BW_ASK_RBEE, BW_ASK_COMPLETION, BW_ASK_CHAT } bw_ask_api;

typedef struct bw_ask_prompt {
    const char *text; /* [n_bytes], or NULL when tokens are given */
    size_t n_bytes;
    const bw_text_span *literal; /* [n_literal] of text: where no control token is read */
    size_t n_literal;
    const int32_t *tokens; /* [n_tokens] */
    size_t n_tokens;
} bw_ask_prompt;

#define BW_ASK_MAX_CHOICES 64 /* prompts * n of one request */
#define BW_ASK_MAX_STOP 4
#define BW_ASK_MAX_LOGPROBS 20

typedef struct bw_ask {
    bw_arena arena; /* owns everything below */
    bw_ask_api api;
    bw_ask_prompt *prompts; /* [n_prompts]; for a chat one, filled when the template is rendered */
    size_t n_prompts;
    const char *messages_json, *extra_json; /* chat only; extra_json may be NULL */
    int32_t n;                              /* choices per prompt, >= 1 */
    int32_t max_tokens;                     /* -1 = what the context allows */
    bool stream, include_usage, echo, ignore_eos;
    bool add_generation_prompt;
    int32_t n_logprobs; /* -1 = none */
    bw_sampling sampling;
    const char **stop; /* [n_stop] */
    size_t n_stop;
    int32_t min_tokens;
    const int32_t *stop_tokens; /* [n_stop_tokens] */
    size_t n_stop_tokens;
    const char **bad_words; /* [n_bad_words] */
    size_t n_bad_words;
} bw_ask;

/* An HTTP answer that is already whole. */
typedef struct bw_reply {
    unsigned status;          /* HTTP */
    const char *content_type; /* static storage */
    bw_str body;
    int retry_after_s; /* 0 = no such header */
} bw_reply;

extern const char bw_type_json[], bw_type_text[], bw_type_sse[], bw_type_metrics[];

void bw_reply_deinit(bw_reply *reply);
/* A plain-text answer. */
void bw_reply_set_text(bw_reply *reply, unsigned status, const char *format, ...) BW_PRINTF(3, 4);
/* OpenAI's error object; param and code may be NULL. */
void bw_reply_set_openai(bw_reply *reply, unsigned status, const char *type, const char *param, const char *code,
                         const char *format, ...) BW_PRINTF(6, 7);

/* Read a body. true: *ask is filled, the caller ends it with bw_ask_deinit. false: *reply says why, *ask is empty.
 * rbee: 400 text for what is no JSON, 500 text for what is no operation, 400 {"errors":[..]} for values out of range.
 * OpenAI: 400 with its error object. Out of memory: 503. */
bool bw_ask_read_rbee(const char *body, size_t n_bytes, bw_ask *ask, bw_reply *reply);
bool bw_ask_read_openai(const char *body, size_t n_bytes, bool chat, bw_ask *ask, bw_reply *reply);
/* Free the texts, tokens and lists; the numbers and switches stay. */
void bw_ask_release(bw_ask *ask);
void bw_ask_deinit(bw_ask *ask);

#endif
