/* The server over real sockets with the mock engine: every route's happy path and error shapes, and lines (b), (c),
 * (e), (f), (g) and (h) of the worker contract's acceptance list. */
#include "../bw_test.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdlib.h>
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

static void start_with(bw_server_options *options, int32_t n_queue)
{
    bw_err err = {0};
    bw_engine_options eo;
    bw_engine_options_init(&eo);
    eo.n_queue = n_queue;
    eo.n_ctx = 512;
    assert_ok(bw_engine_new(&eo, &engine, &err), err);
    options->engine = engine;
    options->cors = "*";
    if (!options->model_id)
        options->model_id = "org/mock:words";
    options->model_path = "/secret/store/model.gguf"; /* no answer shows the folder */
    assert_ok(bw_server_start(options, &server, &err), err);
    port = bw_server_port(server);
}

static int start(void **state)
{
    (void)state;
    bw_server_options options;
    bw_server_options_init(&options);
    start_with(&options, 0);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    bw_server_stop(server);
    assert_int_equal(mock_live_sessions(), 0);
    bw_engine_free(engine);
    server = NULL;
    engine = NULL;
    return 0;
}

static void ask_for(const char *method, const char *path, const char *body, answer *out)
{
    client_ask(port, method, path, "", body, out);
}

static void assert_answer(const char *method, const char *path, const char *body, int status, const char *text)
{
    answer a;
    ask_for(method, path, body, &a);
    if (a.status != status || !a.body.data || !strstr(a.body.data, text))
        fail_msg("%s %s: %d %s, expected %d with %s", method, path, a.status, a.body.data, status, text);
    assert_true(a.whole);
    answer_deinit(&a);
}

/* A job's stream, whole. */
static void run_job(const char *path, const char *body, answer *out)
{
    answer a;
    ask_for("POST", path, body, &a);
    assert_int_equal(a.status, 200);
    char *url = json_text(a.body.data, "sse_url");
    assert_non_null(url);
    ask_for("GET", url, NULL, out);
    bw_free(url);
    answer_deinit(&a);
}

static void wait_until_idle(void)
{
    for (int i = 0; i < 1000 && (bw_server_count_active(server) || mock_live_sessions()); i++)
        bw_clock_sleep_ms(5);
    assert_int_equal(bw_server_count_active(server), 0);
    assert_int_equal(mock_live_sessions(), 0);
}

/* ---- (e) and what else is public ---- */

static void test_state_routes(void **state)
{
    (void)state;
    assert_answer("GET", "/", NULL, 200, "\"status\":\"healthy\"");
    assert_answer("GET", "/health", NULL, 200, "{\"status\":\"healthy\"}");
    assert_answer("GET", "/v1/ready", NULL, 200, "{\"ready\":true,\"state\":\"idle\",\"model_loaded\":true}");
    assert_answer("GET", "/v1/loading/progress", NULL, 503, "Model not loading");
    assert_answer("GET", "/info", NULL, 200, "\"model_id\":\"org/mock:words\"");
    assert_answer("GET", "/info", NULL, 200, "\"architecture\":\"mock\"");
    assert_answer("GET", "/metrics", NULL, 200, "# TYPE beeswax_generated_tokens_total counter");
    assert_answer("GET", "/metrics", NULL, 200, "beeswax_http_responses_total{class=\"2xx\"} ");
    assert_answer("GET", "/metrics", NULL, 200, "\nbeeswax_ready 1\n");
    answer a;
    client_ask(port, "HEAD", "/health", "", NULL, &a);
    assert_int_equal(a.status, 200);
    answer_deinit(&a);
}

/* What Prometheus does not take in a label is not there. */
static void test_metrics_labels(void **state)
{
    (void)state;
    bw_server_options options;
    bw_server_options_init(&options);
    options.model_id = "a\"b\tc\\d";
    start_with(&options, 0);
    assert_answer("GET", "/metrics", NULL, 200, "device=\"cpu:0\",model=\"a\\\"b c\\\\d\"} 1\n");
}

