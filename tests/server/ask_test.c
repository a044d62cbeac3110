/* Request bodies, read without a socket: defaults, every limit, error shapes, hostile JSON, failing memory. */
#include "../bw_test.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "ask_fields.h"
#include "bw_mem.h"
#include "json.h"
#include "sha256.h"

static bw_reply reply;

static bool rbee(const char *body, bw_ask *ask)
{
    bw_reply_deinit(&reply);
    return bw_ask_read_rbee(body, strlen(body), ask, &reply);
}

static bool completion(const char *body, bw_ask *ask)
{
    bw_reply_deinit(&reply);
    return bw_ask_read_openai(body, strlen(body), false, ask, &reply);
}

static bool chat(const char *body, bw_ask *ask)
{
    bw_reply_deinit(&reply);
    return bw_ask_read_openai(body, strlen(body), true, ask, &reply);
}

static void assert_refused(bool accepted, unsigned status, const char *piece)
{
    assert_false(accepted);
    if (reply.status != status || !reply.body.data || !strstr(reply.body.data, piece))
        fail_msg("%u %s, expected %u with %s", reply.status, reply.body.data, status, piece);
}

static void test_flat_defaults(void **state)
{
    (void)state;
    bw_ask ask;
    assert_true(rbee("{\"prompt\":\"hi\"}", &ask));
    assert_int_equal(ask.max_tokens, 100);
    assert_true(ask.sampling.temperature == 1.0f && ask.sampling.top_p == 1.0f);
    assert_true(ask.sampling.repetition_penalty == 1.0f && ask.sampling.min_p == 0.0f);
    assert_int_equal(ask.sampling.top_k, 0);
    assert_int_equal(ask.sampling.repeat_last_n, 128);
    assert_false(ask.sampling.has_seed);
    assert_int_equal(ask.n_stop, 0);
    bw_ask_deinit(&ask);
}

static void test_tagged_defaults(void **state)
{
    (void)state;
    bw_ask ask;
    assert_true(
        rbee("{\"operation\":\"infer\",\"model\":\"x\",\"prompt\":\"hi\",\"top_p\":null,\"unknown\":[1]}", &ask));
    assert_int_equal(ask.max_tokens, 100);
    assert_true(ask.sampling.temperature == 1.0f && ask.sampling.top_p == 0.9f);
    assert_true(ask.sampling.repetition_penalty == 1.1f);
    assert_int_equal(ask.sampling.top_k, 50);
    assert_true(ask.sampling.has_seed && ask.sampling.seed == 42);
    bw_ask_deinit(&ask);
}

static void test_flat_everything(void **state)
{
    (void)state;
    bw_ask ask;
    assert_true(rbee("{\"prompt\":\"a\\u0000b\",\"max_tokens\":2048,\"temperature\":0,\"seed\":18446744073709551615,"
                     "\"top_p\":0.5,\"top_k\":4294967295,\"repetition_penalty\":2.0,\"repeat_last_n\":0,"
                     "\"stop\":[\"x\",\"\xC3\xA9\"],\"min_p\":1}",
                     &ask));
    assert_int_equal(ask.prompts[0].n_bytes, 3);
    assert_memory_equal(ask.prompts[0].text, "a\0b", 3);
    assert_int_equal(ask.max_tokens, 2048);
    assert_true(ask.sampling.seed == UINT64_MAX && ask.sampling.has_seed);
    assert_int_equal(ask.sampling.top_k, INT32_MAX);
    assert_int_equal(ask.n_stop, 2);
    assert_string_equal(ask.stop[1], "\xC3\xA9");
    bw_ask_deinit(&ask);
    assert_true(rbee("{\"prompt\":\"first\",\"prompt\":\"last\",\"seed\":9223372036854775807}", &ask));
    assert_string_equal(ask.prompts[0].text, "last"); /* of duplicates the last counts */
    assert_true(ask.sampling.seed == INT64_MAX);
    bw_ask_deinit(&ask);
}

