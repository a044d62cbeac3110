/* models: every architecture, from safetensors and from GGUF, against what transformers computed (tests/data/lm, made
 * by tools/fixtures/lm_fixtures.py), layer by layer; ragged batches and paging; bad files. BW_TEST_DEVICE names the
 * device, cpu:0; on a GPU each model is run whole there and with one of its two layers on the CPU. */
#include "../bw_test.h"

#include <math.h>
#include <stdlib.h>

#include "bw_lm.h"
#include "bw_mem.h"
#include "bw_safetensors.h"

enum { N_TOKENS = 48, MAX_PAGES = 8, MAX_TOKENS = 160, N_VOCAB = 160 };

static const char *device_name = "cpu:0";
static bool on_gpu;
static int gpu_layers; /* 0: all */

struct expectation {
    bw_safetensors *st;
    double worst;
    char worst_name[32];
    int n_compared;
    int64_t first_row; /* of the expected values that the step's first row corresponds to */
    double limit;
};

static double relative_error(const float *a, const float *b, int64_t n)
{
    double diff = 0, norm = 0;
    for (int64_t i = 0; i < n; i++) {
        diff += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
        norm += (double)b[i] * b[i];
    }
    return sqrt(diff / norm);
}

static void compare(void *user, const char *name, const float *data, int64_t rows, int64_t columns)
{
    struct expectation *e = user;
    const bw_safetensor *t = bw_safetensors_find(e->st, name);
    if (!t)
        fail_msg("no expectation for %s", name);
    assert_int_equal(t->dims[1], columns);
    double error = relative_error(data, (const float *)t->data + e->first_row * columns, rows * columns);
    e->n_compared++;
    if (!(error <= e->worst)) {
        e->worst = error;
        snprintf(e->worst_name, sizeof e->worst_name, "%s", name);
    }
    if (!(error < e->limit))
        fail_msg("%s: relative error %g; the first value that is off", name, error);
}

static void open_lm(const char *name, const char *variant, bw_dtype kv, bw_device *device, bw_lm **lm)
{
    bw_err err = {0};
    char path[256];
    snprintf(path, sizeof path, "%s/lm/%s", BW_TEST_DATA, name);
    bw_lm_file *file;
    assert_ok(bw_lm_file_open(path, &file, &err), err);
    bw_lm_options options = {.kv_dtype = kv,
                             .n_pages = MAX_PAGES,
                             .max_tokens = MAX_TOKENS,
                             .max_seqs = 4,
                             .max_outputs = 64,
                             .max_seq_pages = 4,
                             .n_gpu_layers = gpu_layers,
                             .n_threads = 2,
                             .variant = variant};
    assert_ok(bw_lm_new(file, device, &options, lm, &err), err);
}

static void open_expected(const char *name, struct expectation *e)
{
    bw_err err = {0};
    char path[256];
    snprintf(path, sizeof path, "%s/lm/%s/expected.safetensors", BW_TEST_DATA, name);
    assert_ok(bw_safetensors_open(path, &e->st, &err), err);
}