static void test_unknown_and_wrong_method(void **state)
{
    (void)state;
    assert_answer("GET", "/nothing", NULL, 404, "");
    assert_answer("GET", "/v1/jobs/x/y/stream", NULL, 404, "");
    answer a;
    ask_for("PUT", "/v1/jobs", "{}", &a);
    assert_int_equal(a.status, 405);
    assert_int_equal(a.body.len, 0);
    char *allow = answer_header(&a, "allow");
    assert_string_equal(allow, "POST");
    bw_free(allow);
    answer_deinit(&a);
    ask_for("POST", "/health", "{}", &a);
    assert_int_equal(a.status, 405);
    allow = answer_header(&a, "allow");
    assert_string_equal(allow, "GET,HEAD");
    bw_free(allow);
    answer_deinit(&a);
    client_ask(port, "POST", "/v1/jobs", "Content-Length: 0\r\n", NULL, &a);
    assert_int_equal(a.status, 415);
    answer_deinit(&a);
    client_ask(port, "POST", "/v1/completions", "Content-Type: text/plain\r\nContent-Length: 0\r\n", NULL, &a);
    assert_int_equal(a.status, 415);
    assert_non_null(strstr(a.body.data, "\"error\":{\"message\""));
    answer_deinit(&a);
}

static void test_body_limits(void **state)
{
    (void)state;
    assert_answer("POST", "/v1/jobs", "{oops", 400, "JSON");
    char *big = malloc((2u << 20) + 100);
    memset(big, ' ', (2u << 20) + 99);
    big[(2u << 20) + 99] = 0;
    assert_answer("POST", "/v1/inference", big, 413, "2097152");
    assert_answer("POST", "/v1/chat/completions", big, 413, "\"error\"");
    free(big);
    answer a;
    client_ask(port, "POST", "/v1/jobs",
               "Content-Type: application/json\r\nExpect: 100-continue\r\nContent-Length: 99999999999\r\n", NULL, &a);
    assert_int_equal(a.status, 413);
    answer_deinit(&a);
}

/* ---- (b) queen, (c) job-client ---- */

