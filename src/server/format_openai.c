/* OpenAI's answers, whole and as chunks, for completions and chats. */
#include <math.h>
#include <string.h>

#include "bw_mem.h"
#include "internal.h"

void bw_format_number(bw_str *out, double value)
{
    if (isfinite(value))
        bw_str_add_format(out, "%.9g", value);
    else if (isinf(value) && value < 0)
        bw_str_add(out, "-9999.0"); /* as OpenAI writes a token that cannot come */
    else
        bw_str_add(out, "null");
}

/* ---- log probabilities ---- */

/* A token's bytes as a JSON string; what is no UTF-8 on its own as OpenAI's "bytes:\xe2\x9c". */
static void add_token_text(bw_str *out, const bw_token_logprob *token)
{
    if (bw_utf8_valid_prefix(token->text, token->text_bytes) == token->text_bytes) {
        bw_str_add_json(out, token->text, token->text_bytes);
        return;
    }
    bw_str_add(out, "\"bytes:");
    for (size_t i = 0; i < token->text_bytes; i++)
        bw_str_add_format(out, "\\\\x%02x", (unsigned char)token->text[i]);
    bw_str_add_char(out, '"');
}

static void add_chat_token(bw_str *out, const bw_token_logprob *token)
{
    bw_str_add(out, "{\"token\":");
    add_token_text(out, token);
    bw_str_add(out, ",\"logprob\":");
    bw_format_number(out, (double)token->logprob);
    bw_str_add(out, ",\"bytes\":[");
    for (size_t i = 0; i < token->text_bytes; i++)
        bw_str_add_format(out, i ? ",%u" : "%u", (unsigned char)token->text[i]);
    bw_str_add_char(out, ']');
}

static void collect_chat(bw_str *out, const bw_event *event)
{
    for (size_t i = 0; i < event->n_tokens; i++) {
        if (out->len)
            bw_str_add_char(out, ',');
        add_chat_token(out, &event->tokens[i]);
        bw_str_add(out, ",\"top_logprobs\":[");
        for (size_t j = 0; event->top && j < event->n_top; j++) {
            if (j)
                bw_str_add_char(out, ',');
            add_chat_token(out, &event->top[i * event->n_top + j]);
            bw_str_add_char(out, '}');
        }
        bw_str_add(out, "]}");
    }
}

static void collect_completion(bw_choice *choice, const bw_event *event)
{
    bw_str *lists = choice->logprobs;
    for (size_t i = 0; i < event->n_tokens; i++) {
        const bw_token_logprob *token = &event->tokens[i];
        for (int j = 0; j < 4; j++)
            if (lists[j].len)
                bw_str_add_char(&lists[j], ',');
        add_token_text(&lists[0], token);
        bw_format_number(&lists[1], (double)token->logprob);
        if (event->top && event->n_top && isfinite(token->logprob)) {
            for (size_t j = 0; j < event->n_top; j++) {
                const bw_token_logprob *top = &event->top[i * event->n_top + j];
                bw_str_add_char(&lists[2], j ? ',' : '{');
                add_token_text(&lists[2], top);
                bw_str_add_char(&lists[2], ':');
                bw_format_number(&lists[2], (double)top->logprob);
            }
            bw_str_add_char(&lists[2], '}');
        } else {
            bw_str_add(&lists[2], "null");
        }
        bw_str_add_format(&lists[3], "%zu", choice->text_offset);
        for (size_t j = 0; j < token->text_bytes; j++)
            choice->text_offset += ((unsigned char)token->text[j] & 0xC0) != 0x80;
    }
}

static void collect_logprobs(bw_job *job, bw_choice *choice, const bw_event *event)
{
    if (job->ask.n_logprobs < 0)
        return;
    if (job->ask.api == BW_ASK_CHAT)
        collect_chat(&choice->logprobs[0], event);
    else
        collect_completion(choice, event);
}

