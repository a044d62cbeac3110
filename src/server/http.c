/* One HTTP exchange from its first byte to its log line: routing, authentication, body, answer. Owns what is the same
 * for every route; what a route does is in handlers.c. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "bw_clock.h"
#include "bw_log.h"
#include "bw_mem.h"
#include "internal.h"
#include "sha256.h"

enum { DRAIN_FACTOR = 8, MAX_AUTH_HEADER = 8192 };

/* ---- routes ---- */

#define ROUTE(method, path, match, handler, body, error) bw_mhd_result bw_handle_##handler(bw_http *http);
#include "routes.def"
#undef ROUTE

static const bw_route routes[] = {
#define ROUTE(method, path, match, handler, body, error)                                                               \
    {#method, path, BW_MATCH_##match, bw_handle_##handler, BW_BODY_##body, BW_ERROR_##error},
#include "routes.def"
#undef ROUTE
};

static bool route_matches(const bw_route *route, const char *path, const char **rest, size_t *rest_bytes)
{
    if (route->match == BW_MATCH_EXACT)
        return strcmp(route->path, path) == 0;
    size_t n = strlen(route->path), total = strlen(path), tail = route->match == BW_MATCH_JOB ? strlen("/stream") : 0;
    if (total <= n + tail || strncmp(path, route->path, n) != 0)
        return false;
    if (tail && strcmp(path + total - tail, "/stream") != 0)
        return false;
    *rest = path + n;
    *rest_bytes = total - n - tail;
    /* A job's id is one segment; a model's may hold slashes. */
    return route->error == BW_ERROR_OPENAI || !memchr(*rest, '/', *rest_bytes);
}

const bw_route *bw_route_find(const char *method, const char *path, const char **rest, size_t *rest_bytes,
                              const bw_route **same_path, char allow[64])
{
    const bool head = strcmp(method, "HEAD") == 0;
    allow[0] = 0;
    *same_path = NULL;
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++) {
        if (!route_matches(&routes[i], path, rest, rest_bytes))
            continue;
        if (strcmp(routes[i].method, head ? "GET" : method) == 0)
            return &routes[i];
        *same_path = &routes[i];
        size_t used = strlen(allow);
        snprintf(allow + used, 64 - used, "%s%s%s", used ? "," : "", routes[i].method,
                 strcmp(routes[i].method, "GET") == 0 ? ",HEAD" : "");
    }
    return NULL;
}

/* ---- answers ---- */

static void add_header(struct MHD_Response *response, const char *name, const char *value)
{
    if (MHD_add_response_header(response, name, value) != MHD_YES)
        bw_log_debug("a response header was left out: %s", name);
}

static void add_common_headers(bw_http *http, struct MHD_Response *response, const char *content_type)
{
    if (content_type)
        add_header(response, "content-type", content_type);
    const char *cors = http->server->options.cors;
    if (!*cors)
        return;
    const bool any = bw_guard_origin(cors, "*", NULL) == BW_ORIGIN_ALLOWED;
    if (!any)
        add_header(response, "vary", "origin");
    if (!any && http->origin != BW_ORIGIN_ALLOWED)
        return;
    add_header(response, "access-control-allow-origin",
               any ? "*" : MHD_lookup_connection_value(http->conn, MHD_HEADER_KIND, "Origin"));
    add_header(response, "access-control-expose-headers", "*");
}

static bw_mhd_result queue(bw_http *http, unsigned status, struct MHD_Response *response)
{
    bw_mhd_result result = MHD_queue_response(http->conn, status, response);
    MHD_destroy_response(response);
    http->status = status;
    http->answered = true;
    return result;
}

bw_mhd_result bw_http_reply(bw_http *http, bw_reply *reply)
{
    if (reply->body.failed)
        bw_reply_set_text(reply, 503, "no memory");
    bool empty = reply->body.len == 0;
    struct MHD_Response *response = MHD_create_response_from_buffer(
        reply->body.len, empty ? (void *)(uintptr_t) "" : reply->body.data, MHD_RESPMEM_MUST_COPY);
    http->n_bytes = reply->body.len;
    unsigned status = reply->status;
    int retry_after = reply->retry_after_s;
    const char *content_type = empty ? NULL : reply->content_type;
    bw_reply_deinit(reply);
    if (!response)
        return MHD_NO;
    add_common_headers(http, response, content_type);
    if (retry_after) {
        char text[16];
        snprintf(text, sizeof text, "%d", retry_after);
        add_header(response, "retry-after", text);
    }
    if (status == 405)
        add_header(response, "allow", http->allow);
    if (status == 401)
        add_header(response, "www-authenticate", "Bearer");
    if (http->close)
        add_header(response, "connection", "close");
    return queue(http, status, response);
}

