/* models: every architecture, from safetensors and from GGUF, against what transformers computed (tests/data/lm, made
 * by tools/fixtures/lm_fixtures.py), layer by layer; ragged batches and paging; bad files. */
#include "../bw_test.h"

#include <math.h>
#include <stdlib.h>

#include "bw_lm.h"
#include "bw_mem.h"
#include "bw_safetensors.h"

enum { N_TOKENS = 48, MAX_PAGES = 8 };

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
                             .max_tokens = 64,
                             .max_seqs = 4,
                             .max_outputs = 64,
                             .max_seq_pages = 4,
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
static void check_model(const char *file, const char *expected, const char *variant, bw_dtype kv, double limit)
{
    bw_err err = {0};
    bw_device *device;
    assert_ok(bw_device_open("cpu:0", 2, &device, &err), err);
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
    print_message("%s (%s, kv %s): worst relative error %.2e at %s\n", file, variant ? variant : "fast",
                  bw_dtype_name(kv), e.worst, e.worst_name);
    bw_safetensors_close(e.st);
    bw_lm_free(lm);
    bw_device_close(device);
}

/* With an f32 cache everything is f32 and the bar is 1e-3; f16 and bf16 caches round K and V to 11 and 8 bits. */
static void safetensors_models(void **state)
{
    (void)state;
    static const char *const names[] = {"llama2",  "llama31", "llama-linear", "llama-yarn",
                                        "mistral", "qwen2",   "gemma3"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        check_model(names[i], names[i], "ref", BW_F32, 1e-4);
        check_model(names[i], names[i], NULL, BW_F32, 1e-3);
        check_model(names[i], names[i], NULL, BW_F16, 4e-3);
        check_model(names[i], names[i], NULL, BW_BF16, 3e-2);
    }
}

static void gguf_models(void **state)
{
    (void)state;
    check_model("llama31.gguf", "llama31", NULL, BW_F32, 1e-2); /* weights rounded to f16 */
    check_model("qwen2.gguf", "qwen2", NULL, BW_F32, 1e-3);
    check_model("llama31-q8_0.gguf", "llama31", NULL, BW_F32, 1e-1); /* 8-bit weights and activations */
    check_model("llama31-q8_0.gguf", "llama31", "ref", BW_F32, 1e-1);
}

static void copied_pages(void **state)
{
    (void)state;
    bw_err err = {0};
    bw_device *device;
    assert_ok(bw_device_open("cpu:0", 1, &device, &err), err);
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
}

static void bad_steps(void **state)
{
    (void)state;
    bw_err err = {0};
    bw_device *device;
    assert_ok(bw_device_open("cpu:0", 1, &device, &err), err);
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
        bw_status status = bw_device_open(NULL, 2, &device, &err);
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
    assert_int_equal(bw_lm_file_open("/nonexistent.gguf", &file, &err), BW_E_IO);
    assert_int_equal(bw_lm_file_open("/nonexistent", &file, &err), BW_E_NOT_FOUND);
    assert_int_equal(bw_lm_file_open(BW_TEST_DATA "/lm", &file, &err), BW_E_NOT_FOUND);
    assert_int_equal(bw_lm_file_open(BW_TEST_DATA "/lm/llama2/config.json", &file, &err), BW_E_UNSUPPORTED);
    assert_int_equal(bw_lm_file_open(BW_TEST_DATA "/lm/llama2/expected.safetensors", &file, &err), BW_E_FORMAT);
    assert_non_null(strstr(err.text, "embed_tokens"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(safetensors_models), cmocka_unit_test(gguf_models), cmocka_unit_test(copied_pages),
        cmocka_unit_test(bad_steps),          cmocka_unit_test(wrong_files), cmocka_unit_test(failing_allocations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