/* Queen: flat body, then lines with "data: " cut off until [DONE]. */
static void test_queen(void **state)
{
    (void)state;
    answer a;
    run_job("/v1/inference", "{\"prompt\":\"the sky is @nl\",\"max_tokens\":6,\"temperature\":0.7,\"top_p\":0.9}", &a);
    assert_int_equal(a.status, 200);
    char *type = answer_header(&a, "content-type"), *cache = answer_header(&a, "cache-control");
    assert_string_equal(type, "text/event-stream");
    assert_string_equal(cache, "no-cache");
    bw_free(type);
    bw_free(cache);
    int n_tokens = 0, n_lines = 0;
    bool done = false;
    for (char *save = NULL, *line = strtok_r(a.body.data, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        assert_false(done);
        assert_memory_equal(line, "data: ", 6);
        line += 6;
        done = strcmp(line, "[DONE]") == 0;
        char index[32];
        snprintf(index, sizeof index, "\"i\":%d}", n_tokens);
        if (n_lines == 0)
            assert_memory_equal(line, "{\"type\":\"started\",\"job_id\":\"job-", 32);
        if (strstr(line, "\"type\":\"token\""))
            assert_non_null(strstr(line, index)), n_tokens++;
        n_lines++;
    }
    assert_true(done);
    assert_int_equal(n_tokens, 6);
    answer_deinit(&a);
}

static void test_job_client(void **state)
{
    (void)state;
    answer a;
    run_job("/v1/jobs",
            "{\"operation\":\"infer\",\"hive_id\":\"h\",\"model\":\"m\",\"prompt\":\"one @seed @blank @eos=4\","
            "\"stream\":true}",
            &a);
    assert_non_null(strstr(a.body.data, "{\"type\":\"token\",\"t\":\" 42\",\"i\":0}\n\n")); /* the fixed seed */
    assert_int_equal(count_text(a.body.data, "\"type\":\"token\""), 3);                     /* of 4: one is blank */
    assert_int_equal(count_text(a.body.data, "\"i\":2}"), 1);
    assert_int_equal(count_text(a.body.data, "\"type\":\"end\""), 1);
    assert_non_null(strstr(a.body.data,
                           "{\"type\":\"end\",\"tokens_out\":4,\"decode_time_ms\":4,\"stop_reason\":\"EOS\"}"
                           "\n\ndata: [DONE]\n\n"));
    answer_deinit(&a);
    run_job("/v1/jobs", "{\"prompt\":\"a b c\",\"stop\":[\" c\"]}", &a);
    assert_non_null(strstr(a.body.data, "\"stop_reason\":\"STOP_SEQUENCE\",\"stop_sequence_matched\":\" c\"}"));
    answer_deinit(&a);
    run_job("/v1/jobs", "{\"prompt\":\"a b c\",\"max_tokens\":2}", &a);
    assert_non_null(strstr(a.body.data, "\"stop_reason\":\"MAX_TOKENS\"}"));
    answer_deinit(&a);
    assert_answer("POST", "/v1/jobs", "{\"operation\":\"embed\"}", 500, "Unsupported operation for worker: embed");
    assert_answer("POST", "/v1/jobs", "{\"prompt\":\"a\",\"top_p\":2}", 400, "{\"errors\":[{\"field\":\"top_p\"");
    assert_answer("POST", "/v1/jobs", "{\"prompt\":\" \"}", 400, "{\"field\":\"prompt\",\"message\":\"");
}

/* ---- (g) ---- */

static void test_stream_errors(void **state)
{
    (void)state;
    assert_answer("GET", "/v1/jobs/job-x/stream", NULL, 404, "Job job-x not found");
    assert_answer("GET", "/v1/inference/job-x/stream", NULL, 404, "Job job-x not found");
    answer a, b;
    ask_for("POST", "/v1/jobs", "{\"prompt\":\"a\",\"max_tokens\":3}", &a);
    char *id = json_text(a.body.data, "job_id"), path[128], text[128];
    snprintf(path, sizeof path, "/v1/inference/%s/stream", id);
    ask_for("GET", path, NULL, &b);
    assert_non_null(strstr(b.body.data, "[DONE]"));
    answer_deinit(&b);
    snprintf(text, sizeof text, "Job %s has no token receiver", id);
    assert_answer("GET", path, NULL, 500, text);
    bw_free(id);
    answer_deinit(&a);
    /* failed before anyone looked */
    ask_for("POST", "/v1/jobs", "{\"prompt\":\"a @fail=1\"}", &a);
    id = json_text(a.body.data, "job_id");
    wait_until_idle();
    snprintf(path, sizeof path, "/v1/jobs/%s/stream", id);
    snprintf(text, sizeof text, "Job %s failed: the mock device failed", id);
    assert_answer("GET", path, NULL, 500, text);
    bw_free(id);
    answer_deinit(&a);
    /* failed under way: the line break of the sentence must not break the marker's line */
    run_job("/v1/jobs", "{\"prompt\":\"a @slow=300 @fail=2\"}", &a);
    assert_non_null(strstr(a.body.data,
                           "{\"type\":\"error\",\"code\":\"INFERENCE_FAILED\",\"message\":\"the mock device "
                           "failed\\nafter 2 tokens of model.gguf\"}\n\ndata: [ERROR] the mock device failed after 2 "
                           "tokens of model.gguf\n\n"));
    assert_int_equal(count_text(a.body.data, "[DONE]"), 0);
    answer_deinit(&a);
}

static void test_delete(void **state)
{
    (void)state;
    answer a, b;
    ask_for("POST", "/v1/jobs", "{\"prompt\":\"a @slow=20\",\"max_tokens\":400}", &a);
    char *id = json_text(a.body.data, "job_id"), path[128], text[160];
    snprintf(path, sizeof path, "/v1/jobs/%s", id);
    snprintf(text, sizeof text, "{\"job_id\":\"%s\",\"status\":\"cancelled\"}", id);
    assert_answer("GET", "/v1/ready", NULL, 200, "{\"ready\":true,\"state\":\"busy\",\"model_loaded\":true}");
    assert_answer("DELETE", path, NULL, 200, text);
    snprintf(text, sizeof text, "Job %s not found or cannot be cancelled", id);
    assert_answer("DELETE", path, NULL, 404, text);
    assert_answer("DELETE", "/v1/jobs/none", NULL, 404, "Job none not found or cannot be cancelled");
    wait_until_idle();
    snprintf(path, sizeof path, "/v1/jobs/%s/stream", id);
    ask_for("GET", path, NULL, &b);
    assert_non_null(strstr(b.body.data, "\"stop_reason\":\"CANCELLED\"}\n\ndata: [CANCELLED]\n\n"));
    answer_deinit(&b);
    bw_free(id);
    answer_deinit(&a);
}

/* ---- (h) ---- */

static void expect_cancel_on_close(const char *method, const char *path, const char *body, bool wait_for_text)
{
    int fd = client_connect(port);
    bw_str text = {0};
    bw_str_add_format(&text, "%s %s HTTP/1.1\r\nHost: localhost\r\n", method, path);
    if (body)
        bw_str_add_format(&text, "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s", strlen(body), body);
    else
        bw_str_add(&text, "\r\n");
    assert_true(client_send(fd, text.data, text.len));
    answer a = {0};
    if (wait_for_text)
        client_read(fd, &a, "a b");
    else
        bw_clock_sleep_ms(100);
    assert_true(mock_live_sessions() > 0);
    bw_engine_stats before, after;
    bw_engine_get_stats(engine, &before);
    int64_t start_ns = bw_clock_now_ns();
    close(fd);
    wait_until_idle();
    int64_t ms = (bw_clock_now_ns() - start_ns) / 1000000;
    bw_engine_get_stats(engine, &after);
    assert_true(ms < 1000); /* a step of the mock takes 30 ms; libmicrohttpd alone needs seconds */
    assert_int_equal(after.n_cancelled, before.n_cancelled + 1);
    answer_deinit(&a);
    bw_str_deinit(&text);
}

static void test_disconnect(void **state)
{
    (void)state;
    answer a;
    ask_for("POST", "/v1/jobs", "{\"prompt\":\"a b @slow=30\",\"max_tokens\":400}", &a);
    char *url = json_text(a.body.data, "sse_url");
    expect_cancel_on_close("GET", url, NULL, false);
    bw_free(url);
    answer_deinit(&a);
    expect_cancel_on_close("POST", "/v1/completions", "{\"prompt\":\"a b @slow=30\",\"max_tokens\":400}", false);
    expect_cancel_on_close("POST", "/v1/chat/completions",
                           "{\"messages\":[{\"role\":\"user\",\"content\":\"a b @slow=30\"}],\"stream\":true}", false);
    assert_answer("GET", "/metrics", NULL, 200, "beeswax_jobs_disconnected_total 3\n");
}

/* Tokens leave one by one, not in a lump at the end. */
static void test_stream_is_prompt(void **state)
{
    (void)state;
    int fd = client_connect(port);
    static const char body[] = "{\"prompt\":\"tick @slow=300\",\"max_tokens\":4,\"stream\":true}";
    char text[300];
    int n = snprintf(text, sizeof text,
                     "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                     "Content-Length: %zu\r\n\r\n%s",
                     sizeof body - 1, body);
    int64_t start_ns = bw_clock_now_ns();
    assert_true(client_send(fd, text, (size_t)n));
    answer a;
    client_read(fd, &a, "\" tick\"");
    int64_t ms = (bw_clock_now_ns() - start_ns) / 1000000;
    assert_true(ms >= 280 && ms < 1100); /* all four take 1200 ms */
    answer_deinit(&a);
    close(fd);
    wait_until_idle();
}

/* ---- a FIN from the client ---- */

static int send_request(const char *version, int slow_ms, int n_tokens, bool stream)
{
    char body[200], text[500];
    snprintf(body, sizeof body, "{\"prompt\":\"tick @slow=%d\",\"max_tokens\":%d,\"stream\":%s}", slow_ms, n_tokens,
             stream ? "true" : "false");
    int n = snprintf(text, sizeof text,
                     "POST /v1/completions HTTP/%s\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                     "Content-Length: %zu\r\n\r\n%s",
                     version, strlen(body), body);
    int fd = client_connect(port);
    assert_true(fd >= 0 && client_send(fd, text, (size_t)n));
    return fd;
}

static void wait_for_active(int32_t n, int64_t limit_ms)
{
    int64_t until = bw_clock_now_ns() + limit_ms * 1000000;
    while (bw_server_count_active(server) != n && bw_clock_now_ns() < until)
        bw_clock_sleep_ms(5);
    assert_int_equal(bw_server_count_active(server), n);
}

/* Who only ends its sending gets its answer, whole or streamed, at once or after a while. */
static void test_half_close(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        answer a;
        int fd = send_request("1.1", 100, 6, i % 2 == 1);
        if (i >= 2)
            wait_for_active(1, 2000);
        assert_int_equal(shutdown(fd, SHUT_WR), 0);
        client_read(fd, &a, NULL); /* skips 100 Continue */
        assert_int_equal(a.status, 200);
        assert_true(a.whole);
        assert_int_equal(count_text(a.body.data, " tick"), 3); /* and as often the other word */
        assert_true(i % 2 == 0 || strstr(a.body.data, "[DONE]"));
        answer_deinit(&a);
        close(fd);
        wait_until_idle();
    }
}

