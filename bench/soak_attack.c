/* Attackers beside a soak; see soak_attack.h. */
#include "soak_attack.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "bw_clock.h"
#include "bw_str.h"
#include "client.h"

enum { MAX_THREADS = 512, LONG_BYTES = 2000000, JOBS = 256, PIPELINED = 64, ADDRESSES = 8, NICER = 5 };

const char *const attack_names[ATTACK_KINDS] = {"crowd", "long", "jobs"};

typedef struct attacker {
    attack *owner;
    attack_kind kind;
    int number;
    _Atomic int fd; /* what it waits on; -1 = nothing */
    pthread_t thread;
    attack_counts counts;
} attacker;

struct attack {
    attack_options options;
    _Atomic bool stopped;
    bw_str long_text; /* words of LONG_BYTES */
    attacker attackers[MAX_THREADS];
    int n;
};

/* 127.2.x.y, 127.3.x.y, 127.4.x.y: one network for each kind. */
static int connect_attacker(const attacker *a, int number)
{
    const attack_options *o = &a->owner->options;
    char source[40];
    snprintf(source, sizeof source, "127.%d.%d.%d", 2 + (int)a->kind, number / 250 % 250, number % 250 + 1);
    return client_connect_from(o->own_addresses ? source : NULL, o->host, o->port);
}

static bool rest(const attacker *a, int ms)
{
    for (; ms > 0 && !a->owner->stopped; ms -= 20)
        bw_clock_sleep_ms(ms < 20 ? ms : 20);
    return !a->owner->stopped;
}

static void count(attacker *a, int status)
{
    int64_t *n = status == 0    ? a->counts.n_closed
                 : status < 400 ? a->counts.n_ok
                 : status < 500 ? a->counts.n_4xx
                                : a->counts.n_5xx;
    n[a->kind]++;
}

/* One request with a body of three parts; its status, 0 when the connection ended without one. */
static int post(attacker *a, const char *path, const char *before, const bw_str *text, const char *after)
{
    bw_str head = {0};
    answer answered = {0};
    size_t n_text = text ? text->len : 0;
    int fd = connect_attacker(a, a->number);
    if (fd < 0)
        return 0;
    a->fd = fd;
    bw_str_add_format(&head,
                      "POST %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n%s"
                      "Content-Length: %zu\r\n\r\n%s",
                      path, a->owner->options.headers, strlen(before) + n_text + strlen(after), before);
    a->counts.n_sent[a->kind]++;
    /* A server that refuses early closes while this is being sent; its answer is read all the same. */
    if (client_send(fd, head.data, head.len) && (n_text == 0 || client_send(fd, text->data, n_text)))
        client_send(fd, after, strlen(after));
    client_read(fd, &answered, NULL);
    a->fd = -1;
    close(fd);
    int status = answered.status;
    answer_deinit(&answered);
    bw_str_deinit(&head);
    return status;
}

static void send_long(attacker *a)
{
    static const char *const paths[] = {"/v1/completions", "/v1/chat/completions", "/v1/jobs"};
    static const char *const before[] = {"{\"prompt\":\"", "{\"messages\":[{\"role\":\"user\",\"content\":\"",
                                         "{\"prompt\":\""};
    static const char *const after[] = {"\",\"max_tokens\":4}", "\"}],\"max_tokens\":4}", "\",\"max_tokens\":4}"};
    for (unsigned i = (unsigned)a->number; rest(a, 50); i++)
        count(a, post(a, paths[i % 3], before[i % 3], &a->owner->long_text, after[i % 3]));
}

static void create_jobs(attacker *a)
{
    do {
        for (int i = 0; i < JOBS && !a->owner->stopped; i++)
            count(a, post(a, "/v1/jobs", "{\"prompt\":\"abc\",\"max_tokens\":1}", NULL, ""));
    } while (rest(a, 1000));
}

/* ---- the crowd --------------------------------------------------------------------------------------------------- */

/* Takes no more than the smallest window, so that answers stay in the server's memory, and lets the kernel hold few
 * requests: what is measured is the server, not copying gigabytes into sockets on its machine. */
static int join_crowd(const attacker *a, int number)
{
    int fd = connect_attacker(a, number % ADDRESSES), small = 1, some = 16384;
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &some, sizeof some);
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    return fd;
}

