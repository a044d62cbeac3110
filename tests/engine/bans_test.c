/* What a request forbids: ends before min_tokens, bad words, and tokens that end the text. */
#include "engine_harness.h"

#include "bw_mem.h"

static int setup(void **state)
{
    (void)state;
    fake_reset();
    return 0;
}

static void run_and_check(bw_engine *e, const bw_request *r, const char *text, bw_finish finish)
{
    outcome o;
    run_request(e, r, &o);
    if (strcmp(o.text.data ? o.text.data : "", text) != 0 || o.last.finish != finish)
        fail_msg("\"%s\" ended by %d, not \"%s\" by %d", o.text.data, o.last.finish, text, finish);
    outcome_deinit(&o);
}

static void least_tokens(void **state)
{
    (void)state;
    bw_engine *e = make_engine(64, 2, 0, 0);
    for (int32_t n = 0; n < 12; n += 2) {
        bw_request r = make_request("<script>abc<go>", 20);
        outcome o;
        r.min_tokens = n;
        run_request(e, &r, &o);
        assert_memory_equal(o.text.data, "abc", 3);
        if (n <= 3)
            assert_int_equal(o.n_tokens, 3); /* no more than it wants */
        else
            assert_true(o.n_tokens >= (size_t)n);
        for (size_t i = 0; i < o.n_tokens; i++)
            assert_true(o.tokens[i] != FAKE_EOS && o.tokens[i] != FAKE_TURN);
        outcome_deinit(&o);
    }
    bw_engine_free(e);
}

static void stop_tokens(void **state)
{
    (void)state;
    static const int32_t ends[] = {FAKE_BYTE + 'x', FAKE_BYTE + 'c'};
    bw_engine *e = make_engine(64, 2, 0, 0);
    bw_request r = make_request("<script>abcd<go>", 20);
    outcome o;
    r.stop_tokens = ends;
    r.n_stop_tokens = 2;
    run_request(e, &r, &o);
    assert_string_equal(o.text.data, "ab");
    assert_int_equal(o.last.finish, BW_FINISH_STOP);
    assert_null(o.last.stop_matched);
    assert_int_equal(o.last.n_generated_tokens, 2);
    outcome_deinit(&o);
    r.ignore_eos = true;
    run_and_check(e, &r, "ab", BW_FINISH_STOP);
    r.min_tokens = 3; /* holds them back as well */
    run_request(e, &r, &o);
    assert_memory_equal(o.text.data, "ab", 2);
    assert_true(o.n_tokens >= 3 && o.tokens[2] != FAKE_BYTE + 'c');
    outcome_deinit(&o);
    bw_engine_free(e);
}

static void bad_words(void **state)
{
    (void)state;
    bw_engine *e = make_engine(64, 2, 0, 0);
    bw_request r = make_request("<script>abc bc<go>", 20);
    const char *words[] = {"xc", "bcbc", ""};
    outcome o;
    r.bad_words = words;
    r.n_bad_words = 3;
    run_and_check(e, &r, "abc bc", BW_FINISH_EOS); /* none of them comes up */
    words[0] = " bc";                              /* the same as "bc" */
    run_request(e, &r, &o);
    assert_memory_equal(o.text.data, "ab", 2);
    for (size_t i = 1; i < o.n_tokens; i++)
        assert_false(o.tokens[i - 1] == FAKE_BYTE + 'b' && o.tokens[i] == FAKE_BYTE + 'c');
    outcome_deinit(&o);
    words[0] = "b";
    run_request(e, &r, &o);
    assert_int_equal(o.text.data[0], 'a');
    for (size_t i = 0; i < o.n_tokens; i++)
        assert_true(o.tokens[i] != FAKE_BYTE + 'b');
    outcome_deinit(&o);
    bw_engine_free(e);
}

/* A device that could choose gives whole rows to such a request, and only to such a one. */
static void device_gives_rows(void **state)
{
    (void)state;
    const char *const words[] = {"b"};
    fake.can_choose = true;
    fake.can_draw = true;
    fake.top_k = 8;
    bw_engine *e = make_engine(64, 2, 0, 0);
    bw_request r = make_request("<script>abc<go>", 6);
    run_and_check(e, &r, "abc", BW_FINISH_EOS);
    assert_int_equal(fake_get_counts().row_steps, 0);
    for (int temperature = 0; temperature < 2; temperature++) {
        outcome o;
        r.sampling.temperature = (float)temperature / 100;
        r.bad_words = words;
        r.n_bad_words = 1;
        int64_t rows = fake_get_counts().row_steps;
        run_request(e, &r, &o);
        assert_null(strchr(o.text.data, 'b'));
        assert_true(fake_get_counts().row_steps > rows);
        outcome_deinit(&o);
    }
    bw_engine_free(e);
}

static void refusals(void **state)
{
    (void)state;
    static const int32_t beyond[] = {FAKE_VOCAB};
    const char *const none[] = {"x"};
    int64_t live = bw_mem_live();
    bw_engine *e = make_engine(64, 2, 0, 0);
    bw_session *s;
    bw_err err = {0};
    bw_request r = make_request("a", 5);
    r.min_tokens = -1;
    assert_int_equal(bw_engine_submit(e, &r, &s, &err), BW_E_RANGE);
    assert_non_null(strstr(err.text, "min_tokens is -1"));
    r = make_request("a", 5);
    r.stop_tokens = beyond;
    r.n_stop_tokens = 1;
    assert_int_equal(bw_engine_submit(e, &r, &s, &err), BW_E_ARG);
    assert_non_null(strstr(err.text, "stop token 0 is"));
    r = make_request("a", 5);
    r.n_stop_tokens = 1;
    assert_int_equal(bw_engine_submit(e, &r, &s, &err), BW_E_ARG);
    r = make_request("a", 5);
    r.n_bad_words = 1;
    assert_int_equal(bw_engine_submit(e, &r, &s, &err), BW_E_ARG);
    /* a program that was compiled before these members were there */
    r = make_request("<script>ab<go>", 5);
    r.min_tokens = 5;
    r.bad_words = none;
    r.n_bad_words = 1;
    r.struct_size = offsetof(bw_request, min_tokens);
    run_and_check(e, &r, "ab", BW_FINISH_EOS);
    r = make_request("<script>ab<go>", 5);
    r.stop_tokens = (int32_t[]){3};
    r.n_stop_tokens = 1;
    r.bad_words = none;
    r.n_bad_words = 1;
    r.min_tokens = 1;
    bw_status status = BW_E_MEMORY;
    for (int64_t n = 1; status != BW_OK; n++) {
        bw_mem_fail_at(n);
        status = bw_engine_submit(e, &r, &s, &err);
        bw_mem_fail_at(0);
        assert_true(status == BW_OK || status == BW_E_MEMORY);
    }
    bw_session_free(s);
    bw_engine_free(e);
    assert_int_equal(bw_mem_live(), live);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(least_tokens, setup), cmocka_unit_test_setup(stop_tokens, setup),
        cmocka_unit_test_setup(bad_words, setup),    cmocka_unit_test_setup(device_gives_rows, setup),
        cmocka_unit_test_setup(refusals, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
