/* soak: many clients against a running worker for minutes or hours, with hang-ups, cancels and rubbish in between.
 *
 *   soak http://127.0.0.1:8080 [--hours H | --minutes M | --seconds S] [--clients 32] [--max-tokens 60] [--seed 1]
 *        [--token TOKEN] [--warm-up SECONDS] [--max-growth PERCENT]
 *
 * Prints a line per slice: requests, accepted, answered, and the worker's resident memory from its /metrics. Exit 1
 * when an accepted request was not answered, when something came back that should not, when work stays behind at the
 * end, or when memory after the warm-up grew by more than --max-growth percent (2 unless given). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bw_clock.h"
#include "bw_str.h"
#include "client.h"
#include "load.h"

typedef struct soak {
    char host[128], headers[600];
    uint16_t port;
    double seconds, warm_up, max_growth;
    int n_clients, max_tokens;
    uint64_t seed;
} soak;

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
        if (!bw_parse_f64(argv[i + 1], &value) || value < 0)
            return false;
        if (strcmp(argv[i], "--hours") == 0)
            s->seconds = value * 3600;
        else if (strcmp(argv[i], "--minutes") == 0)
            s->seconds = value * 60;
        else if (strcmp(argv[i], "--seconds") == 0)
            s->seconds = value;
        else if (strcmp(argv[i], "--clients") == 0 && value >= 1 && value <= 4096)
            s->n_clients = (int)value;
        else if (strcmp(argv[i], "--max-tokens") == 0 && value >= 1 && value <= 2048)
            s->max_tokens = (int)value;
        else if (strcmp(argv[i], "--seed") == 0)
            s->seed = (uint64_t)value;
        else if (strcmp(argv[i], "--warm-up") == 0)
            s->warm_up = value;
        else if (strcmp(argv[i], "--max-growth") == 0)
            s->max_growth = value;
        else
            return false;
    }
    return true;
}

/* One value of /metrics; -1 when it cannot be had. */
static double read_metric(const soak *s, const char *name)
{
    double value = -1;
    char request[800], line[128];
    int n = snprintf(request, sizeof request, "GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n%s\r\n",
                     s->headers);
    int fd = client_connect_to(s->host, s->port);
    answer a = {0};
    if (fd >= 0) {
        client_send(fd, request, (size_t)n);
        client_read(fd, &a, NULL);
        close(fd);
    }
    snprintf(line, sizeof line, "\nbeeswax_%s ", name);
    const char *at = a.body.data ? strstr(a.body.data, line) : NULL;
    if (at)
        value = strtod(at + strlen(line), NULL);
    answer_deinit(&a);
    return value;
}

static void add_result(load_result *sum, const load_result *r)
{
    sum->n_requests += r->n_requests;
    sum->n_accepted += r->n_accepted;
    sum->n_answered += r->n_answered;
    sum->n_cancelled += r->n_cancelled;
    sum->n_hung_up += r->n_hung_up;
    sum->n_refused += r->n_refused;
    sum->n_bad += r->n_bad;
    if (r->n_wrong && !sum->n_wrong)
        memcpy(sum->first_wrong, r->first_wrong, sizeof sum->first_wrong);
    sum->n_wrong += r->n_wrong;
}

/* Everything the clients left behind has ended. */
static bool is_idle(const soak *s)
{
    for (int i = 0; i < 150; i++) {
        if (read_metric(s, "jobs_active") == 0 && read_metric(s, "engine_running") == 0)
            return true;
        bw_clock_sleep_ms(200);
    }
    return false;
}

int main(int argc, char **argv)
{
    soak s = {.seconds = 300, .n_clients = 32, .max_tokens = 60, .seed = 1, .max_growth = 2, .warm_up = -1};
    if (!parse_args(argc, argv, &s)) {
        fprintf(stderr,
                "usage: %s http://HOST:PORT [--hours H | --minutes M | --seconds S] [--clients 32]\n"
                "       [--max-tokens 60] [--seed 1] [--token T] [--warm-up SECONDS] [--max-growth PERCENT]\n",
                argv[0]);
        return 2;
    }
    if (s.warm_up < 0)
        s.warm_up = s.seconds / 5 < 60 ? s.seconds / 5 : 60;
    if (s.warm_up >= s.seconds) {
        fprintf(stderr, "soak: a warm-up of %g s leaves nothing of %g s to measure\n", s.warm_up, s.seconds);
        return 2;
    }
    client_timeout_s = 120; /* a loaded worker may take its time; never answering is the fault */
    setvbuf(stdout, NULL, _IOLBF, 0);
    load_result sum = {0};
    double slice = s.seconds / 10 < 60 ? s.seconds / 10 : 60, warm_rss = -1, rss = -1, largest = -1;
    int64_t start_ns = bw_clock_now_ns();
    double elapsed = 0;
    for (uint64_t i = 0; elapsed < s.seconds; i++) {
        double left = s.seconds - elapsed;
        load_options options = {.host = s.host,
                                .port = s.port,
                                .headers = s.headers,
                                .n_clients = s.n_clients,
                                .seconds = left < slice ? left : slice,
                                .max_tokens = s.max_tokens,
                                .seed = s.seed + i * 4096};
        load_result r;
        load_run(&options, &r);
        add_result(&sum, &r);
        elapsed = (double)(bw_clock_now_ns() - start_ns) / 1e9;
        rss = read_metric(&s, "resident_bytes");
        if (elapsed >= s.warm_up && warm_rss < 0)
            warm_rss = rss;
        largest = rss > largest ? rss : largest;
        printf(
            "%8.0f s  requests %lld  accepted %lld  answered %lld  hung up %lld  cancelled %lld  refused %lld  bad %lld"
            "  wrong %lld  slowest %.0f ms (kind %d)  rss %.1f MiB\n",
            elapsed, (long long)sum.n_requests, (long long)sum.n_accepted, (long long)sum.n_answered,
            (long long)sum.n_hung_up, (long long)sum.n_cancelled, (long long)sum.n_refused, (long long)sum.n_bad,
            (long long)sum.n_wrong, r.slowest_ms, r.slowest_kind, rss / 1048576);
    }
    bool idle = is_idle(&s);
    double growth = warm_rss > 0 ? (rss / warm_rss - 1) * 100 : 0;
    bool good = sum.n_accepted == sum.n_answered && sum.n_answered > 0 && !sum.n_wrong && idle && rss > 0 &&
                warm_rss > 0 && growth <= s.max_growth;
    if (sum.n_wrong)
        printf("first wrong: %s\n", sum.first_wrong);
    if (!idle)
        printf("work stayed behind: %g jobs, %g sequences\n", read_metric(&s, "jobs_active"),
               read_metric(&s, "engine_running"));
    printf("%s: accepted %lld, answered %lld, rss after warm-up %.1f MiB, at the end %.1f MiB (%+.2f%%), largest %.1f "
           "MiB\n",
           good ? "good" : "BAD", (long long)sum.n_accepted, (long long)sum.n_answered, warm_rss / 1048576,
           rss / 1048576, growth, largest / 1048576);
    return good ? 0 : 1;
}