/* ,"logprobs":... of what was collected, which is then forgotten. */
static void add_logprobs(bw_job *job, bw_choice *choice, bw_str *out)
{
    bw_str *lists = choice->logprobs;
    if (job->ask.n_logprobs < 0 || !lists[0].len) {
        bw_str_add(out, ",\"logprobs\":null");
        return;
    }
    if (job->ask.api == BW_ASK_CHAT) {
        bw_str_add(out, ",\"logprobs\":{\"content\":[");
        bw_str_add_bytes(out, lists[0].data, lists[0].len);
        bw_str_add(out, "],\"refusal\":null}");
    } else {
        static const char *const names[] = {"{\"tokens\":[", "],\"token_logprobs\":[", "],\"top_logprobs\":[",
                                            "],\"text_offset\":["};
        bw_str_add(out, ",\"logprobs\":");
        for (int i = 0; i < 4; i++) {
            bw_str_add(out, names[i]);
            bw_str_add_bytes(out, lists[i].data, lists[i].len);
        }
        bw_str_add(out, "]}");
    }
    for (int i = 0; i < 4; i++) {
        out->failed = out->failed || lists[i].failed;
        bw_str_clear(&lists[i]);
    }
}

/* ---- chunks ---- */

static const char *finish_name(bw_finish finish)
{
    return finish == BW_FINISH_LENGTH ? "length" : "stop"; /* what was cancelled or failed becomes an error instead */
}

static void add_head(bw_job *job, bw_str *out, const char *object)
{
    const char *model = job->server->options.model_id;
    bw_str_add_format(out, "{\"id\":\"%s\",\"object\":\"%s\",\"created\":%lld,\"model\":", job->id, object,
                      (long long)job->created_unix);
    bw_str_add_json(out, model, strlen(model));
    bw_str_add(out, ",\"system_fingerprint\":\"beeswax-" BW_VERSION "\",\"choices\":[");
}

static const char *chunk_object(const bw_job *job)
{
    return job->ask.api == BW_ASK_CHAT ? "chat.completion.chunk" : "text_completion";
}

/* One chunk. role: chat's first. text NULL: none. finish NONE: null. */
static void add_chunk(bw_job *job, bw_choice *choice, bool role, const char *text, size_t n_bytes, bw_finish finish)
{
    bw_str *out = &job->stream.out;
    bw_str_add(out, "data: ");
    add_head(job, out, chunk_object(job));
    bw_str_add_format(out, "{\"index\":%zu,", (size_t)(choice - job->choices));
    if (job->ask.api == BW_ASK_CHAT) {
        bw_str_add(out, role ? "\"delta\":{\"role\":\"assistant\"" : "\"delta\":{");
        if (text) {
            bw_str_add(out, role ? ",\"content\":" : "\"content\":");
            bw_str_add_json(out, text, n_bytes);
        }
        bw_str_add_char(out, '}');
    } else {
        bw_str_add(out, "\"text\":");
        bw_str_add_json(out, text ? text : "", n_bytes);
    }
    add_logprobs(job, choice, out);
    if (finish == BW_FINISH_NONE)
        bw_str_add(out, ",\"finish_reason\":null}]");
    else
        bw_str_add_format(out, ",\"finish_reason\":\"%s\"}]", finish_name(finish));
    bw_str_add(out, job->ask.include_usage ? ",\"usage\":null}\n\n" : "}\n\n");
}

static void add_usage(bw_job *job, bw_str *out)
{
    int64_t n_prompt = 0, n_cached = 0, n_generated = 0;
    for (size_t i = 0; i < job->n_choices; i++) {
        const bw_choice *choice = &job->choices[i];
        n_generated += choice->n_generated;
        if (i % (size_t)job->ask.n == 0) { /* a prompt counts once, however many choices continue it */
            n_prompt += choice->n_prompt;
            n_cached += choice->n_cached;
        }
    }
    bw_str_add_format(out,
                      "\"usage\":{\"prompt_tokens\":%lld,\"completion_tokens\":%lld,\"total_tokens\":%lld,"
                      "\"prompt_tokens_details\":{\"cached_tokens\":%lld}}",
                      (long long)n_prompt, (long long)n_generated, (long long)(n_prompt + n_generated),
                      (long long)n_cached);
}

/* ---- the three moments ---- */