/* A whole prompt in one step, every layer compared; then the same prompt in pieces over pages in an odd order. */
static void check_part(const char *file, const char *expected, const char *variant, bw_dtype kv, double limit)
{
    bw_err err = {0};
    bw_device *device;
    assert_ok(bw_device_open(device_name, 2, &device, &err), err);
    bw_lm *lm;
    open_lm(file, variant, kv, device, &lm);
    struct expectation e = {.limit = limit};
    open_expected(expected, &e);
    const bw_safetensor *tokens = bw_safetensors_find(e.st, "tokens");
    int32_t all[N_TOKENS], pages[2] = {3, 0};
    for (int i = 0; i < N_TOKENS; i++)
        all[i] = i;
    bw_lm_seq seq = {.n_tokens = N_TOKENS, .n_cached = N_TOKENS, .pages = pages};
    bw_lm_batch batch = {
        .n_tokens = N_TOKENS, .tokens = tokens->data, .n_seqs = 1, .seqs = &seq, .n_outputs = N_TOKENS, .outputs = all};
    const float *logits;
    assert_ok(bw_lm_set_probe(lm, compare, &e, &err), err);
    assert_ok(bw_lm_step(lm, &batch, &logits, &err), err);
    assert_int_equal(e.n_compared, 4);
    assert_ok(bw_lm_set_probe(lm, NULL, NULL, &err), err);
    compare(&e, "logits", logits, N_TOKENS, 160);
    /* pieces of 1, 7, 1, 20 ... tokens of two sequences side by side */
    int32_t pages_a[2] = {7, 1}, pages_b[2] = {2, 6};
    for (int at = 0, piece = 1; at < N_TOKENS; at += piece, piece = piece == 1 ? 7 : piece == 7 ? 20 : 1) {
        if (piece > N_TOKENS - at)
            piece = N_TOKENS - at;
        int32_t two[64], outputs[2] = {piece - 1, 2 * piece - 1};
        memcpy(two, (const int32_t *)tokens->data + at, (size_t)piece * 4);
        memcpy(two + piece, (const int32_t *)tokens->data + at, (size_t)piece * 4);
        bw_lm_seq seqs[2] = {{.first_token = 0, .n_tokens = piece, .n_cached = at + piece, .pages = pages_a},
                             {.first_token = piece, .n_tokens = piece, .n_cached = at + piece, .pages = pages_b}};
        bw_lm_batch ragged = {
            .n_tokens = 2 * piece, .tokens = two, .n_seqs = 2, .seqs = seqs, .n_outputs = 2, .outputs = outputs};
        assert_ok(bw_lm_step(lm, &ragged, &logits, &err), err);
        e.first_row = at + piece - 1;
        compare(&e, "logits", logits, 1, 160);
        compare(&e, "logits", logits + 160, 1, 160);
    }
    bw_lm_info info;
    bw_lm_get_info(lm, &info);
    print_message("%s (%s, kv %s, %s): worst relative error %.2e at %s\n", file, variant ? variant : "fast",
                  bw_dtype_name(kv), info.device, e.worst, e.worst_name);
    char want[48];
    snprintf(want, sizeof want, gpu_layers ? "%s (%d of 2 layers), cpu:0" : "%s", device_name, gpu_layers);
    assert_string_equal(info.device, want);
    bw_safetensors_close(e.st);
    bw_lm_free(lm);
    bw_device_close(device);
}

static void check_model(const char *file, const char *expected, const char *variant, bw_dtype kv, double limit)
{
    for (gpu_layers = 0; gpu_layers <= on_gpu; gpu_layers++)
        check_part(file, expected, variant, kv, limit);
    gpu_layers = 0;
}

/* With an f32 cache everything is f32 and the bar is 1e-3; f16 and bf16 caches round K and V to 11 and 8 bits. A GPU's
 * matrix units round what they multiply with weights of 16 bits to the weights' type. */
static void safetensors_models(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        double gpu_limit; /* weights of f32, bf16, f16 */
    } models[] = {{"llama2", 1e-3},  {"llama31", 2e-2}, {"llama-linear", 2e-2}, {"llama-yarn", 2e-2},
                  {"mistral", 2e-2}, {"qwen2", 2e-3},   {"gemma3", 2e-2}};
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        const char *name = models[i].name;
        double limit = on_gpu ? models[i].gpu_limit : 1e-3;
        if (!on_gpu)
            check_model(name, name, "ref", BW_F32, 1e-4);
        check_model(name, name, NULL, BW_F32, limit);
        check_model(name, name, NULL, BW_F16, limit > 4e-3 ? limit : 4e-3);
        check_model(name, name, NULL, BW_BF16, limit > 3e-3 ? 4e-2 : 3e-2);
    }
}

static void gguf_models(void **state)
{
    (void)state;
    check_model("llama31.gguf", "llama31", NULL, BW_F32, 1e-2); /* weights rounded to f16 */
    check_model("qwen2.gguf", "qwen2", NULL, BW_F32, 1e-3);
    check_model("llama31-q8_0.gguf", "llama31", NULL, BW_F32, 1e-1); /* 8-bit weights and activations */
    if (!on_gpu)
        check_model("llama31-q8_0.gguf", "llama31", "ref", BW_F32, 1e-1);
}

