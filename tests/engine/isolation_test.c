/* What goes wrong with one sequence ends that sequence, and nobody who shares its steps notices. */
#include "engine_harness.h"

#include "bw_mem.h"

enum { N_OTHERS = 7 };

static int setup(void **state)
{
    (void)state;
    fake_reset();
    return 0;
}

static bw_request make_sampled(int i)
{
    static char prompts[N_OTHERS + 1][80];
    snprintf(prompts[i], sizeof prompts[i], "request %d with a prompt that is longer than one page of the cache", i);
    bw_request r = make_request(prompts[i], 30);
    r.ignore_eos = true;
    r.sampling.has_seed = true;
    r.sampling.seed = (uint64_t)i;
    r.sampling.temperature = i % 2 ? 0.9f : 0;
    return r;
}

/* The texts of all, each alone on a model that fails nobody. */
static void run_alone(bool draws, bw_str texts[N_OTHERS])
{
    fake_reset();
    fake.can_draw = draws;
    bw_engine *e = make_engine(256, N_OTHERS + 1, 64, 0);
    for (int i = 0; i < N_OTHERS; i++) {
        bw_request r = make_sampled(i);
        outcome o;
        run_request(e, &r, &o);
        bw_str_clear(&texts[i]);
        bw_str_add_bytes(&texts[i], o.text.data, o.text.len);
        outcome_deinit(&o);
    }
    bw_engine_free(e);
}

/* All of them and one more, whose prompt holds the token that spoils steps. */
static void run_beside(bool draws, const bw_str texts[N_OTHERS], bw_status expected, const char *sentence)
{
    bw_engine *e = make_engine(256, N_OTHERS + 1, 64, 0);
    fake.can_draw = draws;
    fake.step_us = 1000;
    bw_session *s[N_OTHERS];
    for (int i = 0; i < N_OTHERS; i++) {
        bw_request r = make_sampled(i);
        s[i] = submit(e, &r);
    }
    bw_request bad = make_request("a text with <turn> in it, and more behind that", 30);
    for (int round = 0; round < 3; round++) {
        outcome o;
        run_request(e, &bad, &o);
        assert_int_equal(o.last.type, BW_EVENT_ERROR);
        assert_int_equal(o.err.status, expected);
        assert_non_null(strstr(o.err.text, sentence));
        outcome_deinit(&o);
    }
    for (int i = 0; i < N_OTHERS; i++) {
        outcome o;
        assert_true(read_all(s[i], &o));
        assert_int_equal(o.last.finish, BW_FINISH_LENGTH);
        assert_int_equal(o.n_tokens, 30);
        assert_string_equal(o.text.data, texts[i].data);
        outcome_deinit(&o);
        bw_session_free(s[i]);
    }
    bw_engine_stats stats;
    bw_engine_get_stats(e, &stats);
    assert_int_equal(stats.n_failed, 3);
    assert_int_equal(stats.n_completed, N_OTHERS);
    assert_int_equal(stats.kv_pages_used, 0);
    bw_engine_free(e);
}

/* Whatever a step fails with, whoever draws the tokens. */
static void one_spoils_steps(void **state)
{
    (void)state;
    static const bw_status statuses[] = {BW_E_ARG, BW_E_RANGE, BW_E_DEVICE, BW_E_INTERNAL, BW_E_MEMORY};
    int64_t live = bw_mem_live();
    for (int draws = 0; draws < 2; draws++) {
        bw_str texts[N_OTHERS] = {0};
        run_alone(draws, texts);
        for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++) {
            fake_reset();
            fake.poison_token = FAKE_TURN; /* one that the others do not come upon */
            fake.poison_status = statuses[i];
            run_beside(draws, texts, statuses[i], "cannot bear token");
        }
        for (int i = 0; i < N_OTHERS; i++)
            bw_str_deinit(&texts[i]);
    }
    assert_int_equal(bw_mem_live(), live);
}

