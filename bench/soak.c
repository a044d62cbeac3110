/* soak: many clients against a running worker for minutes or hours, with hang-ups, cancels and rubbish in between, and
 * attackers beside them when asked.
 *
 *   soak http://127.0.0.1:8080 [--hours H | --minutes M | --seconds S] [--clients 32] [--max-tokens 60] [--seed 1]
 *        [--token TOKEN] [--warm-up SECONDS] [--max-growth PERCENT]
 *        [--attack crowd,long,jobs] [--crowd 516] [--long 20] [--jobs 2] [--max-slowdown 2] [--slow-ms 100]
 * [--max-refused 2]
 *
 * Prints a line per slice: requests, accepted, answered, and the worker's memory from its /metrics. With --attack the
 * clients run alone first, for a third of the time that the attacked run takes (5 minutes at most), and then beside the
 * attackers. Exit 1 when an accepted request was not answered, when something came back that should not, when work
 * stays behind at the end, or when memory grew: its largest value in the second half after the warm-up, against the
 * first, by more than --max-growth percent (2 unless given). With --attack also when clients were refused more often
 * than without (by more than --max-refused percent of their requests, 2), or waited for 99% of their first tokens more
 * than --max-slowdown times as long and more than --slow-ms. */
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bw_clock.h"
#include "bw_str.h"
#include "client.h"
#include "load.h"
#include "soak_attack.h"

typedef struct soak {
    char host[128], headers[600];
    uint16_t port;
    double seconds, warm_up, max_growth, max_slowdown, slow_ms, max_refused;
    int n_clients, max_tokens;
    uint64_t seed;
    bool own_addresses, attacked;
    int n_attackers[ATTACK_KINDS], attack_sizes[ATTACK_KINDS];
} soak;

/* Memory, by a metric's name. */
typedef struct memory {
    const char *metric;
    _Atomic double last;  /* as the watcher saw it */
    double first, second; /* largest in the first and in the second half after the warm-up; -1: none */
} memory;
enum { MEMORIES = 2 };

/* A run of the clients, alone or beside attackers. */
typedef struct phase {
    const char *name;
    double seconds;
    load_result sum, health; /* health: how long GET /health took, as if it were first tokens */
    int64_t n_health_lost;
    memory memories[MEMORIES];
    int n_unread; /* times that /metrics could not be read */
    bool idle;    /* at the end nothing was left behind */
} phase;

static bool parse_url(const char *url, soak *s)
{
    if (!bw_str_starts(url, "http://"))
        return false;
    url += strlen("http://");
    size_t n = strcspn(url, ":/");
    uint64_t port = 80;
    char digits[8] = "";
    if (url[n] == ':') {
        size_t n_digits = strcspn(url + n + 1, "/");
        if (n_digits >= sizeof digits)
            return false;
        memcpy(digits, url + n + 1, n_digits);
        if (!bw_parse_u64(digits, &port) || port > UINT16_MAX)
            return false;
    }
    if (n == 0 || n >= sizeof s->host)
        return false;
    memcpy(s->host, url, n);
    s->port = (uint16_t)port;
    s->own_addresses = bw_str_starts(s->host, "127.");
    return true;
}

/* "crowd,long" */
static bool parse_attack(const char *list, soak *s)
{
    while (*list) {
        size_t n = strcspn(list, ",");
        int kind = 0;
        while (kind < ATTACK_KINDS && (strlen(attack_names[kind]) != n || memcmp(attack_names[kind], list, n) != 0))
            kind++;
        if (kind == ATTACK_KINDS)
            return false;
        s->n_attackers[kind] = 1; /* how many, --crowd and the like say */
        s->attacked = true;
        list += n + (list[n] == ',');
    }
    return s->attacked;
}

