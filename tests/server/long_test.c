/* Prompts far too long: whoever sends them waits, and nobody else does. */
#include "../bw_test.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "bw_clock.h"
#include "bw_log.h"
#include "bw_mem.h"
#include "bw_server.h"
#include "client.h"
#include "mock_engine.h"

enum { N_LONG = 100, N_BYTES = 200000, READ_MS = 60 };

static bw_engine *engine;
static bw_server *server;
static uint16_t port;
static char *long_body;
static const char *long_path;
static _Atomic int n_too_long, n_full, n_other, n_left;

static void start(int32_t n_queue)
{
    bw_err err = {0};
    bw_engine_options eo;
    bw_server_options options;
    bw_engine_options_init(&eo);
    eo.n_queue = eo.n_parallel = n_queue;
    eo.n_ctx = 512;
    assert_ok(bw_engine_new(&eo, &engine, &err), err);
    bw_server_options_init(&options);
    options.engine = engine;
    options.no_request_log = true;
    assert_ok(bw_server_start(&options, &server, &err), err);
    port = bw_server_port(server);
}

static void stop(void)
{
    bw_server_stop(server);
    assert_int_equal(mock_live_sessions(), 0);
    bw_engine_free(engine);
}

static void make_long_body(const char *begin, const char *end)
{
    bw_str text = {0};
    bw_str_add(&text, begin);
    while (text.len < N_BYTES)
        bw_str_add(&text, "word ");
    bw_str_add(&text, end);
    long_body = bw_str_take(&text, NULL);
}

/* The connection, on which nobody reads. */
static int send_head_and_body(const char *body)
{
    int fd = client_connect(port);
    bw_str head = {0};
    bw_str_add_format(&head,
                      "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                      "Content-Length: %zu\r\n\r\n",
                      strlen(body));
    client_send(fd, head.data, head.len);
    client_send(fd, body, strlen(body));
    bw_str_deinit(&head);
    return fd;
}

static void *send_long(void *arg)
{
    (void)arg;
    answer a;
    client_ask(port, "POST", long_path, "", long_body, &a);
    *(a.status == 400 ? &n_too_long : a.status == 503 ? &n_full : &n_other) += 1;
    answer_deinit(&a);
    n_left--;
    return NULL;
}

/* The longest that an answer of /health took while they are read, in ms. */
static double beside_long_ones(const char *path, const char *begin, const char *end)
{
    pthread_t threads[N_LONG];
    double longest = 0;
    n_too_long = n_full = n_other = 0;
    n_left = N_LONG;
    long_path = path;
    make_long_body(begin, end);
    for (int i = 0; i < N_LONG; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, send_long, NULL), 0);
    while (n_left > 0) {
        answer a;
        int64_t since = bw_clock_now_ns();
        client_ask(port, "GET", "/health", "", NULL, &a);
        double ms = (double)(bw_clock_now_ns() - since) / 1e6;
        longest = ms > longest ? ms : longest;
        assert_int_equal(a.status, 200);
        answer_deinit(&a);
        bw_clock_sleep_ms(5);
    }
    for (int i = 0; i < N_LONG; i++)
        pthread_join(threads[i], NULL);
    bw_free(long_body);
    return longest;
}

/* 100 prompts of which each takes 60 ms to read: on the threads of HTTP that is 3 s for whoever asks for /health. All
 * are answered, those that find a place as too long, the others at once. */
static void others_do_not_wait(void **state)
{
    (void)state;
    static const char *const kinds[][3] = {
        {"/v1/completions", "{\"prompt\":\"", "\"}"},
        {"/v1/chat/completions", "{\"messages\":[{\"role\":\"user\",\"content\":\"", "\"}]}"},
        {"/v1/jobs", "{\"prompt\":\"", "\"}"},
    };
    mock_read_ms = READ_MS;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        start(0);
        double longest = beside_long_ones(kinds[i][0], kinds[i][1], kinds[i][2]);
        assert_int_equal(n_other, 0);
        assert_int_equal(n_too_long + n_full, N_LONG);
        assert_true(n_too_long >= 64); /* the places, and what was read meanwhile */
        if (longest > 1000)            /* 0.1 ms on a machine that does nothing else */
            fail_msg("%s: /health took %.0f ms beside long prompts", kinds[i][0], longest);
        stop();
    }
    mock_read_ms = 0;
}

static bool is_full(void)
{
    answer a;
    client_ask(port, "GET", "/metrics", "", NULL, &a);
    bool full = !strstr(a.body.data, "beeswax_jobs_held 0\n") && strstr(a.body.data, "beeswax_engine_waiting 1\n");
    answer_deinit(&a);
    return full;
}

