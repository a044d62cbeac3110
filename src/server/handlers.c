/* What each route does; the rows of routes.def name these functions. */
#include <stdio.h>
#include <string.h>

#include "bw_clock.h"
#include "bw_mem.h"
#include "internal.h"
#include "prep.h"

#define HANDLER(name)                                                                                                  \
    bw_mhd_result bw_handle_##name(bw_http *http);                                                                     \
    bw_mhd_result bw_handle_##name(bw_http *http)

static bw_str *begin_json(bw_reply *reply, unsigned status)
{
    bw_reply_set_text(reply, status, "%s", "");
    reply->content_type = bw_type_json;
    return &reply->body;
}

static bw_mhd_result reply_json(bw_http *http, unsigned status, const char *text)
{
    bw_reply reply = {0};
    bw_str_add(begin_json(&reply, status), text);
    return bw_http_reply(http, &reply);
}

static bool is_head(const bw_http *http)
{
    return strcmp(http->method, "HEAD") == 0;
}

static bw_mhd_result reply_head_of_stream(bw_http *http)
{
    bw_reply reply = {0};
    bw_reply_set_text(&reply, 200, "data: ");
    reply.content_type = bw_type_sse;
    return bw_http_reply(http, &reply);
}

/* ---- state ---- */

HANDLER(root)
{
    bw_reply reply = {0};
    bw_str *out = begin_json(&reply, 200);
    bw_backend backend;
    bw_server_get_backend(http->server, &backend);
    bw_str_add(out, "{\"status\":\"healthy\",\"implementation\":");
    bw_str_add_json(out, backend.implementation, strlen(backend.implementation));
    bw_str_add(out, ",\"version\":\"" BW_VERSION "\"}");
    return bw_http_reply(http, &reply);
}

HANDLER(health)
{
    return reply_json(http, 200, "{\"status\":\"healthy\"}");
}

HANDLER(metrics)
{
    bw_reply reply = {0};
    bw_metrics_write(http->server, &reply.body);
    reply.status = 200;
    reply.content_type = bw_type_metrics;
    return bw_http_reply(http, &reply);
}

HANDLER(info)
{
    bw_server *server = http->server;
    bw_reply reply = {0};
    bw_str *out = begin_json(&reply, 200);
    pthread_mutex_lock(&server->lock);
    bw_engine *engine = server->engine;
    pthread_mutex_unlock(&server->lock);
    bw_str_add(out, "{\"worker\":");
    bw_server_write_worker(server, server->options.info_model_id, out);
    if (engine) {
        bw_model_info m = {0};
        bw_engine_info(engine, &m);
        bw_str_add(out, ",\"model\":{\"architecture\":");
        bw_str_add_json(out, m.architecture, strlen(m.architecture));
        bw_str_add(out, ",\"name\":");
        bw_str_add_json(out, m.name, strlen(m.name));
        bw_str_add(out, ",\"quantisation\":");
        bw_str_add_json(out, m.quantisation, strlen(m.quantisation));
        bw_str_add_format(out,
                          ",\"n_params\":%lld,\"weight_bytes\":%lld,\"kv_bytes\":%lld,\"n_vocab\":%d,\"n_layers\":%d,"
                          "\"n_embd\":%d,\"n_ctx\":%d,\"n_ctx_train\":%d,\"n_parallel\":%d,\"has_chat_template\":%s}",
                          (long long)m.n_params, (long long)m.weight_bytes, (long long)m.kv_bytes, m.n_vocab,
                          m.n_layers, m.n_embd, m.n_ctx, m.n_ctx_train, m.n_parallel,
                          m.has_chat_template ? "true" : "false");
    }
    bw_str_add_char(out, '}');
    return bw_http_reply(http, &reply);
}

HANDLER(ready)
{
    bw_server *server = http->server;
    bw_reply reply = {0};
    bw_str *out = begin_json(&reply, 200);
    pthread_mutex_lock(&server->lock);
    if (server->load_error[0]) {
        bw_str_add(out, "{\"ready\":false,\"state\":\"error\",\"message\":");
        bw_str_add_json(out, server->load_error, strlen(server->load_error));
    } else if (!server->engine) {
        bw_str_add(out, "{\"ready\":false,\"state\":\"loading\",\"progress_url\":\"/v1/loading/progress\"");
    } else {
        bw_str_add_format(out, "{\"ready\":true,\"state\":\"%s\",\"model_loaded\":true",
                          server->n_active ? "busy" : "idle");
    }
    bw_engine *engine = server->engine;
    bw_backend backend = server->backend;
    pthread_mutex_unlock(&server->lock);
    bw_model_info model = {0};
    if (engine)
        bw_engine_info(engine, &model);
    const char *notice = backend.notice[0] ? backend.notice : model.notice;
    if (notice) {
        bw_str_add(out, ",\"notice\":");
        bw_str_add_json(out, notice, strlen(notice));
    }
    bw_str_add_char(out, '}');
    return bw_http_reply(http, &reply);
}

