/* Requests that are wrong on purpose, and many clients at once. After each: the server answers, and nothing is left
 * running. */
#include "../bw_test.h"

#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bw_clock.h"
#include "bw_log.h"
#include "bw_mem.h"
#include "bw_rng.h"
#include "bw_server.h"
#include "client.h"
#include "load.h"
#include "mock_engine.h"

static bw_engine *engine;
static bw_server *server;
static uint16_t port;
static int64_t body_timeout_ms = 800;
static uint32_t max_connections = 512;

static int start(void **state)
{
    (void)state;
    bw_err err = {0};
    bw_engine_options eo;
    bw_engine_options_init(&eo);
    assert_ok(bw_engine_new(&eo, &engine, &err), err);
    bw_server_options options;
    bw_server_options_init(&options);
    options.engine = engine;
    options.head_timeout_ms = body_timeout_ms * 2;
    options.body_timeout_ms = body_timeout_ms;
    options.max_body = 100000;
    options.max_connections = max_connections;
    assert_ok(bw_server_start(&options, &server, &err), err);
    port = bw_server_port(server);
    return 0;
}

/* With deadlines that do not come to the rescue, and no place to spare for connections that were left. */
static int start_patient(void **state)
{
    body_timeout_ms = 30000;
    max_connections = 96;
    int result = start(state);
    max_connections = 512;
    body_timeout_ms = 800;
    return result;
}

static void assert_alive(void)
{
    answer a;
    client_ask(port, "POST", "/v1/completions", "", "{\"prompt\":\"alive\",\"max_tokens\":1}", &a);
    assert_int_equal(a.status, 200);
    assert_non_null(strstr(a.body.data, "\"text\":\" alive\""));
    answer_deinit(&a);
}

static int stop(void **state)
{
    (void)state;
    assert_alive();
    for (int i = 0; i < 400 && bw_server_count_active(server); i++)
        bw_clock_sleep_ms(5);
    assert_int_equal(bw_server_count_active(server), 0);
    bw_server_stop(server);
    assert_int_equal(mock_live_sessions(), 0);
    bw_engine_free(engine);
    return 0;
}

/* Send bytes as they are and read one answer; 0 when the connection just ended. */
static int raw(const char *bytes, size_t n_bytes)
{
    int fd = client_connect(port);
    assert_true(fd >= 0);
    answer a;
    client_send(fd, bytes, n_bytes);
    client_read(fd, &a, NULL);
    close(fd);
    int status = a.status;
    answer_deinit(&a);
    return status;
}

static void test_garbage(void **state)
{
    (void)state;
    bw_rng rng;
    bw_rng_init(&rng, 7);
    for (int i = 0; i < 300; i++) {
        char bytes[600];
        size_t n = 1 + (size_t)bw_rng_below(&rng, sizeof bytes);
        for (size_t j = 0; j < n; j++)
            bytes[j] = (char)bw_rng_below(&rng, 256);
        int fd = client_connect(port);
        assert_true(fd >= 0);
        client_send(fd, bytes, n);
        close(fd);
    }
    static const char *const lines[] = {
        "GET\r\n\r\n",
        "\r\n\r\n",
        "GET / HTTP/9.9\r\n\r\n",
        "GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        "POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999999999999999\r\n\r\n",
        "POST /v1/jobs HTTP/1.1\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        "GET /%00%ff%fe/../../etc/passwd HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
        "GET /v1/jobs/%0d%0aX-Evil:1/stream HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: localhost\r\n: empty\r\nno colon\r\nConnection: close\r\n\r\n",
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        int status = raw(lines[i], strlen(lines[i]));
        if (status == 500 || status > 505)
            fail_msg("%s: %d", lines[i], status);
    }
}

