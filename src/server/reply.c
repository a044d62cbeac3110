/* Whole HTTP answers and the end of a request's description; see ask.h. */
#include "ask.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char bw_type_json[] = "application/json";
const char bw_type_text[] = "text/plain; charset=utf-8";
const char bw_type_sse[] = "text/event-stream";
const char bw_type_metrics[] = "text/plain; version=0.0.4; charset=utf-8";

void bw_reply_deinit(bw_reply *reply)
{
    bw_str_deinit(&reply->body);
    *reply = (bw_reply){0};
}

void bw_reply_set_text(bw_reply *reply, unsigned status, const char *format, ...)
{
    char text[1200];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    bw_reply_deinit(reply);
    reply->status = status;
    reply->content_type = bw_type_text;
    bw_str_add_bytes(&reply->body, text, bw_utf8_valid_prefix(text, strlen(text)));
}

void bw_reply_set_openai(bw_reply *reply, unsigned status, const char *type, const char *param, const char *code,
                         const char *format, ...)
{
    char text[1200];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    bw_reply_deinit(reply);
    reply->status = status;
    reply->content_type = bw_type_json;
    bw_str *out = &reply->body;
    bw_str_add(out, "{\"error\":{\"message\":");
    bw_str_add_json(out, text, bw_utf8_valid_prefix(text, strlen(text)));
    bw_str_add_format(out, ",\"type\":\"%s\",\"param\":", type);
    if (param)
        bw_str_add_json(out, param, strlen(param));
    else
        bw_str_add(out, "null");
    bw_str_add(out, ",\"code\":");
    if (code)
        bw_str_add_json(out, code, strlen(code));
    else
        bw_str_add(out, "null");
    bw_str_add(out, "}}");
}

void bw_ask_release(bw_ask *ask)
{
    bw_arena_deinit(&ask->arena);
    ask->prompts = NULL;
    ask->messages_json = ask->extra_json = NULL;
    ask->sampling.logit_bias = NULL;
    ask->sampling.n_logit_bias = 0;
    ask->stop = NULL;
    ask->stop_tokens = NULL;
    ask->bad_words = NULL;
    ask->n_prompts = ask->n_stop = ask->n_stop_tokens = ask->n_bad_words = 0;
}

void bw_ask_deinit(bw_ask *ask)
{
    bw_arena_deinit(&ask->arena);
    *ask = (bw_ask){0};
}
