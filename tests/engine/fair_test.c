/* Who shares an engine with others gets his part of it: in the queue, in its places, in the steps. */
#include "engine_harness.h"

#include "bw_clock.h"
#include "bw_fair.h"
#include "bw_mem.h"

static int setup(void **state)
{
    (void)state;
    fake_reset();
    return 0;
}

static bw_engine *make_queue(int32_t n_parallel, int32_t n_batch, int32_t n_queue)
{
    bw_engine_options o;
    bw_engine_options_init(&o);
    o.model = "fake.gguf";
    o.n_threads = 1;
    o.n_ctx = 1024;
    o.n_parallel = n_parallel;
    o.n_batch = n_batch;
    o.n_queue = n_queue;
    o.no_warmup = true;
    bw_engine *engine = NULL;
    bw_err err = {0};
    assert_ok(bw_engine_new(&o, &engine, &err), err);
    return engine;
}

/* Prompts without a common beginning. */
static bw_session *submit_prompt(bw_engine *e, uint64_t client, int seed, int32_t n, int32_t n_generate)
{
    static int32_t tokens[1024];
    for (int32_t i = 0; i < n; i++)
        tokens[i] = FAKE_BYTE + (int32_t)((unsigned)(seed * 7919 + i * 31 + seed * i) % 200);
    bw_request r = make_request(NULL, n_generate);
    r.tokens = tokens;
    r.n_tokens = (size_t)n;
    r.ignore_eos = true;
    r.client = client;
    return submit(e, &r);
}

static bool has_ended(bw_session *s)
{
    bw_event event;
    bw_err err = {0};
    bw_status status;
    do
        status = bw_session_next(s, 0, &event, &err);
    while (status == BW_OK && event.type != BW_EVENT_END);
    return status != BW_E_TIMEOUT;
}

static void wait_for_end(bw_session *s)
{
    outcome o;
    assert_true(read_all(s, &o));
    assert_int_equal(o.last.type, BW_EVENT_END);
    outcome_deinit(&o);
}

enum { N_LONG = 40 };

/* 40 long prompts, then a short one: how many of the long ones were through before it. */
static int count_before(bool same_client, int32_t n_generate)
{
    fake_reset();
    fake.step_us = 1000;
    bw_engine *e = make_queue(4, 64, 64);
    bw_session *longs[N_LONG], *quick;
    int n = 0;
    for (int i = 0; i < N_LONG; i++)
        longs[i] = submit_prompt(e, 1, i + 1, 900, n_generate);
    quick = submit_prompt(e, same_client ? 1 : 2, 99, 20, 2);
    wait_for_end(quick);
    for (int i = 0; i < N_LONG; i++)
        n += has_ended(longs[i]);
    bw_session_free(quick);
    for (int i = 0; i < N_LONG; i++) { /* and none of them starves or loses its text */
        if (!has_ended(longs[i]))
            bw_session_cancel(longs[i]);
        bw_session_free(longs[i]);
    }
    bw_engine_free(e);
    return n;
}

static void short_one_behind_many(void **state)
{
    (void)state;
    int64_t live = bw_mem_live();
    for (int same = 0; same < 2; same++) {
        int n = count_before(same, 2);
        if (n > 4)
            fail_msg("%d of %d long prompts came first, %s client", n, (int)N_LONG, same ? "the same" : "another");
    }
    assert_int_equal(bw_mem_live(), live);
}

/* One that gives its place to shorter ones again and again still ends, with its own text. */
static void long_one_among_many(void **state)
{
    (void)state;
    bw_engine *e = make_queue(2, 32, 64);
    bw_session *alone = submit_prompt(e, 1, 5, 900, 20);
    outcome expected, o;
    assert_true(read_all(alone, &expected));
    bw_session_free(alone);
    bw_engine_free(e);
    e = make_queue(2, 32, 64);
    fake.step_us = 1000;
    bw_session *first = submit_prompt(e, 1, 4, 900, 20), *s = submit_prompt(e, 1, 5, 900, 20), *shorts[60];
    for (int i = 0; i < 60; i++)
        shorts[i] = submit_prompt(e, 1, 100 + i, 20 + i % 7, 3);
    assert_true(read_all(s, &o));
    assert_int_equal(o.last.type, BW_EVENT_END);
    assert_string_equal(o.text.data, expected.text.data);
    outcome_deinit(&o);
    wait_for_end(first);
    for (int i = 0; i < 60; i++) {
        if (!has_ended(shorts[i]))
            wait_for_end(shorts[i]);
        bw_session_free(shorts[i]);
    }
    outcome_deinit(&expected);
    bw_session_free(s);
    bw_session_free(first);
    bw_engine_free(e);
}