static void test_huge_head(void **state)
{
    (void)state;
    bw_str text = {0};
    bw_str_add(&text, "GET /");
    for (int i = 0; i < 70000; i++)
        bw_str_add_char(&text, 'a');
    bw_str_add(&text, " HTTP/1.1\r\nHost: localhost\r\n\r\n");
    int status = raw(text.data, text.len);
    assert_true(status == 0 || (status >= 400 && status < 500));
    bw_str_clear(&text);
    bw_str_add(&text, "GET /health HTTP/1.1\r\nHost: localhost\r\n");
    for (int i = 0; i < 5000; i++)
        bw_str_add_format(&text, "X-%d: %d\r\n", i, i);
    bw_str_add(&text, "\r\n");
    status = raw(text.data, text.len);
    assert_true(status == 0 || (status >= 400 && status < 500));
    bw_str_deinit(&text);
}

static void test_chunked(void **state)
{
    (void)state;
    static const char good[] =
        "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json; charset=utf-8"
        "\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
        "a\r\n{\"prompt\":\r\n3;ext=1\r\n\"a\"\r\n1\r\n}\r\n0\r\nTrailer: x\r\n\r\n";
    assert_int_equal(raw(good, sizeof good - 1), 200);
    /* endless: more than the limit is dropped, far more ends the connection */
    int fd = client_connect(port);
    static const char head[] = "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                               "Transfer-Encoding: chunked\r\n\r\n";
    assert_true(client_send(fd, head, sizeof head - 1));
    char chunk[4103];
    memcpy(chunk, "1000\r\n", 6);
    memset(chunk + 6, ' ', 4096);
    size_t n = 0;
    for (; n < 10000; n++) {
        chunk[4102] = '\r';
        if (!client_send(fd, chunk, 4103) || !client_send(fd, "\n", 1))
            break;
    }
    assert_true(n < 10000);
    close(fd);
    /* a little over the limit, ended properly: 413 */
    bw_str text = {0};
    bw_str_add_bytes(&text, head, sizeof head - 1);
    for (int i = 0; i < 30; i++) {
        bw_str_add_bytes(&text, chunk, 4102);
        bw_str_add(&text, "\r\n");
    }
    bw_str_add(&text, "0\r\n\r\n");
    assert_int_equal(raw(text.data, text.len), 413);
    bw_str_deinit(&text);
}

/* The peer closes within a time: slow and half requests do not hold a connection. */
static void expect_closed(int fd, int64_t limit_ms)
{
    int64_t start_ns = bw_clock_now_ns();
    char bytes[512];
    while (recv(fd, bytes, sizeof bytes, 0) > 0) {
    }
    assert_true((bw_clock_now_ns() - start_ns) / 1000000 < limit_ms);
    close(fd);
}