/* Who closes is noticed long before its 40 s are over: at once, and after it had half-closed. */
static void test_close(void **state)
{
    (void)state;
    for (int i = 0; i < 5; i++) {
        int fd = send_request(i == 4 ? "1.0" : "1.1", 100, 400, i % 2 == 1);
        wait_for_active(1, 2000);
        bw_clock_sleep_ms(50);
        if (i == 2 || i == 3) {
            shutdown(fd, SHUT_WR);
            bw_clock_sleep_ms(50);
            assert_int_equal(bw_server_count_active(server), 1);
        }
        close(fd);
        wait_for_active(0, i == 2 || i == 3 ? 2400 : 500);
    }
}

/* ---- queues ---- */

static int start_small(void **state)
{
    (void)state;
    bw_server_options options;
    bw_server_options_init(&options);
    options.max_jobs = 12;
    start_with(&options, 2);
    return 0;
}

static void test_full_queue(void **state)
{
    (void)state;
    answer a;
    char *ids[6];
    for (int i = 0; i < 6; i++) { /* 4 run, 2 wait */
        ask_for("POST", "/v1/jobs", "{\"prompt\":\"a @slow=20\",\"max_tokens\":500}", &a);
        assert_int_equal(a.status, 200);
        ids[i] = json_text(a.body.data, "job_id");
        answer_deinit(&a);
        bw_engine_stats stats = {0};
        for (int j = 0; j < 400 && stats.n_running < (i < 4 ? i + 1 : 4); j++) { /* places are given between steps */
            bw_clock_sleep_ms(5);
            bw_engine_get_stats(engine, &stats);
        }
    }
    for (int i = 0; i < 2; i++) {
        ask_for("POST", "/v1/completions", "{\"prompt\":\"a\"}", &a);
        assert_int_equal(a.status, 503);
        char *after = answer_header(&a, "retry-after");
        assert_string_equal(after, "1");
        bw_free(after);
        answer_deinit(&a);
    }
    /* what can never fit is told so, not to come again */
    assert_answer("POST", "/v1/completions", "{\"prompt\":\"a\",\"n\":7}", 400, "\"param\":\"n\"");
    /* all or nothing: five choices do not fit into what is left, so none may stay behind */
    assert_answer("POST", "/v1/completions", "{\"prompt\":\"a\",\"n\":5}", 503, "overloaded");
    assert_int_equal(mock_live_sessions(), 6);
    assert_answer("GET", "/metrics", NULL, 200, "beeswax_jobs_refused_total 4\n");
    assert_answer("GET", "/metrics", NULL, 200, "beeswax_jobs_total 6\n");
    assert_answer("GET", "/metrics", NULL, 200, "beeswax_jobs_disconnected_total 0\n");
    assert_answer("GET", "/health", NULL, 200, "healthy");
    /* rbee's jobs wait beyond the engine's queue, in order, and can be cancelled there; only the room for jobs ends */
    answer waiting[2];
    for (int i = 0; i < 2; i++) {
        ask_for("POST", "/v1/jobs", "{\"prompt\":\"b\",\"max_tokens\":1}", &waiting[i]);
        assert_int_equal(waiting[i].status, 200);
    }
    assert_answer("GET", "/metrics", NULL, 200, "beeswax_jobs_held 2\n");
    char path[128], *id = json_text(waiting[0].body.data, "job_id");
    snprintf(path, sizeof path, "/v1/jobs/%s", id);
    bw_free(id);
    assert_answer("DELETE", path, NULL, 200, "cancelled");
    for (int i = 0; i < 6; i++) { /* places: it is run */
        snprintf(path, sizeof path, "/v1/jobs/%s", ids[i]);
        assert_answer("DELETE", path, NULL, 200, "cancelled");
        bw_free(ids[i]);
    }
    char *url = json_text(waiting[1].body.data, "sse_url");
    assert_answer("GET", url, NULL, 200, "[DONE]");
    bw_free(url);
    assert_answer("GET", "/metrics", NULL, 200, "beeswax_jobs_held 0\n");
    answer_deinit(&waiting[0]);
    answer_deinit(&waiting[1]);
}

