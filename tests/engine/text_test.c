/* Tokens, text and chat templates through the engine. */
#include "engine_harness.h"

#include "bw_mem.h"

static int setup(void **state)
{
    (void)state;
    fake_reset();
    return 0;
}

static void tokens_and_text(void **state)
{
    (void)state;
    int64_t live = bw_mem_live();
    bw_engine *e = make_engine(64, 1, 16, 0);
    int32_t *tokens = NULL;
    size_t n = 0, bytes = 0;
    char *text = NULL;
    bw_err err = {0};
    assert_ok(bw_engine_tokenize(e, "hi<go>", SIZE_MAX, true, true, &tokens, &n, &err), err);
    assert_int_equal(n, 4);
    assert_int_equal(tokens[0], FAKE_BOS);
    assert_int_equal(tokens[3], FAKE_GO);
    assert_ok(bw_engine_detokenize(e, tokens, n, false, &text, &bytes, &err), err);
    assert_string_equal(text, "hi");
    assert_int_equal(bytes, 2);
    bw_free(text);
    assert_ok(bw_engine_detokenize(e, tokens, n, true, &text, NULL, &err), err);
    assert_string_equal(text, "<bos>hi<go>");
    bw_free(text);
    assert_ok(bw_engine_detokenize(e, NULL, 0, true, &text, &bytes, &err), err);
    assert_string_equal(text, "");
    assert_int_equal(bytes, 0);
    bw_free(text);
    tokens[1] = 100000;
    assert_int_equal(bw_engine_detokenize(e, tokens, n, true, &text, NULL, &err), BW_E_RANGE);
    assert_null(text);
    bw_free(tokens);
    assert_ok(bw_engine_tokenize(e, "", 0, false, false, &tokens, &n, &err), err);
    assert_int_equal(n, 0);
    bw_free(tokens);
    assert_int_equal(bw_engine_tokenize(e, NULL, 0, false, false, &tokens, &n, &err), BW_E_ARG);
    bw_engine_free(e);
    assert_int_equal(bw_mem_live(), live);
}

/* The fake template engine shows its own text and the variables. */
static void chat(void **state)
{
    (void)state;
    bw_err err = {0};
    bw_chat_text text;
    bw_engine *e = make_engine(64, 1, 16, 0);
    bw_model_info info;
    bw_engine_info(e, &info);
    assert_false(info.has_chat_template);
    static const char messages[] = "[{\"role\":\"user\",\"content\":\"Hi\"}]";
    assert_ok(bw_engine_render_chat(e, messages, NULL, true, &text, &err), err);
    assert_string_equal(text.text,
                        "chatml:{\"add_generation_prompt\":true,\"bos_token\":\"<bos>\",\"eos_token\":\"<eos>\","
                        "\"messages\":[{\"content\":\"Hi\",\"role\":\"user\"}]}");
    assert_int_equal(text.text_bytes, strlen(text.text));
    assert_int_equal(text.n_literal, 1); /* what the template engine says is the request's */
    assert_int_equal(text.literal[0].start, 7);
    assert_int_equal(text.literal[0].end, text.text_bytes);
    bw_chat_text_free(&text);
    assert_ok(bw_engine_render_chat(e, messages, "{\"x\":[1],\"bos_token\":\"\"}", false, &text, &err), err);
    assert_non_null(strstr(text.text, "\"x\":[1]"));
    assert_non_null(strstr(text.text, "\"bos_token\":\"\""));
    assert_non_null(strstr(text.text, "\"add_generation_prompt\":false"));
    bw_chat_text_free(&text);
    static const struct {
        const char *messages, *extra, *words;
        bw_status status;
    } bad[] = {
        {"[", NULL, "messages is not JSON: line 1", BW_E_FORMAT},
        {"{}", NULL, "messages must be an array", BW_E_ARG},
        {"[3]", NULL, "message 0 is not an object", BW_E_ARG},
        {"[{\"role\":\"user\"},{\"role\":5}]", NULL, "message 1 has no role", BW_E_ARG},
        {messages, "[]", "must be an object", BW_E_ARG},
        {messages, "{", "variables is not JSON", BW_E_FORMAT},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(bw_engine_render_chat(e, bad[i].messages, bad[i].extra, true, &text, &err), bad[i].status);
        assert_null(text.text);
        if (!strstr(err.text, bad[i].words))
            fail_msg("\"%s\" lacks \"%s\"", err.text, bad[i].words);
    }
    bw_engine_free(e);
    fake.chat_template = "own";
    e = make_engine(64, 1, 16, 0);
    bw_engine_info(e, &info);
    assert_true(info.has_chat_template);
    assert_ok(bw_engine_render_chat(e, messages, NULL, true, &text, &err), err);
    assert_memory_equal(text.text, "own:", 4);
    bw_chat_text_free(&text);
    bw_engine_free(e);
    fake.chat_template = "!broken"; /* the model loads; the template is reported where it is used */
    e = make_engine(64, 1, 16, 0);
    assert_int_equal(bw_engine_render_chat(e, messages, NULL, true, &text, &err), BW_E_FORMAT);
    assert_non_null(strstr(err.text, "unexpected '!'"));
    bw_engine_free(e);
}