static void stream_free(void *stream)
{
    bw_pipe_unref(stream);
}

bw_mhd_result bw_http_stream(bw_http *http, bw_pipe *stream)
{
    if (!http->stream) {
        bw_pipe_ref(stream);
        http->stream = stream;
    }
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(http->conn, MHD_CONNECTION_INFO_CONNECTION_FD);
    bw_pipe_attach(stream, http->conn, info ? info->connect_fd : -1);
    pthread_mutex_lock(&stream->lock);
    stream->begun = true;
    pthread_mutex_unlock(&stream->lock);
    bw_pipe_ref(stream);
    struct MHD_Response *response =
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 4096, bw_pipe_read, stream, stream_free);
    if (!response) {
        bw_pipe_unref(stream);
        return MHD_NO;
    }
    add_common_headers(http, response, bw_type_sse);
    add_header(response, "cache-control", "no-cache");
    add_header(response, "x-accel-buffering", "no");
    return queue(http, 200, response);
}

static bw_mhd_result reply_preflight(bw_http *http)
{
    struct MHD_Response *response = MHD_create_response_from_buffer(0, (void *)(uintptr_t) "", MHD_RESPMEM_PERSISTENT);
    if (!response)
        return MHD_NO;
    const char *headers = MHD_lookup_connection_value(http->conn, MHD_HEADER_KIND, "Access-Control-Request-Headers");
    add_common_headers(http, response, NULL);
    add_header(response, "access-control-allow-methods", "GET,HEAD,POST,DELETE,OPTIONS");
    /* A bare * would not cover Authorization: name what was asked for. */
    add_header(response, "access-control-allow-headers", headers && *headers ? headers : "*");
    if (MHD_lookup_connection_value(http->conn, MHD_HEADER_KIND, "Access-Control-Request-Private-Network"))
        add_header(response, "access-control-allow-private-network", "true");
    add_header(response, "access-control-max-age", "86400");
    add_header(response, "vary", "origin, access-control-request-method, access-control-request-headers");
    return queue(http, 200, response);
}

/* ---- what the head decides ---- */

static void refuse(bw_http *http, const char *code, const char *message)
{
    bw_reply_set_text(&http->early, 401, "{\"error\":{\"code\":\"%s\",\"message\":\"%s\"}}", code, message);
    http->early.content_type = bw_type_json;
}

/* Section 3.5 of the worker contract. The comparison is of digests, whole, so its time says nothing of the token. */
static void check_token(bw_http *http)
{
    const char *header = MHD_lookup_connection_value(http->conn, MHD_HEADER_KIND, "Authorization");
    size_t n = header ? strlen(header) : 0;
    static const char prefix[] = "Bearer ";
    bool good = n > 0 && n <= MAX_AUTH_HEADER;
    while (good && n && (*header == ' ' || *header == '\t'))
        header++, n--;
    good = good && n > sizeof prefix - 1 && strncasecmp(header, prefix, sizeof prefix - 1) == 0;
    if (good) {
        header += sizeof prefix - 1;
        n -= sizeof prefix - 1;
        while (n && (*header == ' ' || *header == '\t'))
            header++, n--;
        while (n && (header[n - 1] == ' ' || header[n - 1] == '\t'))
            n--;
        for (size_t i = 0; i < n; i++)
            good = good && (unsigned char)header[i] >= 0x20 && header[i] != 0x7F;
    }
    if (!good || n == 0) {
        refuse(http, "MISSING_API_KEY", "Missing API key");
        return;
    }
    unsigned char digest[32], difference = 0;
    bw_sha256(header, n, digest);
    for (int i = 0; i < 32; i++)
        difference |= (unsigned char)(digest[i] ^ http->server->token_digest[i]);
    if (difference)
        refuse(http, "INVALID_API_KEY", "Invalid or missing API key");
    else
        http->authorised = true;
}

static bool is_json_type(const char *type)
{
    if (!type)
        return false;
    size_t n = strcspn(type, "; \t");
    if (n == strlen(bw_type_json) && strncasecmp(type, bw_type_json, n) == 0)
        return true;
    return n > 17 && strncasecmp(type, "application/", 12) == 0 && strncasecmp(type + n - 5, "+json", 5) == 0;
}

