/* What a request's head must be: hosts, origins and paths. */
#include "../bw_test.h"

#include <sys/socket.h>
#include <unistd.h>

#include "bw_log.h"
#include "bw_mem.h"
#include "bw_server.h"
#include "client.h"
#include "internal.h"
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
    bw_engine_free(engine);
}

/* ---- lists ---- */

static void test_hosts(void **state)
{
    (void)state;
    static const char *const good[] = {"localhost", "LOCALHOST:8080", "localhost.",      "127.0.0.1:1",
                                       "10.0.0.7",  "[::1]:8080",     "[fe80::1]",       "gpubox:8080",
                                       "b.example", "B.Example:80",   "192.168.1.5:8080"};
    static const char *const bad[] = {"evil.example",
                                      "localhost.evil.example",
                                      "127.0.0.1.evil.example",
                                      "",
                                      "localhost:80@evil",
                                      "[::1",
                                      "[evil]",
                                      "1.2.3",
                                      "localhost:evil",
                                      "b.example.evil",
                                      "x.b.example",
                                      ":80",
                                      "[::1]evil",
                                      "2130706433",
                                      "evil localhost"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        if (!bw_guard_host("a.example, b.example", "gpubox", good[i]))
            fail_msg("'%s' is refused", good[i]);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (bw_guard_host("a.example, b.example", "gpubox", bad[i]))
            fail_msg("'%s' is taken", bad[i]);
        assert_true(bw_guard_host("a.example,*", "gpubox", bad[i]));
    }
    assert_true(bw_guard_host("", "127.0.0.1", NULL));
}

static void test_origins(void **state)
{
    (void)state;
    static const char list[] = "http://ui.example:3000, null";
    assert_int_equal(bw_guard_origin(list, NULL, "localhost"), BW_ORIGIN_NONE);
    assert_int_equal(bw_guard_origin(list, "http://UI.example:3000", "localhost"), BW_ORIGIN_ALLOWED);
    assert_int_equal(bw_guard_origin(list, "null", "localhost"), BW_ORIGIN_ALLOWED);
    assert_int_equal(bw_guard_origin("*", "https://any.example", "localhost"), BW_ORIGIN_ALLOWED);
    assert_int_equal(bw_guard_origin("", "http://localhost:8080", "localhost:8080"), BW_ORIGIN_SAME);
    assert_int_equal(bw_guard_origin("", "http://localhost", "localhost:80"), BW_ORIGIN_SAME);
    assert_int_equal(bw_guard_origin("", "https://box.example", "box.example"), BW_ORIGIN_SAME);
    static const char *const foreign[] = {"http://localhost:3000",
                                          "http://ui.example:30000",
                                          "http://ui.example",
                                          "https://evil.example",
                                          "null ",
                                          "http://localhost.evil:8080",
                                          "",
                                          "http://localhost:8080/"};
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++)
        if (bw_guard_origin(list, foreign[i], "localhost:8080") != BW_ORIGIN_FOREIGN)
            fail_msg("'%s' is not foreign", foreign[i]);
    bw_err err = {0};
    assert_ok(bw_guard_check_lists("*, null,http://a:1", "*,a.example, [::1]", &err), err);
    assert_int_equal(bw_guard_check_lists("localhost:3000", "", &err), BW_E_ARG);
    assert_non_null(strstr(err.text, "http://localhost:3000"));
    assert_int_equal(bw_guard_check_lists("http://a/", "", &err), BW_E_ARG);
    assert_int_equal(bw_guard_check_lists("", "http://a", &err), BW_E_ARG);
    assert_int_equal(bw_guard_check_lists("", "a:80", &err), BW_E_ARG);
}

/* ---- over HTTP ---- */

/* Status, and a text that the whole answer (head and body) must hold; "!text": must not. */
static void expect(const char *method, const char *path, const char *headers, const char *body, int status,
                   const char *holds)
{
    bw_str text = {0};
    answer a;
    int fd = client_connect(port);
    assert_true(fd >= 0);
    bw_str_add_format(&text, "%s %s HTTP/1.1\r\nConnection: close\r\n%s", method, path, headers);
    if (!strstr(headers, "Host:"))
        bw_str_add(&text, "Host: localhost\r\n");
    if (body)
        bw_str_add_format(&text, "Content-Length: %zu\r\n", strlen(body));
    if (body && !strstr(headers, "Content-Type:"))
        bw_str_add(&text, "Content-Type: application/json\r\n");
    bw_str_add_format(&text, "\r\n%s", body ? body : "");
    client_send(fd, text.data, text.len);
    client_read(fd, &a, NULL);
    close(fd);
    const bool absent = holds[0] == '!';
    const char *word = holds + absent;
    bool found = strstr(a.head, word) || (a.body.data && strstr(a.body.data, word));
    if (a.status != status || found == absent)
        fail_msg("%s %s %s: %d\n%s%s", method, path, headers, a.status, a.head, a.body.data ? a.body.data : "");
    answer_deinit(&a);
    bw_str_deinit(&text);
}

