/* libFuzzer: the bytes of one connection. The first byte says how they begin: as they are, or behind a request line and
 * headers that are right. What the server takes for bodies must be what a strict reader of RFC 9112 makes of the same
 * bytes, in order; requests that the reader refuses must not be taken at all. Line ends without CR and odd chunk lines
 * are allowed to be read more kindly: there the comparison ends.
 *
 * Linked with --wrap=bw_ask_read_openai: the body that a request is about to be read from comes here instead. */
#include <netinet/in.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ask.h"
#include "bw_log.h"
#include "bw_mem.h"
#include "bw_server.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);
bool __wrap_bw_ask_read_openai(const char *body, size_t n_bytes, bool chat, bw_ask *out, bw_reply *error);

enum { MAX_BODIES = 64, MAX_BODY = 4096 };

static bw_server *server;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bw_str taken[MAX_BODIES]; /* under lock */
static int n_taken;

static void require(bool condition)
{
    if (!condition)
        abort();
}

bool __wrap_bw_ask_read_openai(const char *body, size_t n_bytes, bool chat, bw_ask *out, bw_reply *error)
{
    (void)chat;
    *out = (bw_ask){0};
    pthread_mutex_lock(&lock);
    if (n_taken < MAX_BODIES)
        bw_str_add_bytes(&taken[n_taken++], body, n_bytes);
    pthread_mutex_unlock(&lock);
    bw_reply_set_text(error, 400, "seen");
    return false;
}

/* ---- the reader ---- */

typedef enum verdict { BODY, INCOMPLETE, REFUSED, UNSURE } verdict;

typedef struct reader {
    const char *at, *end;
} reader;

/* A line without its CR LF. */
static verdict read_line(reader *in, const char **line, size_t *n)
{
    const char *lf = in->at < in->end ? memchr(in->at, '\n', (size_t)(in->end - in->at)) : NULL;
    if (!lf)
        return INCOMPLETE;
    *line = in->at;
    *n = (size_t)(lf - in->at);
    in->at = lf + 1;
    if (*n == 0 || (*line)[*n - 1] != '\r' || memchr(*line, 0, *n))
        return UNSURE;
    (*n)--;
    return memchr(*line, '\r', *n) ? UNSURE : BODY;
}

static bool is_name(const char *text, size_t n, const char *name)
{
    return n == strlen(name) && strncasecmp(text, name, n) == 0;
}

static verdict read_number(const char *text, size_t n, int base, uint64_t *out)
{
    *out = 0;
    if (n == 0 || n > 12)
        return UNSURE;
    for (size_t i = 0; i < n; i++) {
        const char *digits = "0123456789abcdef", *d = strchr(digits, text[i] | (text[i] >= 'A' ? 0x20 : 0));
        if (!d || !*d || d - digits >= base)
            return UNSURE;
        *out = *out * (uint64_t)base + (uint64_t)(d - digits);
    }
    return BODY;
}

static verdict read_chunks(reader *in, bw_str *body)
{
    for (;;) {
        const char *line;
        size_t n;
        uint64_t size;
        verdict v = read_line(in, &line, &n);
        if (v == BODY)
            v = read_number(line, n, 16, &size);
        if (v != BODY)
            return v;
        if (size == 0)
            break;
        if (size > (uint64_t)(in->end - in->at) || (uint64_t)(in->end - in->at) - size < 2)
            return INCOMPLETE;
        bw_str_add_bytes(body, in->at, size);
        in->at += size;
        if (in->at[0] != '\r' || in->at[1] != '\n')
            return UNSURE;
        in->at += 2;
    }
    for (;;) { /* trailers */
        const char *line;
        size_t n;
        verdict v = read_line(in, &line, &n);
        if (v != BODY || n == 0)
            return v;
    }
}