/* Numbers that are not finite are those of one row. */
static void one_is_not_finite(void **state)
{
    (void)state;
    bw_engine *e = make_engine(256, 4, 64, 0);
    fake.step_us = 1000;
    fake.poison_token = FAKE_BYTE + 'Z';
    fake.poison_nan = true;
    bw_request good = make_request("<script>hello, this is longer than twelve tokens<go>", 20);
    bw_request bad = make_request("ends with Z", 20);
    bw_session *s[3];
    for (int i = 0; i < 3; i++)
        s[i] = submit(e, &good);
    outcome o;
    run_request(e, &bad, &o);
    assert_int_equal(o.err.status, BW_E_DEVICE);
    outcome_deinit(&o);
    for (int i = 0; i < 3; i++) {
        assert_true(read_all(s[i], &o));
        assert_string_equal(o.text.data, "hello, this is longe");
        outcome_deinit(&o);
        bw_session_free(s[i]);
    }
    bw_engine_free(e);
}

/* A step that fails once, and in its parts no more, costs nobody anything. */
static void one_step_fails(void **state)
{
    (void)state;
    bw_engine *e = make_engine(256, 2, 64, 0);
    fake.step_us = 10000; /* all four are submitted long before the step that fails */
    fake.fail_step = 12;
    bw_request r = make_request("<script>hello, this is longer than twelve tokens<go>", 20);
    bw_session *s[4];
    for (int i = 0; i < 4; i++)
        s[i] = submit(e, &r);
    for (int i = 0; i < 4; i++) {
        outcome o;
        assert_true(read_all(s[i], &o));
        assert_int_equal(o.last.finish, BW_FINISH_LENGTH);
        assert_string_equal(o.text.data, "hello, this is longe");
        outcome_deinit(&o);
        bw_session_free(s[i]);
    }
    assert_true(fake_get_counts().steps > 12);
    bw_engine_free(e);
}

/* Where memory is too small for a step, smaller ones are taken; where it is too small for one token, only that ends. */
static void little_memory(void **state)
{
    (void)state;
    bw_str texts[N_OTHERS] = {0};
    run_alone(false, texts);
    fake_reset();
    bw_engine *e = make_engine(256, N_OTHERS + 1, 64, 0);
    fake.most_tokens = 5;
    bw_session *s[N_OTHERS];
    for (int i = 0; i < N_OTHERS; i++) {
        bw_request r = make_sampled(i);
        s[i] = submit(e, &r);
    }
    for (int i = 0; i < N_OTHERS; i++) {
        outcome o;
        assert_true(read_all(s[i], &o));
        assert_int_equal(o.last.finish, BW_FINISH_LENGTH);
        assert_string_equal(o.text.data, texts[i].data);
        outcome_deinit(&o);
        bw_session_free(s[i]);
        bw_str_deinit(&texts[i]);
    }
    bw_engine_free(e);
}

/* A tokenizer that knows more tokens than the model: whose text becomes such a token is told so, and nobody else. */
static void tokens_beyond_the_model(void **state)
{
    (void)state;
    fake.n_vocab_pad = FAKE_BYTE + 128 - FAKE_VOCAB; /* of the tokenizer's tokens of one byte, those of ASCII */
    bw_engine *e = make_engine(256, 4, 64, 0);
    bw_request good = make_request("<script>hello<go>", 20), bad = make_request("caf\xc3\xa9", 20);
    bw_session *s = submit(e, &good), *none = NULL;
    bw_err err = {0};
    assert_int_equal(bw_engine_submit(e, &bad, &none, &err), BW_E_ARG);
    assert_null(none);
    assert_non_null(strstr(err.text, "token 211"));
    assert_non_null(strstr(err.text, "its tokenizer knows 296 tokens, its embedding 144"));
    int32_t tokens[] = {FAKE_BYTE, 144};
    bad.prompt = NULL;
    bad.tokens = tokens;
    bad.n_tokens = 2;
    assert_int_equal(bw_engine_submit(e, &bad, &none, &err), BW_E_ARG);
    assert_string_equal(err.text, "token 1 of the prompt is 144; the vocabulary has 144");
    outcome o;
    assert_true(read_all(s, &o));
    assert_string_equal(o.text.data, "hello");
    outcome_deinit(&o);
    bw_session_free(s);
    bw_engine_free(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(one_spoils_steps, setup),        cmocka_unit_test_setup(one_is_not_finite, setup),
        cmocka_unit_test_setup(one_step_fails, setup),          cmocka_unit_test_setup(little_memory, setup),
        cmocka_unit_test_setup(tokens_beyond_the_model, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