static void openai_begin(bw_job *job)
{
    if (!job->ask.stream)
        return;
    for (size_t i = 0; i < job->n_choices; i++) {
        bw_choice *choice = &job->choices[i];
        if (job->ask.api == BW_ASK_CHAT)
            add_chunk(job, choice, true, "", 0, BW_FINISH_NONE);
        else if (job->ask.echo && job->ask.n_logprobs < 0 && choice->text.len)
            add_chunk(job, choice, false, choice->text.data, choice->text.len, BW_FINISH_NONE);
    }
}

static void openai_event(bw_job *job, bw_choice *choice, const bw_event *event)
{
    if (event->type == BW_EVENT_PROMPT || event->type == BW_EVENT_TEXT) {
        collect_logprobs(job, choice, event);
        if (!job->ask.stream) {
            if (event->type == BW_EVENT_TEXT) /* an echoed prompt stands there already */
                bw_str_add_bytes(&choice->text, event->text, event->text_bytes);
        } else if (event->text_bytes || choice->logprobs[0].len) {
            add_chunk(job, choice, false, event->text ? event->text : "", event->text_bytes, BW_FINISH_NONE);
        }
    } else if (event->type == BW_EVENT_END && job->ask.stream && event->finish != BW_FINISH_CANCELLED) {
        add_chunk(job, choice, false, NULL, 0, event->finish);
    }
}

static void end_whole(bw_job *job)
{
    bw_reply_set_text(&job->reply, 200, "%s", "");
    job->reply.content_type = bw_type_json;
    bw_str *out = &job->reply.body;
    bool chat = job->ask.api == BW_ASK_CHAT;
    add_head(job, out, chat ? "chat.completion" : "text_completion");
    for (size_t i = 0; i < job->n_choices; i++) {
        bw_choice *choice = &job->choices[i];
        bw_str_add_format(out, i ? ",{\"index\":%zu," : "{\"index\":%zu,", i);
        bw_str_add(out, chat ? "\"message\":{\"role\":\"assistant\",\"content\":" : "\"text\":");
        bw_str_add_json(out, choice->text.data ? choice->text.data : "", choice->text.len);
        bw_str_add(out, chat ? ",\"refusal\":null}" : "");
        add_logprobs(job, choice, out);
        bw_str_add_format(out, ",\"finish_reason\":\"%s\"}", finish_name(choice->finish));
        out->failed = out->failed || choice->text.failed;
    }
    bw_str_add(out, "],");
    add_usage(job, out);
    bw_str_add_char(out, '}');
}

static void openai_end(bw_job *job)
{
    bw_err err = job->err;
    if (job->state == BW_JOB_CANCELLED)
        err = (bw_err){BW_E_CANCELLED, "the request was cancelled because the server is shutting down"};
    bool failed = job->state != BW_JOB_DONE;
    if (failed) {
        bw_job_reply_failure(job, &err, &job->reply);
    } else if (!job->ask.stream) {
        end_whole(job);
        if (job->reply.body.failed) {
            bw_fail(&err, BW_E_MEMORY, "the server has no memory for the answer");
            bw_job_reply_failure(job, &err, &job->reply);
        }
    }
    job->has_reply = failed || !job->ask.stream;
    if (!job->ask.stream || !job->admitted)
        return;
    bw_str *out = &job->stream.out;
    if (failed) { /* the status line is out already: the error travels as an event */
        bw_str_add(out, "data: ");
        if (job->reply.body.data)
            bw_str_add_bytes(out, job->reply.body.data, job->reply.body.len);
        bw_str_add(out, "\n\n");
    } else if (job->ask.include_usage) {
        bw_str_add(out, "data: ");
        add_head(job, out, chunk_object(job));
        bw_str_add(out, "],");
        add_usage(job, out);
        bw_str_add(out, "}\n\n");
    }
    bw_str_add(out, "data: [DONE]\n\n");
}

void bw_format_begin(bw_job *job)
{
    if (job->ask.api == BW_ASK_RBEE)
        bw_format_rbee_begin(job);
    else
        openai_begin(job);
}

void bw_format_event(bw_job *job, bw_choice *choice, const bw_event *event)
{
    if (job->ask.api == BW_ASK_RBEE)
        bw_format_rbee_event(job, event);
    else
        openai_event(job, choice, event);
}

void bw_format_end(bw_job *job)
{
    if (job->ask.api == BW_ASK_RBEE)
        bw_format_rbee_end(job);
    else
        openai_end(job);
}