static bw_mhd_result reply_unclear(bw_http *http, const char *repeated)
{
    bw_reply reply = {0};
    if (repeated)
        bw_reply_set_text(&reply, 400, "The request has more than one %s header: send it once", repeated);
    else
        bw_reply_set_text(&reply, 400,
                          "The request does not say clearly where its body ends: send one Content-Length, or "
                          "Transfer-Encoding: chunked");
    http->close = true;
    return bw_http_reply(http, &reply);
}

/* Under /v1, unless it is rbee's, a client of OpenAI's API expects its errors. */
static bool is_openai_path(const bw_http *http)
{
    static const char *const rbee[] = {"/v1/jobs", "/v1/infer", "/v1/ready", "/v1/loading"};
    if (http->route || http->same_path)
        return (http->route ? http->route : http->same_path)->error == BW_ERROR_OPENAI;
    for (size_t i = 0; i < sizeof rbee / sizeof *rbee; i++)
        if (bw_str_starts(http->path, rbee[i]))
            return false;
    return bw_str_starts(http->path, "/v1/") || strcmp(http->path, "/v1") == 0;
}

/* Once slashes are single and none is at the end. */
static void tidy_path(char *path)
{
    char *to = path;
    for (const char *from = path; *from; from++)
        if (*from != '/' || to == path || to[-1] != '/')
            *to++ = *from;
    if (to > path + 1 && to[-1] == '/')
        to--;
    *to = 0;
}

static bool look_up(bw_http *http)
{
    http->route =
        bw_route_find(http->method, http->path, &http->rest, &http->rest_bytes, &http->same_path, http->allow);
    return http->route || http->same_path;
}

/* The path as it came; else without needless slashes; else OpenAI's routes without their /v1. http->path becomes the
 * one that was found, for what follows goes by it. */
static void find_route(bw_http *http)
{
    if (look_up(http))
        return;
    tidy_path(http->path);
    if (look_up(http) || bw_str_starts(http->path, "/v1"))
        return;
    bw_str with_v1 = {0};
    bw_str_add_format(&with_v1, "/v1%s", http->path);
    char *given = http->path;
    http->path = bw_str_take(&with_v1, NULL);
    if (http->path && look_up(http) && is_openai_path(http)) {
        bw_free(given);
        return;
    }
    bw_free(http->path);
    http->path = given;
    look_up(http);
}

static void reply_no_route(bw_http *http)
{
    const bool other_method = http->same_path != NULL;
    if (!is_openai_path(http))
        bw_reply_set_text(&http->early, other_method ? 405 : 404, "%s", "");
    else if (other_method)
        bw_reply_set_openai(&http->early, 405, "invalid_request_error", NULL, "method_not_supported",
                            "%s is not possible on %.200s; use %s", http->method, http->path, http->allow);
    else
        bw_reply_set_openai(&http->early, 404, "invalid_request_error", NULL, "unknown_url",
                            "Unknown request URL: %s %.200s. There are /v1/chat/completions, /v1/completions and "
                            "/v1/models",
                            http->method, http->path);
}

static void forbid(bw_http *http, const char *param, const char *sentence)
{
    if (bw_str_starts(http->path, "/v1"))
        bw_reply_set_openai(&http->early, 403, "invalid_request_error", NULL, param, "%s", sentence);
    else
        bw_reply_set_text(&http->early, 403, "%s", sentence);
}

/* Browsers run pages of strangers: such a page must not reach this server under its own name, nor command it. */
static void check_browser(bw_http *http)
{
    const bw_server_options *o = &http->server->options;
    const char *host = MHD_lookup_connection_value(http->conn, MHD_HEADER_KIND, "Host");
    const char *origin = MHD_lookup_connection_value(http->conn, MHD_HEADER_KIND, "Origin");
    const bool reads = strcmp(http->method, "GET") == 0 || strcmp(http->method, "HEAD") == 0;
    char text[600];
    http->origin = bw_guard_origin(o->cors, origin, host);
    if (!bw_guard_host(o->allow_hosts, o->host, host)) {
        snprintf(text, sizeof text,
                 "The host '%.200s' is not one of this server's names; if it is, start the server with --allow-host "
                 "and that name",
                 host);
        forbid(http, "host_not_allowed", text);
    } else if (http->origin == BW_ORIGIN_FOREIGN && !reads) {
        snprintf(text, sizeof text,
                 "Pages of '%.200s' may not use this server; if they should, start it with --cors and that origin",
                 origin);
        forbid(http, "origin_not_allowed", text);
    }
}

