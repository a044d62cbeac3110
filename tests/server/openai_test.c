/* OpenAI's routes over real sockets with the mock engine: shapes of whole answers and of chunks, counts, errors. */
#include "../bw_test.h"

#include <jansson.h>

#include "bw_log.h"
#include "bw_mem.h"
#include "bw_server.h"
#include "client.h"
#include "json.h"
#include "mock_engine.h"

static bw_engine *engine;
static bw_server *server;
static uint16_t port;

static int start(void **state)
{
    (void)state;
    bw_err err = {0};
    bw_engine_options eo;
    bw_engine_options_init(&eo);
    eo.n_ctx = 64;
    assert_ok(bw_engine_new(&eo, &engine, &err), err);
    bw_server_options options;
    bw_server_options_init(&options);
    options.engine = engine;
    options.model_id = "org/mock:words";
    assert_ok(bw_server_start(&options, &server, &err), err);
    port = bw_server_port(server);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    bw_server_stop(server);
    assert_int_equal(mock_live_sessions(), 0);
    bw_engine_free(engine);
    return 0;
}

/* A whole JSON answer (json_decref). */
static json_t *ask_json(const char *method, const char *path, const char *body, int status)
{
    answer a;
    client_ask(port, method, path, "", body, &a);
    if (a.status != status)
        fail_msg("%s %s: %d %s", method, path, a.status, a.body.data);
    char *type = answer_header(&a, "content-type");
    assert_string_equal(type, "application/json");
    bw_free(type);
    char why[200];
    json_t *value = bw_body_parse_json(a.body.data, a.body.len, why, sizeof why);
    if (!value)
        fail_msg("%s: %s", why, a.body.data);
    answer_deinit(&a);
    return value;
}

static const char *text_at(json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "(none)";
}

static json_t *choice_at(json_t *answer_json, size_t i)
{
    json_t *choice = json_array_get(json_object_get(answer_json, "choices"), i);
    assert_non_null(choice);
    return choice;
}

static void assert_usage(json_t *value, int prompt, int completion)
{
    json_t *usage = json_object_get(value, "usage");
    assert_int_equal(json_integer_value(json_object_get(usage, "prompt_tokens")), prompt);
    assert_int_equal(json_integer_value(json_object_get(usage, "completion_tokens")), completion);
    assert_int_equal(json_integer_value(json_object_get(usage, "total_tokens")), prompt + completion);
}

