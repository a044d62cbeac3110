/* Start and stop of the server; see bw_server.h. */
#include "bw_server.h"

#include <stdio.h>
#include <string.h>

#include "bw_clock.h"
#include "bw_json.h"
#include "bw_log.h"
#include "bw_mem.h"
#include "internal.h"
#include "prep.h"
#include "sha256.h"

enum { STOP_JOBS_MS = 600, STOP_FLUSH_MS = 300, CONNECTION_MEMORY = 32 * 1024, IDLE_TIMEOUT_S = 120, MAX_TOKEN = 8000 };

void bw_server_options_init(bw_server_options *options)
{
    *options = (bw_server_options){0};
}

uint16_t bw_server_port(const bw_server *server)
{
    return server->port;
}

int32_t bw_server_count_active(const bw_server *server)
{
    bw_server *s = (bw_server *)(uintptr_t)server;
    pthread_mutex_lock(&s->lock);
    int32_t n = s->n_active;
    pthread_mutex_unlock(&s->lock);
    return n;
}

/* ---- options ---- */

#define STRING_OPTIONS(X)                                                                                              \
    X(host, "127.0.0.1")                                                                                               \
    X(token, "")                                                                                                       \
    X(model_id, "model")                                                                                               \
    X(model_ref, given->model_id ? given->model_id : "model")                                                          \
    X(info_model_id, given->model_ref ? given->model_ref : given->model_id ? given->model_id : "model")                \
    X(model_path, "")                                                                                                  \
    X(worker_id, "worker")                                                                                             \
    X(hive_url, "")                                                                                                    \
    X(implementation, "beeswax")                                                                                       \
    X(device, "cpu:0")                                                                                                 \
    X(cors, "")                                                                                                        \
    X(allow_hosts, "")

static bool copy_options(bw_server_options *o, const bw_server_options *given)
{
    bool good = true;
    *o = *given;
#define COPY(name, otherwise)                                                                                          \
    o->name = bw_strdup(given->name ? given->name : (otherwise));                                                      \
    good = good && o->name;
    STRING_OPTIONS(COPY)
#undef COPY
#define LIMIT(name, value, unit, meaning) o->name = o->name ? o->name : (value);
#include "limits.def"
#undef LIMIT
    return good;
}

static void free_options(bw_server_options *o)
{
#define FREE(name, otherwise) bw_free((char *)(uintptr_t)o->name);
    STRING_OPTIONS(FREE)
#undef FREE
}

/* ---- libmicrohttpd ---- */

static void log_mhd(void *user, const char *format, va_list args)
{
    (void)user;
    char text[500];
    vsnprintf(text, sizeof text, format, args);
    text[strcspn(text, "\n")] = 0;
    bw_log_debug("http: %s", text);
}

/* A daemon to each thread; the door hands them connections in turn. */
static bw_status start_daemons(bw_server *server, bw_err *err)
{
    /* poll, not epoll: libmicrohttpd's epoll is edge-triggered and forgets a FIN that came with the last bytes read, so
     * a client that sent half a request and left would hold its place until the deadline. Streams are suspended while
     * they wait and cost poll nothing. */
    const unsigned flags =
        MHD_USE_POLL_INTERNAL_THREAD | MHD_USE_NO_LISTEN_SOCKET | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG;
    const unsigned most = server->n_places + server->n_spare;
    server->daemons = bw_alloc_zero(server->options.n_threads, sizeof *server->daemons);
    if (!server->daemons)
        return bw_fail_memory(err, server->options.n_threads * sizeof *server->daemons, "the server's threads");
    for (uint32_t i = 0; i < server->options.n_threads; i++) {
        /* MHD_OPTION_EXTERNAL_LOGGER comes first so that it is in force for what the others complain about. */
        server->daemons[i] = MHD_start_daemon(
            flags, 0, NULL, NULL, bw_http_access, server, MHD_OPTION_EXTERNAL_LOGGER, log_mhd, NULL,
            MHD_OPTION_UNESCAPE_CALLBACK, bw_guard_unescape, NULL, MHD_OPTION_CONNECTION_LIMIT, most,
            MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)IDLE_TIMEOUT_S, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
            (size_t)CONNECTION_MEMORY, MHD_OPTION_NOTIFY_COMPLETED, bw_http_completed, server,
            MHD_OPTION_NOTIFY_CONNECTION, bw_door_connection, server, MHD_OPTION_END);
        if (!server->daemons[i])
            return bw_fail(err, BW_E_IO, "libmicrohttpd cannot serve %s port %u", server->options.host, server->port);
    }
    return BW_OK;
}

/* ---- start and stop ---- */

