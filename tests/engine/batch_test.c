/* Batching, paging, prefix reuse and preemption must not show in what is generated: every result is held against one
 * computed token by token without an engine. */
#include "engine_harness.h"

#include <math.h>

#include "bw_clock.h"
#include "bw_mem.h"
#include "bw_rng.h"
#include "bw_sampler.h"

static int setup(void **state)
{
    (void)state;
    fake_reset();
    return 0;
}

/* Prompt i: a common beginning of `common` tokens, then own ones. */
static int32_t make_prompt(int32_t *tokens, int32_t n, int32_t common, uint64_t seed)
{
    bw_rng rng;
    for (int32_t i = 0; i < n; i++) {
        if (i == 0 || i == common)
            bw_rng_init(&rng, i < common ? 999 : seed + 1);
        tokens[i] = FAKE_BYTE + (int32_t)bw_rng_below(&rng, FAKE_VOCAB - FAKE_BYTE);
    }
    return n;
}

/* What must come out: tokens up to EOS or n. */
static int32_t expect(const bw_request *r, int32_t *out)
{
    static int32_t history[8192];
    static float row[FAKE_VOCAB];
    bw_sample_scratch scratch;
    bw_sampler sampler;
    bw_err err = {0};
    int32_t n = (int32_t)r->n_tokens, made = 0;
    memcpy(history, r->tokens, r->n_tokens * sizeof *history);
    assert_ok(bw_sample_scratch_init(&scratch, FAKE_VOCAB, &err), err);
    assert_ok(bw_sampler_init(&sampler, &r->sampling, FAKE_VOCAB, n + r->max_tokens, &err), err);
    for (int32_t i = 1; i <= n; i++)
        bw_sampler_accept(&sampler, history, i, n);
    while (made < r->max_tokens) {
        bw_sample sample;
        fake_logits(history, n, FAKE_VOCAB, row);
        assert_ok(bw_sampler_sample(&sampler, &scratch, row, -1, &sample, &err), err);
        if (!r->ignore_eos && (sample.token == FAKE_EOS || sample.token == FAKE_TURN))
            break;
        out[made++] = history[n++] = sample.token;
        bw_sampler_accept(&sampler, history, n, (int32_t)r->n_tokens);
    }
    bw_sampler_deinit(&sampler);
    bw_sample_scratch_deinit(&scratch);
    return made;
}

enum { N = 24 };
static int32_t prompts[N][600];
static bw_request requests[N];
static bw_session *sessions[N];
static outcome outcomes[N];

static void make_requests(int32_t n, int32_t least, int32_t most, int32_t common, int32_t n_generate)
{
    for (int32_t i = 0; i < n; i++) {
        int32_t length = least + (most - least) * i / n;
        bw_request r = make_request(NULL, n_generate + i % 5);
        r.tokens = prompts[i];
        r.n_tokens = (size_t)make_prompt(prompts[i], length, common, (uint64_t)i);
        if (i % 2) {
            r.sampling.temperature = 0.9f;
            r.sampling.top_k = i % 4 == 1 ? 40 : 0;
            r.sampling.top_p = 0.95f;
            r.sampling.has_seed = true;
            r.sampling.seed = (uint64_t)i * 77;
            r.sampling.repetition_penalty = 1.1f;
            r.sampling.repeat_last_n = 64;
        }
        requests[i] = r;
    }
}

static void check_all(bw_engine *e, int32_t n)
{
    static int32_t wanted[4096];
    for (int32_t i = 0; i < n; i++)
        sessions[i] = submit(e, &requests[i]);
    for (int32_t i = 0; i < n; i++) {
        if (!read_all(sessions[i], &outcomes[i]) || outcomes[i].last.type != BW_EVENT_END)
            fail_msg("session %d: %s", i, outcomes[i].err.text);
        int32_t made = expect(&requests[i], wanted);
        assert_int_equal(outcomes[i].n_tokens, made);
        assert_memory_equal(outcomes[i].tokens, wanted, (size_t)made * sizeof *wanted);
        assert_int_equal(outcomes[i].last.n_generated_tokens, made);
        bw_session_free(sessions[i]);
    }
}