/* Twelve jobs, nine of one client: what was not read stays, whoever else comes; what was read or deleted gives way. */
static void test_job_limit(void **state)
{
    (void)state;
    char *urls[9];
    for (int i = 0; i < 9; i++) {
        answer a;
        ask_for("POST", "/v1/jobs", "{\"prompt\":\"a\",\"max_tokens\":1}", &a);
        assert_int_equal(a.status, 200);
        urls[i] = json_text(a.body.data, "sse_url");
        answer_deinit(&a);
        wait_until_idle();
    }
    static const char ask[] = "{\"prompt\":\"a\",\"max_tokens\":1}";
    for (int i = 0; i < 3; i++)
        assert_answer("POST", "/v1/jobs", ask, 503, "9 jobs of this client");
    assert_answer("GET", urls[0], NULL, 200, "[DONE]");
    assert_answer("POST", "/v1/jobs", ask, 200, "job_id");
    wait_until_idle();
    assert_answer("GET", urls[0], NULL, 404, "not found"); /* it was read: the new one has its place */
    assert_answer("POST", "/v1/jobs", ask, 503, "read their streams or delete them");
    for (int i = 1; i < 9; i++)
        assert_answer("GET", urls[i], NULL, 200, "[DONE]");
    for (int i = 0; i < 8; i++) {
        assert_answer("POST", "/v1/jobs", ask, 200, "job_id");
        wait_until_idle();
    }
    for (int i = 0; i < 9; i++)
        bw_free(urls[i]);
}

