/* An engine on a GPU, or on a simulated one (tests/simgpu): what it draws with top-k from the candidates that the
 * device found, and what the device itself draws where nothing but min-p takes tokens away, is, token by token, what it
 * draws from whole rows (to which log-probabilities make it); and what crosses the bus for it. */
#include "../bw_test.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

enum { N_TOKENS = 12, N_SESSIONS = 5 };

static bw_engine *engine;
static char names_file[] = "gpu_top_k_test_XXXXXX";

/* Bytes that came from the device since the library was loaded; 0 where it is no simulated one. */
static int64_t count_bytes(void)
{
    const char *name = getenv("BW_HIP_LIBRARY");
    void *library = name ? dlopen(name, RTLD_NOW | RTLD_NOLOAD) : NULL;
    const int64_t *n = library ? dlsym(library, "sim_downloaded_bytes") : NULL;
    return n ? *n : 0;
}

static bool was_launched(const char *kernel)
{
    char line[128];
    bool found = false;
    FILE *f = fopen(names_file, "r");
    while (f && fgets(line, sizeof line, f))
        found = found || strstr(line, kernel) != NULL;
    if (f)
        fclose(f);
    return found;
}

static int set_up(void **state)
{
    (void)state;
    bw_err err = {0};
    bw_engine_options options;
    bw_engine_options_init(&options);
    options.model = BW_TEST_DATA "/cli/tiny.gguf";
    options.device = getenv("BW_TEST_DEVICE");
    options.n_ctx = 128;
    options.n_parallel = N_SESSIONS;
    options.no_warmup = true;
    assert_ok(bw_engine_new(&options, &engine, &err), err);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    bw_engine_free(engine);
    unlink(names_file);
    return 0;
}

static bw_session *submit(const bw_sampling *sampling, int n_logprobs)
{
    bw_err err = {0};
    bw_session *session;
    bw_request request;
    bw_request_init(&request);
    request.prompt = "hello there";
    request.prompt_bytes = SIZE_MAX;
    request.max_tokens = N_TOKENS;
    request.ignore_eos = true;
    request.sampling = *sampling;
    request.n_logprobs = n_logprobs;
    assert_ok(bw_engine_submit(engine, &request, &session, &err), err);
    return session;
}

static void finish(bw_session *session, int32_t tokens[N_TOKENS])
{
    bw_err err = {0};
    int n = 0;
    for (;;) {
        bw_event event = {0};
        assert_ok(bw_session_next(session, 60000, &event, &err), err);
        if (event.type == BW_EVENT_END)
            break;
        assert_int_equal(event.type, BW_EVENT_TEXT);
        for (size_t i = 0; i < event.n_tokens && n < N_TOKENS; i++)
            tokens[n++] = event.tokens[i].token;
    }
    assert_int_equal(n, N_TOKENS);
    bw_session_free(session);
}

static void same_tokens(void **state)
{
    (void)state;
    static const struct {
        float temperature, top_p, min_p;
        int32_t top_k;
    } cases[] = {{1, 1, 0, 40},   {0.7f, 0.95f, 0, 40}, {2, 1, 0, 2},    {5, 1, 0, 200},    {1.5f, 0.8f, 0.02f, 64},
                 {1, 1, 0, 1},    {1, 1, 0, 10000},     {0, 1, 0, 40},   {1e-7f, 1, 0, 40}, {1, 1, 0, 0},
                 {0.6f, 1, 0, 0}, {3, 1, 0.05f, 0},     {1, 0.9f, 0, 0}, {8, 0.999f, 0, 0}};
    bw_model_info info;
    bw_engine_info(engine, &info);
    int32_t k = 256; /* of which the device finds so many */
    while (k > info.n_vocab)
        k /= 2;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bw_sampling s = {.temperature = cases[i].temperature,
                         .top_p = cases[i].top_p,
                         .min_p = cases[i].min_p,
                         .top_k = cases[i].top_k,
                         .repetition_penalty = 1,
                         .has_seed = true,
                         .seed = 100 + i};
        int32_t whole[N_TOKENS], few[N_TOKENS], beside[N_TOKENS], other[N_TOKENS];
        int64_t at[3];
        at[0] = count_bytes();
        finish(submit(&s, 0), whole);
        at[1] = count_bytes();
        finish(submit(&s, -1), few);
        at[2] = count_bytes();
        for (int t = 0; t < N_TOKENS; t++)
            assert_int_equal(few[t], whole[t]);
        bool is_greedy = cases[i].temperature < 1e-6f || cases[i].top_k == 1;
        if (at[0] > 0) {
            bool draws_whole = cases[i].top_k == 0 || cases[i].top_k >= info.n_vocab;
            bool is_nucleus = draws_whole && cases[i].top_p < 1;
            int64_t row = info.n_vocab * 4, first = k * 8 + 16, all = N_TOKENS * row;
            assert_int_equal(at[1] - at[0], all);
            if (is_greedy || (draws_whole && !is_nucleus))
                all = N_TOKENS * 8;
            else if (is_nucleus && cases[i].temperature > 5) /* not enough: two of the rows are fetched afterwards */
                all += 2 * first;
            else if (is_nucleus || cases[i].top_k <= k)
                all = N_TOKENS * first;
            assert_int_equal(at[2] - at[1], all);
        }
        /* two in one step: of the second another seed, and greedy */
        bw_sampling greedy = {.temperature = 0, .top_p = 1, .repetition_penalty = 1};
        bw_session *a = submit(&s, -1), *b = submit(&greedy, -1);
        finish(a, beside);
        finish(b, other);
        for (int t = 0; t < N_TOKENS; t++)
            assert_int_equal(beside[t], whole[t]);
    }
}

