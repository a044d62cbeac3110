/* long-prompts: what innocent clients see of a running worker while others send prompts that are far too long.
 *
 *   long-prompts http://127.0.0.1:8080 [--attackers 100] [--bytes 2000000] [--pause MS] [--max-tokens 1] [--chat 1]
 *          [--seconds 10]
 *
 * The attackers send prompts of so many bytes, each again and again with a pause in between. Beside them one client
 * asks for /health every 20 ms, one reads a stream (what counts is the time between two pieces of it) and one sends
 * short requests. --attackers 0 shows what they see alone. Prints counts, medians, 99th percentiles and the longest
 * times. */
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
#include "bw_mem.h"
#include "client.h"

enum { MOST_TIMES = 1 << 20, MOST_ATTACKERS = 4096 };

typedef struct times {
    double *ms; /* [MOST_TIMES] */
    size_t n;
    int n_failed;
} times;

static struct {
    uint16_t port;
    int n_attackers, n_bytes, pause_ms, max_tokens, chat;
    double seconds;
    char *body;
    atomic_bool over;
    _Atomic long by_status[6];
    times health, gaps, firsts, shorts;
} attack = {.n_attackers = 100, .n_bytes = 2000000, .pause_ms = 1000, .max_tokens = 1, .chat = 1, .seconds = 10};

static void add_time(times *t, int64_t since_ns, bool good)
{
    if (!good)
        t->n_failed++;
    else if (t->n < MOST_TIMES)
        t->ms[t->n++] = (double)(bw_clock_now_ns() - since_ns) / 1e6;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void print_times(const char *name, times *t)
{
    if (t->n > 0)
        qsort(t->ms, t->n, sizeof *t->ms, by_size);
    printf("%-30s %6zu, failed %d", name, t->n, t->n_failed);
    if (t->n > 0)
        printf(": median %.1f ms, 99%% %.1f ms, longest %.1f ms", t->ms[t->n / 2], t->ms[t->n - 1 - t->n / 100],
               t->ms[t->n - 1]);
    printf("\n");
}

static void *run_attacker(void *arg)
{
    (void)arg;
    /* they are to cost the server, not the measurement, their time */
    setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), 15);
    while (!attack.over) {
        answer a;
        client_ask(attack.port, "POST", attack.chat ? "/v1/chat/completions" : "/v1/completions", "", attack.body, &a);
        attack.by_status[a.status / 100 < 6 ? a.status / 100 : 0]++;
        answer_deinit(&a);
        for (int ms = 0; ms < attack.pause_ms && !attack.over; ms += 10)
            bw_clock_sleep_ms(10);
    }
    return NULL;
}

static void *run_health(void *arg)
{
    (void)arg;
    while (!attack.over) {
        answer a;
        int64_t since = bw_clock_now_ns();
        client_ask(attack.port, "GET", "/health", "", NULL, &a);
        add_time(&attack.health, since, a.status == 200);
        answer_deinit(&a);
        bw_clock_sleep_ms(20);
    }
    return NULL;
}

static void *run_short(void *arg)
{
    (void)arg;
    while (!attack.over) {
        answer a;
        int64_t since = bw_clock_now_ns();
        client_ask(attack.port, "POST", "/v1/completions", "",
                   "{\"prompt\":\"The sky is\",\"max_tokens\":1,\"temperature\":0}", &a);
        add_time(&attack.shorts, since, a.status == 200);
        answer_deinit(&a);
        bw_clock_sleep_ms(50);
    }
    return NULL;
}

/* One stream after the other, piece by piece. */
static void *run_stream(void *arg)
{
    (void)arg;
    char data[65536];
    while (!attack.over) {
        int fd = client_connect(attack.port);
        int64_t since = bw_clock_now_ns();
        bool first = true, ended = false;
        bw_str text = {0};
        const char *body = "{\"prompt\":\"Once upon\",\"max_tokens\":200,\"temperature\":0,\"stream\":true,"
                           "\"ignore_eos\":true}";
        bw_str_add_format(&text,
                          "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                          "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
                          strlen(body), body);
        if (fd >= 0)
            client_send(fd, text.data, text.len);
        bw_str_deinit(&text);
        for (ssize_t n; fd >= 0 && (n = recv(fd, data, sizeof data - 1, 0)) > 0 && !attack.over;) {
            data[n] = 0;
            ended = strstr(data, "[DONE]") != NULL || ended;
            if (strstr(data, "data: {")) {
                add_time(first ? &attack.firsts : &attack.gaps, since, true);
                since = bw_clock_now_ns();
                first = false;
            }
        }
        if (!ended && !attack.over)
            add_time(&attack.gaps, since, false);
        if (fd >= 0)
            close(fd);
    }
    return NULL;
}