static void test_flat_ranges(void **state)
{
    (void)state;
    bw_ask ask;
    assert_refused(rbee("{\"prompt\":\"a\",\"top_p\":1.5}", &ask), 400,
                   "{\"errors\":[{\"field\":\"top_p\",\"constraint\":\"range(0.0..=1.0)\",\"message\":\"top_p must be "
                   "between 0.0 and 1.0\",\"value\":\"1.5\"}]}");
    assert_string_equal(reply.content_type, bw_type_json);
    assert_refused(rbee("{\"prompt\":\"\"}", &ask), 400, "\"constraint\":\"length(1..=32768)\"");
    assert_null(strstr(reply.body.data, "\"value\""));
    assert_refused(rbee("{\"prompt\":\"a\",\"max_tokens\":0}", &ask), 400, "\"constraint\":\"range(1..=2048)\"");
    assert_refused(rbee("{\"prompt\":\"a\",\"max_tokens\":2049}", &ask), 400, "\"value\":\"2049\"");
    assert_refused(rbee("{\"prompt\":\"a\",\"max_tokens\":99999999999999999999}", &ask), 400,
                   "max_tokens is too large: it must be between 1 and 2048");
    assert_refused(rbee("{\"prompt\":\"a\",\"seed\":99999999999999999999}", &ask), 400, "seed is too large");
    assert_refused(rbee("{\"prompt\":\"a\",\"temperature\":2.1,\"min_p\":-1}", &ask), 400, "range(0.0..=2.0)");
    assert_non_null(strstr(reply.body.data, "\"field\":\"min_p\"")); /* all of them, not only the first */
    assert_refused(rbee("{\"prompt\":\"a\",\"repetition_penalty\":-0.1}", &ask), 400, "-0.1");
    /* the limits are inclusive; what the engine cannot divide by is no error of the client's */
    assert_true(rbee("{\"prompt\":\"a\",\"repetition_penalty\":0,\"top_p\":0}", &ask));
    assert_true(ask.sampling.repetition_penalty == 1 && ask.sampling.top_p == 0);
    bw_ask_deinit(&ask);
    assert_true(rbee("{\"prompt\":\"a\",\"repetition_penalty\":0.001}", &ask));
    assert_true(ask.sampling.repetition_penalty == 0.01f);
    bw_ask_deinit(&ask);
    assert_refused(rbee("{\"prompt\":\"a\",\"top_k\":-1}", &ask), 400, "top_k");
    assert_refused(rbee("{\"prompt\":\"a\",\"stop\":[\"1\",\"2\",\"3\",\"4\",\"5\"]}", &ask), 400, "max_count(4)");
    assert_refused(rbee("{\"prompt\":\"a\",\"stop\":[\"\"]}", &ask), 400, "non_empty");
    char long_stop[160] = "{\"prompt\":\"a\",\"stop\":[\"";
    memset(long_stop + strlen(long_stop), 's', 101);
    strcat(long_stop, "\"]}");
    assert_refused(rbee(long_stop, &ask), 400, "max_length(100)");
    bw_str body = {0};
    for (int extra = 0; extra < 2; extra++) {
        bw_str_clear(&body);
        bw_str_add(&body, "{\"prompt\":\"");
        for (int i = 0; i < 32768 + extra; i++)
            bw_str_add(&body, "\xC3\xA9"); /* characters count, not bytes */
        bw_str_add(&body, "\"}");
        if (extra)
            assert_refused(rbee(body.data, &ask), 400, "length(1..=32768)");
        else
            assert_true(rbee(body.data, &ask));
        bw_ask_deinit(&ask);
    }
    bw_str_deinit(&body);
}

static void test_operations(void **state)
{
    (void)state;
    bw_ask ask;
    assert_refused(rbee("{\"operation\":\"image_generation\",\"prompt\":\"a\"}", &ask), 500,
                   "Unsupported operation for worker: image_generation");
    assert_refused(rbee("{\"operation\":7,\"prompt\":\"a\"}", &ask), 500, "Failed to parse operation: ");
    assert_refused(rbee("{\"max_tokens\":7}", &ask), 500, "Failed to parse operation: missing field `prompt`");
    assert_refused(rbee("{\"operation\":\"infer\"}", &ask), 500, "Failed to parse operation: missing field `prompt`");
    assert_refused(rbee("{\"prompt\":7}", &ask), 500, "invalid type for field `prompt`");
    assert_refused(rbee("{\"prompt\":\"a\",\"max_tokens\":1.5}", &ask), 500, "invalid type for field `max_tokens`");
    assert_refused(rbee("{\"prompt\":\"a\",\"seed\":-1}", &ask), 500, "invalid type for field `seed`");
    assert_refused(rbee("{\"prompt\":\"a\",\"stop\":\"a\"}", &ask), 500, "invalid type for field `stop`");
    assert_refused(rbee("[1]", &ask), 500, "Failed to parse operation: ");
    assert_refused(rbee("{\"prompt\":", &ask), 400, "JSON");
    assert_refused(rbee("", &ask), 400, "JSON");
    assert_string_equal(reply.content_type, bw_type_text);
}