static bool parse_number(const char *option, double value, soak *s)
{
    for (int kind = 0; kind < ATTACK_KINDS; kind++)
        if (bw_str_starts(option, "--") && strcmp(option + 2, attack_names[kind]) == 0 && value >= 1 && value <= 4096) {
            s->attack_sizes[kind] = (int)value;
            return true;
        }
    if (strcmp(option, "--hours") == 0)
        s->seconds = value * 3600;
    else if (strcmp(option, "--minutes") == 0)
        s->seconds = value * 60;
    else if (strcmp(option, "--seconds") == 0)
        s->seconds = value;
    else if (strcmp(option, "--clients") == 0 && value >= 1 && value <= 4096)
        s->n_clients = (int)value;
    else if (strcmp(option, "--max-tokens") == 0 && value >= 1 && value <= 2048)
        s->max_tokens = (int)value;
    else if (strcmp(option, "--seed") == 0)
        s->seed = (uint64_t)value;
    else if (strcmp(option, "--warm-up") == 0)
        s->warm_up = value;
    else if (strcmp(option, "--max-growth") == 0)
        s->max_growth = value;
    else if (strcmp(option, "--max-slowdown") == 0)
        s->max_slowdown = value;
    else if (strcmp(option, "--slow-ms") == 0)
        s->slow_ms = value;
    else if (strcmp(option, "--max-refused") == 0)
        s->max_refused = value;
    else
        return false;
    return true;
}

static bool parse_args(int argc, char **argv, soak *s)
{
    if (argc < 2 || !parse_url(argv[1], s))
        return false;
    for (int i = 2; i < argc; i += 2) {
        double value = 0;
        if (i + 1 >= argc)
            return false;
        if (strcmp(argv[i], "--token") == 0) {
            snprintf(s->headers, sizeof s->headers, "Authorization: Bearer %.500s\r\n", argv[i + 1]);
            continue;
        }
        if (strcmp(argv[i], "--attack") == 0) {
            if (!parse_attack(argv[i + 1], s))
                return false;
            continue;
        }
        if (!bw_parse_f64(argv[i + 1], &value) || value < 0 || !parse_number(argv[i], value, s))
            return false;
    }
    for (int kind = 0; kind < ATTACK_KINDS; kind++)
        s->n_attackers[kind] *= s->attack_sizes[kind];
    return true;
}

/* ---- asking beside the clients -------------------------------------------------------------------------------------
 */

static void get(const soak *s, const char *path, answer *a)
{
    char request[800];
    int n = snprintf(request, sizeof request, "GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n%s\r\n", path,
                     s->headers);
    int fd = client_connect_from(s->own_addresses ? "127.1.250.1" : NULL, s->host, s->port);
    *a = (answer){0};
    if (fd < 0)
        return;
    client_send(fd, request, (size_t)n);
    client_read(fd, a, NULL);
    close(fd);
}

/* One value of a text of /metrics; -1 when it is not there. */
static double metric_in(const answer *a, const char *name)
{
    char line[128];
    snprintf(line, sizeof line, "\nbeeswax_%s ", name);
    const char *at = a->body.data ? strstr(a->body.data, line) : NULL;
    return at ? strtod(at + strlen(line), NULL) : -1;
}

static double read_metric(const soak *s, const char *name)
{
    answer a;
    get(s, "/metrics", &a);
    double value = metric_in(&a, name);
    answer_deinit(&a);
    return value;
}

typedef struct watcher {
    const soak *soak;
    phase *phase;
    _Atomic bool stopped;
} watcher;

static void note_memory(const soak *s, phase *p, double elapsed)
{
    double warm_up = s->warm_up < p->seconds / 3 ? s->warm_up : p->seconds / 3, middle = (warm_up + p->seconds) / 2;
    answer a;
    get(s, "/metrics", &a);
    p->n_unread += a.status != 200;
    for (int i = 0; i < MEMORIES && a.status == 200; i++) {
        memory *m = &p->memories[i];
        double *largest = elapsed < warm_up ? NULL : elapsed <= middle ? &m->first : &m->second;
        m->last = metric_in(&a, m->metric);
        if (largest && m->last > *largest)
            *largest = m->last;
    }
    answer_deinit(&a);
}