/* ---- loading progress ---- */

static void watcher_destroy(bw_pipe *stream)
{
    bw_free(stream);
}

/* The stream's lock is held, or nobody else knows it yet. */
static void add_progress(bw_str *out, const bw_progress *progress)
{
    bw_str_add(out, "data: {\"stage\":");
    bw_str_add_json(out, progress->stage, strlen(progress->stage));
    if (progress->layers_total > 0)
        bw_str_add_format(out, ",\"layers_loaded\":%d,\"layers_total\":%d", progress->layers_done,
                          progress->layers_total);
    bw_str_add_format(out, ",\"vram_mb\":%llu}\n\n", (unsigned long long)(progress->bytes_done >> 20));
}

HANDLER(progress)
{
    bw_server *server = http->server;
    bw_reply reply = {0};
    if (is_head(http))
        return reply_head_of_stream(http);
    bw_watcher *watcher = bw_alloc_zero(1, sizeof *watcher);
    if (!watcher || !bw_pipe_init(&watcher->stream, server->hub)) {
        bw_free(watcher);
        bw_reply_set_text(&reply, 503, "no memory");
        return bw_http_reply(http, &reply);
    }
    watcher->stream.on_destroy = watcher_destroy;
    watcher->last_ns = bw_clock_now_ns();
    pthread_mutex_lock(&server->lock);
    bool loading = !server->engine && !server->load_error[0] && !server->stopping;
    if (loading) {
        bw_progress start = {.stage = "starting"};
        add_progress(&watcher->stream.out, server->has_progress ? &server->progress : &start);
        watcher->next = server->watchers;
        server->watchers = watcher;
        bw_pipe_ref(&watcher->stream);
    }
    pthread_mutex_unlock(&server->lock);
    bw_mhd_result result;
    if (loading) {
        bw_peer_enter(server, http->peer, BW_PEER_WATCH, 0);
        result = bw_http_stream(http, &watcher->stream);
    } else {
        bw_reply_set_text(&reply, 503, "Model not loading");
        result = bw_http_reply(http, &reply);
    }
    bw_pipe_unref(&watcher->stream);
    return result;
}

/* Server lock held: say something to every watcher, and perhaps that it was the last. */
static void tell_watchers(bw_server *server, const char *text, bool last)
{
    for (bw_watcher *watcher = server->watchers; watcher; watcher = watcher->next) {
        pthread_mutex_lock(&watcher->stream.lock);
        if (watcher->stream.out.len < 65536 || last)
            bw_str_add(&watcher->stream.out, text);
        watcher->stream.finished = watcher->stream.finished || last;
        watcher->last_ns = bw_clock_now_ns();
        bw_pipe_wake(&watcher->stream);
        pthread_mutex_unlock(&watcher->stream.lock);
    }
}

void bw_server_set_load_progress(void *user, const bw_progress *progress)
{
    static const char *const names[][2] = {
        {"loading", "loading_to_vram"}, {"repack", "loading_to_vram"}, {"open", "opening"}, {"warmup", "warmup"}};
    bw_server *server = user;
    bw_progress now = *progress;
    now.stage = "loading";
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (progress->stage && strcmp(progress->stage, names[i][0]) == 0)
            now.stage = names[i][1];
    if (progress->stage && strcmp(progress->stage, "ready") == 0)
        return; /* said when the server has the engine */
    bw_str text = {0};
    add_progress(&text, &now);
    pthread_mutex_lock(&server->lock);
    bool same = server->has_progress && strcmp(server->progress.stage, now.stage) == 0 &&
                server->progress.layers_done == now.layers_done &&
                server->progress.bytes_done >> 20 == now.bytes_done >> 20;
    server->progress = now;
    server->has_progress = true;
    if (!same && !text.failed)
        tell_watchers(server, text.data, false);
    pthread_mutex_unlock(&server->lock);
    bw_str_deinit(&text);
}

void bw_server_set_engine(bw_server *server, bw_engine *engine)
{
    pthread_mutex_lock(&server->lock);
    server->engine = engine;
    tell_watchers(server, "data: {\"stage\":\"ready\"}\n\ndata: [DONE]\n\n", true);
    pthread_mutex_unlock(&server->lock);
    bw_hub_wake(server->hub);
    bw_heartbeat_poke(server->heartbeat);
}