static void test_hostile_json(void **state)
{
    (void)state;
    bw_ask ask;
    bw_str deep = {0};
    bw_str_add(&deep, "{\"prompt\":\"a\",\"x\":");
    for (int i = 0; i < 100000; i++)
        bw_str_add_char(&deep, '[');
    assert_refused(rbee(deep.data, &ask), 400, "nested deeper");
    assert_refused(chat(deep.data, &ask), 400, "nested deeper");
    bw_str_deinit(&deep);
    assert_refused(rbee("{\"prompt\":\"\xC3\x28\"}", &ask), 400, "unable to decode byte 0xc3");
    assert_refused(rbee("{\"prompt\":\"\\ud800\"}", &ask), 400, "JSON");
    assert_refused(rbee("{\"prompt\":\"a\",\"temperature\":1e999}", &ask), 400, "temperature");
    assert_refused(rbee("{\"prompt\":\"a\",\"temperature\":-1e400}", &ask), 400, "temperature");
    assert_refused(rbee("{\"prompt\":\"a\",\"temperature\":NaN}", &ask), 400, "JSON");
    assert_refused(rbee("{\"prompt\":\"a\",\"unknown\":1e400e}", &ask), 400, "JSON");
    /* numbers that no double holds, where nobody looks at them; text is left alone; a byte order mark is skipped */
    assert_true(rbee("{\"x\":1e400,\"prompt\":\"1e400 \\\" -1e999\",\"y\":[-1e999,{\"z\":123E4567}]}", &ask));
    assert_string_equal(ask.prompts[0].text, "1e400 \" -1e999");
    bw_ask_deinit(&ask);
    /* one such number makes no other one real: token ids stay ids */
    assert_true(completion("{\"prompt\":[1,2],\"user\":\"u\",\"x\":[99999999999999999999,-1e999]}", &ask));
    assert_int_equal(ask.prompts[0].n_tokens, 2);
    bw_ask_deinit(&ask);
    assert_refused(rbee("{\"x\":1e400,\"prompt\":\"a\"} 7", &ask), 400, "JSON");
    assert_true(rbee("\xEF\xBB\xBF{\"prompt\":\"a\"}", &ask));
    bw_ask_deinit(&ask);
    assert_refused(rbee("\xEF\xBB\xBF", &ask), 400, "JSON");
    assert_refused(rbee("\xEF\xBB{\"prompt\":\"a\"}", &ask), 400, "JSON");
    assert_refused(rbee("{\"pro\\u0000mpt\":\"a\"}", &ask), 400, "JSON");
    assert_refused(rbee("{\"prompt\":\"a\"} trailing", &ask), 400, "JSON");
    assert_refused(rbee("{\"prompt\":\"a\",\"stop\":[\"a\\u0000b\"]}", &ask), 400, "no_nul");
    assert_true(rbee("{\"prompt\":\"[[[[{{{{\"}", &ask)); /* brackets within strings do not nest */
    bw_ask_deinit(&ask);
    const char cut[] = "{\"prompt\":\"hello\",\"max_tokens\":3}";
    for (size_t n = 0; n < sizeof cut - 1; n++) {
        bw_reply_deinit(&reply);
        assert_false(bw_ask_read_rbee(cut, n, &ask, &reply));
        assert_int_equal(reply.status, 400);
    }
}