static void decide_early(bw_http *http)
{
    const bw_server_options *options = &http->server->options;
    find_route(http);
    if (options->token[0] && bw_str_starts(http->path, "/v1/"))
        check_token(http);
    if (http->early.status)
        return;
    if (!http->route) {
        reply_no_route(http);
        return;
    }
    const char *type = MHD_lookup_connection_value(http->conn, MHD_HEADER_KIND, "Content-Type");
    if (http->route->body == BW_BODY_JSON && !is_json_type(type)) {
        static const char text[] = "Expected request with `Content-Type: application/json`";
        if (http->route->error == BW_ERROR_OPENAI)
            bw_reply_set_openai(&http->early, 415, "invalid_request_error", NULL, NULL, "%s", text);
        else
            bw_reply_set_text(&http->early, 415, "%s", text);
    }
}

static bw_mhd_result reply_too_large(bw_http *http)
{
    bw_reply reply = {0};
    size_t limit = http->server->options.max_body;
    if (http->early.status)
        return bw_http_reply(http, &http->early);
    if (http->route && http->route->error == BW_ERROR_OPENAI)
        bw_reply_set_openai(&reply, 413, "invalid_request_error", NULL, NULL,
                            "The body is larger than this server's limit of %zu bytes.", limit);
    else
        bw_reply_set_text(&reply, 413, "The body is larger than this server's limit of %zu bytes", limit);
    return bw_http_reply(http, &reply);
}

/* ---- the exchange ---- */