/* Steps of several sequences, some of which read their prompt while others go on by one token: of 50, 80 (more than a
 * graph takes), 3, 16 and 1 tokens, each sequence's logits where it stands. Twice, so that graphs are replayed. */
static void check_mixed(const char *name, double limit)
{
    enum { N_SEQS = 4, N_STEPS = 8 };
    static const int takes[N_STEPS][N_SEQS] = {{20, 0, 30, 0}, {1, 48, 1, 30}, {1, 0, 1, 1}, {7, 0, 5, 4},
                                               {1, 0, 0, 0},   {1, 0, 1, 1},   {1, 0, 1, 1}, {1, 0, 0, 0}};
    static int32_t pages[N_SEQS][2] = {{7, 1}, {2, 6}, {0, 5}, {4, 3}};
    bw_err err = {0};
    bw_device *device;
    assert_ok(bw_device_open(device_name, 2, &device, &err), err);
    bw_lm *lm;
    open_lm(name, NULL, BW_F16, device, &lm);
    struct expectation e = {.limit = limit};
    open_expected(name, &e);
    const int32_t *tokens = bw_safetensors_find(e.st, "tokens")->data;
    for (int round = 0; round < 2; round++) {
        int cached[N_SEQS] = {0};
        for (int step = 0; step < N_STEPS; step++) {
            bw_lm_seq seqs[N_SEQS];
            int32_t all[MAX_TOKENS], outputs[N_SEQS], last[N_SEQS];
            bw_lm_batch batch = {.tokens = all, .seqs = seqs, .outputs = outputs};
            for (int s = 0; s < N_SEQS; s++) {
                int n = takes[step][s];
                if (n == 0)
                    continue;
                memcpy(all + batch.n_tokens, tokens + cached[s], (size_t)n * sizeof *all);
                cached[s] += n;
                seqs[batch.n_seqs] = (bw_lm_seq){batch.n_tokens, n, cached[s], pages[s]};
                batch.n_tokens += n;
                outputs[batch.n_outputs++] = batch.n_tokens - 1;
                last[batch.n_seqs++] = cached[s] - 1;
            }
            const float *logits;
            assert_ok(bw_lm_step(lm, &batch, &logits, &err), err);
            for (int i = 0; i < batch.n_seqs; i++) {
                e.first_row = last[i];
                compare(&e, "logits", logits + (size_t)i * N_VOCAB, 1, N_VOCAB);
            }
        }
    }
    bw_safetensors_close(e.st);
    bw_lm_free(lm);
    bw_device_close(device);
}

static void mixed_batches(void **state)
{
    (void)state;
    for (gpu_layers = 0; gpu_layers <= on_gpu; gpu_layers++) {
        check_mixed("llama2", 4e-3);
        check_mixed("gemma3", on_gpu ? 2e-2 : 4e-3);
    }
    gpu_layers = 0;
}

static void copied_pages(void **state)
{
    (void)state;
    gpu_layers = on_gpu; /* its pages lie on both */
    bw_err err = {0};
    bw_device *device;
    assert_ok(bw_device_open(device_name, 1, &device, &err), err);
    bw_lm *lm;
    open_lm("llama2", NULL, BW_F16, device, &lm);
    struct expectation e = {.limit = 1e-3};
    open_expected("llama2", &e);
    const int32_t *tokens = bw_safetensors_find(e.st, "tokens")->data;
    int32_t pages[1] = {4}, copy[1] = {5}, output = 0;
    bw_lm_seq seq = {.n_tokens = 20, .n_cached = 20, .pages = pages};
    bw_lm_batch batch = {.n_tokens = 20, .tokens = tokens, .n_seqs = 1, .seqs = &seq};
    const float *logits;
    assert_ok(bw_lm_step(lm, &batch, &logits, &err), err);
    assert_ok(bw_lm_copy_page(lm, 5, 4, 20, &err), err);
    seq = (bw_lm_seq){.n_tokens = 1, .n_cached = 21, .pages = copy};
    batch = (bw_lm_batch){
        .n_tokens = 1, .tokens = tokens + 20, .n_seqs = 1, .seqs = &seq, .n_outputs = 1, .outputs = &output};
    assert_ok(bw_lm_step(lm, &batch, &logits, &err), err);
    e.first_row = 20;
    compare(&e, "logits", logits, 1, 160);
    assert_int_equal(bw_lm_copy_page(lm, MAX_PAGES, 0, 1, &err), BW_E_INTERNAL);
    bw_safetensors_close(e.st);
    bw_lm_free(lm);
    bw_device_close(device);
    gpu_layers = 0;
}