/* What nobody asked for is not computed: kernels are named when they are launched for the first time. */
static void only_what_is_wanted(void **state)
{
    (void)state;
    bw_sampling s = {.temperature = 1, .top_p = 1, .repetition_penalty = 1};
    int32_t tokens[N_TOKENS];
    finish(submit(&s, 0), tokens);
    if (count_bytes() == 0)
        return; /* a card tells no names */
    static const struct {
        float temperature;
        int32_t top_k, n_logprobs;
        bool drawn, argmax, top;
    } cases[] = {{1, 0, 0, false, false, false},
                 {1, 0, -1, true, false, false},
                 {0, 0, -1, true, true, false},
                 {1, 5, -1, true, true, true}};
    for (size_t i = 0; i < 4; i++) {
        s.temperature = cases[i].temperature;
        s.top_k = cases[i].top_k;
        finish(submit(&s, cases[i].n_logprobs), tokens);
        assert_int_equal(was_launched("row_sample_join"), cases[i].drawn);
        assert_int_equal(was_launched("row_argmax_join"), cases[i].argmax);
        assert_int_equal(was_launched("row_top_k_join"), cases[i].top);
        assert_true(was_launched("linear"));
    }
}

/* Requests whose tokens are chosen in different ways, in the same steps: what each gets alone, and twice the same. */
static void all_together(void **state)
{
    (void)state;
    static const bw_sampling ways[N_SESSIONS] = {
        {.temperature = 1, .top_p = 1, .repetition_penalty = 1},
        {.temperature = 0, .top_p = 1, .repetition_penalty = 1},
        {.temperature = 1.5f, .top_p = 1, .top_k = 20, .repetition_penalty = 1},
        {.temperature = 2, .top_p = 1, .min_p = 0.1f, .repetition_penalty = 1},
        {.temperature = 1, .top_p = 0.9f, .repetition_penalty = 1.2f}};
    const bool is_simulated = getenv("BW_HIP_LIBRARY") != NULL;
    int32_t alone[N_SESSIONS][N_TOKENS], again[N_TOKENS];
    /* the first n of them: greedy ones take what the device draws, then of the candidates, then of whole rows */
    for (int n = 1; n <= N_SESSIONS; n++) {
        bw_session *sessions[N_SESSIONS];
        bw_sampling s[N_SESSIONS];
        for (int i = 0; i < n; i++) {
            s[i] = ways[i];
            s[i].has_seed = true;
            s[i].seed = 7 + (uint64_t)i;
        }
        finish(submit(&s[n - 1], -1), alone[n - 1]);
        for (int i = 0; i < n; i++)
            sessions[i] = submit(&s[i], -1);
        for (int i = 0; i < n; i++) {
            finish(sessions[i], again);
            /* a real card's products of more rows are other kernels': there a near tie may fall the other way */
            for (int t = 0; t < N_TOKENS && is_simulated; t++)
                assert_int_equal(again[t], alone[i][t]);
        }
    }
}

int main(void)
{
    int fd = mkstemp(names_file);
    if (fd < 0)
        return 1;
    close(fd);
    setenv("BW_SIM_NAMES", names_file, 1);
    const struct CMUnitTest tests[] = {cmocka_unit_test(only_what_is_wanted), cmocka_unit_test(same_tokens),
                                       cmocka_unit_test(all_together)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
