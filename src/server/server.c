/* Start and stop of the server; see bw_server.h. */
#include "bw_server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bw_clock.h"
#include "bw_json.h"
#include "bw_log.h"
#include "bw_mem.h"
#include "internal.h"
#include "sha256.h"

enum {
    STOP_JOBS_MS = 600,
    STOP_FLUSH_MS = 300,
    CONNECTION_MEMORY = 32 * 1024,
    IDLE_TIMEOUT_S = 120,
    BACKLOG = 1024,
    MAX_TOKEN = 8000
};

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
    X(worker_id, "worker")                                                                                             \
    X(hive_url, "")                                                                                                    \
    X(implementation, "beeswax")                                                                                       \
    X(device, "cpu:0")

static bool copy_options(bw_server_options *o, const bw_server_options *given)
{
    bool good = true;
    *o = *given;
#define COPY(name, otherwise)                                                                                          \
    o->name = bw_strdup(given->name ? given->name : (otherwise));                                                      \
    good = good && o->name;
    STRING_OPTIONS(COPY)
#undef COPY
#define DEFAULT(name, value) o->name = o->name ? o->name : (value)
    DEFAULT(max_body, 2u << 20);
    DEFAULT(max_buffer, 2u << 20);
    DEFAULT(max_connections, 512);
    DEFAULT(max_jobs, 256);
    DEFAULT(max_held, 64);
    DEFAULT(n_threads, 2);
    DEFAULT(head_timeout_ms, 60000);
    DEFAULT(body_timeout_ms, 30000);
    DEFAULT(crowd_timeout_ms, 5000);
    DEFAULT(job_expiry_ms, 300000);
    DEFAULT(heartbeat_ms, 30000);
#undef DEFAULT
    return good;
}

static void free_options(bw_server_options *o)
{
#define FREE(name, otherwise) bw_free((char *)(uintptr_t)o->name);
    STRING_OPTIONS(FREE)
#undef FREE
}

/* ---- the socket ---- */

static bw_status bind_socket(const char *host, uint16_t port, int *out, uint16_t *bound, bw_err *err)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    bool is_v4 = inet_pton(AF_INET, host, &v4.sin_addr) == 1;
    if (!is_v4 && inet_pton(AF_INET6, host, &v6.sin6_addr) != 1)
        return bw_fail(err, BW_E_ARG, "'%s' is not an IPv4 or IPv6 address to bind; try 127.0.0.1 or 0.0.0.0", host);
    struct sockaddr *address = is_v4 ? (struct sockaddr *)&v4 : (struct sockaddr *)&v6;
    socklen_t n_bytes = is_v4 ? sizeof v4 : sizeof v6;
    int fd = socket(is_v4 ? AF_INET : AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), on = 1;
    if (fd < 0)
        return bw_fail_errno(err, errno, "cannot make a socket");
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, address, n_bytes) != 0 || listen(fd, BACKLOG) != 0 || getsockname(fd, address, &n_bytes) != 0) {
        bw_status status = bw_fail_errno(err, errno, "cannot bind %s port %u", host, port);
        close(fd);
        return status;
    }
    *out = fd;
    *bound = ntohs(is_v4 ? v4.sin_port : v6.sin6_port);
    return BW_OK;
}

static void log_mhd(void *user, const char *format, va_list args)
{
    (void)user;
    char text[500];
    vsnprintf(text, sizeof text, format, args);
    text[strcspn(text, "\n")] = 0;
    bw_log_debug("http: %s", text);
}

static bw_status start_daemon(bw_server *server, bw_err *err)
{
    int fd = -1;
    BW_TRY(bind_socket(server->options.host, server->options.port, &fd, &server->port, err));
    /* poll, not epoll: libmicrohttpd's epoll is edge-triggered and forgets a FIN that came with the last bytes read, so
     * a client that sent half a request and left would hold its place until the deadline. Streams are suspended while
     * they wait and cost poll nothing. */
    const unsigned flags = MHD_USE_POLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG;
    /* MHD_OPTION_EXTERNAL_LOGGER comes first so that it is in force for what the others complain about. */
    server->daemon =
        MHD_start_daemon(flags, 0, NULL, NULL, bw_http_access, server, MHD_OPTION_EXTERNAL_LOGGER, log_mhd, NULL,
                         MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_THREAD_POOL_SIZE, server->options.n_threads,
                         MHD_OPTION_CONNECTION_LIMIT, server->options.max_connections, MHD_OPTION_CONNECTION_TIMEOUT,
                         (unsigned)IDLE_TIMEOUT_S, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_MEMORY,
                         MHD_OPTION_NOTIFY_COMPLETED, bw_http_completed, server, MHD_OPTION_NOTIFY_CONNECTION,
                         bw_http_connection, server, MHD_OPTION_END);
    if (!server->daemon) {
        close(fd);
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
    bw_http_tick(server, now);
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
    bw_status status = bw_hub_new(server_tick, server, &server->hub, err);
    if (status == BW_OK)
        status = start_daemon(server, err);
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
    MHD_socket listener = server->daemon ? MHD_quiesce_daemon(server->daemon) : MHD_INVALID_SOCKET;
    if (server->hub) {
        bw_jobs_cancel_all(server);
        bw_hub_wake(server->hub);
        wait_for_none(server, &server->n_active, STOP_JOBS_MS);
        bw_hub_stop(server->hub);
        bw_watchers_tick(server, bw_clock_now_ns());
        bw_jobs_end_all(server);
        wait_for_none(server, &server->n_exchanges, STOP_FLUSH_MS);
    }
    if (server->daemon)
        MHD_stop_daemon(server->daemon);
    bw_jobs_forget_all(server);
    if (listener != MHD_INVALID_SOCKET)
        close(listener);
    bw_heartbeat_free(server->heartbeat);
    bw_hub_free(server->hub);
    server_free(server);
}