static void test_completion_body(void **state)
{
    (void)state;
    bw_ask ask;
    assert_true(completion("{\"model\":\"m\",\"prompt\":\"a\"}", &ask));
    assert_int_equal(ask.max_tokens, 16);
    assert_int_equal(ask.n_logprobs, -1);
    assert_false(ask.stream || ask.echo || ask.sampling.has_seed);
    bw_ask_deinit(&ask);
    assert_true(
        completion("{\"prompt\":[\"a\",\"b\"],\"n\":2,\"max_tokens\":0,\"echo\":true,\"logprobs\":3,\"seed\":-5,"
                   "\"stop\":\"x\",\"logit_bias\":{\"7\":-100,\"8\":2.5},\"stream\":true,"
                   "\"stream_options\":{\"include_usage\":true},\"temperature\":0,\"presence_penalty\":-2}",
                   &ask));
    assert_int_equal(ask.n_prompts, 2);
    assert_int_equal(ask.n, 2);
    assert_int_equal(ask.max_tokens, 0);
    assert_int_equal(ask.n_logprobs, 3);
    assert_true(ask.echo && ask.stream && ask.include_usage && ask.sampling.has_seed);
    assert_int_equal(ask.sampling.n_logit_bias, 2);
    for (int i = 0; i < 2; i++) {
        bool banned = ask.sampling.logit_bias[i].token == 7;
        assert_true(banned ? isinf(ask.sampling.logit_bias[i].bias) : ask.sampling.logit_bias[i].bias == 2.5f);
    }
    bw_ask_deinit(&ask);
    assert_true(completion("{\"prompt\":[1,2,3]}", &ask));
    assert_int_equal(ask.n_prompts, 1);
    assert_int_equal(ask.prompts[0].n_tokens, 3);
    assert_int_equal(ask.prompts[0].tokens[2], 3);
    bw_ask_deinit(&ask);
    assert_true(completion("{\"prompt\":[[1,2],[3]]}", &ask));
    assert_int_equal(ask.n_prompts, 2);
    assert_int_equal(ask.prompts[1].tokens[0], 3);
    bw_ask_deinit(&ask);
}

static void test_completion_errors(void **state)
{
    (void)state;
    static const char *const bodies[][2] = {
        {"{}", "\"param\":\"prompt\""},
        {"{\"prompt\":null}", "'prompt' is missing"},
        {"{\"prompt\":7}", "\"param\":\"prompt\""},
        {"{\"prompt\":[]}", "\"param\":\"prompt\""},
        {"{\"prompt\":[[]]}", "must not be empty"},
        {"{\"prompt\":[1,\"a\"]}", "\"param\":\"prompt\""},
        {"{\"prompt\":[-1]}", "\"param\":\"prompt\""},
        {"{\"prompt\":[1,99999999999999999999]}", "'prompt' holds a token id that is too large"},
        {"{\"prompt\":[99999999999999999999]}", "'prompt' holds a token id that is too large"},
        {"{\"prompt\":\"a\",\"seed\":18446744073709551616}", "'seed' is too large"},
        {"{\"prompt\":\"a\",\"n\":-99999999999999999999}", "'n' is too large for 64 bits"},
        {"{\"prompt\":\"a\",\"max_tokens\":99999999999999999999}", "'max_tokens' is too large for 64 bits"},
        {"{\"prompt\":\"a\",\"logprobs\":99999999999999999999}", "'logprobs' is too large for 64 bits"},
        {"{\"prompt\":\"a\",\"logit_bias\":{\"99999999999999999999\":1}}",
         "'logit_bias' holds a token id that is too large"},
        {"{\"prompt\":\"a\",\"logit_bias\":{\"1\":99999999999999999999}}", "numbers between -100 and 100"},
        {"{\"prompt\":\"a\",\"stop_token_ids\":[99999999999999999999]}",
         "'stop_token_ids' holds a token id that is too large"},
        {"{\"prompt\":\"a\",\"n\":0}", "\"param\":\"n\""},
        {"{\"prompt\":\"a\",\"n\":65}", "\"param\":\"n\""},
        {"{\"prompt\":[\"a\",\"b\"],\"n\":64}", "product"},
        {"{\"prompt\":\"a\",\"temperature\":3}", "between 0 and 2"},
        {"{\"prompt\":\"a\",\"temperature\":\"hot\"}", "must be a number"},
        {"{\"prompt\":\"a\",\"max_tokens\":-2}", "'max_tokens' must be between -1 and 2147483647, not -2"},
        {"{\"prompt\":\"a\",\"min_tokens\":17}", "'min_tokens' must not be above 'max_tokens'"},
        {"{\"prompt\":\"a\",\"top_k\":-2}", "\"param\":\"top_k\""},
        {"{\"prompt\":\"a\",\"stop_token_ids\":5}", "\"param\":\"stop_token_ids\""},
        {"{\"prompt\":\"a\",\"stop_token_ids\":[-1]}", "\"param\":\"stop_token_ids\""},
        {"{\"prompt\":\"a\",\"bad_words\":[\"\"]}", "\"param\":\"bad_words\""},
        {"{\"prompt\":\"a\",\"bad_words\":\"x\"}", "\"param\":\"bad_words\""},
        {"{\"prompt\":\"a\",\"best_of\":2}", "\"param\":\"best_of\""},
        {"{\"prompt\":\"a\",\"suffix\":\"b\"}", "\"param\":\"suffix\""},
        {"{\"prompt\":\"a\",\"stop\":[1]}", "\"param\":\"stop\""},
        {"{\"prompt\":\"a\",\"stop\":[\"1\",\"2\",\"3\",\"4\",\"5\"]}", "\"param\":\"stop\""},
        {"{\"prompt\":\"a\",\"logit_bias\":{\"x\":1}}", "\"param\":\"logit_bias\""},
        {"{\"prompt\":\"a\",\"logit_bias\":{\"1\":101}}", "\"param\":\"logit_bias\""},
        {"{\"prompt\":\"a\",\"stream\":1}", "\"param\":\"stream\""},
        {"{\"prompt\":\"a\",\"stream_options\":{}}", "needs 'stream'"},
        {"{\"prompt\":\"a\",\"model\":1}", "\"param\":\"model\""},
        {"{\"prompt\":\"a\",\"seed\":\"x\"}", "\"param\":\"seed\""},
        {"[]", "must be a JSON object"},
        {"{", "not valid JSON"},
    };
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        bw_ask ask;
        assert_refused(completion(bodies[i][0], &ask), 400, bodies[i][1]);
        assert_non_null(strstr(reply.body.data, "\"type\":\"invalid_request_error\""));
    }
}

