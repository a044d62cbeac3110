/* The whole way, nothing faked: a tiny GGUF with its vocabulary is loaded and answers one request while the n-th
 * allocation fails, for every n. Each time: a clear end, no crash, no leak. */
#include "../bw_test.h"

#include "bw_mem.h"

static bool answer_once(bw_err *err)
{
    bw_engine_options options;
    bw_engine_options_init(&options);
    options.model = BW_TEST_DATA "/cli/tiny.gguf";
    options.n_threads = 1;
    options.n_ctx = 64;
    options.n_parallel = 2;
    bw_engine *engine = NULL;
    bw_session *session = NULL;
    bool whole = false;
    bw_status status = bw_engine_new(&options, &engine, err);
    if (status == BW_OK) {
        bw_request request;
        bw_request_init(&request);
        request.prompt = "hello there";
        request.prompt_bytes = SIZE_MAX;
        request.max_tokens = 6;
        request.ignore_eos = true;
        request.n_logprobs = 2;
        request.sampling.seed = 1;
        request.sampling.has_seed = true;
        const char *stop = "no such text";
        request.stop = &stop;
        request.n_stop = 1;
        status = bw_engine_submit(engine, &request, &session, err);
    }
    while (status == BW_OK) {
        bw_event event = {0};
        status = bw_session_next(session, 20000, &event, err);
        if (status == BW_OK && event.type == BW_EVENT_END) {
            whole = true;
            break;
        }
        if (status == BW_OK && event.type == BW_EVENT_ERROR)
            status = err->status == BW_OK ? BW_E_INTERNAL : err->status;
    }
    bw_session_free(session);
    bw_engine_free(engine);
    if (!whole && status != BW_E_MEMORY)
        fail_msg("%s: %s", bw_status_name(status), err->text);
    return whole;
}

static void every_allocation(void **state)
{
    (void)state;
    bw_err first = {0};
    assert_true(answer_once(&first)); /* what is kept for the life of the process is kept now */
    int64_t live = bw_mem_live();
    int n = 0;
    for (bool whole = false; !whole;) {
        bw_err err = {0};
        int64_t count = bw_mem_count();
        bw_mem_fail_at(++n);
        answer_once(&err);
        bool reached = bw_mem_count() - count >= n;
        bw_mem_fail_at(0);
        assert_int_equal(bw_mem_live(), live);
        whole = !reached;
        assert_true(n < 100000);
    }
    assert_true(n > 50);
    print_message("%d allocations of a load and a request, each failed once\n", n - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_allocation)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
