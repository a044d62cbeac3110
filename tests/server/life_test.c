/* The server's surroundings: heartbeats to hives that do not want them, and its end under load. Line (k) of the worker
 * contract's acceptance list. */
#include "../bw_test.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bw_clock.h"
#include "bw_log.h"
#include "bw_mem.h"
#include "bw_server.h"
#include "client.h"
#include "mock_engine.h"

static bw_engine *engine;
static bw_server *server;
static uint16_t port;

static void start_with(bw_server_options *options)
{
    bw_err err = {0};
    bw_engine_options eo;
    bw_engine_options_init(&eo);
    assert_ok(bw_engine_new(&eo, &engine, &err), err);
    options->engine = engine;
    assert_ok(bw_server_start(options, &server, &err), err);
    port = bw_server_port(server);
}

static void stop(void)
{
    bw_server_stop(server);
    assert_int_equal(mock_live_sessions(), 0);
    bw_engine_free(engine);
}

/* A job's stream, whole. */
static void run_job(const char *path, const char *body, answer *out)
{
    answer a;
    client_ask(port, "POST", path, "", body, &a);
    char *url = json_text(a.body.data, "sse_url");
    assert_non_null(url);
    client_ask(port, "GET", url, "", NULL, out);
    bw_free(url);
    answer_deinit(&a);
}

/* ---- (k) ---- */

typedef struct hive {
    int listener;
    uint16_t port;
    pthread_t thread;
    pthread_mutex_t lock;
    bw_str received;
    int n;
} hive;

/* Answers every request with 404, as a queen without the route does. */
static void *hive_main(void *arg)
{
    hive *h = arg;
    for (;;) {
        int fd = accept(h->listener, NULL, NULL);
        if (fd < 0)
            return NULL;
        char text[4096];
        size_t n = 0;
        for (ssize_t got; n + 1 < sizeof text && (got = recv(fd, text + n, sizeof text - 1 - n, 0)) > 0;) {
            n += (size_t)got;
            text[n] = 0;
            if (strstr(text, "\r\n\r\n{") && strstr(text, "Z\"}"))
                break;
        }
        static const char no[] = "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
        client_send(fd, no, sizeof no - 1);
        close(fd);
        pthread_mutex_lock(&h->lock);
        bw_str_add_bytes(&h->received, text, n);
        h->n++;
        pthread_mutex_unlock(&h->lock);
    }
}