/* As many requests as the server takes, going on at *at of them; false when the connection has ended. */
static bool push(attacker *a, int fd, const bw_str *requests, size_t *at)
{
    for (int i = 0; i < PIPELINED; i++) {
        ssize_t n = send(fd, requests->data + *at, requests->len - *at, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0)
            return errno == EAGAIN;
        *at += (size_t)n;
        if (*at < requests->len)
            return true;
        *at = 0;
        a->counts.n_sent[ATTACK_CROWD] += PIPELINED;
    }
    return true;
}

static void crowd(attacker *a)
{
    int n = a->owner->options.n[ATTACK_CROWD];
    struct pollfd *fds = calloc((size_t)n, sizeof *fds);
    size_t *at = calloc((size_t)n, sizeof *at);
    bool ready = fds && at;
    bw_str requests = {0};
    for (int i = 0; i < PIPELINED; i++)
        bw_str_add_format(&requests, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n%s\r\n", a->owner->options.headers);
    for (int i = 0; ready && i < n; i++)
        fds[i].fd = -1;
    while (ready && !a->owner->stopped) {
        for (int i = 0; i < n && !a->owner->stopped; i++) {
            if (fds[i].fd >= 0)
                continue;
            at[i] = 0;
            fds[i] = (struct pollfd){.fd = join_crowd(a, i), .events = POLLOUT | POLLRDHUP};
        }
        poll(fds, (nfds_t)n, 100);
        for (int i = 0; i < n; i++) {
            bool ended = fds[i].revents & (POLLERR | POLLHUP | POLLRDHUP | POLLNVAL);
            if (fds[i].fd < 0 || (!ended && (!(fds[i].revents & POLLOUT) || push(a, fds[i].fd, &requests, &at[i]))))
                continue;
            close(fds[i].fd);
            fds[i].fd = -1;
            count(a, 0);
        }
        rest(a, 100); /* those who were sent away come again ten times a second */
    }
    for (int i = 0; ready && i < n; i++)
        if (fds[i].fd >= 0)
            close(fds[i].fd);
    bw_str_deinit(&requests);
    free(at);
    free(fds);
}

/* ---- all of them ------------------------------------------------------------------------------------------------- */

static void *attacker_main(void *arg)
{
    static void (*const kinds[ATTACK_KINDS])(attacker * a) = {crowd, send_long, create_jobs};
    attacker *a = arg;
    setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), NICER); /* of this thread */
    kinds[a->kind](a);
    return NULL;
}

attack *attack_start(const attack_options *options)
{
    attack *all = calloc(1, sizeof *all);
    struct rlimit files;
    if (!all)
        return NULL;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    all->options = *options;
    while (all->long_text.len < LONG_BYTES && !all->long_text.failed)
        bw_str_add(&all->long_text, "the river runs under a bridge of stone ");
    for (int kind = 0; kind < ATTACK_KINDS; kind++) {
        int n = kind == ATTACK_CROWD && options->n[kind] > 0 ? 1 : options->n[kind];
        for (int i = 0; i < n && all->n < MAX_THREADS; i++) {
            attacker *a = &all->attackers[all->n];
            *a = (attacker){.owner = all, .kind = (attack_kind)kind, .number = i, .fd = -1};
            if (pthread_create(&a->thread, NULL, attacker_main, a) != 0)
                break;
            all->n++;
        }
    }
    return all;
}

void attack_stop(attack *all, attack_counts *counts)
{
    *counts = (attack_counts){0};
    all->stopped = true;
    for (int i = 0; i < all->n; i++)
        if (all->attackers[i].fd >= 0) /* nobody waits for its answer any more */
            shutdown(all->attackers[i].fd, SHUT_RDWR);
    for (int i = 0; i < all->n; i++) {
        pthread_join(all->attackers[i].thread, NULL);
        const attack_counts *c = &all->attackers[i].counts;
        for (int k = 0; k < ATTACK_KINDS; k++) {
            counts->n_sent[k] += c->n_sent[k];
            counts->n_ok[k] += c->n_ok[k];
            counts->n_4xx[k] += c->n_4xx[k];
            counts->n_5xx[k] += c->n_5xx[k];
            counts->n_closed[k] += c->n_closed[k];
        }
    }
    bw_str_deinit(&all->long_text);
    free(all);
}
