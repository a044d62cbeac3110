/* A growing buffer of events, written by the engine and read by the session's owner. One allocation that is reused:
 * whoever reads drains one buffer while the engine fills another, and then they swap. Everything an event shows is
 * copied into it, so it outlives the model. No locks here. */
#ifndef BW_EVENTS_H
#define BW_EVENTS_H

#include "bw_err.h"
#include "bw_sampler.h"
#include "bw_tokenizer.h"

typedef struct bw_events {
    char *data;
    size_t len, cap, read; /* bytes */
} bw_events;

typedef struct bw_event_token {
    int32_t token;
    float logprob;
    const bw_top_logprob *top; /* [n_top] of the call below */
} bw_event_token;

void bw_events_deinit(bw_events *events);
/* Append a PROMPT or TEXT event; on failure nothing was appended. */
bw_status bw_events_push(bw_events *events, const bw_tokenizer *tokenizer, bw_event_type type, const char *text,
                         size_t text_bytes, const bw_event_token *tokens, size_t n_tokens, size_t n_top, bw_err *err);
/* The next event, whose pointers are valid until the buffer is cleared; false when there is none. */
bool bw_events_pop(bw_events *events, bw_event *event);
void bw_events_clear(bw_events *events);

#endif