static bw_http *http_new(bw_server *server, struct MHD_Connection *conn, const char *url, const char *method)
{
    bw_http *http = bw_alloc_zero(1, sizeof *http);
    if (!http)
        return NULL;
    http->path = bw_strdup(url);
    if (!http->path) {
        bw_free(http);
        return NULL;
    }
    http->server = server;
    http->conn = conn;
    snprintf(http->method, sizeof http->method, "%s", method);
    http->start_ns = bw_clock_now_ns();
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(conn, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    http->peer = info ? info->socket_context : NULL;
    pthread_mutex_lock(&server->lock);
    server->n_exchanges++;
    pthread_mutex_unlock(&server->lock);
    return http;
}

static bw_mhd_result reply_crowded(bw_http *http)
{
    static const char text[] = "Too many connections from this address; close some, or come again";
    bw_reply reply = {0};
    find_route(http);
    if (is_openai_path(http))
        bw_reply_set_openai(&reply, 503, "server_error", NULL, "overloaded", "%s", text);
    else
        bw_reply_set_text(&reply, 503, "%s", text);
    reply.retry_after_s = 1;
    http->close = true;
    return bw_http_reply(http, &reply);
}

static bool is_preflight(const bw_http *http)
{
    return strcmp(http->method, "OPTIONS") == 0 && *http->server->options.cors;
}

static bw_mhd_result first_call(bw_http *http)
{
    bw_peer_enter(http->server, http->peer, BW_PEER_BODY, http->server->options.body_timeout_ms);
    if (http->peer && http->peer->refused) /* set before libmicrohttpd knew of it */
        return reply_crowded(http);
    const char *repeated;
    if (!bw_guard_head(http->conn, &repeated))
        return reply_unclear(http, repeated);
    check_browser(http);
    if (!http->early.status && !is_preflight(http)) /* which is answered once a body, if any, was read */
        decide_early(http);
    const char *length = MHD_lookup_connection_value(http->conn, MHD_HEADER_KIND, "Content-Length");
    const char *expect = MHD_lookup_connection_value(http->conn, MHD_HEADER_KIND, "Expect");
    uint64_t n_bytes = 0;
    if (length && bw_parse_u64(length, &n_bytes) && n_bytes > http->server->options.max_body)
        http->too_large = true;
    /* A small body is read to its end even when nobody wants it: the client then reads the answer and keeps the
     * connection. A client that asks first, or sends far too much, gets the answer at once. */
    if (http->too_large && (expect || n_bytes / DRAIN_FACTOR > http->server->options.max_body))
        return reply_too_large(http);
    if (http->early.status && expect)
        return bw_http_reply(http, &http->early);
    return MHD_YES;
}

static bw_mhd_result take_upload(bw_http *http, const char *data, size_t *n_bytes)
{
    size_t limit = http->server->options.max_body;
    size_t n = *n_bytes;
    *n_bytes = 0;
    http->n_uploaded += n;
    if (http->answered)
        return MHD_YES;
    if (http->n_uploaded / DRAIN_FACTOR > limit)
        return MHD_NO;
    if (http->n_uploaded > limit)
        http->too_large = true;
    if (http->too_large)
        bw_str_deinit(&http->body);
    else if (!http->early.status)
        bw_str_add_bytes(&http->body, data, n);
    return MHD_YES;
}

bw_mhd_result bw_http_resume(bw_http *http);

bw_mhd_result bw_http_access(void *user, struct MHD_Connection *conn, const char *url, const char *method,
                             const char *version, const char *upload_data, size_t *upload_data_size, void **state)
{
    bw_http *http = *state;
    if (!http) {
        http = http_new(user, conn, url, method);
        *state = http;
        return http ? first_call(http) : MHD_NO;
    }
    if (*upload_data_size)
        return take_upload(http, upload_data, upload_data_size);
    if (http->answered)
        return MHD_YES;
    if (http->job)
        return bw_http_resume(http);
    bw_peer_enter(http->server, http->peer, BW_PEER_ANSWER, 0);
    if (!http->early.status && is_preflight(http))
        return reply_preflight(http);
    if (http->too_large)
        return reply_too_large(http);
    if (http->early.status)
        return bw_http_reply(http, &http->early);
    if (http->body.failed) {
        bw_reply reply = {0};
        bw_reply_set_text(&reply, 503, "no memory");
        reply.retry_after_s = 1;
        return bw_http_reply(http, &reply);
    }
    bw_mhd_result result = http->route->handler(http);
    if (http->stream) {
        pthread_mutex_lock(&http->stream->lock);
        http->stream->interim = strcmp(version, "HTTP/1.1") == 0;
        pthread_mutex_unlock(&http->stream->lock);
    }
    return result;
}

static void log_request(bw_http *http, enum MHD_RequestTerminationCode why, uint64_t n_bytes)
{
    double ms = (double)(bw_clock_now_ns() - http->start_ns) / 1e6;
    bw_str fields = {0};
    bw_str_add(&fields, "\"method\":");
    bw_str_add_json(&fields, http->method, strlen(http->method));
    bw_str_add(&fields, ",\"path\":");
    bw_str_add_json(&fields, http->path, strnlen(http->path, 256));
    bw_str_add_format(&fields, ",\"status\":%u,\"ms\":%.3f,\"bytes\":%llu", http->status, ms,
                      (unsigned long long)n_bytes);
    if (http->job_id[0])
        bw_str_add_format(&fields, ",\"job_id\":\"%s\"", http->job_id);
    if (http->authorised)
        bw_str_add_format(&fields, ",\"identity\":\"%s\"", http->server->identity);
    if (why != MHD_REQUEST_TERMINATED_COMPLETED_OK)
        bw_str_add_format(&fields, ",\"aborted\":true");
    if (!fields.failed)
        bw_log_fields(BW_LOG_INFO, fields.data, "request");
    bw_str_deinit(&fields);
}

void bw_http_completed(void *user, struct MHD_Connection *conn, void **state, enum MHD_RequestTerminationCode why)
{
    bw_server *server = user;
    bw_http *http = *state;
    (void)conn;
    if (!http)
        return;
    *state = NULL;
    uint64_t n_bytes = http->n_bytes;
    if (http->stream) {
        bw_pipe_detach(http->stream);
        pthread_mutex_lock(&http->stream->lock);
        n_bytes += http->stream->n_sent;
        bool unfinished = !http->stream->finished;
        http->stream->gone = true; /* nobody reads it any more */
        bw_str_deinit(&http->stream->out);
        http->stream->pos = 0;
        pthread_mutex_unlock(&http->stream->lock);
        if (unfinished && http->stream->on_gone)
            http->stream->on_gone(http->stream);
        bw_pipe_unref(http->stream);
    }
    if (http->job)
        bw_pipe_unref(&http->job->stream);
    bw_peer_enter(server, http->peer, BW_PEER_HEAD, server->options.head_timeout_ms);
    if (!server->options.no_request_log)
        log_request(http, why, n_bytes);
    pthread_mutex_lock(&server->lock);
    server->n_exchanges--;
    server->n_bytes += (int64_t)n_bytes;
    server->n_by_class[http->status / 100 < BW_N_STATUS ? http->status / 100 : 0]++;
    pthread_mutex_unlock(&server->lock);
    bw_str_deinit(&http->body);
    bw_reply_deinit(&http->early);
    bw_free(http->path);
    bw_free(http);
}
