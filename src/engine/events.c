#include "bw_events.h"

#include <string.h>

#include "bw_mem.h"

/* One event: this, bw_token_logprob [n_tokens], bw_token_logprob [n_tokens, n_top], then bytes. Text pointers hold
 * offsets from the record until it is popped, because the buffer may move. */
typedef struct record {
    size_t n_bytes; /* of the whole record, a multiple of 8 */
    size_t text_bytes, n_tokens, n_top;
    bw_event_type type;
} record;

void bw_events_deinit(bw_events *events)
{
    bw_free(events->data);
    *events = (bw_events){0};
}

void bw_events_clear(bw_events *events)
{
    events->len = events->read = 0;
}

static size_t piece_bytes(const bw_tokenizer *tokenizer, int32_t token)
{
    size_t n = 0;
    return bw_tokenizer_piece(tokenizer, token, &n) ? n + 1 : 1;
}

/* Copy the token's bytes to base[at..) and say so in out; returns the end. */
static size_t put_piece(const bw_tokenizer *tokenizer, int32_t token, float logprob, char *base, size_t at,
                        bw_token_logprob *out)
{
    size_t n = 0;
    const char *piece = bw_tokenizer_piece(tokenizer, token, &n);
    if (!piece)
        n = 0;
    if (n > 0)
        memcpy(base + at, piece, n);
    base[at + n] = 0;
    *out = (bw_token_logprob){.token = token, .logprob = logprob, .text_bytes = n};
    uintptr_t offset = at;
    memcpy(&out->text, &offset, sizeof offset);
    return at + n + 1;
}

bw_status bw_events_push(bw_events *events, const bw_tokenizer *tokenizer, bw_event_type type, const char *text,
                         size_t text_bytes, const bw_event_token *tokens, size_t n_tokens, size_t n_top, bw_err *err)
{
    size_t arrays = sizeof(record) + n_tokens * (1 + n_top) * sizeof(bw_token_logprob);
    size_t n_bytes = arrays + text_bytes + 1;
    for (size_t i = 0; i < n_tokens; i++) {
        n_bytes += piece_bytes(tokenizer, tokens[i].token);
        for (size_t j = 0; j < n_top; j++)
            n_bytes += piece_bytes(tokenizer, tokens[i].top[j].token);
    }
    n_bytes = (n_bytes + 7) / 8 * 8;
    if (!bw_reserve((void **)&events->data, &events->cap, events->len + n_bytes, 1))
        return bw_fail_memory(err, events->len + n_bytes, "a session's events");
    char *base = events->data + events->len;
    record head = {.n_bytes = n_bytes, .text_bytes = text_bytes, .n_tokens = n_tokens, .n_top = n_top, .type = type};
    memcpy(base, &head, sizeof head);
    bw_token_logprob *out = (bw_token_logprob *)(base + sizeof head), *top = out + n_tokens;
    size_t at = arrays;
    if (text_bytes > 0)
        memcpy(base + at, text, text_bytes);
    base[at + text_bytes] = 0;
    at += text_bytes + 1;
    for (size_t i = 0; i < n_tokens; i++) {
        at = put_piece(tokenizer, tokens[i].token, tokens[i].logprob, base, at, &out[i]);
        for (size_t j = 0; j < n_top; j++)
            at = put_piece(tokenizer, tokens[i].top[j].token, tokens[i].top[j].logprob, base, at, top++);
    }
    events->len += n_bytes;
    return BW_OK;
}

bool bw_events_pop(bw_events *events, bw_event *event)
{
    if (events->read >= events->len)
        return false;
    char *base = events->data + events->read;
    record head;
    memcpy(&head, base, sizeof head);
    bw_token_logprob *tokens = (bw_token_logprob *)(base + sizeof head);
    size_t n = head.n_tokens * (1 + head.n_top);
    for (size_t i = 0; i < n; i++) {
        uintptr_t offset;
        memcpy(&offset, &tokens[i].text, sizeof offset);
        tokens[i].text = base + offset;
    }
    *event = (bw_event){.type = head.type,
                        .text = base + sizeof head + n * sizeof *tokens,
                        .text_bytes = head.text_bytes,
                        .tokens = tokens,
                        .n_tokens = head.n_tokens,
                        .top = head.n_top > 0 ? tokens + head.n_tokens : NULL,
                        .n_top = head.n_top};
    events->read += head.n_bytes;
    return true;
}