static void free_outcomes(int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        outcome_deinit(&outcomes[i]);
}

static void batched_equals_alone(void **state)
{
    (void)state;
    bw_engine *e = make_engine(1024, 8, 64, 0);
    make_requests(N, 3, 400, 0, 40);
    check_all(e, N);
    free_outcomes(N);
    fake_counts c = fake_get_counts();
    assert_int_equal(c.max_batch_tokens, 64);
    assert_int_equal(c.max_seqs, 8);
    assert_true(c.mixed_steps > 20); /* generation went on beside prompts */
    bw_engine_stats stats;
    bw_engine_get_stats(e, &stats);
    assert_int_equal(stats.n_completed, N);
    assert_int_equal(stats.kv_pages_used, 0);
    assert_int_equal(stats.n_steps, c.steps);
    bw_engine_free(e);
}

static void prompts_share_the_batch(void **state)
{
    (void)state;
    /* a short prompt beside a long one: it must not wait for the long one's end */
    bw_engine *e = make_engine(4096, 2, 32, 0);
    fake.step_us = 2000;
    static int32_t long_prompt[3000], short_prompt[20];
    bw_request big = make_request(NULL, 1), small = make_request(NULL, 1);
    big.tokens = long_prompt;
    big.n_tokens = (size_t)make_prompt(long_prompt, 3000, 0, 1);
    small.tokens = short_prompt;
    small.n_tokens = (size_t)make_prompt(short_prompt, 20, 0, 2);
    bw_session *a = submit(e, &big), *b = submit(e, &small);
    outcome o;
    assert_true(read_all(b, &o));
    assert_int_equal(o.last.type, BW_EVENT_END);
    outcome_deinit(&o);
    assert_true(fake_get_counts().steps < 40); /* the long one takes 94 at least */
    assert_true(read_all(a, &o));
    outcome_deinit(&o);
    bw_session_free(a);
    bw_session_free(b);
    bw_engine_free(e);
}

static void prefixes_are_reused(void **state)
{
    (void)state;
    bw_engine *e = make_engine(1024, 4, 128, 4096);
    make_requests(8, 300, 301, 280, 20);
    check_all(e, 1);
    assert_int_equal(outcomes[0].last.n_cached_tokens, 0);
    free_outcomes(1);
    make_requests(8, 300, 301, 280, 20);
    check_all(e, 8);
    /* the very same prompt: all but the last token; the others: 280 common ones, 8 whole pages and 24 tokens copied */
    assert_int_equal(outcomes[0].last.n_cached_tokens, 299);
    for (int i = 1; i < 8; i++)
        assert_int_equal(outcomes[i].last.n_cached_tokens, 280);
    free_outcomes(8);
    assert_true(fake_get_counts().copies >= 8);
    bw_engine_stats stats;
    bw_engine_get_stats(e, &stats);
    assert_int_equal(stats.n_cached_tokens, 299 + 7 * 280);
    assert_int_equal(stats.n_prompt_tokens, 300 + 1 + 7 * 20);
    /* the next turn of a conversation: prompt, answer, and more */
    static int32_t turn[600];
    bw_request r = requests[1];
    check_all(e, 2);
    memcpy(turn, r.tokens, r.n_tokens * sizeof *turn);
    size_t n = r.n_tokens, made = outcomes[1].n_tokens;
    memcpy(turn + n, outcomes[1].tokens, made * sizeof *turn);
    n += made;
    for (int i = 0; i < 30; i++)
        turn[n++] = FAKE_BYTE + i;
    free_outcomes(2);
    requests[0] = r;
    requests[0].tokens = turn;
    requests[0].n_tokens = n;
    check_all(e, 1);
    assert_int_equal(outcomes[0].last.n_cached_tokens, (int)(r.n_tokens + made - 1)); /* the last was never computed */
    free_outcomes(1);
    /* a copy that fails costs only time */
    fake.fail_copy = fake_get_counts().copies + 1;
    check_all(e, 8);
    free_outcomes(8);
    bw_engine_free(e);
}