static void test_chat_body(void **state)
{
    (void)state;
    bw_ask ask;
    assert_true(chat("{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},"
                     "{\"type\":\"text\",\"text\":\"b\"}]},{\"role\":\"assistant\",\"tool_calls\":[]}],"
                     "\"logprobs\":true,\"top_logprobs\":5,\"max_completion_tokens\":7,\"max_tokens\":9,"
                     "\"tools\":[{\"type\":\"function\"}],\"chat_template_kwargs\":{\"k\":1}}",
                     &ask));
    assert_non_null(strstr(ask.messages_json, "\"content\":\"ab\""));
    assert_non_null(strstr(ask.messages_json, "\"content\":null"));
    assert_non_null(strstr(ask.extra_json, "\"tools\":[{\"type\":\"function\"}]"));
    assert_non_null(strstr(ask.extra_json, "\"k\":1"));
    assert_int_equal(ask.n_logprobs, 5);
    assert_int_equal(ask.max_tokens, 7);
    bw_ask_deinit(&ask);
    static const char *const bad[][2] = {
        {"{}", "'messages' is missing"},
        {"{\"messages\":[{\"role\":\"assistant\",\"tool_calls\":{}}]}", "messages[0]: 'tool_calls'"},
        {"{\"messages\":[{\"role\":\"assistant\",\"tool_calls\":[{\"function\":{}}]}]}", "'name'"},
        {"{\"messages\":[]}", "at least one"},
        {"{\"messages\":[1]}", "messages[0]"},
        {"{\"messages\":[{\"content\":\"a\"}]}", "'role'"},
        {"{\"messages\":[{\"role\":\"user\"}]}", "'content'"},
        {"{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image_url\"}]}]}", "images"},
        {"{\"messages\":[{\"role\":\"user\",\"content\":5}]}", "'content'"},
        {"{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"top_logprobs\":3}", "needs 'logprobs'"},
        {"{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"response_format\":{\"type\":\"json_object\"}}",
         "response_format"},
        {"{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"tool_choice\":\"required\"}", "tool_choice"},
        {"{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"tools\":{}}", "'tools'"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_refused(chat(bad[i][0], &ask), 400, bad[i][1]);
    static const char *const kept[] = {"messages", "tools", "add_generation_prompt", "bos_token", "eos_token"};
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        char body[200], words[80];
        snprintf(body, sizeof body,
                 "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"chat_template_kwargs\":{\"%s\":[]}}",
                 kept[i]);
        snprintf(words, sizeof words, "may not set '%s'", kept[i]);
        assert_refused(chat(body, &ask), 400, words);
    }
}

/* One message each: what its JSON holds afterwards. */
static void test_messages(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {"\"content\":null,\"tool_calls\":[{\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}}]",
         "\"content\":null,\"tool_calls\":[{"},
        {"\"tool_calls\":[{\"function\":{\"name\":\"f\"}}]", "\"content\":null"},
        {"\"content\":null", "\"content\":null"},
        {"\"name\":\"x\"", "\"content\":null"},
        {"\"content\":null,\"refusal\":\"no\"", "\"content\":\"no\""},
        {"\"content\":[{\"type\":\"refusal\",\"refusal\":\"no\"},{\"type\":\"text\",\"text\":\" way\"}]",
         "\"content\":\"no way\""},
        {"\"content\":[{\"type\":\"input_text\",\"text\":\"a\"},\"b\",{\"type\":\"output_text\",\"text\":\"c\"}]",
         "\"content\":\"abc\""},
        {"\"content\":[]", "\"content\":\"\""},
        {"\"content\":null,\"function_call\":{\"name\":\"f\",\"arguments\":\"{}\"}",
         "\"tool_calls\":[{\"id\":\"call00000\",\"type\":\"function\",\"function\":{\"name\":\"f\""},
    };
    bw_ask ask;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char body[400];
        snprintf(body, sizeof body, "{\"messages\":[{\"role\":\"assistant\",%s}]}", rows[i][0]);
        if (!chat(body, &ask))
            fail_msg("%s: %s", body, reply.body.data);
        if (!strstr(ask.messages_json, rows[i][1]))
            fail_msg("%s lacks %s", ask.messages_json, rows[i][1]);
        bw_ask_deinit(&ask);
    }
    assert_true(chat("{\"messages\":[{\"role\":\"assistant\",\"content\":\"a\",\"tool_calls\":[]},"
                     "{\"role\":\"tool\",\"content\":[{\"type\":\"text\",\"text\":\"r\"}]}]}",
                     &ask));
    assert_null(strstr(ask.messages_json, "tool_calls")); /* none is not the same as an empty list to templates */
    assert_non_null(strstr(ask.messages_json, "\"content\":\"r\""));
    bw_ask_deinit(&ask);
    assert_true(chat("{\"messages\":[{\"role\":\"assistant\",\"content\":null,\"function_call\":{\"name\":\"f\"}},"
                     "{\"role\":\"function\",\"name\":\"f\",\"content\":\"r\"}]}",
                     &ask));
    assert_non_null(strstr(ask.messages_json, "\"role\":\"tool\""));
    assert_non_null(strstr(ask.messages_json, "\"tool_call_id\":\"call00000\""));
    bw_ask_deinit(&ask);
}