/* Jobs that run for seconds, more than there are places: one runs, one waits, the others are held. */
static void fill_queue(void)
{
    for (int i = 0; i < 4; i++) {
        answer a;
        client_ask(port, "POST", "/v1/jobs", "", "{\"prompt\":\"one @slow=20\",\"max_tokens\":400}", &a);
        assert_int_equal(a.status, 200);
        answer_deinit(&a);
    }
    for (int i = 0, n = 0; i < 100 && n < 3; i++) {
        n = is_full() ? n + 1 : 0;
        bw_clock_sleep_ms(50); /* one that waits finds a place after a step of 20 ms, or stays */
    }
    assert_true(is_full());
}

/* A queue that is full is said at once, before the body is even looked at. */
static void full_queue_reads_nothing(void **state)
{
    (void)state;
    mock_read_ms = 2000;
    start(1);
    answer full;
    fill_queue();
    make_long_body("{\"prompt\":\"", "\"}");
    int64_t since = bw_clock_now_ns();
    client_ask(port, "POST", "/v1/completions", "", long_body, &full);
    assert_int_equal(full.status, 503);
    assert_true(bw_clock_now_ns() - since < INT64_C(1500000000));
    answer_deinit(&full);
    long_body[0] = '!'; /* not even JSON */
    client_ask(port, "POST", "/v1/completions", "", long_body, &full);
    assert_int_equal(full.status, 503);
    answer_deinit(&full);
    bw_free(long_body);
    bw_clock_sleep_ms(1200); /* the server looks for a place for what is held; that is no refusal */
    client_ask(port, "GET", "/metrics", "", NULL, &full);
    assert_non_null(strstr(full.body.data, "beeswax_engine_rejected_total 0\n"));
    assert_non_null(strstr(full.body.data, "beeswax_jobs_refused_total 2\n"));
    answer_deinit(&full);
    stop();
    mock_read_ms = 0;
}

/* Long requests that came while the model loaded are submitted where long requests are read: streams do not wait. One
 * whose client leaves meanwhile is forgotten. */
static void held_ones_keep_nobody(void **state)
{
    (void)state;
    enum { N = 4 };
    pthread_t threads[N];
    double longest = 0;
    start(0);
    bw_server_set_engine(server, NULL); /* as before it was loaded */
    mock_read_ms = 500;
    n_too_long = n_full = n_other = 0;
    n_left = N;
    long_path = "/v1/completions";
    make_long_body("{\"prompt\":\"", "\"}");
    for (int i = 0; i < N; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, send_long, NULL), 0);
    int leaver = send_head_and_body(long_body);
    for (int i = 0; i < 500 && bw_server_count_active(server) < N + 1; i++)
        bw_clock_sleep_ms(10);
    assert_int_equal(bw_server_count_active(server), N + 1);
    bw_server_set_engine(server, engine);
    bw_clock_sleep_ms(50); /* the first is being read */
    close(leaver);
    while (n_left > 0) {
        answer a;
        int64_t since = bw_clock_now_ns();
        client_ask(port, "POST", "/v1/completions", "", "{\"prompt\":\"short\",\"max_tokens\":2}", &a);
        double ms = (double)(bw_clock_now_ns() - since) / 1e6;
        longest = ms > longest ? ms : longest;
        assert_int_equal(a.status, 200);
        answer_deinit(&a);
        bw_clock_sleep_ms(20);
    }
    for (int i = 0; i < N; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(n_too_long, N);
    if (longest > 400)
        fail_msg("a short request took %.0f ms beside held ones", longest);
    for (int i = 0; i < 1000 && bw_server_count_active(server) > 0; i++)
        bw_clock_sleep_ms(10);
    assert_int_equal(bw_server_count_active(server), 0);
    bw_free(long_body);
    stop();
    mock_read_ms = 0;
}

