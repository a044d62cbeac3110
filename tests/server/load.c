/* Load from many clients; see load.h. */
#include "load.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bw_clock.h"
#include "bw_mem.h"
#include "bw_rng.h"
#include "client.h"

typedef struct load_client {
    const load_options *options;
    load_result result;
    bw_rng rng;
    int64_t until_ns;
    char address[40]; /* "": any */
} load_client;

static void note_wrong(load_client *c, const char *what, const answer *a)
{
    if (c->result.n_wrong++ == 0)
        snprintf(c->result.first_wrong, sizeof c->result.first_wrong, "%s: status %d, body '%.180s'", what, a->status,
                 a->body.data ? a->body.data : "");
}

static void note_refused(load_client *c, bool is_job, const answer *a)
{
    char *first = c->result.first_refused[is_job ? 0 : 1];
    c->result.n_refused++;
    c->result.n_refused_jobs += is_job;
    if (!*first)
        snprintf(first, sizeof c->result.first_refused[0], "%.199s", a->body.data ? a->body.data : "");
}

static const double first_step_ms = 0.1, step_factor = 1.05;

void load_note_first_token(load_result *result, double ms)
{
    double step = ms > first_step_ms ? ceil(log(ms / first_step_ms) / log(step_factor)) : 0;
    result->first_tokens[step < LOAD_STEPS - 1 ? (int)step : LOAD_STEPS - 1]++;
    result->n_first++;
}

double load_first_token_ms(const load_result *result, double share)
{
    int64_t n = 0, wanted = (int64_t)ceil(share * (double)result->n_first);
    for (int i = 0; i < LOAD_STEPS && result->n_first > 0; i++) {
        n += result->first_tokens[i];
        if (n >= wanted)
            return first_step_ms * pow(step_factor, i);
    }
    return 0;
}

/* A connection as this client makes it; -1 when there is none. */
static int connect_client(const load_client *c)
{
    return client_connect_from(*c->address ? c->address : NULL, c->options->host, c->options->port);
}

/* Send a request on a new connection; -1 when there is none. */
static int send_request(load_client *c, const char *method, const char *path, const char *body)
{
    c->result.n_requests++;
    int fd = connect_client(c);
    if (fd < 0)
        return -1;
    bw_str text = {0};
    bw_str_add_format(&text, "%s %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n%s", method, path,
                      c->options->headers);
    if (body)
        bw_str_add_format(&text, "Content-Type: application/json\r\nContent-Length: %zu\r\n", strlen(body));
    bw_str_add_format(&text, "\r\n%s", body ? body : "");
    client_send(fd, text.data, text.len);
    bw_str_deinit(&text);
    return fd;
}

static void ask(load_client *c, const char *method, const char *path, const char *body, answer *out)
{
    int fd = send_request(c, method, path, body);
    *out = (answer){0};
    if (fd < 0)
        return;
    client_read(fd, out, NULL);
    close(fd);
}

static void make_prompt(load_client *c, bw_str *out)
{
    static const char *const words[] = {"the", "river", "runs", "under", "a", "bridge", "of", "stone", "caf\xC3\xA9"};
    uint64_t n = 1 + bw_rng_below(&c->rng, 40);
    for (uint64_t i = 0; i < n; i++)
        bw_str_add_format(out, "%s ", words[bw_rng_below(&c->rng, sizeof words / sizeof *words)]);
}

static int pick_tokens(load_client *c)
{
    return 1 + (int)bw_rng_below(&c->rng, (uint64_t)c->options->max_tokens);
}

/* Read an accepted answer to its end, or hang up within it. start_ns: when it was asked for; 0: that is not measured.
 * mark: what its first token looks like, NULL where it does not come token by token. */
static void take_answer(load_client *c, int fd, const char *const *ends, const char *what, int64_t start_ns,
                        const char *mark)
{
    answer a;
    if (bw_rng_below(&c->rng, 4) == 0) {
        char some[64];
        if (bw_rng_below(&c->rng, 2))
            bw_clock_sleep_ms((int64_t)bw_rng_below(&c->rng, 20));
        else if (recv(fd, some, sizeof some, 0) < 0)
            bw_clock_sleep_ms(1);
        close(fd);
        c->result.n_hung_up++;
        return;
    }
    client_read_marked(fd, &a, mark);
    close(fd);
    if (start_ns > 0 && a.seen_ns > 0)
        load_note_first_token(&c->result, (double)(a.seen_ns - start_ns) / 1e6);
    if (a.status == 503) {
        note_refused(c, false, &a);
    } else {
        bool ended = false;
        for (int i = 0; ends[i]; i++)
            ended = ended || (a.body.data && strstr(a.body.data, ends[i]));
        c->result.n_accepted++;
        if (a.body.data && strstr(a.body.data, "\"error\":{")) /* in a stream it stands before a proper end */
            ended = false;
        if (a.status == 200 && a.whole && ended)
            c->result.n_answered++;
        else
            note_wrong(c, what, &a);
    }
    answer_deinit(&a);
}