#define ASK "{\"prompt\":\"a\",\"max_tokens\":1}"

/* By default only this server's own names and pages. */
static void test_strangers(void **state)
{
    (void)state;
    bw_server_options options;
    bw_server_options_init(&options);
    start_with(&options);
    static const char *const paths[] = {"/health", "/", "/metrics", "/info", "/nothing"};
    for (int i = 0; i < 5; i++)
        expect("GET", paths[i], "Host: evil.example\r\n", NULL, 403, "--allow-host");
    expect("GET", "/v1/models", "Host: evil.example:8080\r\n", NULL, 403, "{\"error\":{\"message\":\"The host 'evil");
    expect("POST", "/v1/completions", "Host: evil.example\r\n", ASK, 403, "host_not_allowed");
    expect("OPTIONS", "/v1/completions", "Host: evil.example\r\n", NULL, 403, "host_not_allowed");
    expect("GET", "/v1/models", "Host: 127.0.0.1:99\r\n", NULL, 200, "!access-control");
    expect("POST", "/v1/completions", "Host: [::1]\r\n", ASK, 200, "text_completion");
    /* another site's page: it may not command, and cannot read */
    static const char *const origins[] = {"Origin: https://evil.example\r\n", "Origin: null\r\n",
                                          "Origin: http://localhost:3000\r\n"};
    for (int i = 0; i < 3; i++) {
        expect("POST", "/v1/completions", origins[i], ASK, 403, "--cors");
        expect("POST", "/v1/jobs", origins[i], ASK, 403, "origin_not_allowed");
        expect("DELETE", "/v1/jobs/x", origins[i], NULL, 403, "!access-control");
        expect("OPTIONS", "/v1/completions", origins[i], NULL, 403, "!access-control");
        expect("GET", "/v1/models", origins[i], NULL, 200, "!access-control");
    }
    expect("POST", "/v1/completions", "Content-Type: text/plain\r\n", ASK, 415, "application/json");
    /* its own */
    expect("POST", "/v1/completions", "Host: localhost:81\r\nOrigin: http://localhost:81\r\n", ASK, 200,
           "!access-control");
    stop();
}

static void test_allowed(void **state)
{
    (void)state;
    bw_server_options options;
    bw_server_options_init(&options);
    options.allow_hosts = "box.example";
    options.cors = "http://ui.example";
    start_with(&options);
    expect("POST", "/v1/completions", "Host: box.example\r\n", ASK, 200, "text_completion");
    expect("POST", "/v1/completions", "Host: other.example\r\n", ASK, 403, "host_not_allowed");
    static const char ui[] = "Origin: http://ui.example\r\n";
    static const char allows[] = "access-control-allow-origin: http://ui.example\r\n";
    expect("POST", "/v1/completions", ui, ASK, 200, allows);
    expect("POST", "/v1/completions", ui, "{", 400, allows); /* so that the page can read what is wrong */
    expect("OPTIONS", "/v1/completions", "Origin: http://ui.example\r\nAccess-Control-Request-Method: POST\r\n", NULL,
           200, allows);
    expect("OPTIONS", "/v1/completions",
           "Origin: http://ui.example\r\nAccess-Control-Request-Private-Network: true\r\n", NULL, 200,
           "access-control-allow-private-network: true");
    expect("GET", "/health", "Origin: http://evil.example\r\n", NULL, 200, "!access-control-allow-origin");
    expect("GET", "/health", "Origin: http://evil.example\r\n", NULL, 200, "vary: origin");
    expect("POST", "/v1/completions", "Origin: http://evil.example\r\n", ASK, 403, "origin_not_allowed");
    stop();
}

static void test_bad_lists(void **state)
{
    (void)state;
    bw_err err = {0};
    bw_server *none;
    bw_server_options options;
    bw_server_options_init(&options);
    options.cors = "localhost:3000";
    assert_int_equal(bw_server_start(&options, &none, &err), BW_E_ARG);
    assert_null(none);
}

/* ---- paths ---- */