static int32_t count_prompt(bw_engine *e, const bw_request *request)
{
    static outcome o;
    run_request(e, request, &o);
    int32_t n = o.last.n_prompt_tokens;
    outcome_deinit(&o);
    return n;
}

/* Tokens of a conversation's prompt, where the model's template is this one (NULL: ChatML, here the text "chatml"). */
static int32_t count_chat(const char *template)
{
    bw_err err = {0};
    bw_chat_text chat;
    fake.chat_template = template;
    bw_engine *e = make_engine(512, 1, 16, 0);
    assert_ok(bw_engine_render_chat(e, "[{\"role\":\"user\",\"content\":\"Hi\"}]", NULL, true, &chat, &err), err);
    bw_request r = make_request(chat.text, 0);
    r.add_special = true;
    int32_t n = count_prompt(e, &r);
    r.add_special = false;
    int32_t n_bare = count_prompt(e, &r);
    assert_int_equal(n, n_bare + (template && strncmp(template, "<bos>", 5) == 0 ? 0 : 1));
    bw_chat_text_free(&chat);
    bw_engine_free(e);
    return n;
}

/* One BOS before a prompt whoever writes it, whatever way the prompt came; never one before token ids. */
static void one_bos(void **state)
{
    (void)state;
    static const struct {
        const char *prompt;
        bool add_special, parse_special;
        int32_t n;
    } rows[] = {
        {"hi", true, true, 3},
        {"<bos>hi", true, true, 3},
        {"hi", true, false, 3},
        {"<bos>hi", true, false, 8},
        /* it is text there */ {"", true, true, 1},
        {"<bos>", true, true, 1},
        {"hi", false, true, 2},
        {"<bos>hi", false, true, 3},
        {"hi<bos>", true, true, 4},
    };
    bw_engine *e = make_engine(64, 1, 16, 0);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        bw_request r = make_request(rows[i].prompt, 0);
        r.add_special = rows[i].add_special;
        r.parse_special = rows[i].parse_special;
        if (count_prompt(e, &r) != rows[i].n)
            fail_msg("'%s' (row %zu) has other than %d tokens", rows[i].prompt, i, (int)rows[i].n);
    }
    static const int32_t ids[] = {FAKE_BYTE + 'h', FAKE_BYTE + 'i'};
    bw_request r = make_request(NULL, 0);
    r.tokens = ids;
    r.n_tokens = 2;
    r.add_special = true;
    assert_int_equal(count_prompt(e, &r), 2);
    bw_engine_free(e);
    assert_int_equal(count_chat("own"), count_chat("<bos>own"));
    assert_int_equal(count_chat(NULL), count_chat("own") + 3);
}

static void defaults(void **state)
{
    (void)state;
    bw_request r;
    bw_request_init(&r);
    assert_int_equal(r.struct_size, sizeof r);
    assert_int_equal(r.max_tokens, 100);
    assert_true(r.add_special);
    assert_true(r.sampling.temperature == 1 && r.sampling.top_p == 1 && r.sampling.repetition_penalty == 1);
    assert_int_equal(r.n_logprobs, -1);
    bw_engine_options o;
    bw_engine_options_init(&o);
    assert_int_equal(o.struct_size, sizeof o);
    assert_null(o.model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(tokens_and_text, setup),
        cmocka_unit_test_setup(chat, setup),
        cmocka_unit_test_setup(one_bos, setup),
        cmocka_unit_test_setup(defaults, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