/* Asks for /health ten times a second, and every fifth time for memory. */
static void *watch(void *arg)
{
    watcher *w = arg;
    int64_t begin_ns = bw_clock_now_ns();
    for (int i = 0; !w->stopped; i++) {
        answer a;
        int64_t start_ns = bw_clock_now_ns();
        get(w->soak, "/health", &a);
        if (a.status == 200)
            load_note_first_token(&w->phase->health, (double)(bw_clock_now_ns() - start_ns) / 1e6);
        else
            w->phase->n_health_lost++;
        answer_deinit(&a);
        if (i % 5 == 0)
            note_memory(w->soak, w->phase, (double)(bw_clock_now_ns() - begin_ns) / 1e9);
        bw_clock_sleep_ms(100);
    }
    return NULL;
}

/* Everything the clients left behind has ended. */
static bool is_idle(const soak *s)
{
    for (int i = 0; i < 150; i++) {
        if (read_metric(s, "jobs_active") == 0 && read_metric(s, "engine_running") == 0)
            return true;
        bw_clock_sleep_ms(200);
    }
    printf("work stayed behind: %g jobs, %g sequences\n", read_metric(s, "jobs_active"),
           read_metric(s, "engine_running"));
    return false;
}

/* ---- running -------------------------------------------------------------------------------------------------------
 */

static void print_slice(const phase *p, double elapsed, const load_result *r)
{
    const load_result *sum = &p->sum;
    printf("%8.0f s  requests %lld  accepted %lld  answered %lld  hung up %lld  cancelled %lld  refused %lld  bad %lld"
           "  wrong %lld  slowest %.0f ms (kind %d)  first token p99 %.0f ms  rss %.1f MiB",
           elapsed, (long long)sum->n_requests, (long long)sum->n_accepted, (long long)sum->n_answered,
           (long long)sum->n_hung_up, (long long)sum->n_cancelled, (long long)sum->n_refused, (long long)sum->n_bad,
           (long long)sum->n_wrong, r->slowest_ms, r->slowest_kind, load_first_token_ms(r, 0.99),
           p->memories[0].last / 1048576);
    if (p->memories[1].last > 0)
        printf("  vram %.1f MiB", p->memories[1].last / 1048576);
    printf("\n");
}

static void run_phase(const soak *s, phase *p)
{
    watcher w = {.soak = s, .phase = p};
    pthread_t thread;
    double tenth = p->seconds / 10, slice = tenth < 3 ? 3 : tenth < 60 ? tenth : 60, elapsed = 0;
    int64_t start_ns = bw_clock_now_ns();
    p->memories[0] = (memory){"resident_bytes", -1, -1, -1};
    p->memories[1] = (memory){"vram_bytes", -1, -1, -1};
    bool watched = pthread_create(&thread, NULL, watch, &w) == 0;
    printf("%s, %g s:\n", p->name, p->seconds);
    for (uint64_t i = 0; elapsed < p->seconds; i++) {
        double left = p->seconds - elapsed;
        load_options options = {.host = s->host,
                                .port = s->port,
                                .headers = s->headers,
                                .n_clients = s->n_clients,
                                .seconds = left < slice ? left : slice,
                                .max_tokens = s->max_tokens,
                                .seed = s->seed + i * 4096,
                                .wait_ms = 3000,
                                .own_addresses = s->own_addresses};
        load_result r;
        load_run(&options, &r);
        load_add(&p->sum, &r);
        elapsed = (double)(bw_clock_now_ns() - start_ns) / 1e9;
        print_slice(p, elapsed, &r);
    }
    w.stopped = true;
    if (watched)
        pthread_join(thread, NULL);
}

