/* How much context a request gets by default, and under BW_CTX_MODEL by what the model and memory have. */
#include "engine_harness.h"

#include "bw_device.h"
#include "bw_log.h"
#include "bw_mem.h"

typedef struct sizes {
    int32_t own; /* the model's */
    int32_t n_ctx, n_parallel;
    int64_t kv_tokens;
    int32_t want; /* tokens of a context */
} sizes;

static void sizes_of_contexts(void **state)
{
    (void)state;
    static const sizes rows[] = {
        {2048, 0, 4, 0, 2048},
        {100000, 0, 4, 0, 4096},
        {100000, BW_CTX_MODEL, 4, 0, 100000},          /* memory has room */
        {2048, BW_CTX_MODEL, 4, 0, 2048},              /* the model has no more */
        {100000, BW_CTX_MODEL, 4, 200000, 49984},      /* a quarter of the pages there are */
        {100000, BW_CTX_MODEL, 2, 200000, 99968 + 32}, /* a half: 100000 */
        {100000, BW_CTX_MODEL, 4, 40000, 34816},       /* what is promised, though not to four at once */
        {30000, BW_CTX_MODEL, 64, 40000, 30000},       /* of which the model has less */
        {100000, BW_CTX_MODEL, 4, 20000, 20000},       /* and here memory */
        {100000, 5000, 4, 20000, 5000},
    };
    bw_log_configure(BW_LOG_OFF, false);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        fake_reset();
        fake.n_ctx_train = rows[i].own;
        bw_engine *e = make_engine(rows[i].n_ctx, rows[i].n_parallel, 0, rows[i].kv_tokens);
        bw_model_info info;
        bw_engine_info(e, &info);
        bw_engine_free(e);
        if (info.n_ctx != rows[i].want)
            fail_msg("row %zu: a context of %d, not %d", i, (int)info.n_ctx, (int)rows[i].want);
    }
}

/* Where half of what is free holds so many pages and no more. */
static void by_free_memory(void **state)
{
    (void)state;
    bw_device *cpu;
    bw_err err = {0};
    int64_t free_bytes, total_bytes;
    assert_ok(bw_device_open("cpu:0", 1, &cpu, &err), err);
    assert_ok(cpu->vtable->memory_info(cpu, &free_bytes, &total_bytes, &err), err);
    bw_device_close(cpu);
    fake_reset();
    fake.n_ctx_train = 1000000;
    fake.page_bytes = free_bytes / 2 / 8000; /* 256000 tokens */
    bw_engine *e = make_engine(BW_CTX_MODEL, 4, 0, 0);
    bw_model_info info;
    bw_engine_info(e, &info);
    bw_engine_free(e);
    assert_in_range(info.n_ctx, 64000 / 2, 64000 * 2); /* others take and free memory meanwhile */
    assert_in_range(info.kv_bytes, (uint64_t)free_bytes / 4, (uint64_t)free_bytes);
}

/* The longest prompt of the worker contract, a token for each character. */
static void promised_prompt(void **state)
{
    (void)state;
    enum { N = 32768 };
    fake_reset();
    fake.n_ctx_train = 40000;
    bw_engine *e = make_engine(BW_CTX_MODEL, 4, 0, 40000);
    char *text = bw_alloc(N + 1);
    assert_non_null(text);
    memset(text, 'q', N);
    text[N] = 0;
    bw_request r = make_request(text, 5);
    outcome out;
    run_request(e, &r, &out);
    assert_int_equal(out.last.type, BW_EVENT_END);
    assert_int_equal(out.last.n_prompt_tokens, N);
    assert_int_equal(out.last.n_generated_tokens, 5);
    outcome_deinit(&out);
    bw_free(text);
    bw_engine_free(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_of_contexts),
        cmocka_unit_test(by_free_memory),
        cmocka_unit_test(promised_prompt),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