/* Who fills the queue keeps nobody else out; but there is an end to it. */
static void places_are_shared(void **state)
{
    (void)state;
    bw_err err = {0};
    fake.step_us = 1000;
    bw_engine *e = make_queue(1, 64, 7);
    bw_session *s[64];
    int n = 0;
    bw_request r = make_request("some text", 200);
    r.ignore_eos = true;
    r.client = 1;
    while (n < 64 && bw_engine_submit(e, &r, &s[n], &err) == BW_OK)
        n++;
    assert_int_equal(n, 8);
    assert_non_null(strstr(err.text, "the queue is full"));
    assert_int_equal(bw_engine_check_room(e, 1, &err), BW_E_FULL);
    assert_int_equal(bw_engine_check_room(e, 2, &err), BW_OK);
    bw_engine_stats stats;
    bw_engine_get_stats(e, &stats);
    assert_int_equal(stats.n_rejected, 1); /* what was submitted; asking counts for nothing */
    for (r.client = 2; r.client < 60; r.client++)
        while (n < 64 && bw_engine_submit(e, &r, &s[n], &err) == BW_OK)
            n++;
    assert_true(n > 8 + 3 && n <= 16);
    for (int i = 0; i < n; i++)
        bw_session_free(s[i]);
    bw_engine_free(e);
}

/* Two clients that share a counter are still two: who has nothing finds a place where the other filled all. */
static void counters_that_meet(void **state)
{
    (void)state;
    bw_err err = {0};
    uint64_t other = 2;
    while (bw_fair_counter(other) != bw_fair_counter(1))
        other++;
    fake.step_us = 1000;
    bw_engine *e = make_queue(1, 64, 7);
    bw_session *s[16];
    int n = 0;
    bw_request r = make_request("some text", 200);
    r.ignore_eos = true;
    for (r.client = 1; n < 16 && bw_engine_submit(e, &r, &s[n], &err) == BW_OK;)
        n++;
    assert_int_equal(n, 8);
    r.client = other;
    assert_ok(bw_engine_submit(e, &r, &s[n++], &err), err);
    for (int i = 0; i < n; i++)
        bw_session_free(s[i]);
    bw_engine_free(e);
}

/* 64 clients with two requests of two texts each, and one that sends whatever is taken: without options nobody is
 * refused but that one. */
static void many_clients(void **state)
{
    (void)state;
    enum { N_CLIENTS = 64, EACH = 4, MOST = 2000 };
    static bw_session *s[MOST];
    bw_err err = {0};
    fake.step_us = 1000;
    bw_engine *e = make_queue(4, 64, 0);
    int n = 0;
    bw_request r = make_request("some text", 200);
    r.ignore_eos = true;
    for (r.client = 1000; n < MOST - N_CLIENTS * EACH && bw_engine_submit(e, &r, &s[n], &err) == BW_OK;)
        n++;
    assert_true(n < MOST - N_CLIENTS * EACH); /* there is an end to it */
    for (int i = 0; i < N_CLIENTS * EACH; i++) {
        r.client = 1 + (uint64_t)(i % N_CLIENTS);
        assert_ok(bw_engine_submit(e, &r, &s[n++], &err), err);
    }
    for (int i = 0; i < n; i++)
        bw_session_free(s[i]);
    bw_engine_free(e);
}

/* Whoever generates does not wait for more than a part of a long prompt that others bring. */
static void generating_goes_on(void **state)
{
    (void)state;
    fake.token_us = 1000; /* 512 tokens: half a second */
    bw_engine *e = make_queue(4, 512, 16);
    bw_request r = make_request("a stream", 40);
    r.ignore_eos = true;
    bw_session *stream = submit(e, &r), *s[3];
    bw_event event;
    bw_err err = {0};
    for (int i = 0; i < 4; i++)
        assert_ok(bw_session_next(stream, 10000, &event, &err), err);
    for (int i = 0; i < 3; i++)
        s[i] = submit_prompt(e, 2, i + 1, 900, 1);
    int64_t longest = 0, since = bw_clock_now_ns();
    do {
        assert_ok(bw_session_next(stream, 10000, &event, &err), err);
        int64_t ns = bw_clock_now_ns() - since;
        longest = ns > longest ? ns : longest;
        since += ns;
    } while (event.type != BW_EVENT_END);
    if (longest > INT64_C(300000000)) /* 40 ms, and 64 before the first time is known */
        fail_msg("%.0f ms between two tokens beside a long prompt", (double)longest / 1e6);
    bw_session_free(stream);
    for (int i = 0; i < 3; i++)
        bw_session_free(s[i]);
    bw_engine_free(e);
    assert_true(fake_get_counts().mixed_steps > 4);
}