/* A long request that is right is answered as a short one is; one whose client leaves is forgotten. */
static void long_ones_are_answered(void **state)
{
    (void)state;
    start(0);
    bw_str text = {0};
    bw_str_add(&text, "{\"prompt\":\"one two three\",\"max_tokens\":3,\"stream\":true,\"ignored\":\"");
    while (text.len < N_BYTES)
        bw_str_add(&text, "word ");
    bw_str_add(&text, "\"}");
    answer a;
    client_ask(port, "POST", "/v1/completions", "", text.data, &a);
    assert_int_equal(a.status, 200);
    assert_true(a.whole);
    assert_non_null(strstr(a.body.data, "data: [DONE]"));
    answer_deinit(&a);
    client_ask(port, "POST", "/v1/jobs", "", text.data, &a);
    assert_int_equal(a.status, 200);
    char *id = json_text(a.body.data, "job_id");
    answer_deinit(&a);
    bw_str path = {0};
    bw_str_add_format(&path, "/v1/jobs/%s/stream", id);
    client_ask(port, "GET", path.data, "", NULL, &a);
    assert_non_null(strstr(a.body.data, "data: [DONE]"));
    answer_deinit(&a);
    bw_free(id);
    bw_str_deinit(&path);
    for (int i = 0; i < 20; i++)
        close(send_head_and_body(text.data));
    bw_str_deinit(&text);
    for (int i = 0; i < 1000 && bw_server_count_active(server) > 0; i++)
        bw_clock_sleep_ms(10);
    assert_int_equal(bw_server_count_active(server), 0);
    stop();
}

/* A histogram's lines as Prometheus reads them: bounds and counts ascend, the last is all there are. */
static void check_histogram(const char *text, const char *name)
{
    char line[128];
    double before = 0, last_bound = 0;
    int n = 0;
    snprintf(line, sizeof line, "\n# TYPE beeswax_%s histogram\n", name);
    const char *at = strstr(text, line);
    assert_non_null(at);
    snprintf(line, sizeof line, "beeswax_%s_bucket{le=\"", name);
    while ((at = strstr(at, line)) != NULL) {
        char *end;
        at += strlen(line);
        double bound = strncmp(at, "+Inf", 4) == 0 ? INFINITY : strtod(at, &end), count;
        assert_true(bound > last_bound);
        at = strchr(at, '}') + 1;
        count = strtod(at, &end);
        assert_true(*end == '\n' && count >= before);
        before = count;
        last_bound = bound;
        n++;
    }
    assert_int_equal(n, BW_HISTOGRAM_BUCKETS + 1);
    assert_true(isinf(last_bound));
    snprintf(line, sizeof line, "\nbeeswax_%s_count %.0f\n", name, before);
    assert_non_null(strstr(text, line));
    snprintf(line, sizeof line, "\nbeeswax_%s_sum ", name);
    assert_non_null(strstr(text, line));
}

/* What the engine measures reaches /metrics, /info and the metrics of a job. */
static void measures_are_told(void **state)
{
    (void)state;
    start(0);
    answer a;
    client_ask(port, "GET", "/metrics", "", NULL, &a);
    check_histogram(a.body.data, "queue_seconds");
    check_histogram(a.body.data, "time_to_first_token_seconds");
    check_histogram(a.body.data, "time_between_tokens_seconds");
    check_histogram(a.body.data, "request_seconds");
    assert_non_null(strstr(a.body.data, "\nbeeswax_queue_seconds_count 6\n"));
    assert_non_null(strstr(a.body.data, "\nbeeswax_queue_seconds_bucket{le=\"1\"} 3\n"));
    assert_non_null(strstr(a.body.data, "\nbeeswax_memory_bytes{class=\"weights\"} 7000\n"));
    assert_non_null(strstr(a.body.data, "\nbeeswax_memory_bytes{class=\"scratch\"} 40\n"));
    assert_non_null(strstr(a.body.data, "\nbeeswax_vram_bytes 7540\n"));
    assert_non_null(strstr(a.body.data, "\nbeeswax_vram_total_bytes 30000\n"));
    answer_deinit(&a);
    client_ask(port, "GET", "/info", "", NULL, &a);
    assert_non_null(strstr(a.body.data, "\"vram_bytes\":7540"));
    answer_deinit(&a);
    client_ask(port, "POST", "/v1/jobs", "", "{\"prompt\":\"one\",\"max_tokens\":20}", &a);
    char *url = json_text(a.body.data, "sse_url");
    answer_deinit(&a);
    client_ask(port, "GET", url, "", NULL, &a);
    assert_non_null(strstr(a.body.data, "\"vram_bytes\":7540}"));
    answer_deinit(&a);
    bw_free(url);
    stop();
}

int main(void)
{
    bw_log_configure(BW_LOG_OFF, true);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(others_do_not_wait),    cmocka_unit_test(full_queue_reads_nothing),
        cmocka_unit_test(held_ones_keep_nobody), cmocka_unit_test(long_ones_are_answered),
        cmocka_unit_test(measures_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