static void test_paths(void **state)
{
    (void)state;
    bw_server_options options;
    bw_server_options_init(&options);
    options.model_id = "org/name";
    start_with(&options);
    static const char *const same[] = {"/v1/completions",  "//v1/completions",      "/v1//completions",
                                       "/v1/completions/", "///v1///completions//", "/completions",
                                       "//completions/"};
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        expect("POST", same[i], "", ASK, 200, "text_completion");
    expect("POST", "/chat/completions", "", "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"max_tokens\":1}",
           200, "chat.completion");
    expect("GET", "/models", "", NULL, 200, "\"object\":\"list\"");
    expect("GET", "/models/org/name", "", NULL, 200, "\"org/name\"");
    expect("GET", "//v1//models//org//name/", "", NULL, 200, "\"org/name\"");
    expect("GET", "/health/", "", NULL, 200, "healthy");
    expect("GET", "//", "", NULL, 200, "healthy");
    /* errors as a client of OpenAI's API reads them, where it is that API */
    expect("GET", "/v1/completions", "", NULL, 405, "\"code\":\"method_not_supported\"");
    expect("GET", "/v1/completions", "", NULL, 405, "allow: POST");
    expect("GET", "/completions", "", NULL, 405, "use POST");
    expect("POST", "/v1/embeddings", "", "{}", 404, "\"code\":\"unknown_url\"");
    expect("GET", "/v1", "", NULL, 404, "\"type\":\"invalid_request_error\"");
    /* rbee's and plain ones stay bare */
    expect("PUT", "/v1/jobs", "", NULL, 405, "!error");
    expect("GET", "/v1/jobs/a/b/c", "", NULL, 404, "!error");
    expect("GET", "/nothing", "", NULL, 404, "!error");
    expect("POST", "/jobs", "", ASK, 404, "!error"); /* the contract has no such path */
    stop();
}

/* A token guards the routes however their paths are spelled. */
static void test_token_paths(void **state)
{
    (void)state;
    bw_server_options options;
    bw_server_options_init(&options);
    options.token = "secret";
    start_with(&options);
    static const char *const paths[] = {"/v1/models", "//v1/models", "/v1//models/", "/models", "/models/", "/v1/none"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        expect("GET", paths[i], "", NULL, 401, "MISSING_API_KEY");
    static const char *const ways[] = {"Bearer", "bearer", "BEARER"};
    for (int i = 0; i < 3; i++) {
        char header[64];
        snprintf(header, sizeof header, "Authorization: %s secret\r\n", ways[i]);
        expect("GET", "/models", header, NULL, 200, "\"object\":\"list\"");
        snprintf(header, sizeof header, "Authorization: %s other\r\n", ways[i]);
        expect("GET", "/models", header, NULL, 401, "INVALID_API_KEY");
    }
    stop();
}

/* Pages of any origin, when that was asked for: what a browser must be told. */
static void test_cors(void **state)
{
    (void)state;
    bw_server_options options;
    bw_server_options_init(&options);
    options.cors = "*";
    start_with(&options);
    answer a;
    client_ask(port, "OPTIONS", "/v1/chat/completions",
               "Origin: http://ui\r\nAccess-Control-Request-Method: POST\r\n"
               "Access-Control-Request-Headers: authorization,content-type\r\n",
               NULL, &a);
    assert_int_equal(a.status, 200);
    char *origin = answer_header(&a, "access-control-allow-origin");
    char *headers = answer_header(&a, "access-control-allow-headers");
    char *methods = answer_header(&a, "access-control-allow-methods");
    assert_string_equal(origin, "*");
    assert_string_equal(headers, "authorization,content-type");
    assert_non_null(strstr(methods, "DELETE"));
    bw_free(origin);
    bw_free(headers);
    bw_free(methods);
    answer_deinit(&a);
    static const char *const paths[] = {"/health", "/nothing", "/v1/models"};
    for (int i = 0; i < 3; i++) {
        client_ask(port, "GET", paths[i], "", NULL, &a);
        origin = answer_header(&a, "access-control-allow-origin");
        assert_string_equal(origin, "*");
        bw_free(origin);
        answer_deinit(&a);
    }
    stop();
}

int main(void)
{
    bw_log_configure(BW_LOG_OFF, true);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hosts),       cmocka_unit_test(test_origins),   cmocka_unit_test(test_strangers),
        cmocka_unit_test(test_allowed),     cmocka_unit_test(test_bad_lists), cmocka_unit_test(test_paths),
        cmocka_unit_test(test_token_paths), cmocka_unit_test(test_cors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
