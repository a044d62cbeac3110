/* The n-th allocation fails, for every n of a load, a request and what else an engine does: a clear error or the right
 * result, nothing lost, and afterwards the same engine works. */
#include "engine_harness.h"

#include "bw_log.h"
#include "bw_mem.h"

static const char *const stop[] = {"xyz", "STOP"};

static bw_request full_request(void)
{
    static const bw_logit_bias bias[] = {{40, 0.5f}, {41, -1}};
    bw_request r = make_request("<script>The text, \xe2\x82\xac 5, goes on for a while. STOP not this<go>", 90);
    r.add_special = true;
    r.sampling.temperature = 0.1f;
    r.sampling.repetition_penalty = 1.05f;
    r.sampling.logit_bias = bias;
    r.sampling.n_logit_bias = 2;
    r.stop = stop;
    r.n_stop = 2;
    r.n_logprobs = 3;
    r.echo_logprobs = true;
    return r;
}

static void check_error(bw_status status, const bw_err *err)
{
    if (status != BW_E_MEMORY || !strstr(err->text, "no memory"))
        fail_msg("%s: %s", bw_status_name(status), err->text);
}

/* One request to its end. */
static void request(bw_engine *e)
{
    bw_session *s = NULL;
    bw_err err = {0};
    bw_request r = full_request();
    bw_status status = bw_engine_submit(e, &r, &s, &err);
    if (status != BW_OK) {
        check_error(status, &err);
        return;
    }
    size_t n_text = 0, n_prompt = 0;
    char text[128];
    bw_event event;
    for (;;) {
        assert_ok(bw_session_next(s, 60000, &event, &err), err);
        if (event.type == BW_EVENT_ERROR)
            check_error(err.status, &err);
        if (event.type == BW_EVENT_ERROR || event.type == BW_EVENT_END)
            break;
        if (event.type == BW_EVENT_TEXT) {
            assert_true(n_text + event.text_bytes < sizeof text);
            memcpy(text + n_text, event.text, event.text_bytes);
            n_text += event.text_bytes;
        } else {
            n_prompt++;
        }
    }
    text[n_text] = 0;
    if (event.type == BW_EVENT_END) {
        assert_string_equal(text, "The text, \xe2\x82\xac 5, goes on for a while. ");
        assert_int_equal(event.finish, BW_FINISH_STOP);
        assert_int_equal(n_prompt, (size_t)event.n_prompt_tokens);
    }
    bw_session_free(s);
}

static void other_uses(bw_engine *e)
{
    bw_err err = {0};
    int32_t *tokens = NULL;
    size_t n = 0;
    char *text = NULL;
    bw_status status = bw_engine_tokenize(e, "abc", 3, true, false, &tokens, &n, &err);
    if (status == BW_OK)
        status = bw_engine_detokenize(e, tokens, n, false, &text, NULL, &err);
    if (status != BW_OK)
        check_error(status, &err);
    bw_free(tokens);
    bw_free(text);
    bw_chat_text chat;
    status = bw_engine_render_chat(e, "[{\"role\":\"user\",\"content\":\"Hi\"}]", NULL, true, &chat, &err);
    if (status != BW_OK)
        check_error(status, &err);
    bw_chat_text_free(&chat);
}

static void every_allocation_fails_once(void **state)
{
    (void)state;
    fake_reset();
    bw_log_configure(BW_LOG_OFF, false);
    int64_t live = bw_mem_live();
    int64_t n = 1;
    bool reached = true;
    for (; reached; n++) {
        bw_engine_options o;
        bw_engine_options_init(&o);
        o.model = "fake.gguf";
        o.n_threads = 1;
        o.n_ctx = 256;
        bw_engine *e = NULL;
        bw_err err = {0};
        int64_t asked = bw_mem_count();
        bw_mem_fail_at(n);
        bw_status status = bw_engine_new(&o, &e, &err);
        if (status == BW_OK) {
            request(e);
            other_uses(e);
            reached = bw_mem_count() - asked >= n;
            bw_mem_fail_at(0);
            outcome out;
            bw_request r = full_request();
            run_request(e, &r, &out);
            assert_int_equal(out.last.finish, BW_FINISH_STOP);
            assert_string_equal(out.text.data, "The text, \xe2\x82\xac 5, goes on for a while. ");
            outcome_deinit(&out);
        } else {
            check_error(status, &err);
            assert_null(e);
        }
        bw_mem_fail_at(0);
        bw_engine_free(e);
        assert_int_equal(bw_mem_live(), live);
    }
    printf("%lld allocations failed in turn\n", (long long)(n - 2));
    assert_true(n > 40);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_allocation_fails_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