static void preempts_when_pages_run_out(void **state)
{
    (void)state;
    /* 8 at once of up to 40 + 104 tokens each, and a cache of 320 tokens */
    bw_engine *e = make_engine(300, 8, 64, 320);
    make_requests(N, 10, 40, 0, 100);
    check_all(e, N);
    free_outcomes(N);
    bw_engine_stats stats;
    bw_engine_get_stats(e, &stats);
    assert_int_equal(stats.kv_pages_total, 10);
    assert_int_equal(stats.kv_pages_used, 0);
    assert_int_equal(stats.n_completed, N);
    fake_counts c = fake_get_counts();
    assert_true(c.max_seqs > 3);
    /* something was computed twice: prompts and generated tokens alone are fewer */
    int64_t once = 0;
    for (int i = 0; i < N; i++)
        once += (int64_t)requests[i].n_tokens + outcomes[i].last.n_generated_tokens;
    assert_true(c.tokens + stats.n_cached_tokens > once);
    bw_engine_free(e);
}

static void small_cache_limits_context(void **state)
{
    (void)state;
    bw_engine *e = make_engine(1000, 4, 64, 100); /* says so in the log */
    bw_model_info info;
    bw_engine_info(e, &info);
    assert_int_equal(info.n_ctx, 128);
    make_requests(1, 50, 51, 0, 100);
    requests[0].ignore_eos = true;
    outcome o;
    run_request(e, &requests[0], &o);
    assert_int_equal(o.last.n_generated_tokens, 78);
    assert_int_equal(o.last.finish, BW_FINISH_LENGTH);
    outcome_deinit(&o);
    bw_engine_free(e);
    /* more than half of the free memory: reduced */
    fake.page_bytes = (int64_t)1 << 40;
    e = make_engine(0, 4, 64, 0);
    bw_engine_info(e, &info);
    assert_int_equal(info.n_ctx, 32);
    bw_engine_free(e);
    e = make_engine(2000, 4, 64, 0); /* what was asked for is kept for one sequence */
    bw_engine_info(e, &info);
    assert_int_equal(info.n_ctx, 2000);
    assert_int_equal(info.kv_bytes, (int64_t)63 << 40);
    bw_engine_free(e);
    fake.page_bytes = 0;
    fake.n_ctx_train = 512;
    e = make_engine(0, 3, 64, 0);
    bw_engine_info(e, &info);
    assert_int_equal(info.n_ctx, 512);
    assert_int_equal(info.kv_bytes, 3 * 16 * 4096);
    assert_string_equal(info.architecture, "fake");
    assert_string_equal(info.device, "cpu:0");
    assert_int_equal(info.n_parallel, 3);
    assert_int_equal(info.n_threads, 1);
    bw_engine_free(e);
}

static double naive_logprob(const float *row, int32_t token)
{
    double total = 0;
    for (int32_t i = 0; i < FAKE_VOCAB; i++)
        total += exp((double)row[i]);
    return (double)row[token] - log(total);
}

/* Every row of a step that wants many rows, in one small batch; also after the prompt is known to the prefix cache. */
static void logprobs_and_echo(void **state)
{
    (void)state;
    static float row[FAKE_VOCAB];
    bw_engine *e = make_engine(512, 3, 48, 0);
    for (int round = 0; round < 3; round++) {
        make_requests(3, 100, 101, round == 2 ? 64 : 0, 30);
        for (int i = 0; i < 3; i++) {
            requests[i].n_logprobs = i;
            requests[i].echo_logprobs = true;
            requests[i].ignore_eos = true;
        }
        check_all(e, 3);
        for (int i = 0; i < 3; i++) {
            static int32_t history[1024];
            int32_t n = (int32_t)requests[i].n_tokens;
            memcpy(history, prompts[i], (size_t)n * sizeof *history);
            memcpy(history + n, outcomes[i].tokens, outcomes[i].n_tokens * sizeof *history);
            assert_int_equal(outcomes[i].n_prompt_events, n);
            assert_true(isnan(outcomes[i].prompt_logprobs[0]));
            for (int32_t j = 1; j < n + (int32_t)outcomes[i].n_tokens; j++) {
                fake_logits(history, j, FAKE_VOCAB, row);
                float got = j < n ? outcomes[i].prompt_logprobs[j] : outcomes[i].logprobs[j - n];
                if (fabs((double)got - naive_logprob(row, history[j])) > 1e-5)
                    fail_msg("session %d, token %d: %f instead of %f", i, j, (double)got,
                             naive_logprob(row, history[j]));
            }
        }
        free_outcomes(3);
    }
    bw_engine_free(e);
}