void bw_server_set_load_error(bw_server *server, const char *sentence)
{
    bw_str text = {0};
    bw_str_add(&text, "data: {\"stage\":\"error\",\"message\":");
    bw_str_add_json(&text, sentence, strlen(sentence));
    bw_str_add(&text, "}\n\ndata: [ERROR] the model could not be loaded\n\n");
    pthread_mutex_lock(&server->lock);
    snprintf(server->load_error, sizeof server->load_error, "%s", *sentence ? sentence : "the model was not loaded");
    bw_server_hide_folder(server, server->load_error);
    tell_watchers(server, text.failed ? "" : text.data, true);
    pthread_mutex_unlock(&server->lock);
    bw_str_deinit(&text);
    bw_hub_wake(server->hub);
}

void bw_watchers_tick(bw_server *server, int64_t now_ns)
{
    pthread_mutex_lock(&server->lock);
    for (bw_watcher **link = &server->watchers; *link;) {
        bw_watcher *watcher = *link;
        pthread_mutex_lock(&watcher->stream.lock);
        bool over = watcher->stream.gone || watcher->stream.finished || server->stopping;
        watcher->stream.finished = watcher->stream.finished || over;
        if (!over && now_ns - watcher->last_ns > 10000000000) {
            bw_str_add(&watcher->stream.out, ": keep-alive\n\n");
            watcher->last_ns = now_ns;
        }
        bw_pipe_wake(&watcher->stream);
        pthread_mutex_unlock(&watcher->stream.lock);
        if (over) {
            *link = watcher->next;
            bw_pipe_unref(&watcher->stream);
        } else {
            link = &watcher->next;
        }
    }
    pthread_mutex_unlock(&server->lock);
}

/* ---- rbee jobs ---- */

static bw_mhd_result reply_unknown_job(bw_http *http, const char *more)
{
    bw_reply reply = {0};
    int n = http->rest_bytes < 200 ? (int)http->rest_bytes : 200;
    bw_reply_set_text(&reply, 404, "Job %.*s not found%s", n, http->rest, more);
    return bw_http_reply(http, &reply);
}

HANDLER(stream_job)
{
    bw_reply reply = {0};
    bw_job *job = bw_job_find(http->server, http->rest, http->rest_bytes);
    if (!job)
        return reply_unknown_job(http, "");
    snprintf(http->job_id, sizeof http->job_id, "%s", job->id);
    pthread_mutex_lock(&job->stream.lock);
    if (job->claimed)
        bw_reply_set_text(&reply, 500, "Job %s has no token receiver", job->id);
    else if (job->state == BW_JOB_FAILED)
        bw_reply_set_text(&reply, 500, "Job %s failed: %s", job->id, job->err.text);
    else if (!is_head(http))
        job->claimed = true;
    pthread_mutex_unlock(&job->stream.lock);
    bw_mhd_result result = reply.status    ? bw_http_reply(http, &reply)
                           : is_head(http) ? reply_head_of_stream(http)
                                           : bw_http_stream(http, &job->stream);
    bw_pipe_unref(&job->stream);
    return result;
}

HANDLER(delete_job)
{
    bw_reply reply = {0};
    bw_job *job = bw_job_find(http->server, http->rest, http->rest_bytes);
    if (!job)
        return reply_unknown_job(http, " or cannot be cancelled");
    snprintf(http->job_id, sizeof http->job_id, "%s", job->id);
    bool done = bw_job_cancel(job);
    bw_pipe_unref(&job->stream);
    if (!done)
        return reply_unknown_job(http, " or cannot be cancelled");
    bw_str_add_format(begin_json(&reply, 200), "{\"job_id\":\"%s\",\"status\":\"cancelled\"}", http->job_id);
    return bw_http_reply(http, &reply);
}

/* ---- OpenAI ---- */

static void write_model(bw_server *server, bw_str *out)
{
    const char *id = server->options.model_id;
    bw_str_add(out, "{\"id\":");
    bw_str_add_json(out, id, strlen(id));
    bw_str_add_format(out, ",\"object\":\"model\",\"created\":%lld,\"owned_by\":\"beeswax\"}",
                      (long long)server->started_unix);
}

HANDLER(list_models)
{
    bw_reply reply = {0};
    bw_str *out = begin_json(&reply, 200);
    bw_str_add(out, "{\"object\":\"list\",\"data\":[");
    write_model(http->server, out);
    bw_str_add(out, "]}");
    return bw_http_reply(http, &reply);
}