/* The n-th allocation fails, for every n: a whole answer each time, nothing left behind. */
static void fail_every_allocation(bool (*read)(const char *, bw_ask *), const char *body)
{
    bool accepted = false;
    for (int64_t n = 1; !accepted; n++) {
        bw_ask ask;
        bw_reply_deinit(&reply);
        int64_t live = bw_mem_live();
        bw_mem_fail_at(n);
        accepted = read(body, &ask);
        bw_mem_fail_at(0);
        if (accepted)
            bw_ask_deinit(&ask);
        else
            assert_true(reply.status == 503 || reply.status == 400 || reply.body.failed);
        bw_reply_deinit(&reply);
        assert_int_equal(bw_mem_live(), live);
        assert_true(n < 1000);
    }
}

static void test_failing_memory(void **state)
{
    (void)state;
    fail_every_allocation(rbee, "{\"operation\":\"infer\",\"prompt\":\"hello\",\"stop\":[\"a\",\"b\"]}");
    fail_every_allocation(completion,
                          "{\"prompt\":[\"a\",[1,2]],\"stop\":\"x\",\"logit_bias\":{\"1\":1},"
                          "\"bad_words\":[\"b\"],\"stop_token_ids\":[3],\"a_name_of_some_length_that_has_no_effect\":"
                          "\"and a text that is longer than 64 bytes, so that it takes more than one go\"}");
    fail_every_allocation(chat, "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"b\"}]}],"
                                "\"tools\":[{}]}");
}