/* ---- loading ---- */

static void *late_reader(void *arg)
{
    client_ask(port, "GET", "/v1/loading/progress", "", NULL, arg);
    return NULL;
}

static void *late_asker(void *arg)
{
    client_ask(port, "POST", "/v1/chat/completions", "",
               "{\"messages\":[{\"role\":\"user\",\"content\":\"hello\"}],\"max_tokens\":1}", arg);
    return NULL;
}

static void *asker_of_64(void *arg)
{
    client_ask(port, "POST", "/v1/completions", "", "{\"prompt\":\"a\",\"n\":64}", arg);
    return NULL;
}

static int start_loading(void **state)
{
    (void)state;
    bw_server_options options;
    bw_server_options_init(&options);
    options.max_held = 3;
    options.model_path = "/secret/store/model.gguf";
    bw_err err = {0};
    bw_engine_options eo;
    bw_engine_options_init(&eo);
    eo.n_queue = 2;
    assert_ok(bw_engine_new(&eo, &engine, &err), err);
    assert_ok(bw_server_start(&options, &server, &err), err);
    port = bw_server_port(server);
    return 0;
}

static void test_loading(void **state)
{
    (void)state;
    assert_answer("GET", "/", NULL, 200, "healthy");
    assert_answer("GET", "/health", NULL, 200, "healthy");
    assert_answer("GET", "/v1/ready", NULL, 200,
                  "{\"ready\":false,\"state\":\"loading\",\"progress_url\":\"/v1/loading/progress\"}");
    answer job, cancelled, progress, chat, stream;
    ask_for("POST", "/v1/jobs", "{\"prompt\":\"held\",\"max_tokens\":2}", &job);
    assert_int_equal(job.status, 200);
    ask_for("POST", "/v1/jobs", "{\"prompt\":\"held\",\"max_tokens\":2}", &cancelled);
    char *id = json_text(cancelled.body.data, "job_id"), path[128];
    snprintf(path, sizeof path, "/v1/jobs/%s", id);
    assert_answer("DELETE", path, NULL, 200, "\"status\":\"cancelled\"");
    snprintf(path, sizeof path, "/v1/jobs/%s/stream", id);
    ask_for("GET", path, NULL, &stream); /* never submitted, and yet in the order of every stream */
    static const char started[] = "data: {\"type\":\"started\",\"job_id\":\"job-";
    assert_memory_equal(stream.body.data, started, sizeof started - 1);
    assert_non_null(strstr(stream.body.data, "\"stop_reason\":\"CANCELLED\"}\n\ndata: [CANCELLED]\n\n"));
    answer_deinit(&stream);
    bw_free(id);
    pthread_t threads[2];
    pthread_create(&threads[0], NULL, late_reader, &progress);
    pthread_create(&threads[1], NULL, late_asker, &chat);
    bw_clock_sleep_ms(150);
    assert_answer("POST", "/v1/jobs", "{\"prompt\":\"third\"}", 200, "job_id");
    assert_answer("POST", "/v1/completions", "{\"prompt\":\"fourth\"}", 503, "wait for the model to load");
    assert_answer("POST", "/v1/jobs", "{\"prompt\":\"fifth\"}", 200, "job_id"); /* rbee's wait, however many */
    bw_progress now = {"loading", 6, 22, 512u << 20, 1024u << 20};
    bw_server_set_load_progress(server, &now);
    bw_clock_sleep_ms(50);
    bw_server_set_engine(server, engine);
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    assert_int_equal(progress.status, 200);
    assert_non_null(strstr(progress.body.data, "data: {\"stage\":\"loading_to_vram\",\"layers_loaded\":6,"
                                               "\"layers_total\":22,\"vram_mb\":512}\n\ndata: {\"stage\":\"ready\"}\n\n"
                                               "data: [DONE]\n\n"));
    assert_true(progress.whole);
    assert_int_equal(chat.status, 200);
    assert_non_null(strstr(chat.body.data, "\"content\":\" hello\""));
    char *url = json_text(job.body.data, "sse_url");
    ask_for("GET", url, NULL, &stream);
    assert_non_null(strstr(stream.body.data, "\"t\":\" held\",\"i\":1}"));
    bw_free(url);
    answer_deinit(&job);
    answer_deinit(&cancelled);
    answer_deinit(&progress);
    answer_deinit(&chat);
    answer_deinit(&stream);
    wait_until_idle();
    assert_answer("GET", "/v1/loading/progress", NULL, 503, "Model not loading");
}

