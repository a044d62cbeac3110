/* The engine from end to end over the fake model: events, ends, limits, the queue, cancelling, closing. */
#include "engine_harness.h"

#include <math.h>
#include <stdatomic.h>

#include "bw_clock.h"
#include "bw_mem.h"

static int setup(void **state)
{
    (void)state;
    fake_reset();
    return 0;
}

static void generates_script(void **state)
{
    (void)state;
    int64_t live = bw_mem_live();
    bw_engine *e = make_engine(256, 2, 64, 0);
    bw_request r = make_request("<script>Good day\xe2\x82\xac.<go>", 50);
    outcome o;
    run_request(e, &r, &o);
    assert_string_equal(o.text.data, "Good day\xe2\x82\xac.");
    assert_int_equal(o.last.type, BW_EVENT_END);
    assert_int_equal(o.last.finish, BW_FINISH_EOS);
    assert_int_equal(o.last.n_generated_tokens, 12);
    assert_int_equal(o.last.n_prompt_tokens, 14);
    assert_int_equal(o.n_tokens, 12);
    assert_int_equal(o.n_events, 10); /* the three bytes of the euro sign come together */
    outcome_deinit(&o);
    r.max_tokens = 4;
    run_request(e, &r, &o);
    assert_string_equal(o.text.data, "Good");
    assert_int_equal(o.last.finish, BW_FINISH_LENGTH);
    outcome_deinit(&o);
    r.max_tokens = 0;
    run_request(e, &r, &o);
    assert_int_equal(o.text.len, 0);
    assert_int_equal(o.last.finish, BW_FINISH_LENGTH);
    assert_int_equal(o.last.n_generated_tokens, 0);
    outcome_deinit(&o);
    bw_engine_free(e);
    assert_int_equal(bw_mem_live(), live);
}

/* Where the device finds the largest logits, greedy requests get the same text, and whoever needs rows gets rows. */
static void device_chooses(void **state)
{
    (void)state;
    bw_str text[2] = {0};
    for (int chooses = 0; chooses < 2; chooses++) {
        fake_reset();
        fake.can_choose = chooses == 1;
        bw_engine *e = make_engine(64, 2, 0, 0);
        bw_request request = make_request("abc", 20);
        outcome o;
        run_request(e, &request, &o);
        bw_str_add(&text[chooses], o.text.data);
        assert_int_equal(o.n_tokens, 20);
        assert_true(isnan(o.logprobs[0]) != 0);
        outcome_deinit(&o);
        int64_t chosen = fake_get_counts().chosen_steps;
        assert_true(chooses == 1 ? chosen >= 20 : chosen == 0);
        request.n_logprobs = 1;
        run_request(e, &request, &o);
        assert_true(isnan(o.logprobs[0]) == 0);
        outcome_deinit(&o);
        request = make_request("abc", 20);
        request.sampling.repetition_penalty = 1.5f;
        run_request(e, &request, &o);
        outcome_deinit(&o);
        assert_int_equal(fake_get_counts().chosen_steps, chosen);
        bw_engine_free(e);
    }
    assert_string_equal(text[0].data, text[1].data);
    bw_str_deinit(&text[0]);
    bw_str_deinit(&text[1]);
    fake_reset();
}

/* One request's text; *top_steps: how many of its steps fetched candidates alone. */
static void top_k_text(int32_t top_k, int32_t device_top_k, float penalty, int n_logprobs, bw_str *text,
                       int64_t *top_steps)
{
    fake_reset();
    fake.can_choose = device_top_k > 0;
    fake.top_k = device_top_k;
    bw_engine *e = make_engine(64, 2, 0, 0);
    bw_request request = make_request("abc", 30);
    request.sampling.temperature = 1.5f;
    request.sampling.top_k = top_k;
    request.sampling.top_p = 0.95f;
    request.sampling.min_p = 0.01f;
    request.sampling.seed = 7;
    request.sampling.has_seed = true;
    request.sampling.repetition_penalty = penalty;
    request.n_logprobs = n_logprobs;
    request.ignore_eos = true;
    outcome o;
    run_request(e, &request, &o);
    assert_int_equal(o.n_tokens, 30);
    bw_str_clear(text);
    bw_str_add(text, o.text.data);
    *top_steps = fake_get_counts().top_steps;
    outcome_deinit(&o);
    bw_engine_free(e);
}