static void do_job(load_client *c)
{
    static const char *const ends[] = {"data: [DONE]\n\n", "data: [CANCELLED]\n\n", NULL};
    bw_str body = {0};
    answer a;
    bool tagged = bw_rng_below(&c->rng, 2);
    int64_t start_ns = bw_clock_now_ns();
    bw_str_add(&body, tagged ? "{\"operation\":\"infer\",\"prompt\":\"" : "{\"prompt\":\"");
    make_prompt(c, &body);
    bw_str_add_format(&body, "\",\"max_tokens\":%d,\"temperature\":0.8}", pick_tokens(c));
    ask(c, "POST", tagged ? "/v1/jobs" : "/v1/inference", body.data, &a);
    bw_str_deinit(&body);
    char *url = json_text(a.body.data, "sse_url"), *id = json_text(a.body.data, "job_id");
    if (a.status == 503) {
        note_refused(c, true, &a);
    } else if (!url || !id) {
        note_wrong(c, "job", &a);
    } else {
        int64_t fate = (int64_t)bw_rng_below(&c->rng, 8);
        if (fate == 0) { /* cancel, before or after it ends */
            char path[128];
            answer d;
            snprintf(path, sizeof path, "/v1/jobs/%s", id);
            ask(c, "DELETE", path, NULL, &d);
            if (d.status != 200 && d.status != 404)
                note_wrong(c, "DELETE", &d);
            c->result.n_cancelled++;
            answer_deinit(&d);
        }
        if (fate == 2 && c->options->wait_ms > 0) { /* come for it later: it is kept until it has been read */
            bw_clock_sleep_ms((int64_t)bw_rng_below(&c->rng, (uint64_t)c->options->wait_ms));
            c->result.n_waited++;
            start_ns = 0;
        }
        if (fate != 1) { /* 1: never ask for it */
            int fd = send_request(c, "GET", url, NULL);
            if (fd >= 0)
                take_answer(c, fd, ends, start_ns == 0 ? "stream of a job that waited" : "stream",
                            fate == 0 ? 0 : start_ns, "\"type\":\"token\"");
            else
                note_wrong(c, "no connection for a stream", &a);
        }
    }
    bw_free(url);
    bw_free(id);
    answer_deinit(&a);
}

static void do_openai(load_client *c)
{
    static const char *const whole[] = {"\"usage\":{", NULL}, *const stream[] = {"data: [DONE]\n\n", NULL};
    bool chat = bw_rng_below(&c->rng, 2), streamed = bw_rng_below(&c->rng, 2);
    bw_str body = {0};
    bw_str_add(&body, chat ? "{\"messages\":[{\"role\":\"user\",\"content\":\"" : "{\"prompt\":\"");
    make_prompt(c, &body);
    bw_str_add_format(&body, "%s,\"max_tokens\":%d,\"n\":%d,\"stream\":%s}", chat ? "\"}]" : "\"", pick_tokens(c),
                      1 + (int)bw_rng_below(&c->rng, 2), streamed ? "true" : "false");
    int64_t start_ns = bw_clock_now_ns();
    int fd = send_request(c, "POST", chat ? "/v1/chat/completions" : "/v1/completions", body.data);
    answer none = {0};
    if (fd >= 0)
        take_answer(c, fd, streamed ? stream : whole, chat ? "chat" : "completion", streamed ? start_ns : 0,
                    !streamed ? NULL
                    : chat    ? "\"content\":\""
                              : "\"text\":\"");
    else
        note_wrong(c, "no connection", &none);
    bw_str_deinit(&body);
}

/* Bytes that are no request, or half of one. The server may answer 4xx or close. */
static void do_rubbish(load_client *c)
{
    int fd = connect_client(c);
    char bytes[512];
    c->result.n_requests++;
    if (fd < 0)
        return;
    size_t n = 1 + (size_t)bw_rng_below(&c->rng, sizeof bytes);
    for (size_t i = 0; i < n; i++)
        bytes[i] = (char)bw_rng_below(&c->rng, 256);
    static const char cut[] = "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{\"pro";
    if (bw_rng_below(&c->rng, 2))
        client_send(fd, cut, 1 + (size_t)bw_rng_below(&c->rng, sizeof cut - 1));
    else
        client_send(fd, bytes, n);
    close(fd);
    c->result.n_bad++;
}