static void print_counts(const soak *s, const attack_counts *c)
{
    for (int k = 0; k < ATTACK_KINDS; k++)
        if (s->n_attackers[k] > 0)
            printf("attack %-5s  %d: %lld requests, %lld answered with success, %lld with 4xx, %lld with 5xx; "
                   "%lld connections ended without an answer\n",
                   attack_names[k], s->n_attackers[k], (long long)c->n_sent[k], (long long)c->n_ok[k],
                   (long long)c->n_4xx[k], (long long)c->n_5xx[k], (long long)c->n_closed[k]);
}

/* ---- the verdict ---------------------------------------------------------------------------------------------------
 */

/* "BAD: ..." for each thing that does not hold. */
static bool holds(bool good, const char *format, ...) BW_PRINTF(2, 3);
static bool holds(bool good, const char *format, ...)
{
    va_list args;
    if (good)
        return true;
    printf("BAD: ");
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    printf("\n");
    return false;
}

static double refused_share(const phase *p)
{
    return p->sum.n_requests > 0 ? (double)p->sum.n_refused / (double)p->sum.n_requests : 0;
}

static double growth(const memory *m)
{
    return m->first > 0 ? (m->second / m->first - 1) * 100 : 0;
}

static void print_phase(const phase *p)
{
    const load_result *r = &p->sum;
    printf("%s: requests %lld, accepted %lld, answered %lld, refused %lld (%.1f%%), jobs that waited %lld, wrong %lld; "
           "first token p50 %.1f p99 %.1f ms of %lld; /health p99 %.1f largest %.1f ms, lost %lld of %lld; rss %.1f to "
           "%.1f MiB (%+.2f%%)",
           p->name, (long long)r->n_requests, (long long)r->n_accepted, (long long)r->n_answered,
           (long long)r->n_refused, refused_share(p) * 100, (long long)r->n_waited, (long long)r->n_wrong,
           load_first_token_ms(r, 0.5), load_first_token_ms(r, 0.99), (long long)r->n_first,
           load_first_token_ms(&p->health, 0.99), load_first_token_ms(&p->health, 1), (long long)p->n_health_lost,
           (long long)(p->n_health_lost + p->health.n_first), p->memories[0].first / 1048576,
           p->memories[0].second / 1048576, growth(&p->memories[0]));
    if (p->memories[1].second > 0)
        printf(", vram %.1f to %.1f MiB (%+.2f%%)", p->memories[1].first / 1048576, p->memories[1].second / 1048576,
               growth(&p->memories[1]));
    printf("\n");
    for (int i = 0; i < 2; i++)
        if (*r->first_refused[i])
            printf("%s, %lld refused, first: %s\n", i == 0 ? "jobs" : "other requests",
                   (long long)(i == 0 ? r->n_refused_jobs : r->n_refused - r->n_refused_jobs), r->first_refused[i]);
}

/* Of one phase alone. */
static bool judge_phase(const soak *s, const phase *p)
{
    const load_result *r = &p->sum;
    bool good = holds(r->n_answered > 0, "%s: nothing was answered", p->name);
    good &= holds(r->n_accepted == r->n_answered, "%s: %lld of %lld accepted requests were lost", p->name,
                  (long long)(r->n_accepted - r->n_answered), (long long)r->n_accepted);
    good &= holds(r->n_wrong == 0, "%s: %lld wrong answers, first: %s", p->name, (long long)r->n_wrong, r->first_wrong);
    good &= holds(p->n_health_lost == 0 && p->n_unread == 0, "%s: /health failed %lld times, /metrics %d", p->name,
                  (long long)p->n_health_lost, p->n_unread);
    good &= holds(p->idle, "%s: work stayed behind", p->name);
    good &= holds(p->memories[0].first > 0 && p->memories[0].second > 0, "%s: /metrics tells no memory", p->name);
    for (int i = 0; i < MEMORIES; i++)
        good &= holds(growth(&p->memories[i]) <= s->max_growth, "%s: %s grew by %.2f%%, %g%% are allowed", p->name,
                      p->memories[i].metric, growth(&p->memories[i]), s->max_growth);
    return good;
}

