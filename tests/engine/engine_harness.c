#include "engine_harness.h"

bw_engine *make_engine(int32_t n_ctx, int32_t n_parallel, int32_t n_batch, int64_t kv_tokens)
{
    bw_engine_options o;
    bw_engine_options_init(&o);
    o.model = "fake.gguf";
    o.n_threads = 1;
    o.n_ctx = n_ctx;
    o.n_parallel = n_parallel;
    o.n_batch = n_batch;
    o.kv_tokens = kv_tokens;
    o.no_warmup = true;
    bw_engine *engine = NULL;
    bw_err err = {0};
    assert_ok(bw_engine_new(&o, &engine, &err), err);
    return engine;
}

bool read_all(bw_session *session, outcome *out)
{
    *out = (outcome){0};
    bw_event e;
    for (;;) {
        if (bw_session_next(session, 60000, &e, &out->err) != BW_OK)
            return false;
        if (e.type == BW_EVENT_END || e.type == BW_EVENT_ERROR)
            break;
        out->n_events++;
        if (e.text[e.text_bytes] != 0 || bw_utf8_valid_prefix(e.text, e.text_bytes) != e.text_bytes)
            return false;
        if (e.type == BW_EVENT_PROMPT) {
            out->prompt_logprobs[out->n_prompt_events++] = e.tokens[0].logprob;
            bw_str_add_bytes(&out->prompt, e.text, e.text_bytes);
            continue;
        }
        bw_str_add_bytes(&out->text, e.text, e.text_bytes);
        for (size_t i = 0; i < e.n_tokens; i++) {
            out->logprobs[out->n_tokens] = e.tokens[i].logprob;
            out->tokens[out->n_tokens++] = e.tokens[i].token;
        }
    }
    bw_str_add_bytes(&out->text, "", 0);
    bw_str_add_bytes(&out->prompt, "", 0);
    out->last = e;
    if (e.stop_matched)
        snprintf(out->stop, sizeof out->stop, "%s", e.stop_matched);
    return true;
}

void outcome_deinit(outcome *out)
{
    bw_str_deinit(&out->text);
    bw_str_deinit(&out->prompt);
}

bw_request make_request(const char *prompt, int32_t n)
{
    bw_request r;
    bw_request_init(&r);
    r.prompt = prompt;
    r.add_special = false;
    r.parse_special = true;
    r.max_tokens = n;
    r.sampling.temperature = 0;
    return r;
}

bw_session *submit(bw_engine *engine, const bw_request *request)
{
    bw_session *session = NULL;
    bw_err err = {0};
    assert_ok(bw_engine_submit(engine, request, &session, &err), err);
    return session;
}

void run_request(bw_engine *engine, const bw_request *request, outcome *out)
{
    bw_session *session = submit(engine, request);
    if (!read_all(session, out))
        fail_msg("no event: %s", out->err.text);
    bw_session_free(session);
}