/* Members that servers of the same API have: taken in every form that their clients write. */
static void test_peers_members(void **state)
{
    (void)state;
    static const struct {
        const char *members;
        int32_t max_tokens, max_tokens_of_chat;
    } limits[] = {
        {"", 16, -1},
        {",\"max_tokens\":null", -1, -1},
        {",\"max_tokens\":-1", -1, -1},
        {",\"max_tokens\":7", 7, 7},
        {",\"max_tokens\":7.0", 7, 7},
        {",\"n_predict\":-1", -1, -1},
        {",\"n_predict\":9", 9, 9},
        {",\"n_predict\":9,\"max_tokens\":null", 9, 9},
        {",\"max_tokens\":7,\"n_predict\":9", 7, 7},
        {",\"max_tokens\":7,\"max_completion_tokens\":null", 7, 7},
        {",\"max_tokens\":7,\"max_completion_tokens\":3", 7, 3},
    };
    char body[300];
    bw_ask ask;
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        for (int is_chat = 0; is_chat < 2; is_chat++) {
            snprintf(body, sizeof body, "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"prompt\":\"a\"%s}",
                     limits[i].members);
            assert_true(is_chat ? chat(body, &ask) : completion(body, &ask));
            if (ask.max_tokens != (is_chat ? limits[i].max_tokens_of_chat : limits[i].max_tokens))
                fail_msg("%s: %d", body, ask.max_tokens);
            bw_ask_deinit(&ask);
        }
    assert_true(completion("{\"prompt\":\"a\",\"top_k\":-1,\"repeat_penalty\":1.5,\"cache_prompt\":false,"
                           "\"min_tokens\":3,\"stop_token_ids\":[5,6.0],\"bad_words\":[\"x\",\"y z\"]}",
                           &ask));
    assert_true(ask.sampling.top_k == 0 && ask.sampling.repetition_penalty == 1.5f);
    assert_true(ask.min_tokens == 3 && ask.n_stop_tokens == 2 && ask.stop_tokens[1] == 6);
    assert_true(ask.n_bad_words == 2);
    assert_string_equal(ask.bad_words[1], "y z");
    assert_int_equal(ask.sampling.repeat_last_n, 0);
    bw_ask_deinit(&ask);
    assert_true(
        completion("{\"prompt\":\"a\",\"repeat_last_n\":0,\"repeat_penalty\":1.5,\"presence_penalty\":1}", &ask));
    assert_true(ask.sampling.repetition_penalty == 1 && ask.sampling.presence_penalty == 0);
    bw_ask_deinit(&ask);
    assert_true(rbee("{\"prompt\":\"a\",\"min_tokens\":3,\"stop_token_ids\":[5],\"bad_words\":[\"x\"],"
                     "\"logit_bias\":{\"3\":1},\"presence_penalty\":1}",
                     &ask));
    assert_true(ask.min_tokens == 3 && ask.n_stop_tokens == 1 && ask.n_bad_words == 1);
    assert_true(ask.sampling.n_logit_bias == 1 && ask.sampling.presence_penalty == 1);
    bw_ask_deinit(&ask);
    assert_true(completion("{\"prompt\":\"a\",\"seed\":-1}", &ask));
    assert_false(ask.sampling.has_seed);
    bw_ask_deinit(&ask);
    assert_true(chat("{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"reasoning_effort\":\"low\"}", &ask));
    assert_string_equal(ask.extra_json, "{\"reasoning_effort\":\"low\"}");
    bw_ask_deinit(&ask);
}

/* What cannot be honoured is refused by name, and what asks for nothing is not. */
static void test_refused_members(void **state)
{
    (void)state;
    static const char base[] = "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"prompt\":\"a\",\"%s\":%s}";
    char body[300], words[120];
    bw_ask ask;
    size_t n = 0;
    for (size_t i = 0; i < bw_n_fields; i++) {
        const bw_field *f = &bw_fields[i];
        if (f->kind != BW_FIELD_REFUSED)
            continue;
        bool (*read)(const char *, bw_ask *) = f->where & BW_IN_CHAT         ? chat
                                               : f->where & BW_IN_COMPLETION ? completion
                                                                             : rbee;
        static const char *const values[] = {"{\"x\":1}", "\"some\"", "[\"some\"]", "7"};
        for (size_t k = 0; k < 4; k++, n++) {
            snprintf(body, sizeof body, base, f->name, values[k]);
            snprintf(words, sizeof words, read == rbee ? "\"field\":\"%s\"" : "'%s' is not supported: ", f->name);
            assert_refused(read(body, &ask), 400, words);
        }
        static const char *const nothing[] = {"null", "\"\"", "{}", "[]"};
        for (size_t k = 0; k < 4; k++) {
            snprintf(body, sizeof body, base, f->name, nothing[k]);
            if (!read(body, &ask))
                fail_msg("%s: %s", body, reply.body.data);
            bw_ask_deinit(&ask);
        }
    }
    assert_true(n >= 160);
    static const char *const fine[][2] = {
        {"response_format", "{\"type\":\"text\"}"},
        {"modalities", "[\"text\"]"},
        {"function_call", "\"none\""},
        {"typical_p", "1"},
        {"skip_special_tokens", "true"},
        {"use_beam_search", "false"},
        {"mirostat", "0"},
    };
    for (size_t i = 0; i < sizeof fine / sizeof *fine; i++) {
        snprintf(body, sizeof body, base, fine[i][0], fine[i][1]);
        if (!chat(body, &ask))
            fail_msg("%s: %s", body, reply.body.data);
        bw_ask_deinit(&ask);
    }
    assert_refused(completion("{\"prompt\":\"a\",\"response_format\":{\"type\":\"json_object\"}}", &ask), 400,
                   "\"param\":\"response_format\"");
    assert_refused(completion("{\"prompt\":\"a\",\"skip_special_tokens\":false}", &ask), 400, "skip_special_tokens");
    assert_refused(rbee("{\"prompt\":\"a\",\"grammar\":\"g\"}", &ask), 400, "\"constraint\":\"unsupported\"");
}