static bool compare_phases(const soak *s, const phase *alone, const phase *attacked)
{
    double before = load_first_token_ms(&alone->sum, 0.99), now = load_first_token_ms(&attacked->sum, 0.99);
    bool good = holds(refused_share(attacked) <= refused_share(alone) + s->max_refused / 100,
                      "clients were refused %.1f%% of their requests beside the attackers, %.1f%% without",
                      refused_share(attacked) * 100, refused_share(alone) * 100);
    return good & holds(now <= s->max_slowdown * before || now <= s->slow_ms,
                        "first token p99 %.1f ms beside the attackers, %.1f ms without: %.2f times as long, %g are "
                        "allowed",
                        now, before, now / before, s->max_slowdown);
}

/* Whether the attackers did what they are for: a run without them proves nothing. */
static bool judge_attack(const soak *s, const attack_counts *c)
{
    bool good = true;
    for (int k = 0; k < ATTACK_KINDS; k++)
        good &= holds(s->n_attackers[k] == 0 || c->n_sent[k] > 0, "attack %s sent nothing", attack_names[k]);
    return good;
}

static int usage(const char *program)
{
    fprintf(stderr,
            "usage: %s http://HOST:PORT [--hours H | --minutes M | --seconds S] [--clients 32]\n"
            "       [--max-tokens 60] [--seed 1] [--token T] [--warm-up SECONDS] [--max-growth PERCENT]\n"
            "       [--attack crowd,long,jobs] [--crowd 516] [--long 20] [--jobs 2]\n"
            "       [--max-slowdown 2] [--slow-ms 100] [--max-refused PERCENT]\n",
            program);
    return 2;
}

int main(int argc, char **argv)
{
    soak s = {.seconds = 300,
              .n_clients = 32,
              .max_tokens = 60,
              .seed = 1,
              .max_growth = 2,
              .warm_up = -1,
              .max_slowdown = 2,
              .slow_ms = 100,
              .max_refused = 2,
              .attack_sizes = {516, 20, 2}};
    if (!parse_args(argc, argv, &s))
        return usage(argv[0]);
    if (s.warm_up < 0)
        s.warm_up = s.seconds / 5 < 60 ? s.seconds / 5 : 60;
    if (s.warm_up >= s.seconds) {
        fprintf(stderr, "soak: a warm-up of %g s leaves nothing of %g s to measure\n", s.warm_up, s.seconds);
        return 2;
    }
    client_timeout_s = 120; /* a loaded worker may take its time; never answering is the fault */
    setvbuf(stdout, NULL, _IOLBF, 0);
    phase alone = {.name = "clients alone", .seconds = s.seconds}, attacked = {.name = "beside attackers"};
    attack_counts counts = {0};
    if (s.attacked) {
        alone.seconds = s.seconds / 3 < 300 ? s.seconds / 3 : 300;
        attacked.seconds = s.seconds;
    }
    run_phase(&s, &alone);
    alone.idle = is_idle(&s);
    if (s.attacked) {
        attack_options options = {
            .host = s.host, .port = s.port, .headers = s.headers, .own_addresses = s.own_addresses};
        memcpy(options.n, s.n_attackers, sizeof options.n);
        attack *attackers = attack_start(&options);
        run_phase(&s, &attacked);
        if (attackers)
            attack_stop(attackers, &counts);
        attacked.idle = is_idle(&s);
    }
    print_phase(&alone);
    bool good = judge_phase(&s, &alone);
    if (s.attacked) {
        print_phase(&attacked);
        print_counts(&s, &counts);
        good &= judge_phase(&s, &attacked);
        good &= compare_phases(&s, &alone, &attacked);
        good &= judge_attack(&s, &counts);
    }
    printf("%s\n", good ? "good" : "BAD");
    return good ? 0 : 1;
}