/* A request that can never fit does not hold up those behind it. */
static void test_held_too_many(void **state)
{
    (void)state;
    answer impossible, chat;
    pthread_t threads[2];
    pthread_create(&threads[0], NULL, asker_of_64, &impossible);
    bw_clock_sleep_ms(100);
    pthread_create(&threads[1], NULL, late_asker, &chat);
    bw_clock_sleep_ms(100);
    bw_server_set_engine(server, engine);
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    assert_int_equal(impossible.status, 400);
    assert_non_null(strstr(impossible.body.data, "room for 6 at once"));
    assert_int_equal(chat.status, 200);
    answer_deinit(&impossible);
    answer_deinit(&chat);
}

static void test_load_error(void **state)
{
    (void)state;
    answer job, chat;
    ask_for("POST", "/v1/jobs", "{\"prompt\":\"held\"}", &job);
    pthread_t thread;
    pthread_create(&thread, NULL, late_asker, &chat);
    bw_clock_sleep_ms(100);
    bw_server_set_load_error(server, "/secret/store/model.gguf is cut short");
    pthread_join(thread, NULL);
    assert_int_equal(chat.status, 503);
    assert_non_null(strstr(chat.body.data, "model.gguf is cut short"));
    assert_null(strstr(chat.body.data, "secret"));
    char *url = json_text(job.body.data, "sse_url");
    assert_answer("GET", url, NULL, 500, "failed: model.gguf is cut short");
    assert_answer("POST", "/v1/jobs", "{\"prompt\":\"later\"}", 500,
                  "Failed to queue request: model.gguf is cut short");
    assert_answer("GET", "/v1/ready", NULL, 200, "{\"ready\":false,\"state\":\"error\"");
    bw_free(url);
    answer_deinit(&job);
    answer_deinit(&chat);
}

/* ---- (f) ---- */

static int start_token(void **state)
{
    (void)state;
    bw_server_options options;
    bw_server_options_init(&options);
    options.token = "s3cret";
    start_with(&options, 0);
    return 0;
}

static void expect_auth(const char *header, int status, const char *text)
{
    answer a;
    client_ask(port, "POST", "/v1/jobs", header, "{\"prompt\":\"a\"}", &a);
    if (a.status != status || !strstr(a.body.data, text))
        fail_msg("%.60s: %d %s", header, a.status, a.body.data);
    answer_deinit(&a);
}

static void test_auth(void **state)
{
    (void)state;
    static const char missing[] = "{\"error\":{\"code\":\"MISSING_API_KEY\",\"message\":\"Missing API key\"}}";
    static const char wrong[] = "{\"error\":{\"code\":\"INVALID_API_KEY\",\"message\":\"Invalid or missing API key\"}}";
    expect_auth("", 401, missing);
    expect_auth("Authorization: Basic s3cret\r\n", 401, missing);
    expect_auth("Authorization: bearer s3cret\r\n", 200, "job_id");
    expect_auth("Authorization: Bearer\r\n", 401, missing);
    expect_auth("Authorization: Bearer   \r\n", 401, missing);
    expect_auth("Authorization: Bearer s3\x01cret\r\n", 401, missing);
    expect_auth("Authorization: Bearer s3cre\r\n", 401, wrong);
    expect_auth("Authorization: Bearer s3crets\r\n", 401, wrong);
    expect_auth("Authorization: Bearer s3cret\r\n", 200, "job_id");
    expect_auth("Authorization:   Bearer   s3cret  \r\n", 200, "job_id");
    bw_str huge = {0};
    bw_str_add(&huge, "Authorization: Bearer ");
    for (int i = 0; i < 9000; i++)
        bw_str_add_char(&huge, 'x');
    bw_str_add(&huge, "\r\n");
    expect_auth(huge.data, 401, missing);
    bw_str_deinit(&huge);
    assert_answer("GET", "/health", NULL, 200, "healthy");
    assert_answer("GET", "/", NULL, 200, "healthy");
    assert_answer("GET", "/metrics", NULL, 200, "beeswax");
    static const char *const closed[] = {"/v1/ready", "/v1/models", "/v1/loading/progress", "/v1/jobs/x/stream",
                                         "/v1/no"};
    for (size_t i = 0; i < sizeof closed / sizeof *closed; i++)
        assert_answer("GET", closed[i], NULL, 401, missing);
    answer a;
    client_ask(port, "OPTIONS", "/v1/jobs", "Access-Control-Request-Method: POST\r\n", NULL, &a);
    assert_int_equal(a.status, 200); /* browsers send no token with a preflight */
    answer_deinit(&a);
}