/* The simulated card with less memory: a model that does not fit is split, or refused where that was asked for; the
 * sentences say what is there and what is needed. */
static void short_memory(void **state)
{
    (void)state;
    bw_err err = {0};
    char path[256];
    snprintf(path, sizeof path, "%s/lm/llama2", BW_TEST_DATA);
    /* 256 MiB are kept free for the driver, and a page of this model has 16 KiB */
    static const struct {
        const char *mib, *device;
        int32_t n_pages, n_gpu_layers;
        bool require_gpu;
        bw_status status;
        const char *says;
    } tries[] = {
        {"1024", "rocm:0", 4096, 0, true, BW_OK, NULL},
        {"300", "rocm:0 (1 of 2 layers), cpu:0", 4096, 0, false, BW_OK, NULL},
        {"300", NULL, 4096, 0, true, BW_E_MEMORY, "only 1 of 2 layers"},
        {"200", NULL, 4096, 0, false, BW_E_MEMORY, "too little even for one layer"},
        {"1024", NULL, 4096, 1, true, BW_E_ARG, "only 1 of 2 layers"},
        {"1024", "rocm:0 (1 of 2 layers), cpu:0", 4096, 1, false, BW_OK, NULL},
        {"1024", "rocm:0", 4096, 2, false, BW_OK, NULL},
        {"1024", "rocm:0", 4096, 99, true, BW_OK, NULL},
        {"40", NULL, 4096, 2, false, BW_E_MEMORY, NULL}, /* asked for by number: tried, and the card refuses */
    };
    for (size_t i = 0; i < sizeof tries / sizeof *tries; i++) {
        bw_device *device;
        bw_lm_file *file;
        bw_lm *lm = NULL;
        setenv("BW_SIM_MEMORY_MIB", tries[i].mib, 1);
        assert_ok(bw_device_open(device_name, 2, &device, &err), err);
        assert_ok(bw_lm_file_open(path, &file, &err), err);
        bw_lm_options options = {.kv_dtype = BW_F32,
                                 .n_pages = tries[i].n_pages,
                                 .max_tokens = 8,
                                 .max_seqs = 2,
                                 .max_outputs = 2,
                                 .max_seq_pages = 2,
                                 .n_gpu_layers = tries[i].n_gpu_layers,
                                 .require_gpu = tries[i].require_gpu,
                                 .n_threads = 1};
        bw_status status = bw_lm_new(file, device, &options, &lm, &err);
        if (status != tries[i].status)
            fail_msg("try %zu: %s: %s", i, bw_status_name(status), err.text);
        if (lm) {
            bw_lm_info info;
            bw_lm_get_info(lm, &info);
            assert_string_equal(info.device, tries[i].device);
        } else {
            print_message("%s\n", err.text);
            assert_true(!tries[i].says || strstr(err.text, tries[i].says));
            assert_non_null(strstr(err.text, device_name));
        }
        bw_lm_free(lm);
        bw_device_close(device);
    }
    unsetenv("BW_SIM_MEMORY_MIB");
}