/* The data of a stream as a list of JSON values; [DONE] must be the last line. */
static json_t *ask_chunks(const char *path, const char *body)
{
    answer a;
    client_ask(port, "POST", path, "", body, &a);
    if (a.status != 200)
        fail_msg("%s: %d %s", path, a.status, a.body.data);
    assert_true(a.whole);
    json_t *list = json_array();
    bool done = false;
    for (char *save = NULL, *line = strtok_r(a.body.data, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        assert_false(done);
        assert_memory_equal(line, "data: ", 6);
        done = strcmp(line + 6, "[DONE]") == 0;
        char why[200];
        json_t *value = done ? NULL : bw_body_parse_json(line + 6, strlen(line + 6), why, sizeof why);
        if (!done && !value)
            fail_msg("%s: %s", why, line);
        if (value)
            json_array_append_new(list, value);
    }
    assert_true(done);
    answer_deinit(&a);
    return list;
}

static void test_models(void **state)
{
    (void)state;
    json_t *list = ask_json("GET", "/v1/models", NULL, 200);
    assert_string_equal(text_at(list, "object"), "list");
    json_t *model = json_array_get(json_object_get(list, "data"), 0);
    assert_string_equal(text_at(model, "id"), "org/mock:words");
    assert_string_equal(text_at(model, "object"), "model");
    json_decref(list);
    model = ask_json("GET", "/v1/models/org/mock:words", NULL, 200);
    assert_string_equal(text_at(model, "id"), "org/mock:words");
    json_decref(model);
    model = ask_json("GET", "/v1/models/org%2Fmock%3Awords", NULL, 200);
    json_decref(model);
    json_t *error = ask_json("GET", "/v1/models/other", NULL, 404);
    assert_string_equal(text_at(json_object_get(error, "error"), "code"), "model_not_found");
    json_decref(error);
}

static void test_completion(void **state)
{
    (void)state;
    json_t *v = ask_json("POST", "/v1/completions", "{\"model\":\"any\",\"prompt\":\"a b c\",\"max_tokens\":4}", 200);
    assert_memory_equal(text_at(v, "id"), "cmpl-", 5);
    assert_string_equal(text_at(v, "object"), "text_completion");
    assert_string_equal(text_at(v, "model"), "org/mock:words");
    assert_string_equal(text_at(choice_at(v, 0), "text"), " a b c a");
    assert_string_equal(text_at(choice_at(v, 0), "finish_reason"), "length");
    assert_true(json_is_null(json_object_get(choice_at(v, 0), "logprobs")));
    assert_usage(v, 3, 4);
    json_decref(v);
    v = ask_json("POST", "/v1/completions", "{\"prompt\":\"a b c\",\"stop\":\" c\"}", 200);
    assert_string_equal(text_at(choice_at(v, 0), "text"), " a b");
    assert_string_equal(text_at(choice_at(v, 0), "finish_reason"), "stop");
    json_decref(v);
    v = ask_json("POST", "/v1/completions", "{\"prompt\":\"a @eos=2\"}", 200);
    assert_string_equal(text_at(choice_at(v, 0), "finish_reason"), "stop");
    json_decref(v);
    v = ask_json("POST", "/v1/completions", "{\"prompt\":\"a\"}", 200); /* OpenAI's default */
    assert_usage(v, 1, 16);
    json_decref(v);
}

/* Where a message's text lies in the prompt reaches the engine, but for a server that was told to read control tokens
 * there; a raw prompt has no such places. */
static void test_literal(void **state)
{
    (void)state;
    static const char chat[] = "{\"messages\":[{\"role\":\"user\",\"content\":\"@literal a\"},"
                               "{\"role\":\"user\",\"content\":\"b\"}],\"max_tokens\":1}";
    bw_server_options options;
    bw_server_options_init(&options);
    options.engine = engine;
    options.control_tokens_in_messages = true;
    bw_server *peers_way = NULL;
    bw_err err = {0};
    assert_ok(bw_server_start(&options, &peers_way, &err), err);
    uint16_t own_port = port;
    for (int i = 0; i < 2; i++) {
        port = i ? bw_server_port(peers_way) : own_port;
        json_t *v = ask_json("POST", "/v1/chat/completions", chat, 200);
        assert_string_equal(text_at(json_object_get(choice_at(v, 0), "message"), "content"),
                            i ? " literal=0" : " literal=2");
        json_decref(v);
    }
    port = own_port;
    bw_server_stop(peers_way);
    json_t *v = ask_json("POST", "/v1/completions", "{\"prompt\":\"@literal a\",\"max_tokens\":1}", 200);
    assert_string_equal(text_at(choice_at(v, 0), "text"), " literal=0");
    json_decref(v);
}

static void test_several(void **state)
{
    (void)state;
    json_t *v = ask_json("POST", "/v1/completions",
                         "{\"prompt\":[\"x @seed\",\"y z @seed\"],\"n\":2,\"seed\":5,\"max_tokens\":1}", 200);
    static const char *const expected[] = {" 5", " 6", " 7", " 8"}; /* each choice a seed of its own, known before */
    assert_int_equal(json_array_size(json_object_get(v, "choices")), 4);
    for (size_t i = 0; i < 4; i++) {
        assert_string_equal(text_at(choice_at(v, i), "text"), expected[i]);
        assert_int_equal(json_integer_value(json_object_get(choice_at(v, i), "index")), i);
    }
    assert_usage(v, 5, 4);
    json_decref(v);
    v = ask_json("POST", "/v1/completions", "{\"prompt\":[0,1],\"max_tokens\":1,\"echo\":true}", 200);
    assert_usage(v, 2, 1);
    assert_int_equal(count_text(text_at(choice_at(v, 0), "text"), " "), 2); /* two tokens echoed, one new */
    json_decref(v);
}

static void test_completion_logprobs(void **state)
{
    (void)state;
    json_t *v = ask_json("POST", "/v1/completions",
                         "{\"prompt\":\"caf\xC3\xA9 b\",\"max_tokens\":1,\"echo\":true,\"logprobs\":2}", 200);
    assert_string_equal(text_at(choice_at(v, 0), "text"), "caf\xC3\xA9 b caf\xC3\xA9");
    json_t *lp = json_object_get(choice_at(v, 0), "logprobs");
    json_t *tokens = json_object_get(lp, "tokens"), *logprobs = json_object_get(lp, "token_logprobs");
    json_t *tops = json_object_get(lp, "top_logprobs"), *offsets = json_object_get(lp, "text_offset");
    assert_int_equal(json_array_size(tokens), 3);
    assert_string_equal(json_string_value(json_array_get(tokens, 0)), "caf\xC3\xA9");
    assert_true(json_is_null(json_array_get(logprobs, 0))); /* nothing came before the first */
    assert_true(json_is_null(json_array_get(tops, 0)));
    assert_true(json_real_value(json_array_get(logprobs, 2)) == -0.25);
    assert_int_equal(json_object_size(json_array_get(tops, 2)), 2);
    assert_non_null(json_object_get(json_array_get(tops, 2), "bytes:\\xe2\\x9c"));
    assert_int_equal(json_integer_value(json_array_get(offsets, 1)), 4); /* characters, not bytes */
    assert_int_equal(json_integer_value(json_array_get(offsets, 2)), 6);
    json_decref(v);
    v = ask_json("POST", "/v1/completions", "{\"prompt\":\"a b\",\"max_tokens\":0,\"echo\":true,\"logprobs\":0}", 200);
    assert_string_equal(text_at(choice_at(v, 0), "text"), "a b");
    assert_usage(v, 2, 0);
    json_decref(v);
}

static void test_completion_stream(void **state)
{
    (void)state;
    json_t *list =
        ask_chunks("/v1/completions", "{\"prompt\":\"a b @nl\",\"max_tokens\":3,\"stream\":true,\"echo\":true,"
                                      "\"stream_options\":{\"include_usage\":true}}");
    size_t n = json_array_size(list);
    assert_int_equal(n, 6); /* echo, three tokens, the end, usage */
    bw_str text = {0};
    for (size_t i = 0; i + 1 < n; i++) {
        json_t *chunk = json_array_get(list, i);
        assert_string_equal(text_at(chunk, "object"), "text_completion");
        assert_true(json_is_null(json_object_get(chunk, "usage")));
        bw_str_add(&text, text_at(choice_at(chunk, 0), "text"));
        bool last = i + 2 == n;
        assert_string_equal(text_at(choice_at(chunk, 0), "finish_reason"), last ? "length" : "(none)");
    }
    assert_string_equal(text.data, "a b @nl a\n\n\" @nl");
    assert_int_equal(json_array_size(json_object_get(json_array_get(list, n - 1), "choices")), 0);
    assert_usage(json_array_get(list, n - 1), 3, 3);
    bw_str_deinit(&text);
    json_decref(list);
}

#define HELLO "\"messages\":[{\"role\":\"system\",\"content\":\"be\"},{\"role\":\"user\",\"content\":\"hi there\"}]"

static void test_chat(void **state)
{
    (void)state;
    json_t *v = ask_json("POST", "/v1/chat/completions",
                         "{" HELLO ",\"max_tokens\":4,\"logprobs\":true,\"top_logprobs\":2,\"n\":2}", 200);
    assert_memory_equal(text_at(v, "id"), "chatcmpl-", 9);
    assert_string_equal(text_at(v, "object"), "chat.completion");
    for (size_t i = 0; i < 2; i++) {
        json_t *message = json_object_get(choice_at(v, i), "message");
        assert_string_equal(text_at(message, "role"), "assistant");
        assert_string_equal(text_at(message, "content"), " be hi there assistant:");
        json_t *content = json_object_get(json_object_get(choice_at(v, i), "logprobs"), "content");
        assert_int_equal(json_array_size(content), 4);
        json_t *token = json_array_get(content, 1);
        assert_string_equal(text_at(token, "token"), " hi");
        assert_int_equal(json_array_size(json_object_get(token, "bytes")), 3);
        json_t *top = json_object_get(token, "top_logprobs");
        assert_int_equal(json_array_size(top), 2);
        assert_int_equal(json_integer_value(json_array_get(json_object_get(json_array_get(top, 1), "bytes"), 0)), 0xE2);
    }
    assert_usage(v, 4, 8);
    json_decref(v);
    v = ask_json("POST", "/v1/chat/completions", "{" HELLO ",\"tools\":[{}],\"max_tokens\":5}", 200);
    assert_non_null(strstr(text_at(json_object_get(choice_at(v, 0), "message"), "content"), "extra-tools"));
    json_decref(v);
    v = ask_json("POST", "/v1/chat/completions", "{" HELLO "}", 200); /* no limit: as far as the context goes */
    assert_string_equal(text_at(choice_at(v, 0), "finish_reason"), "length");
    assert_usage(v, 4, 60);
    json_decref(v);
}

static void test_chat_stream(void **state)
{
    (void)state;
    json_t *list = ask_chunks("/v1/chat/completions", "{" HELLO ",\"max_tokens\":2,\"stream\":true,\"n\":2,"
                                                      "\"logprobs\":true}");
    size_t n = json_array_size(list);
    assert_int_equal(n, 8); /* per choice: role, two tokens, the end */
    int n_roles = 0, n_ends = 0, n_logprobs = 0;
    bw_str texts[2] = {{0}, {0}};
    for (size_t i = 0; i < n; i++) {
        json_t *chunk = json_array_get(list, i), *choice = choice_at(chunk, 0),
               *delta = json_object_get(choice, "delta");
        assert_string_equal(text_at(chunk, "object"), "chat.completion.chunk");
        assert_null(json_object_get(chunk, "usage"));
        n_roles += json_object_get(delta, "role") != NULL;
        n_ends += json_is_string(json_object_get(choice, "finish_reason"));
        n_logprobs += json_is_object(json_object_get(choice, "logprobs"));
        json_t *content = json_object_get(delta, "content");
        if (content)
            bw_str_add(&texts[json_integer_value(json_object_get(choice, "index"))], json_string_value(content));
    }
    assert_int_equal(n_roles, 2);
    assert_int_equal(n_ends, 2);
    assert_int_equal(n_logprobs, 4);
    for (int i = 0; i < 2; i++) {
        assert_string_equal(texts[i].data, " be hi");
        bw_str_deinit(&texts[i]);
    }
    json_decref(list);
}

static void assert_param(const char *path, const char *body, const char *param)
{
    json_t *v = ask_json("POST", path, body, 400), *error = json_object_get(v, "error");
    assert_string_equal(text_at(error, "param"), param);
    assert_string_equal(text_at(error, "code"), "(none)");
    json_decref(v);
}

static void assert_error(const char *path, const char *body, int status, const char *type, const char *code)
{
    json_t *v = ask_json("POST", path, body, status), *error = json_object_get(v, "error");
    assert_string_equal(text_at(error, "type"), type);
    assert_string_equal(text_at(error, "code"), code);
    assert_true(json_string_length(json_object_get(error, "message")) > 0);
    assert_non_null(json_object_get(error, "param"));
    json_decref(v);
}

static void test_errors(void **state)
{
    (void)state;
    static const char invalid[] = "invalid_request_error";
    assert_error("/v1/completions", "{\"prompt\":\"a\",\"n\":0}", 400, invalid, "(none)");
    assert_error("/v1/completions", "{", 400, invalid, "(none)");
    assert_error("/v1/chat/completions", "{}", 400, invalid, "(none)");
    assert_error("/v1/completions", "{\"prompt\":\"\"}", 400, invalid, "(none)");
    assert_error("/v1/completions", "{\"prompt\":[999999]}", 400, invalid, "(none)");
    /* what only the model's vocabulary can tell is blamed on the right member, and is no matter of context length */
    assert_param("/v1/completions", "{\"prompt\":[1,999999]}", "prompt");
    assert_param("/v1/completions", "{\"prompt\":\"a\",\"logit_bias\":{\"999999\":1}}", "logit_bias");
    assert_param("/v1/chat/completions", "{" HELLO ",\"logit_bias\":{\"999999\":-100}}", "logit_bias");
    assert_error("/v1/completions", "{\"prompt\":\"a @fail=2\"}", 500, "server_error", "(none)");
    assert_error("/v1/completions", "{\"prompt\":\"a @fail=2\",\"n\":3}", 500, "server_error", "(none)");
    bw_str body = {0};
    bw_str_add(&body, "{\"stream\":true,\"prompt\":\"");
    for (int i = 0; i < 70; i++)
        bw_str_add(&body, "w ");
    bw_str_add(&body, "\"}");
    assert_error("/v1/completions", body.data, 400, invalid, "context_length_exceeded"); /* before the status line */
    bw_str_deinit(&body);
    json_t *list = ask_chunks("/v1/completions", "{\"prompt\":\"a @fail=2\",\"stream\":true}");
    json_t *last = json_array_get(list, json_array_size(list) - 1);
    assert_string_equal(text_at(json_object_get(last, "error"), "type"), "server_error");
    json_decref(list);
}

int main(void)
{
    bw_log_configure(BW_LOG_OFF, true);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_models),
        cmocka_unit_test(test_completion),
        cmocka_unit_test(test_literal),
        cmocka_unit_test(test_several),
        cmocka_unit_test(test_completion_logprobs),
        cmocka_unit_test(test_completion_stream),
        cmocka_unit_test(test_chat),
        cmocka_unit_test(test_chat_stream),
        cmocka_unit_test(test_errors),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