/* Where the device finds the first few logits, requests with top-k get the same text as from whole rows. */
static void device_finds_top_k(void **state)
{
    (void)state;
    static const int32_t top_ks[] = {1, 2, 5, 40, 41, 0, 1000};
    bw_str text[2] = {0};
    int64_t steps;
    for (size_t i = 0; i < sizeof top_ks / sizeof *top_ks; i++) {
        int32_t k = top_ks[i];
        top_k_text(k, 0, 1, -1, &text[0], &steps);
        assert_int_equal(steps, 0);
        top_k_text(k, 40, 1, -1, &text[1], &steps);
        if (k == 0 || k == 1000)
            assert_true(steps > 0); /* top-p alone: tried on the first few */
        else
            assert_true(k > 1 && k <= 40 ? steps >= 30 : steps == 0); /* of one the device knows the token */
        assert_string_equal(text[0].data, text[1].data);
    }
    top_k_text(40, 40, 1.2f, -1, &text[0], &steps);
    assert_int_equal(steps, 0);
    top_k_text(40, 40, 1, 3, &text[0], &steps);
    assert_int_equal(steps, 0);
    top_k_text(40, 40, 1, -1, &text[1], &steps);
    assert_string_equal(text[0].data, text[1].data);
    bw_str_deinit(&text[0]);
    bw_str_deinit(&text[1]);
    fake_reset();
}

/* A greedy request beside one with top-k takes the first of the candidates; numbers that are not finite are refused. */
static void device_finds_top_k_of_many(void **state)
{
    (void)state;
    fake.can_choose = true;
    fake.top_k = 40;
    bw_engine *e = make_engine(4096, 2, 0, 0);
    bw_request greedy = make_request("xyz", 20), other = make_request("abc", 3000);
    greedy.ignore_eos = other.ignore_eos = true;
    other.sampling.temperature = 1;
    other.sampling.top_k = 40;
    bw_session *session;
    bw_err err = {0};
    outcome alone, beside, broken;
    run_request(e, &greedy, &alone);
    assert_int_equal(fake_get_counts().top_steps, 0);
    fake.step_us = 1000; /* so that the other one is not done before */
    assert_ok(bw_engine_submit(e, &other, &session, &err), err);
    run_request(e, &greedy, &beside);
    assert_true(fake_get_counts().top_steps >= 19);
    assert_string_equal(alone.text.data, beside.text.data);
    bw_session_free(session);
    outcome_deinit(&alone);
    outcome_deinit(&beside);
    bw_engine_free(e);
    fake_reset();
    fake.top_k = 40;
    fake.nan_step = 2;
    e = make_engine(64, 2, 0, 0);
    other.max_tokens = 20;
    run_request(e, &other, &broken);
    assert_int_equal(broken.last.type, BW_EVENT_ERROR);
    outcome_deinit(&broken);
    bw_engine_free(e);
    fake_reset();
}

enum { MIXED = 8 };
static const bw_sampling mixed[MIXED] = {
    {.temperature = 1, .top_p = 1, .repetition_penalty = 1},
    {.temperature = 0, .top_p = 1, .repetition_penalty = 1},
    {.temperature = 1.3f, .top_p = 1, .min_p = 0.05f, .repetition_penalty = 1},
    {.temperature = 1, .top_p = 1, .repetition_penalty = 1}, /* with log-probabilities */
    {.temperature = 1, .top_p = 0.9f, .top_k = 30, .repetition_penalty = 1},
    {.temperature = 0.8f, .top_p = 0.95f, .repetition_penalty = 1.1f},
    {.temperature = 0.7f, .top_p = 0.7f, .repetition_penalty = 1},               /* the first few are enough */
    {.temperature = 6, .top_p = 0.95f, .min_p = 0.01f, .repetition_penalty = 1}, /* they are not */
};

/* n of them from `first` on, at the same time; their texts. */
static fake_counts run_mixed(bool device, int first, int n, bw_str *texts)
{
    bw_session *sessions[MIXED];
    fake_reset();
    fake.can_choose = fake.can_draw = device;
    fake.top_k = device ? 40 : 0;
    bw_engine *e = make_engine(256, MIXED, 0, 0);
    for (int i = first; i < first + n; i++) {
        bw_request r = make_request("abc", 30);
        r.sampling = mixed[i];
        r.sampling.seed = 40 + (uint64_t)i;
        r.sampling.has_seed = true;
        r.n_logprobs = i == 3 ? 2 : -1;
        r.ignore_eos = true;
        sessions[i] = submit(e, &r);
    }
    for (int i = first; i < first + n; i++) {
        outcome o;
        if (!read_all(sessions[i], &o))
            fail_msg("no event: %s", o.err.text);
        assert_int_equal(o.n_tokens, 30);
        assert_true((isnan(o.logprobs[0]) == 0) == (i == 3));
        bw_str_clear(&texts[i]);
        bw_str_add(&texts[i], o.text.data);
        outcome_deinit(&o);
        bw_session_free(sessions[i]);
    }
    fake_counts counts = fake_get_counts();
    bw_engine_free(e);
    fake_reset();
    return counts;
}

