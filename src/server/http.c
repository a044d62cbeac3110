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
                              char allow[64])
{
    const bool head = strcmp(method, "HEAD") == 0;
    allow[0] = 0;
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++) {
        if (!route_matches(&routes[i], path, rest, rest_bytes))
            continue;
        if (strcmp(routes[i].method, head ? "GET" : method) == 0)
            return &routes[i];
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
    if (http->server->options.no_cors)
        return;
    add_header(response, "access-control-allow-origin", "*");
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
    good = good && n > sizeof prefix - 1 && memcmp(header, prefix, sizeof prefix - 1) == 0;
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

/* ---- where a body ends ---- */

struct framing {
    int n_lengths, n_encodings;
    bool wrong;
};

static bw_mhd_result look_at_header(void *user, enum MHD_ValueKind kind, const char *name, const char *value)
{
    (void)kind;
    struct framing *f = user;
    if (strpbrk(name, " \t"))
        f->wrong = true; /* "Content-Length : 5" would pass as some other header */
    if (strcasecmp(name, "Content-Length") == 0)
        f->n_lengths++;
    if (strcasecmp(name, "Transfer-Encoding") == 0) {
        f->n_encodings++;
        f->wrong = f->wrong || !value || strcasecmp(value, "chunked") != 0;
    }
    return MHD_YES;
}

/* Heads that two servers in a row may read differently are refused and the connection closed (RFC 9112, 6.3 and 11.2:
 * request smuggling): two lengths, a length and an encoding, an unknown encoding, white space in a name. */
static bool framing_is_clear(bw_http *http)
{
    struct framing f = {0};
    MHD_get_connection_values(http->conn, MHD_HEADER_KIND, look_at_header, &f);
    return !f.wrong && f.n_lengths + f.n_encodings <= 1;
}

static bw_mhd_result reply_unclear(bw_http *http)
{
    bw_reply reply = {0};
    bw_reply_set_text(&reply, 400,
                      "The request does not say clearly where its body ends: send one Content-Length, or "
                      "Transfer-Encoding: chunked");
    http->close = true;
    return bw_http_reply(http, &reply);
}

static void decide_early(bw_http *http)
{
    const bw_server_options *options = &http->server->options;
    http->route = bw_route_find(http->method, http->path, &http->rest, &http->rest_bytes, http->allow);
    if (options->token[0] && strncmp(http->path, "/v1/", 4) == 0)
        check_token(http);
    if (http->early.status)
        return;
    if (!http->route) {
        bw_reply_set_text(&http->early, http->allow[0] ? 405 : 404, "%s", "");
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
    const bw_route *route = bw_route_find(http->method, http->path, &http->rest, &http->rest_bytes, http->allow);
    if (route && route->error == BW_ERROR_OPENAI)
        bw_reply_set_openai(&reply, 503, "server_error", NULL, "overloaded", "%s", text);
    else
        bw_reply_set_text(&reply, 503, "%s", text);
    reply.retry_after_s = 1;
    http->close = true;
    return bw_http_reply(http, &reply);
}

static bw_mhd_result first_call(bw_http *http)
{
    bw_peer_enter(http->server, http->peer, BW_PEER_BODY, http->server->options.body_timeout_ms);
    if (http->peer && http->peer->refused) /* set before libmicrohttpd knew of it */
        return reply_crowded(http);
    if (!framing_is_clear(http))
        return reply_unclear(http);
    if (strcmp(http->method, "OPTIONS") == 0 && !http->server->options.no_cors)
        return MHD_YES; /* answered once a body, if any, was read */
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
    (void)version;
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
    if (strcmp(method, "OPTIONS") == 0 && !http->server->options.no_cors)
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
    return http->route->handler(http);
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