HANDLER(get_model)
{
    bw_reply reply = {0};
    if (strcmp(http->rest, http->server->options.model_id) == 0)
        write_model(http->server, begin_json(&reply, 200));
    else
        bw_reply_set_openai(&reply, 404, "invalid_request_error", "model", "model_not_found",
                            "The model '%.200s' does not exist", http->rest);
    return bw_http_reply(http, &reply);
}

bw_mhd_result bw_http_resume(bw_http *http);

/* The exchange that created an rbee job ends; the job lives on without it. */
static bw_mhd_result reply_job_id(bw_http *http)
{
    bw_job *job = http->job;
    bw_reply reply = {0};
    bw_str *out = begin_json(&reply, 200);
    bw_str_add_format(out, "{\"job_id\":\"%s\",\"sse_url\":\"/v1/jobs/%s/stream\"}", job->id, job->id);
    bw_pipe_detach(&job->stream);
    http->stream = NULL;
    http->job = NULL;
    bw_pipe_unref(&job->stream);
    bw_pipe_unref(&job->stream);
    return bw_http_reply(http, &reply);
}

/* On the first call and whenever the job has woken the connection: answer, or go on waiting. */
bw_mhd_result bw_http_resume(bw_http *http)
{
    bw_job *job = http->job;
    bw_reply reply = {0};
    enum { WAIT, STREAM, JOB_ID, REPLY, GONE } next = WAIT;
    bool is_rbee = job->ask.api == BW_ASK_RBEE;
    pthread_mutex_lock(&job->stream.lock);
    if (job->stream.gone) {
        next = GONE;
    } else if (is_rbee && job->started) {
        next = JOB_ID;
    } else if (!is_rbee && job->ask.stream && job->admitted) {
        next = STREAM;
    } else if (job->has_reply) {
        next = REPLY;
        reply = job->reply;
        job->reply = (bw_reply){0};
    } else if (!http->settled) {
        /* Called again at once. libmicrohttpd remembers over a suspension that it was reading, would then read the FIN
         * of a client that has ended its sending, and close. After this turn it knows that it waits for us. */
        http->settled = true;
    } else {
        bw_pipe_suspend(&job->stream);
    }
    pthread_mutex_unlock(&job->stream.lock);
    switch (next) {
    case WAIT:
        return MHD_YES;
    case STREAM:
        return bw_http_stream(http, &job->stream);
    case JOB_ID:
        return reply_job_id(http);
    case REPLY:
        return bw_http_reply(http, &reply);
    case GONE:
        break;
    }
    return MHD_NO;
}

static bw_mhd_result reply_no_memory(bw_http *http, bw_ask_api api)
{
    bw_reply reply = {0};
    if (api == BW_ASK_RBEE)
        bw_reply_set_text(&reply, 503, "Failed to queue request: no memory");
    else
        bw_reply_set_openai(&reply, 503, "server_error", NULL, NULL, "The server has no memory for this request.");
    return bw_http_reply(http, &reply);
}

/* A request for text: read here when it is short, else by other threads while the connection waits. */
static bw_mhd_result start_job(bw_http *http, bw_ask_api api)
{
    bw_reply reply = {0};
    bw_err err = {0};
    size_t n_bytes = http->body.len;
    bw_job *job = bw_job_new(http->server, api, &http->body, bw_peer_client(http->peer));
    if (!job)
        return reply_no_memory(http, api);
    bool is_long = n_bytes > BW_PREP_INLINE_BYTES;
    if (is_long && !bw_job_has_room(job, &reply)) { /* said before the body is read */
        bw_pipe_unref(&job->stream);
        return bw_http_reply(http, &reply);
    }
    snprintf(http->job_id, sizeof http->job_id, "%s", job->id);
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(http->conn, MHD_CONNECTION_INFO_CONNECTION_FD);
    bw_pipe_ref(&job->stream);
    http->stream = &job->stream;
    http->job = job;
    bw_pipe_attach(&job->stream, http->conn, info ? info->connect_fd : -1);
    if (!is_long) {
        bw_job_prepare(job);
    } else if (bw_prep_add(http->server->prep, job, &err) != BW_OK) {
        bw_job_reply_failure(job, &err, &reply);
        bw_job_refuse(job, &reply);
    }
    return bw_http_resume(http);
}

HANDLER(create_job)
{
    return start_job(http, BW_ASK_RBEE);
}

HANDLER(completions)
{
    return start_job(http, BW_ASK_COMPLETION);
}

HANDLER(chat)
{
    return start_job(http, BW_ASK_CHAT);
}
