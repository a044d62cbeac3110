/* The whole engine on a GPU that is lost (BW_SIM_LOST_AT of tests/simgpu): while it loads, in the first step, in the
 * middle of a text. Whoever runs or waits hears BW_E_LOST, so does who comes later, and the owner hears it once. */
#include "../bw_test.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "bw_mem.h"

enum { N_SESSIONS = 6, N_TOKENS = 40 };

static _Atomic int n_told;

static void on_lost(void *user, const bw_err *err)
{
    assert_string_equal(user, "the owner");
    if (err->status == BW_E_LOST && strstr(err->text, "rocm:0"))
        n_told++;
    else
        n_told += 1000;
}

static bw_status new_engine(bw_engine **engine, bw_err *err)
{
    bw_engine_options options;
    bw_engine_options_init(&options);
    options.model = BW_TEST_DATA "/cli/tiny.gguf";
    options.device = "rocm:0";
    options.n_threads = 1;
    options.n_ctx = 128;
    options.n_parallel = 2;
    options.n_queue = 16;
    options.lost = on_lost;
    static char user[] = "the owner";
    options.lost_user = user;
    n_told = 0;
    return bw_engine_new(&options, engine, err);
}

static bw_status submit(bw_engine *engine, int seed, bw_session **session, bw_err *err)
{
    bw_request request;
    bw_request_init(&request);
    request.prompt = "hello there";
    request.prompt_bytes = SIZE_MAX;
    request.max_tokens = N_TOKENS;
    request.ignore_eos = true;
    request.sampling.seed = (uint64_t)seed;
    request.sampling.has_seed = true;
    return bw_engine_submit(engine, &request, session, err);
}

/* To its last event: BW_OK, or what it failed with. */
static bw_status finish(bw_session *session, bw_err *err)
{
    for (;;) {
        bw_event event = {0};
        bw_status status = bw_session_next(session, 60000, &event, err);
        if (status != BW_OK)
            return status;
        if (event.type == BW_EVENT_END) {
            assert_int_equal(event.n_generated_tokens, N_TOKENS);
            return BW_OK;
        }
        if (event.type == BW_EVENT_ERROR)
            return err->status;
    }
}

static void lose_at(const char *launch, bool first_is_served)
{
    bw_err err = {0};
    bw_engine *engine;
    bw_session *sessions[N_SESSIONS];
    assert_ok(new_engine(&engine, &err), err);
    if (first_is_served) {
        assert_ok(submit(engine, 1, &sessions[0], &err), err);
        assert_ok(finish(sessions[0], &err), err);
        bw_session_free(sessions[0]);
    }
    assert_int_equal(n_told, 0);
    setenv("BW_SIM_LOST_AT", launch, 1); /* the engine's thread sleeps */
    int n = 0;
    for (; n < N_SESSIONS; n++) {
        bw_status status = submit(engine, n, &sessions[n], &err);
        if (status == BW_E_LOST) /* the engine was faster */
            break;
        assert_int_equal(status, BW_OK);
    }
    assert_true(n > 0);
    for (int i = 0; i < n; i++) {
        err = (bw_err){0};
        bw_status status = finish(sessions[i], &err);
        if (status != BW_E_LOST)
            fail_msg("session %d: %s: %s", i, bw_status_name(status), err.text);
        assert_non_null(strstr(err.text, "rocm:0"));
        bw_session_free(sessions[i]);
    }
    bw_session *late = NULL;
    for (int i = 0; i < 3; i++) {
        err = (bw_err){0};
        assert_int_equal(submit(engine, i, &late, &err), BW_E_LOST);
        assert_null(late);
        assert_non_null(strstr(err.text, "rocm:0"));
    }
    bw_engine_stats stats;
    bw_engine_get_stats(engine, &stats);
    assert_int_equal(stats.n_running, 0);
    assert_int_equal(stats.n_waiting, 0);
    bw_engine_free(engine);
    assert_int_equal(n_told, 1);
    unsetenv("BW_SIM_LOST_AT");
}

static void lost_while_serving(void **state)
{
    (void)state;
    static const char *const launches[] = {"1", "2", "30", "300"};
    int64_t live = 0;
    for (int round = 0; round < 2; round++) { /* what is kept for the life of the process is kept in the first */
        for (size_t i = 0; i < sizeof launches / sizeof *launches; i++)
            lose_at(launches[i], i % 2 == 1);
        if (round == 0)
            live = bw_mem_live();
    }
    assert_int_equal(bw_mem_live(), live);
}

static void lost_while_loading(void **state)
{
    (void)state;
    bw_err err = {0};
    bw_engine *engine = NULL;
    setenv("BW_SIM_LOST_AT", "1", 1); /* the warm-up's first launch */
    assert_int_equal(new_engine(&engine, &err), BW_E_LOST);
    assert_null(engine);
    assert_non_null(strstr(err.text, "rocm:0"));
    unsetenv("BW_SIM_LOST_AT");
    assert_ok(new_engine(&engine, &err), err); /* the simulated card works again */
    bw_session *session;
    assert_ok(submit(engine, 1, &session, &err), err);
    assert_ok(finish(session, &err), err);
    bw_session_free(session);
    bw_engine_free(engine);
    assert_int_equal(n_told, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(lost_while_serving), cmocka_unit_test(lost_while_loading)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