static void bad_steps(void **state)
{
    (void)state;
    bw_err err = {0};
    bw_device *device;
    assert_ok(bw_device_open(device_name, 1, &device, &err), err);
    bw_lm *lm;
    open_lm("llama2", NULL, BW_F16, device, &lm);
    int32_t token = 160, pages[1] = {0};
    bw_lm_seq seq = {.n_tokens = 1, .n_cached = 1, .pages = pages};
    bw_lm_batch batch = {.n_tokens = 1, .tokens = &token, .n_seqs = 1, .seqs = &seq};
    const float *logits;
    assert_int_equal(bw_lm_step(lm, &batch, &logits, &err), BW_E_RANGE);
    token = 5;
    assert_ok(bw_lm_step(lm, &batch, &logits, &err), err);
    pages[0] = MAX_PAGES;
    assert_int_equal(bw_lm_step(lm, &batch, &logits, &err), BW_E_INTERNAL);
    pages[0] = 0;
    seq.n_cached = 0;
    assert_int_equal(bw_lm_step(lm, &batch, &logits, &err), BW_E_INTERNAL);
    bw_lm_free(lm);
    bw_device_close(device);
}

static void failing_allocations(void **state)
{
    (void)state;
    char path[256];
    snprintf(path, sizeof path, "%s/lm/llama31-q8_0.gguf", BW_TEST_DATA);
    bool done = false;
    int n = 1;
    for (; !done; n++) {
        assert_true(n < 100000);
        int64_t live = bw_mem_live();
        bw_err err = {0};
        bw_device *device = NULL;
        bw_lm_file *file = NULL;
        bw_lm *lm = NULL;
        bw_mem_fail_at(n);
        bw_status status = bw_device_open(device_name, 2, &device, &err);
        if (status == BW_OK)
            status = bw_lm_file_open(path, &file, &err);
        if (status == BW_OK) {
            bw_lm_options options = {
                .kv_dtype = BW_F16, .n_pages = 4, .max_tokens = 8, .max_seqs = 2, .max_outputs = 2, .max_seq_pages = 2};
            status = bw_lm_new(file, device, &options, &lm, &err);
        }
        bw_mem_fail_at(0);
        done = status == BW_OK;
        if (!done && status != BW_E_MEMORY)
            fail_msg("allocation %d: %s: %s", n, bw_status_name(status), err.text);
        bw_lm_free(lm);
        bw_device_close(device);
        assert_int_equal(bw_mem_live(), live);
    }
    print_message("%d allocations, each failed once\n", n - 2);
}

static void wrong_files(void **state)
{
    (void)state;
    bw_err err = {0};
    bw_lm_file *file;
    assert_int_equal(bw_lm_file_open("/nonexistent.gguf", &file, &err), BW_E_NOT_FOUND);
    assert_int_equal(bw_lm_file_open("/nonexistent", &file, &err), BW_E_NOT_FOUND);
    assert_int_equal(bw_lm_file_open(BW_TEST_DATA "/lm", &file, &err), BW_E_NOT_FOUND);
    assert_int_equal(bw_lm_file_open(BW_TEST_DATA "/lm/llama2/config.json", &file, &err), BW_E_FORMAT);
    assert_int_equal(bw_lm_file_open(BW_TEST_DATA "/lm/llama2/expected.safetensors", &file, &err), BW_E_FORMAT);
    assert_non_null(strstr(err.text, "embed_tokens"));
}

int main(void)
{
    const char *named = getenv("BW_TEST_DEVICE");
    if (named)
        device_name = named;
    on_gpu = strncmp(device_name, "cpu", 3) != 0;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(safetensors_models),  cmocka_unit_test(gguf_models),  cmocka_unit_test(mixed_batches),
        cmocka_unit_test(copied_pages),        cmocka_unit_test(bad_steps),    cmocka_unit_test(wrong_files),
        cmocka_unit_test(failing_allocations), cmocka_unit_test(short_memory), /* last, and only with the simulated card
                                                                                */
    };
    size_t n = sizeof tests / sizeof *tests - !(on_gpu && getenv("BW_SIM_MEMORY_MIB"));
    return _cmocka_run_group_tests("models", tests, n, NULL, NULL);
}