/* Nobody generates: a prompt takes whole steps, however long they are. */
static void alone_it_takes_all(void **state)
{
    (void)state;
    fake.token_us = 200;
    bw_engine *e = make_queue(4, 256, 16);
    bw_session *s = submit_prompt(e, 1, 3, 1000, 1);
    wait_for_end(s);
    bw_session_free(s);
    bw_engine_free(e);
    assert_int_equal(fake_get_counts().max_batch_tokens, 256);
    assert_true(fake_get_counts().steps <= 5);
}

/* The counters: least first, no claim from time without a wish, a part of the places for newcomers. */
static void counters(void **state)
{
    (void)state;
    static bw_fair fair;
    bw_fair_begin(&fair, 1);
    bw_fair_take(&fair, 1, 1000);
    bw_fair_take(&fair, 1, 1000);
    bw_fair_begin(&fair, 2);
    assert_true(bw_fair_had(&fair, 2) == 1000 && bw_fair_had(&fair, 1) == 2000);
    bw_fair_take(&fair, 2, 500);
    assert_true(bw_fair_had(&fair, 2) == 1500);
    assert_true(bw_fair_admits(10, 9, 9, 1));
    assert_false(bw_fair_admits(10, 10, 10, 1));
    assert_true(bw_fair_admits(10, 10, 0, 2));
    assert_false(bw_fair_admits(10, 14, 5, 2));
    assert_false(bw_fair_admits(10, 20, 0, 3));
}

/* Every request is in the histograms once, in the bucket of its time, and the sums are those times. */
static void latencies(void **state)
{
    (void)state;
    fake.step_us = 4000;
    bw_engine *e = make_queue(1, 64, 16);
    bw_session *s[3];
    for (int i = 0; i < 3; i++)
        s[i] = submit_prompt(e, 1, i + 1, 20, 10);
    for (int i = 0; i < 3; i++) {
        wait_for_end(s[i]);
        bw_session_free(s[i]);
    }
    static const uint64_t expected[BW_LATENCY_COUNT] = {3, 3, 27, 3};
    bw_histogram h[BW_LATENCY_COUNT];
    const double *bounds = bw_histogram_bounds();
    bw_engine_get_latencies(e, h);
    for (int i = 0; i < BW_LATENCY_COUNT; i++) {
        uint64_t n = 0;
        double low = 0, high = 0;
        for (int j = 0; j <= BW_HISTOGRAM_BUCKETS; j++) {
            assert_true(j == 0 || j == BW_HISTOGRAM_BUCKETS || bounds[j] > bounds[j - 1]);
            n += h[i].counts[j];
            low += (double)h[i].counts[j] * (j ? bounds[j - 1] : 0);
            high += (double)h[i].counts[j] * (j < BW_HISTOGRAM_BUCKETS ? bounds[j] : 3600);
        }
        assert_int_equal(n, expected[i]);
        assert_true(h[i].sum >= low && h[i].sum <= high);
    }
    assert_true(h[BW_LATENCY_BETWEEN_TOKENS].sum >= 27 * 0.004);
    assert_true(h[BW_LATENCY_END_TO_END].sum >= h[BW_LATENCY_FIRST_TOKEN].sum);
    assert_true(h[BW_LATENCY_FIRST_TOKEN].sum >= h[BW_LATENCY_QUEUE].sum);
    bw_engine_memory memory;
    bw_engine_get_memory(e, &memory);
    assert_int_equal(memory.weights, 49380);
    assert_true(memory.kv > 0 && memory.vram == 0 && memory.vram_total == 0); /* it computes on the CPU */
    bw_engine_free(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(short_one_behind_many, setup),
        cmocka_unit_test_setup(long_one_among_many, setup),
        cmocka_unit_test_setup(places_are_shared, setup),
        cmocka_unit_test_setup(counters_that_meet, setup),
        cmocka_unit_test_setup(many_clients, setup),
        cmocka_unit_test_setup(generating_goes_on, setup),
        cmocka_unit_test_setup(alone_it_takes_all, setup),
        cmocka_unit_test_setup(counters, setup),
        cmocka_unit_test_setup(latencies, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