static void test_slow_requests(void **state)
{
    (void)state;
    static const char half[] = "POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                               "Content-Length: 100\r\n\r\n{\"prompt\"";
    int body = client_connect(port), head = client_connect(port), idle = client_connect(port);
    client_send(body, half, sizeof half - 1);
    int64_t start_ns = bw_clock_now_ns();
    bool open = true;
    for (int i = 0; i < 60 && open; i++) { /* a byte now and then: each resets an idle timer, none the deadline */
        open = client_send(head, "G", 1);
        bw_clock_sleep_ms(50);
    }
    assert_true((bw_clock_now_ns() - start_ns) / 1000000 < 2500);
    assert_false(open);
    close(head);
    expect_closed(body, 100);
    expect_closed(idle, 1300);
    /* cut off in the middle of a body */
    int fd = client_connect(port);
    client_send(fd, half, sizeof half - 1);
    close(fd);
    fd = client_connect(port);
    client_send(fd, half, sizeof half - 1);
    shutdown(fd, SHUT_WR);
    expect_closed(fd, 1500);
}

/* Clients that leave in the middle of a request free their places at once: more of them than there are places. */
static void test_half_requests(void **state)
{
    (void)state;
    static const char half[] = "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                               "Content-Length: 1000\r\n\r\n{\"pro";
    int64_t start_ns = bw_clock_now_ns();
    for (int i = 0; i < 1200; i++) {
        int fd = client_connect(port);
        assert_true(fd >= 0);
        send(fd, half, sizeof half - 1 - (size_t)(i % 3) * 20, MSG_NOSIGNAL | MSG_MORE); /* leaves with the FIN */
        close(fd);
        if (i % 100 == 99)
            assert_alive();
    }
    assert_true(bw_clock_now_ns() - start_ns < 10000000000);
}

static void test_pipelining(void **state)
{
    (void)state;
    static const char body[] = "{\"prompt\":\"a b\",\"max_tokens\":2}";
    bw_str text = {0};
    for (int i = 0; i < 5; i++)
        bw_str_add_format(&text,
                          "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                          "Content-Length: %zu\r\n\r\n%sGET /health HTTP/1.1\r\nHost: localhost\r\n%s\r\n",
                          sizeof body - 1, body, i == 4 ? "Connection: close\r\n" : "");
    int fd = client_connect(port);
    assert_true(client_send(fd, text.data, text.len));
    bw_str_clear(&text);
    char bytes[4096];
    for (ssize_t n; (n = recv(fd, bytes, sizeof bytes, 0)) > 0;)
        bw_str_add_bytes(&text, bytes, (size_t)n);
    close(fd);
    assert_int_equal(count_text(text.data, "HTTP/1.1 200"), 10);
    assert_int_equal(count_text(text.data, "\"text\":\" a b\""), 5);
    assert_int_equal(count_text(text.data, "{\"status\":\"healthy\"}"), 5);
    bw_str_deinit(&text);
}

static void test_many_connections(void **state)
{
    (void)state;
    for (int i = 0; i < 1000; i++) {
        int fd = client_connect(port);
        assert_true(fd >= 0);
        if (i % 3 == 0)
            client_send(fd, "GET / HTTP/1.1\r\n", 16);
        close(fd);
    }
    /* more than the limit held open: the rest is refused or waits, and all is well afterwards */
    int fds[600];
    for (int i = 0; i < 600; i++)
        fds[i] = client_connect(port);
    for (int i = 0; i < 600; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    bw_clock_sleep_ms(100);
}

static void test_deep_json(void **state)
{
    (void)state;
    bw_str text = {0};
    bw_str_add(&text, "{\"messages\":");
    for (int i = 0; i < 90000; i++)
        bw_str_add_char(&text, '[');
    answer a;
    client_ask(port, "POST", "/v1/chat/completions", "", text.data, &a);
    assert_int_equal(a.status, 400);
    answer_deinit(&a);
    bw_str_deinit(&text);
    client_ask(port, "POST", "/v1/chat/completions", "",
               "{\"messages\":[{\"role\":\"user\",\"content\":\"@badtemplate\"}]}", &a);
    assert_int_equal(a.status, 400);
    assert_non_null(strstr(a.body.data, "the template refuses these messages"));
    answer_deinit(&a);
}

/* The n-th allocation of the process fails while requests are answered: no crash, no hang, nothing left. */
static void test_failing_memory(void **state)
{
    (void)state;
    static const char *const requests[][2] = {
        {"/v1/chat/completions", "{\"messages\":[{\"role\":\"user\",\"content\":\"a b c\"}],\"max_tokens\":2}"},
        {"/v1/completions", "{\"prompt\":\"a b\",\"max_tokens\":2,\"logprobs\":2,\"echo\":true}"},
        {"/v1/jobs", "{\"prompt\":\"a b\",\"max_tokens\":2}"},
    };
    int n_ok = 0;
    for (int64_t n = 1; n < 150; n++) {
        const char *const *request = requests[n % 3];
        char text[400], got[4096]; /* plain memory here: the client's own allocations must not be the ones that fail */
        int n_bytes = snprintf(text, sizeof text,
                               "POST %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                               "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
                               request[0], strlen(request[1]), request[1]);
        int fd = client_connect(port);
        assert_true(fd >= 0);
        bw_mem_fail_at(n / 3 + 1);
        client_send(fd, text, (size_t)n_bytes);
        ssize_t len = recv(fd, got, sizeof got - 1, 0);
        bw_mem_fail_at(0);
        close(fd);
        int status = len > 12 ? atoi(got + 9) : 0;
        n_ok += status == 200;
        if (status != 0 && status != 200 && status != 503 && status != 500 && status != 400)
            fail_msg("allocation %lld: %d", (long long)n, status);
    }
    assert_true(n_ok > 10 && n_ok < 149);
}

static void test_load(void **state)
{
    (void)state;
    load_options options = {
        .host = "127.0.0.1", .port = port, .headers = "", .n_clients = 32, .seconds = 4, .max_tokens = 60, .seed = 11};
    load_result r;
    load_run(&options, &r);
    print_message(
        "load: %lld requests, %lld accepted, %lld answered, %lld hung up, %lld refused, %lld bad, %lld wrong\n",
        (long long)r.n_requests, (long long)r.n_accepted, (long long)r.n_answered, (long long)r.n_hung_up,
        (long long)r.n_refused, (long long)r.n_bad, (long long)r.n_wrong);
    if (r.n_wrong)
        fail_msg("%s", r.first_wrong);
    assert_int_equal(r.n_answered, r.n_accepted);
    assert_true(r.slowest_ms < 8000);
    assert_true(r.n_answered > 50 && r.n_hung_up > 10 && r.n_bad > 10);
}

/* Heads that say in two ways, or in none, where the body ends. Each is refused, and what follows is no request. */
static void test_smuggling(void **state)
{
    (void)state;
    static const char *const heads[] = {
        "Content-Length: 0\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
        "Content-Length: 0\r\nContent-Length: 5\r\n",
        "Content-Length : 40\r\n",
        "Transfer-Encoding : chunked\r\n",
        "Transfer-Encoding: xchunked\r\n",
        "Transfer-Encoding: chunked, identity\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
        "Transfer-Encoding: identity\r\n",
        "Content-Length:\r\n 58\r\n", /* folded: was taken for a header Content-Length58 */
        "Content-Length: 5\r\n 8\r\n",
        "Content-Length: 5\r\n\t\r\n",
        "Transfer-Encoding: chunked\r\n ,\r\n",
        "Content: 58\r\n -Length\r\n", /* was taken for a header Content-Length with the value 58 */
        "X-Note: a\r\n b\r\nContent-Length: 0\r\n",
        "Content-Length58: 1\r\n",
        "Content_Length: 58\r\n",
        "Transfer-Encoding2: chunked\r\n",
        "(Content-Length: 58\r\n",
        "X-Note: a\rContent-Length: 58\r\n",
        "Transfer-Encoding: chunked\nX-Note: a\r\n",
        "Transfer-Encoding: \013chunked\r\n",
    };
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
        char text[1000], more[100];
        int n = snprintf(
            text, sizeof text,
            "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n%s\r\n0\r\n\r\n"
            "GET /v1/models HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
            heads[i]);
        int fd = client_connect(port);
        assert_true(fd >= 0);
        answer a;
        client_send(fd, text, (size_t)n);
        client_read(fd, &a, NULL);
        if (a.status != 400 || !strstr(a.body.data, "where its body ends"))
            fail_msg("%s: %d", heads[i], a.status);
        assert_true(recv(fd, more, sizeof more, 0) <= 0);
        answer_deinit(&a);
        close(fd);
    }
    assert_alive();
}

/* Headers that may stand once: two servers could each take another one. */
static void test_repeated_headers(void **state)
{
    (void)state;
    static const char *const heads[] = {
        "Host: evil.example\r\nHost: localhost\r\n",
        "Host: localhost\r\nhost: localhost\r\n",
        "Host: localhost\r\nAuthorization: Bearer a\r\nAuthorization: Bearer b\r\n",
        "Host: localhost\r\nOrigin: http://localhost\r\nOrigin: http://evil.example\r\n",
        "Host: localhost\r\nContent-Type: application/json\r\nContent-Type: text/plain\r\n",
    };
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
        char text[500];
        int n = snprintf(text, sizeof text, "GET /health HTTP/1.1\r\n%s\r\n", heads[i]), fd = client_connect(port);
        answer a;
        assert_true(fd >= 0);
        client_send(fd, text, (size_t)n);
        client_read(fd, &a, NULL);
        if (a.status != 400 || !strstr(a.body.data, "more than one"))
            fail_msg("%s: %d", heads[i], a.status);
        answer_deinit(&a);
        close(fd);
    }
    assert_alive();
}

/* A zero byte in a path ended it: what follows it was not looked at. */
static void test_escaped_paths(void **state)
{
    (void)state;
    static const struct {
        const char *path;
        int status;
    } paths[] = {
        {"/health%00", 404}, {"/health%00/x", 404}, {"/v1/models%00", 404},       {"/health%0", 404},
        {"/health%", 404},   {"/%68ealth", 200},    {"/%68%65%61%6C%74%6c", 404}, {"/health?a=%00", 200},
    };
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        char text[200];
        int n = snprintf(text, sizeof text, "GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
                         paths[i].path),
            fd = client_connect(port);
        answer a;
        assert_true(fd >= 0);
        client_send(fd, text, (size_t)n);
        client_read(fd, &a, NULL);
        if (a.status != paths[i].status)
            fail_msg("%s: %d", paths[i].path, a.status);
        answer_deinit(&a);
        close(fd);
    }
}