/* ---- the socket, and forgetting ---- */

static void test_bind_errors(void **state)
{
    (void)state;
    bw_server_options options;
    bw_server_options_init(&options);
    options.port = port;
    bw_server *second = NULL;
    bw_err err = {0};
    assert_int_equal(bw_server_start(&options, &second, &err), BW_E_IO);
    assert_null(second);
    assert_non_null(strstr(err.text, "cannot bind 127.0.0.1 port"));
    options.host = "not an address";
    assert_int_equal(bw_server_start(&options, &second, &err), BW_E_ARG);
    options.host = "::1";
    options.port = 0;
    if (bw_server_start(&options, &second, &err) == BW_OK) /* not every machine has IPv6 */
        bw_server_stop(second);
}

static int start_quick_expiry(void **state)
{
    (void)state;
    bw_server_options options;
    bw_server_options_init(&options);
    options.job_expiry_ms = 300;
    options.max_buffer = 4000;
    start_with(&options, 0);
    return 0;
}

static void test_expiry_and_buffer(void **state)
{
    (void)state;
    answer a, b, c;
    ask_for("POST", "/v1/jobs", "{\"prompt\":\"a\",\"max_tokens\":400}", &c); /* more than its buffer holds */
    char *full = json_text(c.body.data, "sse_url");
    wait_until_idle();
    assert_answer("GET", full, NULL, 500, "the client does not read its stream");
    ask_for("POST", "/v1/jobs", "{\"prompt\":\"a\",\"max_tokens\":1}", &a);
    ask_for("POST", "/v1/jobs", "{\"prompt\":\"a @slow=50\",\"max_tokens\":400}", &b);
    char *done = json_text(a.body.data, "sse_url"), *unclaimed = json_text(b.body.data, "sse_url");
    bw_clock_sleep_ms(1200);
    assert_answer("GET", done, NULL, 404, "not found");
    assert_answer("GET", unclaimed, NULL, 404, "not found");
    wait_until_idle(); /* the unclaimed one was cancelled, not only forgotten */
    bw_free(done);
    bw_free(unclaimed);
    bw_free(full);
    answer_deinit(&a);
    answer_deinit(&b);
    answer_deinit(&c);
}

int main(void)
{
    bw_log_configure(BW_LOG_OFF, true);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_state_routes, start, stop),
        cmocka_unit_test_teardown(test_metrics_labels, stop),
        cmocka_unit_test_setup_teardown(test_unknown_and_wrong_method, start, stop),
        cmocka_unit_test_setup_teardown(test_body_limits, start, stop),
        cmocka_unit_test_setup_teardown(test_queen, start, stop),
        cmocka_unit_test_setup_teardown(test_job_client, start, stop),
        cmocka_unit_test_setup_teardown(test_stream_errors, start, stop),
        cmocka_unit_test_setup_teardown(test_delete, start, stop),
        cmocka_unit_test_setup_teardown(test_disconnect, start, stop),
        cmocka_unit_test_setup_teardown(test_stream_is_prompt, start, stop),
        cmocka_unit_test_setup_teardown(test_full_queue, start_small, stop),
        cmocka_unit_test_setup_teardown(test_job_limit, start_small, stop),
        cmocka_unit_test_setup_teardown(test_loading, start_loading, stop),
        cmocka_unit_test_setup_teardown(test_held_too_many, start_loading, stop),
        cmocka_unit_test_setup_teardown(test_load_error, start_loading, stop),
        cmocka_unit_test_setup_teardown(test_auth, start_token, stop),
        cmocka_unit_test_setup_teardown(test_half_close, start, stop),
        cmocka_unit_test_setup_teardown(test_close, start, stop),
        cmocka_unit_test_setup_teardown(test_bind_errors, start, stop),
        cmocka_unit_test_setup_teardown(test_expiry_and_buffer, start_quick_expiry, stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
