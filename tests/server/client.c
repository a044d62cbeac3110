/* The tests' HTTP client; see client.h. */
#include "client.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bw_clock.h"
#include "bw_mem.h"

int client_timeout_s = 10;

static bool bind_to(int fd, const char *source)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    if (!source)
        return true;
    return inet_pton(AF_INET, source, &address.sin_addr) == 1 &&
           bind(fd, (const struct sockaddr *)&address, sizeof address) == 0;
}

int client_connect_from(const char *source, const char *host, uint16_t port)
{
    char service[8];
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *list = NULL;
    snprintf(service, sizeof service, "%u", port);
    if (getaddrinfo(host, service, &hints, &list) != 0)
        return -1;
    struct timeval limit = {.tv_sec = client_timeout_s};
    int fd = -1;
    for (struct addrinfo *a = list; a && fd < 0; a = a->ai_next) {
        fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd < 0)
            continue;
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
        if (!bind_to(fd, source) || connect(fd, a->ai_addr, a->ai_addrlen) != 0) {
            close(fd);
            fd = -1;
        }
    }
    freeaddrinfo(list);
    return fd;
}

int client_connect_to(const char *host, uint16_t port)
{
    return client_connect_from(NULL, host, port);
}

int client_connect(uint16_t port)
{
    return client_connect_to("127.0.0.1", port);
}

bool client_send(int fd, const void *data, size_t n_bytes)
{
    const char *bytes = data;
    while (n_bytes > 0) {
        ssize_t n = send(fd, bytes, n_bytes, MSG_NOSIGNAL);
        if (n <= 0)
            return false;
        bytes += n;
        n_bytes -= (size_t)n;
    }
    return true;
}

/* Bytes of one connection, read as needed. */
typedef struct reader {
    int fd;
    char data[8192];
    size_t pos, len;
    const char *mark; /* NULL, or what is waited for */
} reader;

static int next_byte(reader *in)
{
    if (in->pos == in->len) {
        ssize_t n = recv(in->fd, in->data, sizeof in->data, 0);
        if (n <= 0)
            return -1;
        in->pos = 0;
        in->len = (size_t)n;
    }
    return (unsigned char)in->data[in->pos++];
}

/* Up to and with CRLF CRLF. */
static bool read_head(reader *in, answer *out)
{
    size_t n = 0;
    while (n + 1 < sizeof out->head) {
        int c = next_byte(in);
        if (c < 0)
            return false;
        out->head[n++] = (char)c;
        out->head[n] = 0;
        if (n >= 4 && memcmp(out->head + n - 4, "\r\n\r\n", 4) == 0)
            return true;
    }
    return false;
}

static bool read_bytes(reader *in, answer *out, uint64_t n_bytes, const char *stop)
{
    for (uint64_t i = 0; i < n_bytes; i++) {
        int c = next_byte(in);
        if (c < 0)
            return false;
        bw_str_add_char(&out->body, (char)c);
        if (in->mark && c == in->mark[strlen(in->mark) - 1] && strstr(out->body.data, in->mark)) {
            out->seen_ns = bw_clock_now_ns();
            in->mark = NULL;
        }
        if (stop && c == stop[strlen(stop) - 1] && strstr(out->body.data, stop))
            return false;
    }
    return true;
}

static bool read_chunks(reader *in, answer *out, const char *stop)
{
    for (;;) {
        char line[64];
        size_t n = 0;
        for (int c; n + 1 < sizeof line && (c = next_byte(in)) != '\n';) {
            if (c < 0)
                return false;
            line[n++] = (char)c;
        }
        line[n] = 0;
        uint64_t size = strtoull(line, NULL, 16);
        if (!read_bytes(in, out, size, stop) || next_byte(in) != '\r' || next_byte(in) != '\n')
            return false;
        if (size == 0)
            return true;
    }
}

static void read_answer(int fd, answer *out, const char *stop, const char *mark)
{
    *out = (answer){0};
    reader in = {.fd = fd, .mark = mark};
    do {
        if (!read_head(&in, out) || strncmp(out->head, "HTTP/1.", 7) != 0)
            return;
        out->status = atoi(out->head + 9);
    } while (out->status == 100);
    char *length = answer_header(out, "content-length"), *coding = answer_header(out, "transfer-encoding");
    if (coding)
        out->whole = read_chunks(&in, out, stop);
    else if (length)
        out->whole = read_bytes(&in, out, strtoull(length, NULL, 10), stop);
    else
        read_bytes(&in, out, UINT64_MAX, stop);
    bw_free(length);
    bw_free(coding);
    if (!out->body.data)
        bw_str_add(&out->body, "");
}

void client_read(int fd, answer *out, const char *stop)
{
    read_answer(fd, out, stop, NULL);
}

void client_read_marked(int fd, answer *out, const char *mark)
{
    read_answer(fd, out, NULL, mark);
}

void client_ask(uint16_t port, const char *method, const char *path, const char *headers, const char *body, answer *out)
{
    *out = (answer){0};
    int fd = client_connect(port);
    if (fd < 0)
        return;
    bw_str text = {0};
    bw_str_add_format(&text, "%s %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n", method, path);
    bw_str_add(&text, headers);
    if (body)
        bw_str_add_format(&text, "Content-Type: application/json\r\nContent-Length: %zu\r\n", strlen(body));
    bw_str_add(&text, "\r\n");
    bw_str_add(&text, body ? body : "");
    client_send(fd, text.data, text.len);
    client_read(fd, out, NULL);
    bw_str_deinit(&text);
    close(fd);
}

void answer_deinit(answer *a)
{
    bw_str_deinit(&a->body);
}

char *answer_header(const answer *a, const char *name)
{
    size_t n = strlen(name);
    for (const char *line = strchr(a->head, '\n'); line; line = strchr(line + 1, '\n')) {
        if (strncasecmp(line + 1, name, n) != 0 || line[1 + n] != ':')
            continue;
        const char *value = line + 2 + n;
        while (*value == ' ')
            value++;
        return bw_strndup(value, strcspn(value, "\r\n"));
    }
    return NULL;
}

char *json_text(const char *json, const char *key)
{
    bw_str mark = {0};
    bw_str_add_format(&mark, "\"%s\":\"", key);
    const char *at = json ? strstr(json, mark.data) : NULL;
    at = at ? at + mark.len : NULL;
    char *value = at ? bw_strndup(at, strcspn(at, "\"")) : NULL;
    bw_str_deinit(&mark);
    return value;
}

int count_text(const char *text, const char *piece)
{
    int n = 0;
    for (const char *at = text; at && (at = strstr(at, piece)) != NULL; at += strlen(piece))
        n++;
    return n;
}
