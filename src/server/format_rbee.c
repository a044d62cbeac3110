/* rbee's event stream: unnamed `data:` lines of one-line JSON; `started`, `token`s, `metrics`, one of `end` and
 * `error`, then [DONE], [CANCELLED] or [ERROR]. */
#include <math.h>
#include <string.h>

#include "internal.h"

void bw_format_rbee_begin(bw_job *job)
{
    bw_str *out = &job->stream.out;
    bw_str_add(out, "data: {\"type\":\"started\",\"job_id\":");
    bw_str_add_json(out, job->id, strlen(job->id));
    bw_str_add(out, ",\"model\":");
    bw_str_add_json(out, job->server->options.model_id, strlen(job->server->options.model_id));
    bw_str_add_format(out, ",\"started_at\":\"%lld\"}\n\n", (long long)job->created_unix);
}

void bw_format_rbee_event(bw_job *job, const bw_event *event)
{
    if (event->type != BW_EVENT_TEXT || event->text_bytes == 0)
        return;
    bw_str *out = &job->stream.out;
    bw_str_add(out, "data: {\"type\":\"token\",\"t\":");
    bw_str_add_json(out, event->text, event->text_bytes);
    bw_str_add_format(out, ",\"i\":%u}\n\n", job->n_pieces++);
}

static const char *stop_reason(const bw_job *job)
{
    switch (job->choices[0].finish) {
    case BW_FINISH_LENGTH:
        return "MAX_TOKENS";
    case BW_FINISH_STOP:
        return "STOP_SEQUENCE";
    case BW_FINISH_CANCELLED:
    case BW_FINISH_NONE: /* cancelled before it was submitted */
        return "CANCELLED";
    case BW_FINISH_ERROR:
        return "ERROR";
    case BW_FINISH_EOS:
        break;
    }
    return "EOS";
}

static const char *error_code(bw_status status)
{
    switch (status) {
    case BW_E_MEMORY:
        return "VRAM_OOM";
    case BW_E_CANCELLED:
    case BW_E_CLOSED:
        return "CANCELLED";
    case BW_E_TIMEOUT:
        return "TIMEOUT";
    case BW_E_ARG:
    case BW_E_RANGE:
    case BW_E_FORMAT:
    case BW_E_UNSUPPORTED:
        return "INVALID_REQUEST";
    default:
        return "INFERENCE_FAILED";
    }
}

/* One line: a sentence from elsewhere may hold line breaks, and both kinds of client split on them. */
static void add_line(bw_str *out, const char *text)
{
    for (; *text; text++)
        bw_str_add_char(out, (unsigned char)*text < 0x20 ? ' ' : *text);
}

static void add_error(bw_str *out, const bw_err *err)
{
    bw_str_add_format(out, "data: {\"type\":\"error\",\"code\":\"%s\",\"message\":", error_code(err->status));
    bw_str_add_json(out, err->text, strlen(err->text));
    bw_str_add(out, "}\n\ndata: [ERROR] ");
    add_line(out, err->text);
    bw_str_add(out, "\n\n");
}

void bw_format_rbee_end(bw_job *job)
{
    bw_str *out = &job->stream.out;
    if (!job->admitted) /* ended while it was held: `started` comes first all the same */
        bw_format_rbee_begin(job);
    if (job->state == BW_JOB_FAILED) {
        add_error(out, &job->err);
        return;
    }
    const bw_choice *choice = &job->choices[0];
    if (choice->n_generated > 0 && choice->generate_ms > 0) {
        bw_str_add(out, "data: {\"type\":\"metrics\",\"tokens_per_sec\":");
        bw_format_number(out, choice->n_generated * 1000.0 / choice->generate_ms);
        bw_str_add_format(out, ",\"vram_bytes\":%lld}\n\n", (long long)bw_server_vram_bytes(job->engine));
    }
    bw_str_add_format(out, "data: {\"type\":\"end\",\"tokens_out\":%d,\"decode_time_ms\":%lld,\"stop_reason\":\"%s\"",
                      choice->n_generated, (long long)llround(choice->generate_ms), stop_reason(job));
    if (choice->finish == BW_FINISH_STOP && choice->stop_matched) {
        bw_str_add(out, ",\"stop_sequence_matched\":");
        bw_str_add_json(out, choice->stop_matched, strlen(choice->stop_matched));
    }
    bool cancelled = choice->finish == BW_FINISH_CANCELLED || choice->finish == BW_FINISH_NONE;
    bw_str_add(out, cancelled ? "}\n\ndata: [CANCELLED]\n\n" : "}\n\ndata: [DONE]\n\n");
}