static void do_bad_request(load_client *c)
{
    static const char *const bad[][3] = {
        {"POST", "/v1/jobs", "{\"prompt\":\"a\",\"top_p\":7}"},
        {"POST", "/v1/inference", "{\"prompt\":"},
        {"POST", "/v1/jobs", "{\"operation\":\"image_generation\"}"},
        {"POST", "/v1/chat/completions", "{\"messages\":[]}"},
        {"POST", "/v1/completions", "{\"prompt\":[[]]}"},
        {"GET", "/v1/jobs/job-none/stream", NULL},
        {"DELETE", "/v1/jobs/job-none", NULL},
        {"PUT", "/v1/jobs", "{}"},
        {"GET", "/nothing/here", NULL},
    };
    answer a;
    size_t i = (size_t)bw_rng_below(&c->rng, sizeof bad / sizeof *bad);
    ask(c, bad[i][0], bad[i][1], bad[i][2], &a);
    if (a.status >= 400 && a.status <= 500 && a.whole)
        c->result.n_bad++;
    else
        note_wrong(c, bad[i][1], &a);
    answer_deinit(&a);
}

static void *client_main(void *arg)
{
    load_client *c = arg;
    while (bw_clock_now_ns() < c->until_ns) {
        uint64_t what = bw_rng_below(&c->rng, 20);
        int64_t refused = c->result.n_refused, start_ns = bw_clock_now_ns();
        if (what < 8)
            do_job(c);
        else if (what < 16)
            do_openai(c);
        else if (what < 18)
            do_bad_request(c);
        else
            do_rubbish(c);
        double ms = (double)(bw_clock_now_ns() - start_ns) / 1e6;
        if (ms > c->result.slowest_ms) {
            c->result.slowest_ms = ms;
            c->result.slowest_kind = what < 8 ? 0 : what < 16 ? 1 : what < 18 ? 2 : 3;
        }
        if (c->result.n_refused > refused)
            bw_clock_sleep_ms(20 + (int64_t)bw_rng_below(&c->rng, 100));
    }
    return NULL;
}

void load_add(load_result *sum, const load_result *r)
{
    sum->n_requests += r->n_requests;
    sum->n_accepted += r->n_accepted;
    sum->n_answered += r->n_answered;
    sum->n_cancelled += r->n_cancelled;
    sum->n_hung_up += r->n_hung_up;
    sum->n_refused += r->n_refused;
    sum->n_refused_jobs += r->n_refused_jobs;
    for (int i = 0; i < 2; i++)
        if (!*sum->first_refused[i])
            memcpy(sum->first_refused[i], r->first_refused[i], sizeof sum->first_refused[i]);
    sum->n_bad += r->n_bad;
    sum->n_waited += r->n_waited;
    if (r->n_wrong && !sum->n_wrong)
        memcpy(sum->first_wrong, r->first_wrong, sizeof sum->first_wrong);
    sum->n_wrong += r->n_wrong;
    if (r->slowest_ms > sum->slowest_ms) {
        sum->slowest_ms = r->slowest_ms;
        sum->slowest_kind = r->slowest_kind;
    }
    sum->n_first += r->n_first;
    for (int i = 0; i < LOAD_STEPS; i++)
        sum->first_tokens[i] += r->first_tokens[i];
}

void load_run(const load_options *options, load_result *result)
{
    *result = (load_result){0};
    int n = options->n_clients;
    load_client *clients = calloc((size_t)n, sizeof *clients);
    pthread_t *threads = calloc((size_t)n, sizeof *threads);
    int started = 0;
    for (; clients && threads && started < n; started++) {
        load_client *c = &clients[started];
        c->options = options;
        c->until_ns = bw_clock_now_ns() + (int64_t)(options->seconds * 1e9);
        bw_rng_init(&c->rng, options->seed + (uint64_t)started);
        if (options->own_addresses)
            snprintf(c->address, sizeof c->address, "127.1.%d.%d", started / 250 % 250, started % 250 + 1);
        if (pthread_create(&threads[started], NULL, client_main, c) != 0)
            break;
    }
    for (int i = 0; i < started; i++) {
        pthread_join(threads[i], NULL);
        load_add(result, &clients[i].result);
    }
    free(clients);
    free(threads);
}