static void hive_start(hive *h, char url[64])
{
    *h = (hive){.lock = PTHREAD_MUTEX_INITIALIZER, .listener = socket(AF_INET, SOCK_STREAM, 0)};
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n_bytes = sizeof at;
    assert_int_equal(bind(h->listener, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(h->listener, 16), 0);
    getsockname(h->listener, (struct sockaddr *)&at, &n_bytes);
    pthread_create(&h->thread, NULL, hive_main, h);
    snprintf(url, 64, "http://127.0.0.1:%u/", ntohs(at.sin_port));
}

static void hive_end(hive *h)
{
    shutdown(h->listener, SHUT_RDWR);
    pthread_join(h->thread, NULL);
    close(h->listener);
}

/* The statuses that were told so far, as "starting ready ". */
static void hive_statuses(hive *h, char *out, size_t size)
{
    size_t n = 0;
    out[0] = 0;
    pthread_mutex_lock(&h->lock);
    for (const char *p = h->received.data; p && (p = strstr(p, "\"status\":\"")) != NULL && n + 16 < size;) {
        p += strlen("\"status\":\"");
        n += (size_t)snprintf(out + n, size - n, "%.*s ", (int)strcspn(p, "\""), p);
    }
    pthread_mutex_unlock(&h->lock);
}

static void test_heartbeat(void **state)
{
    (void)state;
    hive h;
    char url[64];
    hive_start(&h, url);
    bw_server_options options;
    bw_server_options_init(&options);
    options.hive_url = url;
    options.worker_id = "worker-cpu-8080";
    options.model_ref = "hf:tiny.gguf";
    options.implementation = "llm-worker-rbee-cpu";
    options.heartbeat_ms = 100;
    int64_t start_ns = bw_clock_now_ns();
    bw_err err = {0};
    bw_engine_options eo;
    bw_engine_options_init(&eo);
    assert_ok(bw_engine_new(&eo, &engine, &err), err);
    assert_ok(bw_server_start(&options, &server, &err), err);
    port = bw_server_port(server);
    bw_clock_sleep_ms(50);
    bw_server_set_engine(server, engine);
    bw_clock_sleep_ms(250);
    answer a;
    run_job("/v1/jobs", "{\"prompt\":\"a @slow=50\",\"max_tokens\":6}", &a); /* 300 ms, not disturbed */
    assert_non_null(strstr(a.body.data, "[DONE]"));
    answer_deinit(&a);
    bw_server_stop(server);
    bw_engine_free(engine);
    hive_end(&h);
    char expected[300];
    snprintf(expected, sizeof expected,
             "{\"worker\":{\"id\":\"worker-cpu-8080\",\"model_id\":\"hf:tiny.gguf\",\"device\":\"cpu:0\",\"port\":%u,"
             "\"status\":\"starting\",\"implementation\":\"llm-worker-rbee-cpu\",\"version\":\"0.1.0\",\"vram_bytes\":"
             "0},\"timestamp\":\"20",
             port);
    assert_memory_equal(h.received.data, "POST /v1/worker-heartbeat HTTP/1.1\r\n", 36);
    assert_non_null(strstr(h.received.data, expected));
    assert_non_null(strstr(h.received.data, "\"status\":\"ready\""));
    assert_non_null(strstr(h.received.data, "\"status\":\"busy\""));
    const char *last = NULL;
    for (const char *p = h.received.data; (p = strstr(p, "\"status\":\"")) != NULL; p++)
        last = p;
    assert_memory_equal(last, "\"status\":\"stopping\"", 19);
    assert_true(h.n >= 4 && h.n <= 4 + (bw_clock_now_ns() - start_ns) / 100000000);
    bw_str_deinit(&h.received);
}

/* Between two beats of the clock a change of the status is told at once, but however often it changes, two follow each
 * other after half a second at the soonest. */
static void test_heartbeat_on_change(void **state)
{
    (void)state;
    hive h;
    char url[64], told[2000];
    hive_start(&h, url);
    bw_server_options options;
    bw_server_options_init(&options);
    options.hive_url = url; /* and a beat every 30 s */
    start_with(&options);
    bw_clock_sleep_ms(600);
    answer a;
    run_job("/v1/jobs", "{\"prompt\":\"a @slow=100\",\"max_tokens\":8}", &a); /* 0.8 s */
    answer_deinit(&a);
    for (int i = 0; i < 200 && (hive_statuses(&h, told, sizeof told), strcmp(told, "ready busy ready ") != 0); i++)
        bw_clock_sleep_ms(10);
    assert_string_equal(told, "ready busy ready ");
    int64_t start_ns = bw_clock_now_ns(), end_ns = start_ns;
    for (int i = 0; end_ns - start_ns < 1200000000; i++, end_ns = bw_clock_now_ns()) {
        run_job("/v1/jobs", "{\"prompt\":\"a\",\"max_tokens\":1}", &a);
        answer_deinit(&a);
    }
    bw_clock_sleep_ms(700);
    hive_statuses(&h, told, sizeof told);
    const char *last = strstr(told, "ready busy ready ") + strlen("ready busy ready ");
    pthread_mutex_lock(&h.lock);
    int n = h.n;
    pthread_mutex_unlock(&h.lock);
    assert_true(n <= 3 + (bw_clock_now_ns() - start_ns) / 500000000 + 1);
    assert_true(*last == 0 || bw_str_ends(told, "ready ")); /* what it ended with is what it is */
    stop();
    hive_end(&h);
    bw_str_deinit(&h.received);
}

/* A hive that is not there, and one that accepts and never answers: stopping stays quick. */
static void test_dead_hive(void **state)
{
    (void)state;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n_bytes = sizeof at;
    assert_int_equal(bind(listener, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(listener, 16), 0);
    getsockname(listener, (struct sockaddr *)&at, &n_bytes);
    char silent[64];
    snprintf(silent, sizeof silent, "http://127.0.0.1:%u", ntohs(at.sin_port));
    const char *urls[] = {"http://127.0.0.1:1", "file:///etc/passwd", "nonsense", silent};
    for (size_t i = 0; i < sizeof urls / sizeof *urls; i++) {
        bw_server_options options;
        bw_server_options_init(&options);
        options.hive_url = urls[i];
        options.heartbeat_ms = 20;
        start_with(&options);
        answer a;
        run_job("/v1/inference", "{\"prompt\":\"a\",\"max_tokens\":3}", &a);
        assert_non_null(strstr(a.body.data, "[DONE]"));
        answer_deinit(&a);
        int64_t start_ns = bw_clock_now_ns();
        stop();
        assert_true(bw_clock_now_ns() - start_ns < 1900000000);
    }
    close(listener);
}

/* ---- stop ---- */

static void *stream_reader(void *arg)
{
    client_ask(port, "POST", "/v1/completions", "", "{\"prompt\":\"a @slow=20\",\"max_tokens\":400,\"stream\":true}",
               arg);
    return NULL;
}

static void *whole_reader(void *arg)
{
    client_ask(port, "POST", "/v1/completions", "", "{\"prompt\":\"a @slow=20\",\"max_tokens\":400}", arg);
    return NULL;
}

static void test_stop_answers(void **state)
{
    (void)state;
    bw_server_options options;
    bw_server_options_init(&options);
    start_with(&options);
    answer job, streamed, whole;
    pthread_t threads[2];
    client_ask(port, "POST", "/v1/jobs", "", "{\"prompt\":\"unclaimed @slow=20\",\"max_tokens\":400}", &job);
    pthread_create(&threads[0], NULL, stream_reader, &streamed);
    pthread_create(&threads[1], NULL, whole_reader, &whole);
    bw_clock_sleep_ms(200);
    int64_t start_ns = bw_clock_now_ns();
    stop();
    assert_true(bw_clock_now_ns() - start_ns < 1000000000);
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    assert_non_null(strstr(streamed.body.data, "\"error\":{\"message\":\"the request was cancelled because"));
    assert_true(streamed.whole);
    assert_int_equal(whole.status, 503);
    answer_deinit(&job);
    answer_deinit(&streamed);
    answer_deinit(&whole);
}

/* An engine in the middle of a long step: clients are told, and stopping does not wait for it. */
static void *rbee_reader(void *arg)
{
    run_job("/v1/jobs", "{\"prompt\":\"a @slow=5000\"}", arg);
    return NULL;
}

static void *slow_reader(void *arg)
{
    client_ask(port, "POST", "/v1/completions", "", "{\"prompt\":\"a @slow=5000\"}", arg);
    return NULL;
}

static void test_stop_in_long_step(void **state)
{
    (void)state;
    bw_server_options options;
    bw_server_options_init(&options);
    start_with(&options);
    answer streamed, whole;
    pthread_t threads[2];
    pthread_create(&threads[0], NULL, rbee_reader, &streamed);
    pthread_create(&threads[1], NULL, slow_reader, &whole);
    bw_clock_sleep_ms(300);
    int64_t start_ns = bw_clock_now_ns();
    bw_server_stop(server);
    assert_true(bw_clock_now_ns() - start_ns < 1600000000);
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    assert_int_equal(whole.status, 503);
    assert_non_null(strstr(whole.body.data, "shutting down"));
    assert_true(streamed.whole);
    assert_non_null(strstr(streamed.body.data, "data: [CANCELLED]"));
    answer_deinit(&streamed);
    answer_deinit(&whole);
    assert_int_equal(mock_live_sessions(), 0);
    bw_engine_free(engine);
}

/* The n-th allocation of a start fails, for every n: a server, or an error and nothing left behind. */
static void test_start_without_memory(void **state)
{
    (void)state;
    bw_server_options options;
    bw_server_options_init(&options);
    options.hive_url = "http://127.0.0.1:1";
    int n_failed = 0, n_started = 0;
    for (int64_t n = 1; n_started < 3; n++) {
        int64_t live = bw_mem_live();
        bw_err err = {0};
        bw_server *made = NULL;
        bw_mem_fail_at(n);
        bw_status status = bw_server_start(&options, &made, &err);
        bw_mem_fail_at(0);
        n_failed += status != BW_OK;
        n_started += status == BW_OK;
        assert_true((status == BW_OK) == (made != NULL));
        if (status != BW_OK)
            assert_int_equal(status, BW_E_MEMORY);
        bw_server_stop(made);
        assert_int_equal(bw_mem_live(), live);
    }
    assert_true(n_failed >= 10);
}

int main(void)
{
    bw_log_configure(BW_LOG_OFF, true);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_heartbeat),         cmocka_unit_test(test_heartbeat_on_change),
        cmocka_unit_test(test_dead_hive),         cmocka_unit_test(test_stop_answers),
        cmocka_unit_test(test_stop_in_long_step), cmocka_unit_test(test_start_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
