/* Many threads with sessions that end, are cancelled, are freed while they run, or are refused, over a cache too small
 * for all. For the address, undefined-behaviour and thread sanitizers above all. */
#include "engine_harness.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "bw_clock.h"
#include "bw_log.h"
#include "bw_mem.h"
#include "bw_rng.h"

enum { THREADS = 8 };

static bw_engine *engine;
static int64_t stop_ns;
static _Atomic int64_t n_good, n_full, n_failed, n_wrong, n_cancelled, n_notified;

static void on_notify(void *user)
{
    (void)user;
    atomic_fetch_add(&n_notified, 1);
}

/* Read to the end; text must be what the script said, or a beginning of it when it was cut short. */
static void read_session(bw_session *s, const char *script, bw_rng *rng, bool cancel)
{
    bw_err err = {0};
    bw_event event;
    char text[256];
    size_t n = 0;
    uint64_t cancel_after = cancel ? bw_rng_below(rng, 20) : UINT64_MAX;
    for (;;) {
        if (cancel_after-- == 0)
            bw_session_cancel(s);
        bw_status status = bw_session_next(s, bw_rng_below(rng, 4) == 0 ? 1 : -1, &event, &err);
        if (status == BW_E_TIMEOUT)
            continue;
        if (status != BW_OK) {
            atomic_fetch_add(&n_wrong, 1);
            return;
        }
        if (event.type == BW_EVENT_PROMPT)
            continue;
        if (event.type != BW_EVENT_TEXT)
            break;
        if (n + event.text_bytes < sizeof text) {
            memcpy(text + n, event.text, event.text_bytes);
            n += event.text_bytes;
        }
    }
    bool whole = event.finish == BW_FINISH_EOS;
    if (n > strlen(script) || memcmp(text, script, n) != 0 || (whole && n != strlen(script)))
        atomic_fetch_add(&n_wrong, 1);
    if (event.type == BW_EVENT_ERROR)
        atomic_fetch_add(&n_failed, 1);
    else if (event.finish == BW_FINISH_CANCELLED)
        atomic_fetch_add(&n_cancelled, 1);
    else if (whole)
        atomic_fetch_add(&n_good, 1);
    else
        atomic_fetch_add(&n_wrong, 1);
}

static void *client(void *arg)
{
    bw_rng rng;
    bw_rng_init(&rng, (uint64_t)(uintptr_t)arg + 1);
    while (bw_clock_now_ns() < stop_ns) {
        char script[160], prompt[200];
        size_t n = 20 + bw_rng_below(&rng, 100);
        for (size_t i = 0; i < n; i++) /* few different beginnings, so that pages are shared */
            script[i] = i < 40 ? "ab"[bw_rng_below(&rng, 40) == 0] : (char)('a' + bw_rng_below(&rng, 26));
        script[n] = 0;
        snprintf(prompt, sizeof prompt, "<script>%s<go>", script);
        bw_request r = make_request(prompt, 200);
        r.notify = on_notify;
        r.echo_logprobs = bw_rng_below(&rng, 4) == 0;
        r.n_logprobs = (int32_t)bw_rng_below(&rng, 4) - 1;
        bw_session *s = NULL;
        bw_err err = {0};
        bw_engine_stats stats;
        bw_status status = bw_engine_submit(engine, &r, &s, &err);
        if (status == BW_E_FULL) {
            atomic_fetch_add(&n_full, 1);
            bw_clock_sleep_ms(1);
            continue;
        }
        if (status != BW_OK) {
            atomic_fetch_add(&n_wrong, 1);
            continue;
        }
        if (bw_rng_below(&rng, 5) > 0)
            read_session(s, script, &rng, bw_rng_below(&rng, 4) == 0);
        else if (bw_rng_below(&rng, 2))
            bw_clock_sleep_ms((int64_t)bw_rng_below(&rng, 3));
        bw_session_free(s);
        bw_engine_get_stats(engine, &stats);
        if (stats.n_running < 0 || stats.n_running > 4 || stats.n_waiting < 0 || stats.kv_pages_used > 20)
            atomic_fetch_add(&n_wrong, 1);
    }
    return NULL;
}

static void many_clients(void **state)
{
    (void)state;
    fake_reset();
    bw_log_configure(BW_LOG_OFF, false);
    int64_t live = bw_mem_live();
    bw_engine_options o;
    bw_engine_options_init(&o);
    o.model = "fake.gguf";
    o.n_threads = 1;
    o.n_ctx = 320;
    o.n_parallel = 4;
    o.n_queue = 3;
    o.n_batch = 24;
    o.kv_tokens = 640;
    bw_err err = {0};
    assert_ok(bw_engine_new(&o, &engine, &err), err);
    stop_ns = bw_clock_now_ns() + 3000000000;
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, client, (void *)(uintptr_t)i), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    bw_engine_stats stats;
    for (int i = 0; i < 2000; i++) {
        bw_engine_get_stats(engine, &stats);
        if (stats.n_running + stats.n_waiting == 0)
            break;
        bw_clock_sleep_ms(1);
    }
    printf("%lld good, %lld cancelled, %lld full, %lld notified\n", (long long)n_good, (long long)n_cancelled,
           (long long)n_full, (long long)n_notified);
    assert_int_equal(n_wrong, 0);
    assert_int_equal(n_failed, 0);
    assert_true(n_good > 20);
    assert_true(n_cancelled > 0);
    assert_int_equal(stats.n_running + stats.n_waiting, 0);
    assert_int_equal(stats.kv_pages_used, 0);
    assert_int_equal(stats.n_requests, stats.n_completed + stats.n_cancelled + stats.n_failed);
    assert_int_equal(stats.n_rejected, n_full);
    bw_engine_free(engine);
    assert_int_equal(bw_mem_live(), live);
}

/* Close engines while sessions run and their owners wait. */
static void *wait_for_end(void *arg)
{
    bw_session *s = arg;
    bw_event event;
    bw_err err = {0};
    while (bw_session_next(s, -1, &event, &err) == BW_OK)
        ;
    bw_session_free(s);
    return err.status == BW_E_CLOSED ? NULL : arg;
}

static void closing(void **state)
{
    (void)state;
    fake_reset();
    int64_t live = bw_mem_live();
    for (int round = 0; round < 40; round++) {
        bw_engine *e = make_engine(2048, 3, 32, 0);
        pthread_t threads[6];
        bw_request r = make_request("go on", 2000);
        r.ignore_eos = true;
        for (int i = 0; i < 6; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, wait_for_end, submit(e, &r)), 0);
        bw_clock_sleep_ms(round % 4);
        bw_engine_free(e);
        for (int i = 0; i < 6; i++) {
            void *wrong;
            pthread_join(threads[i], &wrong);
            assert_null(wrong);
        }
    }
    assert_int_equal(bw_mem_live(), live);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_clients),
        cmocka_unit_test(closing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