/* Tokens that no client could send. */
static void test_bad_tokens(void **state)
{
    (void)state;
    char longest[9000];
    memset(longest, 'a', sizeof longest - 1);
    longest[sizeof longest - 1] = 0;
    const char *const tokens[] = {"a\nb", "\x01", "a ", " a", longest};
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++) {
        bw_err err = {0};
        bw_server *none;
        bw_server_options options;
        bw_server_options_init(&options);
        options.token = tokens[i];
        assert_int_equal(bw_server_start(&options, &none, &err), BW_E_ARG);
        assert_null(none);
        assert_non_null(strstr(err.text, "the API token"));
    }
}

/* Every place is taken by connections that say nothing, or begin a request and never end it. */
static void test_crowd(void **state)
{
    (void)state;
    static const char half[] = "POST /v1/completions HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: "
                               "99\r\n\r\n{";
    int fds[300];
    for (int i = 0; i < 300; i++) {
        fds[i] = client_connect(port);
        assert_true(fds[i] >= 0);
        if (i % 3)
            client_send(fds[i], half, i % 3 == 1 ? 20 : sizeof half - 1);
    }
    int64_t begin = bw_clock_now_ns();
    assert_alive();
    assert_true(bw_clock_now_ns() - begin < 2000 * (int64_t)1000000);
    for (int i = 0; i < 300; i++)
        close(fds[i]);
}

int main(void)
{
    bw_log_configure(BW_LOG_OFF, true);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_garbage, start, stop),
        cmocka_unit_test_setup_teardown(test_huge_head, start, stop),
        cmocka_unit_test_setup_teardown(test_chunked, start, stop),
        cmocka_unit_test_setup_teardown(test_slow_requests, start, stop),
        cmocka_unit_test_setup_teardown(test_half_requests, start_patient, stop),
        cmocka_unit_test_setup_teardown(test_smuggling, start, stop),
        cmocka_unit_test_setup_teardown(test_repeated_headers, start, stop),
        cmocka_unit_test_setup_teardown(test_escaped_paths, start, stop),
        cmocka_unit_test(test_bad_tokens),
        cmocka_unit_test_setup_teardown(test_crowd, start_patient, stop),
        cmocka_unit_test_setup_teardown(test_pipelining, start, stop),
        cmocka_unit_test_setup_teardown(test_many_connections, start, stop),
        cmocka_unit_test_setup_teardown(test_deep_json, start, stop),
        cmocka_unit_test_setup_teardown(test_failing_memory, start, stop),
        cmocka_unit_test_setup_teardown(test_load, start_patient, stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