static bool parse_args(int argc, char **argv)
{
    uint64_t port = 0;
    if (argc < 2 || !bw_str_starts(argv[1], "http://127.0.0.1:") || !bw_parse_u64(argv[1] + 17, &port) || port > 65535)
        return false;
    attack.port = (uint16_t)port;
    for (int i = 2; i < argc; i += 2) {
        double value = 0;
        if (i + 1 >= argc || !bw_parse_f64(argv[i + 1], &value) || value < 0)
            return false;
        if (strcmp(argv[i], "--attackers") == 0 && value <= MOST_ATTACKERS)
            attack.n_attackers = (int)value;
        else if (strcmp(argv[i], "--bytes") == 0 && value <= 1 << 30)
            attack.n_bytes = (int)value;
        else if (strcmp(argv[i], "--pause") == 0)
            attack.pause_ms = (int)value;
        else if (strcmp(argv[i], "--max-tokens") == 0)
            attack.max_tokens = (int)value;
        else if (strcmp(argv[i], "--chat") == 0)
            attack.chat = value > 0;
        else if (strcmp(argv[i], "--seconds") == 0)
            attack.seconds = value;
        else
            return false;
    }
    return true;
}

/* Words without end, each request's own from the first on, so that no prefix is found. */
static void make_body(void)
{
    static const char *const words[] = {"river ",   "under ", "stone ",      "bridge, ",
                                        "evening ", "9481 ",  "Zw\u00f6lf ", "a "};
    bw_str text = {0};
    bw_str_add(&text, attack.chat ? "{\"messages\":[{\"role\":\"user\",\"content\":\"" : "{\"prompt\":\"");
    for (unsigned h = 1; text.len < (size_t)attack.n_bytes; h = h * 1664525 + 1013904223)
        bw_str_add(&text, words[h >> 29]);
    bw_str_add(&text, attack.chat ? "\"}]" : "\"");
    bw_str_add_format(&text, ",\"max_tokens\":%d,\"temperature\":0}", attack.max_tokens);
    attack.body = bw_str_take(&text, NULL);
}

int main(int argc, char **argv)
{
    static pthread_t attackers[MOST_ATTACKERS], others[3];
    static void *(*const work[3])(void *) = {run_health, run_stream, run_short};
    if (!parse_args(argc, argv)) {
        fprintf(stderr,
                "usage: %s http://127.0.0.1:PORT [--attackers 100] [--bytes 2000000] [--pause MS]\n"
                "       [--max-tokens 1] [--chat 1] [--seconds 10]\n",
                argv[0]);
        return 2;
    }
    times *all[] = {&attack.health, &attack.gaps, &attack.firsts, &attack.shorts};
    make_body();
    for (int i = 0; i < 4; i++)
        all[i]->ms = bw_alloc_array(MOST_TIMES, sizeof(double));
    client_timeout_s = 120;
    for (int i = 0; i < attack.n_attackers; i++)
        pthread_create(&attackers[i], NULL, run_attacker, NULL);
    bw_clock_sleep_ms(attack.n_attackers ? 200 : 0);
    for (int i = 0; i < 3; i++)
        pthread_create(&others[i], NULL, work[i], NULL);
    bw_clock_sleep_ms((int)(attack.seconds * 1000));
    attack.over = true;
    for (int i = 0; i < 3; i++)
        pthread_join(others[i], NULL);
    for (int i = 0; i < attack.n_attackers; i++)
        pthread_join(attackers[i], NULL);
    printf("%d attackers with %d bytes: answers 2xx %ld, 4xx %ld, 5xx %ld, none %ld\n", attack.n_attackers,
           attack.n_bytes, (long)attack.by_status[2], (long)attack.by_status[4], (long)attack.by_status[5],
           (long)attack.by_status[0]);
    print_times("/health", &attack.health);
    print_times("between pieces of a stream", &attack.gaps);
    print_times("first piece of a stream", &attack.firsts);
    print_times("short requests, whole", &attack.shorts);
    return 0;
}
