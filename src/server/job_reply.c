/* What a request is told that is not accepted, in its API's words. */
#include <string.h>

#include "internal.h"

void bw_server_hide_folder(const bw_server *server, char *text)
{
    const char *path = server->options.model_path;
    size_t n = strlen(path);
    while (n > 0 && path[n - 1] != '/')
        n--;
    for (char *at = text; n > 1 && *at; at++)
        while (strncmp(at, path, n) == 0)
            memmove(at, at + n, strlen(at + n) + 1);
}

void bw_job_reply_busy(const bw_job *job, bw_reply *reply, const char *why)
{
    if (job->ask.api == BW_ASK_RBEE)
        bw_reply_set_text(reply, 503, "Failed to queue request: %s", why);
    else
        bw_reply_set_openai(reply, 503, "server_error", NULL, "overloaded", "%s", why);
    reply->retry_after_s = 1;
}

void bw_job_reply_failure(const bw_job *job, const bw_err *why, bw_reply *reply)
{
    bw_err told = *why, *err = &told;
    bw_server_hide_folder(job->server, told.text);
    bool rbee = job->ask.api == BW_ASK_RBEE;
    switch (err->status) {
    case BW_E_FULL:
        bw_job_reply_busy(job, reply, err->text[0] ? err->text : "the queue is full");
        return;
    case BW_E_ARG:
    case BW_E_RANGE:
    case BW_E_FORMAT:
    case BW_E_UNSUPPORTED:
        if (!rbee) {
            const char *prompt = job->ask.api == BW_ASK_CHAT ? "messages" : "prompt";
            const char *code = err->status == BW_E_RANGE ? "context_length_exceeded" : NULL;
            bw_reply_set_openai(reply, 400, "invalid_request_error", job->bad_param ? job->bad_param : prompt, code,
                                "%s", err->text);
            return;
        }
        bw_reply_set_text(reply, 400, "%s", "");
        reply->content_type = bw_type_json;
        bw_str_add_format(&reply->body, "{\"field\":\"%s\",\"message\":", job->bad_param ? job->bad_param : "prompt");
        bw_str_add_json(&reply->body, err->text, strlen(err->text));
        bw_str_add_char(&reply->body, '}');
        return;
    case BW_E_LOST:
        if (rbee)
            bw_reply_set_text(reply, 503, "Failed to queue request: %s", err->text);
        else
            bw_reply_set_openai(reply, 503, "server_error", NULL, "device_lost", "%s", err->text);
        return;
    case BW_E_CANCELLED:
    case BW_E_CLOSED:
        if (rbee)
            bw_reply_set_text(reply, 500, "Failed to queue request: %s", err->text);
        else
            bw_reply_set_openai(reply, 503, "server_error", NULL, "shutting_down", "%s", err->text);
        return;
    default:
        if (rbee)
            bw_reply_set_text(reply, 500, "Failed to queue request: %s", err->text);
        else
            bw_reply_set_openai(reply, err->status == BW_E_MEMORY ? 503 : 500, "server_error", NULL, NULL, "%s",
                                err->text);
    }
}
