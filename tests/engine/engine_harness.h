/* Engines over the fake model, and sessions run to their end. */
#ifndef ENGINE_HARNESS_H
#define ENGINE_HARNESS_H

#include "../bw_test.h"

#include "bw_str.h"
#include "fake.h"

/* An engine with these sizes (0 = default); fails the test when it cannot be made. */
bw_engine *make_engine(int32_t n_ctx, int32_t n_parallel, int32_t n_batch, int64_t kv_tokens);

typedef struct outcome {
    bw_str text;          /* of the TEXT events */
    bw_str prompt;        /* of the PROMPT events */
    int32_t tokens[4096]; /* of the TEXT events */
    float logprobs[4096];
    size_t n_tokens, n_events, n_prompt_events;
    float prompt_logprobs[1024];
    bw_event last;
    char stop[64];
    bw_err err;
} outcome;
/* Reads events until the last one; false: bw_session_next said something else (in out->err). */
bool read_all(bw_session *session, outcome *out);
void outcome_deinit(outcome *out);
/* Greedy, n tokens, text prompt without BOS, special tokens read. */
bw_request make_request(const char *prompt, int32_t n);
bw_session *submit(bw_engine *engine, const bw_request *request);
/* Submit, read, free. */
void run_request(bw_engine *engine, const bw_request *request, outcome *out);

#endif
