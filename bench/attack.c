/* attack: clients that mean harm, against a running server, and what an innocent one then gets.
 *
 *   attack http://127.0.0.1:8080 unread|idle|half [--clients 516] [--seconds 10] [--pid SERVER]
 *
 * unread: each connection pipelines GET /metrics for as long as the socket takes bytes, and never reads.
 * idle: each says nothing. half: each sends the head of a request and a part of its body.
 * A connection that the server closes is opened again. Beside them, ten times a second, an innocent client opens a
 * connection of its own for GET /health, with a limit of 2 s. Prints what it got; with --pid (of this machine) also the
 * server's processor time. Exit 1 when one of its requests was lost. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bw_clock.h"
#include "bw_str.h"
#include "client.h"

enum { MAX_CLIENTS = 4096, MAX_SECONDS = 3600, PER_SECOND = 10 };

typedef struct attack {
    char host[128];
    uint16_t port;
    const char *kind;
    int n_clients, seconds, pid;
    int fds[MAX_CLIENTS];
    int64_t n_opened, n_closed;
    double ms[MAX_SECONDS * PER_SECOND]; /* [n_asked] */
    int n_asked, n_lost;
} attack;

static bool parse_url(const char *url, attack *a)
{
    unsigned port = 0;
    if (sscanf(url, "http://%127[^:/]:%u", a->host, &port) != 2 || port == 0 || port > UINT16_MAX)
        return false;
    a->port = (uint16_t)port;
    return true;
}

static bool parse_args(int argc, char **argv, attack *a)
{
    if (argc < 3 || argc % 2 == 0 || !parse_url(argv[1], a))
        return false;
    a->kind = argv[2];
    for (int i = 3; i < argc; i += 2) {
        int value = atoi(argv[i + 1]);
        if (strcmp(argv[i], "--clients") == 0)
            a->n_clients = value;
        else if (strcmp(argv[i], "--seconds") == 0)
            a->seconds = value;
        else if (strcmp(argv[i], "--pid") == 0)
            a->pid = value;
        else
            return false;
    }
    bool known = strcmp(a->kind, "unread") == 0 || strcmp(a->kind, "idle") == 0 || strcmp(a->kind, "half") == 0;
    return known && a->n_clients > 0 && a->n_clients <= MAX_CLIENTS && a->seconds > 0 && a->seconds <= MAX_SECONDS;
}

static void open_one(attack *a, int i)
{
    static const char half[] = "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                               "Content-Length: 1000\r\n\r\n{\"pro";
    client_timeout_s = 1;
    a->fds[i] = client_connect_to(a->host, a->port);
    if (a->fds[i] < 0)
        return;
    a->n_opened++;
    if (strcmp(a->kind, "half") == 0)
        client_send(a->fds[i], half, sizeof half - 1);
    fcntl(a->fds[i], F_SETFL, O_NONBLOCK);
}

/* One turn of an attacker: open it again where it was closed, or send what fits. */
static void keep_up(attack *a, int i)
{
    static const char request[] = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";
    const bool unread = strcmp(a->kind, "unread") == 0;
    char byte;
    ssize_t n = a->fds[i] < 0 ? 0 : recv(a->fds[i], &byte, 1, MSG_PEEK);
    bool closed = n == 0 || (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK);
    for (int k = 0; !closed && unread && k < 1000; k++) {
        n = send(a->fds[i], request, sizeof request - 1, MSG_NOSIGNAL);
        closed = n < 0 && errno != EAGAIN && errno != EWOULDBLOCK;
        if (n < (ssize_t)sizeof request - 1)
            break;
    }
    if (!closed)
        return;
    if (a->fds[i] >= 0) {
        close(a->fds[i]);
        a->n_closed++;
    }
    open_one(a, i);
}

static void ask_once(attack *a)
{
    static const char request[] = "GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    client_timeout_s = 2;
    int64_t start_ns = bw_clock_now_ns();
    answer got = {0};
    int fd = client_connect_to(a->host, a->port);
    if (fd >= 0 && client_send(fd, request, sizeof request - 1))
        client_read(fd, &got, NULL);
    if (fd >= 0)
        close(fd);
    a->ms[a->n_asked++] = (double)(bw_clock_now_ns() - start_ns) / 1e6;
    a->n_lost += got.status != 200;
    answer_deinit(&got);
}

static double cpu_seconds(int pid)
{
    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *file = pid ? fopen(path, "re") : NULL;
    size_t n = file ? fread(text, 1, sizeof text - 1, file) : 0;
    if (file)
        fclose(file);
    text[n] = 0;
    const char *at = strrchr(text, ')');
    unsigned long user = 0, kernel = 0;
    if (!at || sscanf(at + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &kernel) != 2)
        return 0;
    return (double)(user + kernel) / (double)sysconf(_SC_CLK_TCK);
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

int main(int argc, char **argv)
{
    static attack a = {.n_clients = 516, .seconds = 10};
    struct rlimit files;
    if (!parse_args(argc, argv, &a)) {
        fputs("usage: attack http://HOST:PORT unread|idle|half [--clients N] [--seconds S] [--pid SERVER]\n", stderr);
        return 2;
    }
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    for (int i = 0; i < a.n_clients; i++)
        open_one(&a, i);
    double cpu = cpu_seconds(a.pid);
    int64_t start_ns = bw_clock_now_ns(), end_ns = start_ns + (int64_t)a.seconds * 1000000000;
    for (int64_t next_ns = start_ns; bw_clock_now_ns() < end_ns; next_ns += 1000000000 / PER_SECOND) {
        for (int i = 0; i < a.n_clients; i++)
            keep_up(&a, i);
        ask_once(&a);
        int64_t left_ms = (next_ns + 1000000000 / PER_SECOND - bw_clock_now_ns()) / 1000000;
        if (left_ms > 0)
            bw_clock_sleep_ms(left_ms);
    }
    double seconds = (double)(bw_clock_now_ns() - start_ns) / 1e9;
    cpu = cpu_seconds(a.pid) - cpu;
    qsort(a.ms, (size_t)a.n_asked, sizeof *a.ms, compare);
    printf("%s: %d attackers (opened %lld times, closed by the server %lld times), %.1f s\n", a.kind, a.n_clients,
           (long long)a.n_opened, (long long)a.n_closed, seconds);
    printf("innocent: %d asked, %d lost; %.1f ms median, %.1f ms 99th percentile, %.1f ms slowest\n", a.n_asked,
           a.n_lost, a.ms[a.n_asked / 2], a.ms[a.n_asked * 99 / 100], a.ms[a.n_asked - 1]);
    if (a.pid)
        printf("server: %.2f s of processor time, %.0f%% of a core\n", cpu, 100 * cpu / seconds);
    return a.n_lost ? 1 : 0;
}