static void server_tick(void *user)
{
    bw_server *server = user;
    int64_t now = bw_clock_now_ns();
    bw_jobs_tick(server);
    bw_watchers_tick(server, now);
    bw_door_tick(server, now);
}

static void server_free(bw_server *server)
{
    free_options(&server->options);
    pthread_mutex_destroy(&server->lock);
    bw_free(server);
}

/* A token that no header could carry would keep everyone out. */
static bw_status check_token(const char *token, bw_err *err)
{
    size_t n = strlen(token);
    if (n > MAX_TOKEN)
        return bw_fail(err, BW_E_ARG, "the API token has %zu bytes; at most %d are possible", n, (int)MAX_TOKEN);
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)token[i] < 0x20 || token[i] == 0x7F)
            return bw_fail(err, BW_E_ARG, "the API token holds a control character (byte %zu): no client can send it",
                           i + 1);
    if (n && (token[0] == ' ' || token[n - 1] == ' '))
        return bw_fail(err, BW_E_ARG, "the API token begins or ends with a space: no client can send it");
    return BW_OK;
}

static void digest_token(bw_server *server)
{
    const char *token = server->options.token;
    bw_sha256(token, strlen(token), server->token_digest);
    snprintf(server->identity, sizeof server->identity, "token:%02x%02x%02x", server->token_digest[0],
             server->token_digest[1], server->token_digest[2]);
}

bw_status bw_server_start(const bw_server_options *options, bw_server **out, bw_err *err)
{
    *out = NULL;
    BW_TRY(check_token(options->token ? options->token : "", err));
    BW_TRY(bw_guard_check_lists(options->cors ? options->cors : "", options->allow_hosts ? options->allow_hosts : "",
                                err));
    bw_json_init();
    bw_server *server = bw_alloc_zero(1, sizeof *server);
    if (!server)
        return bw_fail_memory(err, sizeof *server, "the server");
    pthread_mutex_init(&server->lock, NULL);
    server->held_last = &server->held;
    server->engine = options->engine;
    server->started_unix = bw_clock_unix_s();
    if (!copy_options(&server->options, options)) {
        server_free(server);
        return bw_fail_memory(err, sizeof *server, "the server's options");
    }
    digest_token(server);
    bw_server_set_backend(server, server->options.device, server->options.implementation, NULL);
    bw_status status = bw_door_open(server, err);
    if (status == BW_OK)
        status = bw_hub_new(server_tick, server, &server->hub, err);
    if (status == BW_OK)
        status = bw_prep_new(&server->prep, err);
    if (status == BW_OK)
        status = start_daemons(server, err);
    if (status == BW_OK)
        status = bw_door_start(server, err);
    if (status == BW_OK) {
        struct bw_heartbeat *heartbeat = NULL;
        status = bw_heartbeat_start(server, &heartbeat, err);
        pthread_mutex_lock(&server->lock); /* there may be requests already */
        server->heartbeat = heartbeat;
        pthread_mutex_unlock(&server->lock);
    }
    if (status != BW_OK) {
        bw_server_stop(server);
        return status;
    }
    *out = server;
    return BW_OK;
}

/* Wait until a count under the server's lock is zero, or for the time given. */
static void wait_for_none(bw_server *server, const int32_t *count, int64_t ms)
{
    int64_t until = bw_clock_now_ns() + ms * 1000000;
    for (;;) {
        pthread_mutex_lock(&server->lock);
        int32_t n = *count;
        pthread_mutex_unlock(&server->lock);
        if (n == 0 || bw_clock_now_ns() >= until)
            return;
        bw_clock_sleep_ms(5);
    }
}

void bw_server_stop(bw_server *server)
{
    if (!server)
        return;
    pthread_mutex_lock(&server->lock);
    server->stopping = true;
    pthread_mutex_unlock(&server->lock);
    bw_heartbeat_end(server->heartbeat);
    bw_door_shut(server);
    bw_prep_stop(server->prep); /* what waits there is refused */
    if (server->hub) {
        bw_jobs_cancel_all(server);
        bw_hub_wake(server->hub);
        wait_for_none(server, &server->n_active, STOP_JOBS_MS);
        bw_hub_stop(server->hub);
        bw_watchers_tick(server, bw_clock_now_ns());
        bw_jobs_end_all(server);
        wait_for_none(server, &server->n_exchanges, STOP_FLUSH_MS);
    }
    for (uint32_t i = 0; server->daemons && i < server->options.n_threads; i++)
        if (server->daemons[i])
            MHD_stop_daemon(server->daemons[i]);
    bw_jobs_forget_all(server);
    bw_door_free(server);
    bw_free(server->daemons);
    bw_heartbeat_free(server->heartbeat);
    bw_hub_free(server->hub);
    bw_prep_free(server->prep);
    server_free(server);
}