/* Standard error of what a body makes the log say. */
static void logged(const char *body, char *text, size_t n_text)
{
    bw_ask ask;
    char path[] = "/tmp/ask_test_XXXXXX";
    int file = mkstemp(path), saved = dup(2);
    assert_true(file >= 0 && saved >= 0);
    dup2(file, 2);
    assert_true(completion(body, &ask));
    bw_ask_deinit(&ask);
    dup2(saved, 2);
    close(saved);
    ssize_t n = pread(file, text, n_text - 1, 0);
    text[n > 0 ? n : 0] = 0;
    close(file);
    unlink(path);
}

static void test_unknown_members(void **state)
{
    (void)state;
    char text[2000];
    logged("{\"prompt\":\"a\",\"user\":\"u\",\"seed\":1,\"top_kk\":5,\"a\\nb\\u001b\":1}", text, sizeof text);
    assert_non_null(strstr(text, "'top_kk' in the body of /v1/completions is not known here"));
    assert_non_null(strstr(text, "'a?b?'"));
    assert_null(strstr(text, "'user'"));
    assert_null(strstr(text, "\x1b"));
    logged("{\"prompt\":\"a\",\"top_kk\":5,\"other_one\":1}", text, sizeof text);
    assert_null(strstr(text, "top_kk")); /* once */
    assert_non_null(strstr(text, "other_one"));
    bw_str many = {0};
    bw_str_add(&many, "{\"prompt\":\"a\"");
    for (int i = 0; i < 3000; i++)
        bw_str_add_format(&many, ",\"unknown_%d\":0", i);
    bw_str_add_char(&many, '}');
    static char lines[1 << 20];
    logged(many.data, lines, sizeof lines);
    bw_str_deinit(&many);
    size_t n = 0;
    for (const char *at = lines; (at = strchr(at, '\n')); at++)
        n++;
    assert_true(n > 40 && n <= 64);
    assert_non_null(strstr(lines, "of no further name"));
    logged("{\"prompt\":\"a\",\"one_more\":5}", text, sizeof text);
    assert_string_equal(text, "");
}

static void test_sha256(void **state)
{
    (void)state;
    /* FIPS 180-4's examples, and lengths around a block's end against one another. */
    unsigned char digest[32];
    bw_sha256("abc", 3, digest);
    assert_memory_equal(digest, "\xba\x78\x16\xbf\x8f\x01\xcf\xea\x41\x41\x40\xde\x5d\xae\x22\x23", 16);
    bw_sha256("", 0, digest);
    assert_memory_equal(digest, "\xe3\xb0\xc4\x42\x98\xfc\x1c\x14\x9a\xfb\xf4\xc8\x99\x6f\xb9\x24", 16);
    bw_sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56, digest);
    assert_memory_equal(digest, "\x24\x8d\x6a\x61\xd2\x06\x38\xb8\xe5\xc0\x26\x93\x0c\x3e\x60\x39", 16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_flat_defaults),   cmocka_unit_test(test_tagged_defaults),
        cmocka_unit_test(test_flat_everything), cmocka_unit_test(test_flat_ranges),
        cmocka_unit_test(test_operations),      cmocka_unit_test(test_hostile_json),
        cmocka_unit_test(test_completion_body), cmocka_unit_test(test_completion_errors),
        cmocka_unit_test(test_chat_body),       cmocka_unit_test(test_messages),
        cmocka_unit_test(test_failing_memory),  cmocka_unit_test(test_sha256),
        cmocka_unit_test(test_peers_members),   cmocka_unit_test(test_refused_members),
        cmocka_unit_test(test_unknown_members),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    bw_reply_deinit(&reply);
    return failed;
}