/* One request. REFUSED: its framing is not clear, so nothing of it or behind it may be taken. */
static verdict read_request(reader *in, bw_str *body)
{
    const char *line;
    size_t n;
    int n_lengths = 0, n_encodings = 0;
    uint64_t length = 0;
    bool unclear = false;
    verdict v = read_line(in, &line, &n);
    if (v != BODY || n == 0)
        return v == BODY ? UNSURE : v;
    for (;;) {
        v = read_line(in, &line, &n);
        if (v != BODY)
            return v;
        if (n == 0)
            break;
        if (line[0] == ':')
            return UNSURE; /* libmicrohttpd 0.9.75 takes it for the empty line; no server in front passes such a line */
        const char *colon = memchr(line, ':', n);
        if (!colon || line[0] == ' ' || line[0] == '\t') { /* a folded line, or none */
            unclear = true;
            continue;
        }
        size_t n_name = (size_t)(colon - line), n_value = n - n_name - 1;
        const char *value = colon + 1;
        while (n_value && (*value == ' ' || *value == '\t'))
            value++, n_value--;
        if (is_name(line, n_name, "Content-Length")) {
            n_lengths++;
            unclear = unclear || read_number(value, n_value, 10, &length) != BODY;
        } else if (is_name(line, n_name, "Transfer-Encoding")) {
            n_encodings++;
            unclear = unclear || !is_name(value, n_value, "chunked");
        } else if (n_name > 13 && strncasecmp(line, "Content-Length", 14) == 0) {
            unclear = true;
        }
    }
    if (unclear || n_lengths + n_encodings > 1)
        return REFUSED;
    if (n_encodings)
        return read_chunks(in, body);
    if (length > (uint64_t)(in->end - in->at))
        return INCOMPLETE;
    bw_str_add_bytes(body, in->at, length);
    in->at += length;
    return BODY;
}

/* ---- the run ---- */

static void start(void)
{
    bw_err err = {0};
    bw_server_options options;
    bw_server_options_init(&options);
    options.n_threads = 1;
    options.allow_hosts = "*";
    options.no_request_log = true;
    bw_log_configure(BW_LOG_OFF, true);
    require(bw_server_start(&options, &server, &err) == BW_OK);
}

/* Until the server closes: everything was read and answered, or refused. */
static void send_all(const char *bytes, size_t n_bytes)
{
    struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = htons(bw_server_port(server)), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct timeval limit = {.tv_sec = 5};
    char drop[4096];
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    require(fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof to) == 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    while (n_bytes > 0) {
        ssize_t n = send(fd, bytes, n_bytes, MSG_NOSIGNAL);
        if (n <= 0)
            break;
        bytes += n;
        n_bytes -= (size_t)n;
    }
    shutdown(fd, SHUT_WR);
    while (recv(fd, drop, sizeof drop, 0) > 0) {
    }
    close(fd);
}

static void compare(const char *bytes, size_t n_bytes)
{
    reader in = {bytes, bytes + n_bytes};
    int next = 0;
    verdict v = BODY;
    while (v == BODY && in.at < in.end && next < n_taken) {
        bw_str body = {0};
        v = read_request(&in, &body);
        /* Requests that never get as far as their body being read are passed over. */
        if (v == BODY && body.len == taken[next].len &&
            (!body.len || memcmp(body.data, taken[next].data, body.len) == 0))
            next++;
        bw_str_deinit(&body);
    }
    require(v == UNSURE || next == n_taken);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    static const char head[] = "POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n";
    if (n_bytes == 0 || n_bytes > MAX_BODY)
        return 0;
    if (!server)
        start();
    bw_str bytes = {0};
    if (data[0] % 2)
        bw_str_add(&bytes, head);
    bw_str_add_bytes(&bytes, data + 1, n_bytes - 1);
    send_all(bytes.data ? bytes.data : "", bytes.len);
    pthread_mutex_lock(&lock);
    compare(bytes.data ? bytes.data : "", bytes.len);
    for (int i = 0; i < n_taken; i++)
        bw_str_deinit(&taken[i]);
    n_taken = 0;
    pthread_mutex_unlock(&lock);
    bw_str_deinit(&bytes);
    return 0;
}