/* A device that is lost when a row is fetched after its step is lost for everybody. */
static void lost_between_steps(void **state)
{
    (void)state;
    fake_reset();
    fake.can_choose = fake.can_draw = fake.lost_fetch = true;
    fake.top_k = 40;
    bw_engine *e = make_engine(256, 2, 0, 0);
    bw_request greedy = make_request("abc", 30), r = make_request("abc", 30);
    r.sampling = mixed[7];
    greedy.ignore_eos = r.ignore_eos = true;
    bw_session *first = submit(e, &r), *second = submit(e, &greedy), *late;
    outcome o;
    read_all(first, &o);
    assert_string_equal(o.err.text, "lost while a row was fetched");
    outcome_deinit(&o);
    read_all(second, &o);
    assert_string_equal(o.err.text, "lost while a row was fetched");
    outcome_deinit(&o);
    bw_err err = {0};
    assert_int_equal(bw_engine_submit(e, &r, &late, &err), BW_E_LOST);
    bw_session_free(first);
    bw_session_free(second);
    bw_engine_free(e);
    fake_reset();
}

/* Requests that sample from everything, greedy ones, one with top-k and some that need rows, alone and in the same
 * steps: each gets the text that it gets alone from whole rows, and a step gives no more than is wanted of it. */
static void device_draws(void **state)
{
    (void)state;
    enum { NONE, ALL, ANY };
    static const struct {
        int first, n, chosen, drawn, top, rows; /* the last four: in how many steps this is wanted */
    } groups[] = {{0, 1, NONE, ALL, NONE, NONE}, {1, 1, ALL, NONE, NONE, NONE}, {2, 1, NONE, ALL, NONE, NONE},
                  {3, 1, NONE, NONE, NONE, ALL}, {4, 1, NONE, NONE, ALL, NONE}, {5, 1, NONE, NONE, NONE, ALL},
                  {0, 2, ANY, ALL, NONE, NONE},  {0, 3, ANY, ALL, NONE, NONE},  {1, 2, ANY, ALL, NONE, NONE},
                  {2, 2, NONE, ALL, NONE, ALL},  {6, 1, NONE, NONE, ALL, NONE}, {7, 1, NONE, NONE, ANY, ANY},
                  {6, 2, NONE, NONE, ANY, ANY},  {4, 3, NONE, NONE, ANY, ALL},  {0, 8, ANY, ALL, ANY, ALL}};
    bw_str alone[MIXED] = {{0}}, texts[MIXED] = {{0}};
    for (int i = 0; i < MIXED; i++) {
        fake_counts c = run_mixed(false, i, 1, alone);
        assert_true(c.drawn_steps == 0 && c.top_steps == 0 && c.chosen_steps == 0 && c.row_steps >= 30);
    }
    for (size_t g = 0; g < sizeof groups / sizeof *groups; g++) {
        fake_counts c = run_mixed(true, groups[g].first, groups[g].n, texts);
        for (int i = groups[g].first; i < groups[g].first + groups[g].n; i++)
            assert_string_equal(texts[i].data, alone[i].data);
        const int want[4] = {groups[g].chosen, groups[g].drawn, groups[g].top, groups[g].rows};
        const int64_t got[4] = {c.chosen_steps, c.drawn_steps, c.top_steps, c.row_steps};
        for (int k = 0; k < 4; k++)
            if (want[k] == NONE ? got[k] != 0 : want[k] == ALL && got[k] < 30)
                fail_msg("group %zu: %lld steps give result %d", g, (long long)got[k], k);
        if (groups[g].n == 1) /* a row that is fetched afterwards, then eight that are wanted at once */
            assert_true(groups[g].first == 7 ? c.top_steps == 4 && c.fetched_rows == 4 && c.row_steps >= 26
                                             : c.fetched_rows == 0);
    }
    assert_string_not_equal(alone[0].data, alone[1].data);
    for (int i = 0; i < MIXED; i++) {
        bw_str_deinit(&alone[i]);
        bw_str_deinit(&texts[i]);
    }
}