static void top_logprobs(void **state)
{
    (void)state;
    static float row[FAKE_VOCAB];
    bw_engine *e = make_engine(512, 3, 48, 0);
    make_requests(1, 10, 11, 0, 12);
    requests[0].n_logprobs = 5;
    requests[0].sampling.temperature = 2; /* of no consequence to log probabilities */
    requests[0].sampling.repetition_penalty = 2;
    requests[0].ignore_eos = true;
    requests[0].echo_logprobs = true;
    bw_session *s = submit(e, &requests[0]);
    bw_event event;
    bw_err err = {0};
    static int32_t history[64];
    int32_t n = 0;
    for (;;) {
        assert_ok(bw_session_next(s, -1, &event, &err), err);
        if (event.type == BW_EVENT_END)
            break;
        if (n == 0) {
            assert_null(event.top);
            assert_int_equal(event.n_top, 0);
        }
        for (size_t i = 0; i < event.n_tokens; i++) {
            if (n > 0) {
                fake_logits(history, n, FAKE_VOCAB, row);
                assert_int_equal(event.n_top, 5);
                for (size_t j = 0; j < 5; j++) {
                    const bw_token_logprob *t = &event.top[i * 5 + j];
                    assert_true(fabs((double)t->logprob - naive_logprob(row, t->token)) < 1e-5);
                    if (j > 0)
                        assert_true(t->logprob <= t[-1].logprob);
                    for (int32_t k = 0; j == 0 && k < FAKE_VOCAB; k++)
                        assert_true(row[k] <= row[t->token]);
                }
            }
            history[n++] = event.tokens[i].token;
        }
    }
    assert_int_equal(n, 22);
    bw_session_free(s);
    bw_engine_free(e);
}

static void echo_text(void **state)
{
    (void)state;
    bw_engine *e = make_engine(512, 3, 48, 0);
    bw_request r = make_request("h\xc3\xa9llo<turn>", 0);
    r.echo_logprobs = true;
    r.add_special = true;
    outcome o;
    run_request(e, &r, &o);
    assert_string_equal(o.prompt.data, "h\xc3\xa9llo<turn>");
    assert_int_equal(o.n_prompt_events, 8);
    outcome_deinit(&o);
    bw_engine_free(e);
}

static void seeds(void **state)
{
    (void)state;
    bw_engine *e = make_engine(512, 3, 48, 0);
    bw_request r = make_request("tell me", 40);
    r.sampling.temperature = 1;
    r.ignore_eos = true;
    r.sampling.has_seed = true;
    r.sampling.seed = 42;
    outcome a, b, c, d;
    run_request(e, &r, &a);
    run_request(e, &r, &b);
    r.sampling.seed = 43;
    run_request(e, &r, &c);
    r.sampling.has_seed = false;
    run_request(e, &r, &d);
    assert_memory_equal(a.tokens, b.tokens, sizeof(int32_t) * 40);
    assert_memory_not_equal(a.tokens, c.tokens, sizeof(int32_t) * 40);
    assert_memory_not_equal(c.tokens, d.tokens, sizeof(int32_t) * 40);
    outcome_deinit(&a);
    outcome_deinit(&b);
    outcome_deinit(&c);
    outcome_deinit(&d);
    bw_engine_free(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(batched_equals_alone, setup),
        cmocka_unit_test_setup(prompts_share_the_batch, setup),
        cmocka_unit_test_setup(prefixes_are_reused, setup),
        cmocka_unit_test_setup(preempts_when_pages_run_out, setup),
        cmocka_unit_test_setup(small_cache_limits_context, setup),
        cmocka_unit_test_setup(logprobs_and_echo, setup),
        cmocka_unit_test_setup(top_logprobs, setup),
        cmocka_unit_test_setup(echo_text, setup),
        cmocka_unit_test_setup(seeds, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