/* Rows that are not finite. */
static void device_draws_nothing(void **state)
{
    (void)state;
    fake_reset();
    fake.can_draw = true;
    fake.nan_step = 2;
    bw_engine *e = make_engine(64, 2, 0, 0);
    bw_request r = make_request("abc", 20);
    r.sampling.temperature = 1;
    outcome o;
    run_request(e, &r, &o);
    assert_int_equal(o.last.type, BW_EVENT_ERROR);
    outcome_deinit(&o);
    bw_engine_free(e);
    fake_reset();
}

static void stop_strings(void **state)
{
    (void)state;
    bw_engine *e = make_engine(256, 2, 64, 0);
    static const struct {
        const char *script, *stop[3], *text, *matched;
    } cases[] = {
        {"one two STOP three", {"STOP"}, "one two ", "STOP"},
        {"one STO two", {"STOP"}, "one STO two", NULL},
        {"abcde", {"bcd", "abcde"}, "a", "bcd"},
        {"xabcd", {"cd", "bcd"}, "xa", "bcd"},
        {"aaaab", {"aab"}, "aa", "aab"},
        {"price 5\xe2\x82\xac!", {"\xe2\x82\xac"}, "price 5", "\xe2\x82\xac"},
        {"end <en", {"<end>"}, "end <en", NULL},
        {"x\n\ny", {"\n\n"}, "x", "\n\n"},
        {"stop", {"stop"}, "", "stop"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char prompt[128];
        snprintf(prompt, sizeof prompt, "<script>%s<go>", cases[i].script);
        bw_request r = make_request(prompt, 100);
        r.stop = cases[i].stop;
        while (r.n_stop < 3 && cases[i].stop[r.n_stop])
            r.n_stop++;
        outcome o;
        run_request(e, &r, &o);
        assert_string_equal(o.text.data, cases[i].text);
        assert_int_equal(o.last.finish, cases[i].matched ? BW_FINISH_STOP : BW_FINISH_EOS);
        assert_string_equal(o.stop, cases[i].matched ? cases[i].matched : "");
        outcome_deinit(&o);
    }
    bw_engine_free(e);
}

static void end_tokens(void **state)
{
    (void)state;
    bw_engine *e = make_engine(256, 2, 64, 0);
    bw_request r = make_request("<script>ab<turn>cd<go>", 5);
    outcome o;
    run_request(e, &r, &o);
    assert_string_equal(o.text.data, "ab");
    assert_int_equal(o.last.finish, BW_FINISH_EOS);
    assert_int_equal(o.last.n_generated_tokens, 2);
    outcome_deinit(&o);
    r.ignore_eos = true;
    run_request(e, &r, &o);
    assert_string_equal(o.text.data, "abcd"); /* control tokens have no text */
    assert_int_equal(o.last.finish, BW_FINISH_LENGTH);
    assert_int_equal(o.n_tokens, 5);
    outcome_deinit(&o);
    bw_engine_free(e);
}

/* A model's table may be longer than the tokenizer's vocabulary: such a token has no text, and is no reason to fail. */
static void padding_tokens(void **state)
{
    (void)state;
    fake.n_vocab_pad = 8;
    bw_engine *e = make_engine(256, 1, 64, 0);
    bw_logit_bias bias[] = {{FAKE_VOCAB + 7, 1000}};
    bw_request r = make_request("hello", 6);
    r.sampling.logit_bias = bias;
    r.sampling.n_logit_bias = 1;
    r.n_logprobs = 1;
    r.echo_logprobs = true;
    outcome o;
    run_request(e, &r, &o);
    assert_int_equal(o.last.type, BW_EVENT_END);
    assert_int_equal(o.last.finish, BW_FINISH_LENGTH);
    assert_int_equal(o.n_tokens, 6);
    assert_int_equal(o.tokens[5], FAKE_VOCAB + 7);
    assert_string_equal(o.text.data, "");
    outcome_deinit(&o);
    int32_t prompt[] = {FAKE_BYTE + 'a', FAKE_VOCAB + 7, FAKE_BYTE + 'b'};
    r.prompt = NULL;
    r.tokens = prompt;
    r.n_tokens = 3;
    run_request(e, &r, &o);
    assert_int_equal(o.last.finish, BW_FINISH_LENGTH);
    assert_string_equal(o.prompt.data, "ab");
    outcome_deinit(&o);
    bw_engine_free(e);
}

static void refusals(void **state)
{
    (void)state;
    bw_engine *e = make_engine(64, 2, 64, 0);
    bw_session *s = (bw_session *)&s;
    bw_err err = {0};
    static const int32_t outside[] = {20, 5000};
    static const char *empty_stop[] = {""}, *bad_stop[] = {"\xff"};
    static const bw_logit_bias bias[] = {{9999, 1}}, nan_bias[] = {{20, NAN}};
    char long_prompt[80];
    memset(long_prompt, 'x', sizeof long_prompt);
    long_prompt[65] = 0;
#define REFUSED(change, status, words)                                                                                 \
    do {                                                                                                               \
        bw_request r = make_request("hello", 5);                                                                       \
        change;                                                                                                        \
        assert_int_equal(bw_engine_submit(e, &r, &s, &err), status);                                                   \
        assert_null(s);                                                                                                \
        if (!strstr(err.text, words))                                                                                  \
            fail_msg("\"%s\" lacks \"%s\"", err.text, words);                                                          \
    } while (0)
    int64_t live = bw_mem_live();
    REFUSED(r.struct_size = 0, BW_E_ARG, "struct_size");
    REFUSED(r.prompt = NULL, BW_E_ARG, "neither");
    REFUSED(r.prompt = "", BW_E_ARG, "no tokens");
    REFUSED(r.prompt = long_prompt, BW_E_RANGE, "65 tokens; the context holds 64");
    REFUSED((long_prompt[64] = 0, r.prompt = long_prompt), BW_E_RANGE, "no room");
    REFUSED((r.prompt = NULL, r.tokens = outside, r.n_tokens = 2), BW_E_ARG, "token 1 of the prompt is 5000");
    char *far_too_long = bw_alloc(100000);
    memset(far_too_long, 'x', 100000);
    REFUSED((r.prompt = far_too_long, r.prompt_bytes = 100000), BW_E_RANGE,
            "more than 64 tokens (100000 bytes); the context holds 64");
    bw_free(far_too_long);
    REFUSED(r.max_tokens = -1, BW_E_RANGE, "max_tokens is -1");
    REFUSED(r.n_logprobs = 21, BW_E_RANGE, "n_logprobs is 21");
    REFUSED(r.sampling.temperature = -1, BW_E_RANGE, "temperature is -1");
    REFUSED(r.sampling.temperature = NAN, BW_E_RANGE, "temperature");
    REFUSED(r.sampling.top_p = -0.1f, BW_E_RANGE, "top_p");
    REFUSED(r.sampling.top_p = 1.5f, BW_E_RANGE, "top_p");
    REFUSED(r.sampling.min_p = -0.5f, BW_E_RANGE, "min_p");
    REFUSED(r.sampling.top_k = -1, BW_E_RANGE, "top_k");
    REFUSED(r.sampling.repetition_penalty = 0, BW_E_RANGE, "repetition_penalty");
    REFUSED(r.sampling.frequency_penalty = INFINITY, BW_E_RANGE, "frequency_penalty");
    REFUSED(r.sampling.presence_penalty = NAN, BW_E_RANGE, "presence_penalty");
    REFUSED(r.sampling.repeat_last_n = -2, BW_E_RANGE, "repeat_last_n");
    REFUSED((r.sampling.logit_bias = bias, r.sampling.n_logit_bias = 1), BW_E_ARG, "token 9999");
    REFUSED((r.sampling.logit_bias = nan_bias, r.sampling.n_logit_bias = 1), BW_E_RANGE, "logit_bias of token 20");
    REFUSED(r.sampling.n_logit_bias = 1, BW_E_ARG, "logit_bias is NULL");
    REFUSED((r.stop = empty_stop, r.n_stop = 1), BW_E_ARG, "stop string 0 is empty");
    REFUSED((r.stop = bad_stop, r.n_stop = 1), BW_E_ARG, "not valid UTF-8");
    REFUSED(r.n_stop = 1, BW_E_ARG, "stop is NULL");
    REFUSED((r.stop = bad_stop, r.n_stop = 65), BW_E_RANGE, "65 stop strings");
    assert_int_equal(bw_mem_live(), live);
    bw_engine_stats stats;
    bw_engine_get_stats(e, &stats);
    assert_int_equal(stats.n_rejected, 26);
    assert_int_equal(stats.n_requests, 0);
    /* and what just fits is taken */
    bw_request r = make_request(long_prompt, 0);
    outcome o;
    run_request(e, &r, &o);
    assert_int_equal(o.last.finish, BW_FINISH_LENGTH);
    outcome_deinit(&o);
    long_prompt[63] = 0;
    r = make_request(long_prompt, 5);
    r.ignore_eos = true;
    run_request(e, &r, &o);
    assert_int_equal(o.last.n_generated_tokens, 1);
    outcome_deinit(&o);
    /* both ends of top_p are allowed; 0 leaves the likeliest token, whatever the temperature */
    r = make_request("<script>abc<go>", 3);
    r.sampling.temperature = 50;
    r.sampling.top_p = 0;
    run_request(e, &r, &o);
    assert_string_equal(o.text.data, "abc");
    outcome_deinit(&o);
    bw_engine_free(e);
}

static void bad_options(void **state)
{
    (void)state;
    bw_engine_options o;
    bw_engine *e = NULL;
    bw_err err = {0};
    int64_t live = bw_mem_live();
#define REFUSED_OPTION(change, status, words)                                                                          \
    do {                                                                                                               \
        bw_engine_options_init(&o);                                                                                    \
        o.model = "fake.gguf";                                                                                         \
        change;                                                                                                        \
        e = (bw_engine *)&e;                                                                                           \
        assert_int_equal(bw_engine_new(&o, &e, &err), status);                                                         \
        assert_null(e);                                                                                                \
        if (!strstr(err.text, words))                                                                                  \
            fail_msg("\"%s\" lacks \"%s\"", err.text, words);                                                          \
    } while (0)
    REFUSED_OPTION(o.struct_size = 4, BW_E_ARG, "struct_size");
    REFUSED_OPTION(o.model = NULL, BW_E_ARG, "no model");
    REFUSED_OPTION(o.n_parallel = 65, BW_E_RANGE, "n_parallel is 65");
    REFUSED_OPTION(o.n_queue = -1, BW_E_RANGE, "n_queue is -1");
    REFUSED_OPTION(o.n_batch = 3, BW_E_RANGE, "n_batch is 3; it must be at least n_parallel, which is 4");
    REFUSED_OPTION(o.n_ctx = -2, BW_E_RANGE, "n_ctx is -2");
    REFUSED_OPTION(o.kv_tokens = -5, BW_E_RANGE, "kv_tokens is -5");
    REFUSED_OPTION(o.kv_dtype = 3, BW_E_RANGE, "kv_dtype is 3");
    REFUSED_OPTION(o.n_threads = 1000, BW_E_RANGE, "n_threads is 1000");
    REFUSED_OPTION(o.device = "tpu:0", BW_E_NOT_FOUND, "tpu:0");
    REFUSED_OPTION(fake.fail_open = true, BW_E_IO, "fake.gguf");
    fake.fail_open = false;
    fake.fail_step = 1;
    REFUSED_OPTION((void)0, BW_E_DEVICE, "step 1"); /* the warm-up */
    assert_int_equal(bw_mem_live(), live);
    /* a device that came open goes with the refused engine, sooner or later in its making */
    fake_reset();
    REFUSED_OPTION(assert_ok(bw_device_open("cpu:0", 1, &o.opened, &err), err);
                   o.n_ctx = -2, BW_E_RANGE, "n_ctx is -2");
    REFUSED_OPTION(assert_ok(bw_device_open("cpu:0", 1, &o.opened, &err), err);
                   fake.fail_open = true, BW_E_IO, "fake.gguf");
    fake_reset();
    for (int64_t n = 1; n <= 3; n++) {
        bw_engine_options_init(&o);
        o.model = "fake.gguf";
        assert_ok(bw_device_open("cpu:0", 1, &o.opened, &err), err);
        bw_mem_fail_at(n);
        assert_int_equal(bw_engine_new(&o, &e, &err), BW_E_MEMORY);
        bw_mem_fail_at(0);
        assert_int_equal(bw_mem_live(), live);
    }
}

/* An engine takes a device that is open and opens no other. */
static void opened_device(void **state)
{
    (void)state;
    bw_err err = {0};
    bw_engine_options o;
    bw_engine *e;
    int64_t live = bw_mem_live();
    bw_engine_options_init(&o);
    o.model = "fake.gguf";
    o.device = "tpu:0"; /* what nobody could open */
    o.n_threads = 1;
    assert_ok(bw_device_open("cpu:0", 2, &o.opened, &err), err);
    assert_ok(bw_engine_new(&o, &e, &err), err);
    bw_model_info info;
    bw_engine_info(e, &info);
    assert_int_equal(info.n_threads, 2);
    bw_request request = make_request("abc", 5);
    outcome out;
    run_request(e, &request, &out);
    assert_int_equal(out.n_tokens, 5);
    outcome_deinit(&out);
    bw_engine_free(e);
    assert_int_equal(bw_mem_live(), live);
}

/* A long one that cannot end by itself. */
static bw_request endless(void)
{
    bw_request r = make_request("go on", 100000);
    r.ignore_eos = true;
    return r;
}

static void wait_running(bw_engine *e, int32_t n)
{
    bw_engine_stats stats;
    for (int i = 0; i < 5000; i++) {
        bw_engine_get_stats(e, &stats);
        if (stats.n_running == n)
            return;
        bw_clock_sleep_ms(1);
    }
    fail_msg("%d sessions run instead of %d", stats.n_running, n);
}

static void queue_and_cancel(void **state)
{
    (void)state;
    bw_engine_options options;
    bw_engine_options_init(&options);
    options.model = "fake.gguf";
    options.n_parallel = 2;
    options.n_queue = 3;
    options.n_ctx = 4096;
    fake.step_us = 2000;
    bw_engine *e = NULL;
    bw_err err = {0};
    assert_ok(bw_engine_new(&options, &e, &err), err);
    bw_session *s[6] = {0};
    bw_request r = endless();
    for (int i = 0; i < 5; i++)
        s[i] = submit(e, &r);
    assert_int_equal(bw_engine_submit(e, &r, &s[5], &err), BW_E_FULL);
    assert_non_null(strstr(err.text, "full"));
    wait_running(e, 2);
    bw_event event;
    assert_ok(bw_session_next(s[1], 10000, &event, &err), err);
    bw_engine_stats stats;
    bw_engine_get_stats(e, &stats);
    assert_int_equal(stats.n_waiting, 3);
    assert_int_equal(stats.kv_pages_used, 2);
    assert_int_equal(bw_session_next(s[4], 0, &event, &err), BW_E_TIMEOUT);
    int64_t began = bw_clock_now_ns();
    assert_int_equal(bw_session_next(s[4], 60, &event, &err), BW_E_TIMEOUT);
    assert_true(bw_clock_now_ns() - began >= 59000000);
    bw_session_cancel(s[3]); /* waiting */
    outcome o;
    assert_true(read_all(s[3], &o));
    assert_int_equal(o.last.finish, BW_FINISH_CANCELLED);
    assert_int_equal(o.last.n_generated_tokens, 0);
    outcome_deinit(&o);
    assert_int_equal(bw_session_next(s[3], -1, &event, &err), BW_E_CLOSED);
    bw_session_cancel(s[0]); /* running */
    assert_true(read_all(s[0], &o));
    assert_int_equal(o.last.type, BW_EVENT_END);
    assert_int_equal(o.last.finish, BW_FINISH_CANCELLED);
    outcome_deinit(&o);
    bw_session_free(s[1]); /* free while it runs: its place goes to the next */
    s[1] = NULL;
    bw_session_cancel(s[2]);
    bw_session_cancel(s[4]);
    assert_true(read_all(s[2], &o));
    outcome_deinit(&o);
    assert_true(read_all(s[4], &o));
    outcome_deinit(&o);
    wait_running(e, 0);
    bw_engine_get_stats(e, &stats);
    assert_int_equal(stats.n_cancelled, 5);
    assert_int_equal(stats.n_rejected, 1);
    assert_int_equal(stats.kv_pages_used, 0);
    for (int i = 0; i < 5; i++)
        bw_session_free(s[i]);
    bw_engine_free(e);
}

static void close_with_sessions(void **state)
{
    (void)state;
    int64_t live = bw_mem_live();
    bw_engine *e = make_engine(4096, 1, 64, 0);
    fake.step_us = 1000;
    bw_request r = endless();
    bw_session *runs = submit(e, &r), *waits = submit(e, &r);
    bw_event event;
    bw_err err = {0};
    assert_ok(bw_session_next(runs, 10000, &event, &err), err);
    bw_engine_free(e);
    assert_int_equal(event.type, BW_EVENT_TEXT); /* still there */
    assert_int_equal(strlen(event.text), event.text_bytes);
    while (bw_session_next(runs, -1, &event, &err) == BW_OK)
        ;
    assert_int_equal(err.status, BW_E_CLOSED);
    assert_int_equal(bw_session_next(waits, -1, &event, &err), BW_E_CLOSED);
    assert_int_equal(bw_session_next(waits, 0, &event, &err), BW_E_CLOSED);
    bw_session_free(runs);
    bw_session_cancel(waits);
    bw_session_free(waits);
    bw_engine_free(NULL);
    bw_session_free(NULL);
    assert_int_equal(bw_mem_live(), live);
}

typedef struct notified {
    _Atomic int calls;
    _Atomic(bw_session *) free_this;
    _Atomic int missing;
} notified;

static void on_notify(void *user)
{
    notified *n = user;
    bw_session *s = atomic_exchange(&n->free_this, NULL);
    atomic_fetch_add(&n->calls, 1);
    bw_session_free(s);
}

static void notifies(void **state)
{
    (void)state;
    int64_t live = bw_mem_live();
    bw_engine *e = make_engine(4096, 2, 64, 0);
    notified n = {0};
    bw_request r = make_request("<script>hello<go>", 20);
    r.notify = on_notify;
    r.notify_user = &n;
    bw_session *s = submit(e, &r);
    for (int i = 0; i < 5000 && n.calls < 6; i++)
        bw_clock_sleep_ms(1);
    assert_int_equal(n.calls, 6); /* five pieces of text and the end */
    outcome o;
    assert_true(read_all(s, &o));
    assert_string_equal(o.text.data, "hello");
    outcome_deinit(&o);
    bw_session_free(s);
    /* freeing the session from within notify, on the engine's thread */
    fake.step_us = 2000;
    r = endless();
    r.notify = on_notify;
    r.notify_user = &n;
    n.calls = 0;
    s = submit(e, &r);
    atomic_store(&n.free_this, s);
    for (int i = 0; i < 5000 && n.calls < 1; i++)
        bw_clock_sleep_ms(1);
    wait_running(e, 0);
    assert_true(n.calls >= 1); /* more, when it was called before it knew what to free */
    /* never after free has returned */
    s = submit(e, &r);
    bw_session_free(s);
    int before = n.calls;
    wait_running(e, 0);
    bw_clock_sleep_ms(20);
    assert_int_equal(n.calls, before);
    bw_engine_free(e);
    assert_int_equal(bw_mem_live(), live);
}

static void failing_step(void **state)
{
    (void)state;
    bw_engine *e = make_engine(256, 2, 64, 0);
    bw_request r = make_request("<script>hello and more, so that there are whole pages to reuse<go>", 5);
    outcome o;
    for (int mode = 0; mode < 2; mode++) {
        *(mode ? &fake.nan_step : &fake.fail_step) = fake_get_counts().steps + 3;
        run_request(e, &r, &o);
        assert_int_equal(o.last.type, BW_EVENT_ERROR);
        assert_int_equal(o.last.finish, BW_FINISH_ERROR);
        assert_int_equal(o.err.status, BW_E_DEVICE);
        assert_non_null(strstr(o.err.text, mode ? "token 7" : "failed in step"));
        assert_string_equal(o.text.data, "he");
        outcome_deinit(&o);
        run_request(e, &r, &o);
        assert_int_equal(o.last.finish, BW_FINISH_LENGTH);
        assert_string_equal(o.text.data, "hello");
        assert_int_equal(o.last.n_cached_tokens, 0); /* nothing that took part in the failure is used again */
        outcome_deinit(&o);
        run_request(e, &r, &o);
        assert_string_equal(o.text.data, "hello");
        assert_true(o.last.n_cached_tokens > 32);
        outcome_deinit(&o);
    }
    bw_engine_stats stats;
    bw_engine_get_stats(e, &stats);
    assert_int_equal(stats.n_failed, 2);
    assert_int_equal(stats.n_completed, 4);
    assert_int_equal(stats.kv_pages_used, 0);
    bw_engine_free(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(generates_script, setup),
        cmocka_unit_test_setup(stop_strings, setup),
        cmocka_unit_test_setup(end_tokens, setup),
        cmocka_unit_test_setup(refusals, setup),
        cmocka_unit_test_setup(padding_tokens, setup),
        cmocka_unit_test_setup(bad_options, setup),
        cmocka_unit_test_setup(queue_and_cancel, setup),
        cmocka_unit_test_setup(close_with_sessions, setup),
        cmocka_unit_test_setup(notifies, setup),
        cmocka_unit_test_setup(failing_step, setup),
        cmocka_unit_test_setup(device_chooses, setup),
        cmocka_unit_test_setup(opened_device, setup),
        cmocka_unit_test_setup(device_finds_top_k, setup),
        cmocka_unit_test_setup(device_finds_top_k_of_many, setup),
        cmocka_unit_test_setup(device_draws, setup),
        cmocka_unit_test_setup(lost_between_steps, setup),
        cmocka_unit_test_setup(device_draws_nothing, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
