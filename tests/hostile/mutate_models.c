/* Hostile: whole models, damaged in header, metadata, tensor table, length or configuration, are loaded and run. Each
 * load gives a sentence, or a model that computes a step; never a crash, hang or leak. Run under sanitizers it also
 * finds reads and writes outside. Values may become anything: what is computed is not looked at. */
#include "../bw_test.h"

#include <sys/stat.h>
#include <unistd.h>

#include "bw_clock.h"
#include "bw_gguf.h"
#include "bw_lm.h"
#include "bw_log.h"
#include "bw_mem.h"
#include "bw_safetensors.h"
#include "../formats/raw.h"
#include "mutate.h"

enum { N_MUTANTS = 300, MAX_BYTES = 256 << 10 };

static char folder[200];
static bw_device *device;

/* Load and run what lies at path; counts what happened. */
static void use(const char *path, int *n_loaded, int *n_refused)
{
    int64_t live = bw_mem_live();
    bw_err err = {0};
    bw_lm_file *file;
    bw_lm *lm = NULL;
    bw_status status = bw_lm_file_open(path, &file, &err);
    if (status == BW_OK) {
        bw_lm_options options = {
            .kv_dtype = BW_F16, .n_pages = 2, .max_tokens = 16, .max_seqs = 1, .max_outputs = 2, .max_seq_pages = 1};
        status = bw_lm_new(file, device, &options, &lm, &err);
    }
    if (status == BW_OK) {
        bw_lm_info info;
        bw_lm_get_info(lm, &info);
        int32_t tokens[14], outputs[1] = {13}, page = 1;
        for (int i = 0; i < 14; i++)
            tokens[i] = i * 5 % info.n_vocab;
        bw_lm_seq seq = {.n_tokens = 14, .n_cached = 14, .pages = &page};
        bw_lm_batch batch = {
            .n_tokens = 14, .tokens = tokens, .n_seqs = 1, .seqs = &seq, .n_outputs = 1, .outputs = outputs};
        const float *logits;
        assert_ok(bw_lm_step(lm, &batch, &logits, &err), err);
        ++*n_loaded;
    } else {
        if (err.status != status || strlen(err.text) < 10)
            fail_msg("refused with status %d and the sentence \"%s\"", status, err.text);
        for (const char *c = err.text; *c; c++)
            if ((unsigned char)*c < 0x20)
                fail_msg("a control character in the sentence: %s", err.text);
        ++*n_refused;
    }
    bw_lm_free(lm);
    assert_int_equal(bw_mem_live(), live);
}

/* N_MUTANTS mutants of `original` are written to `file` and loaded from `model`. */
static void run_mutants(const char *original, const char *file, const char *model, size_t n_header)
{
    static unsigned char changed[MAX_BYTES + 256];
    bw_err err = {0};
    char *data;
    size_t n;
    int n_loaded = 0, n_refused = 0;
    bw_rng rng;
    bw_rng_init(&rng, 20251121 + strlen(original));
    assert_ok(bw_file_read(original, MAX_BYTES, &data, &n, &err), err);
    int64_t begin = bw_clock_now_ns();
    for (int i = 0; i < N_MUTANTS; i++) {
        memcpy(changed, data, n);
        size_t n_changed = n;
        for (uint64_t k = bw_rng_below(&rng, 2); k < 2 && n_changed > 8; k++)
            n_changed = mutate(changed, n_changed, n_header < n_changed ? n_header : n_changed, &rng);
        raw_write(file, changed, n_changed);
        use(model, &n_loaded, &n_refused);
    }
    raw_write(file, data, n); /* as it was: the next file's mutants need this one whole */
    bw_free(data);
    int64_t ms = (bw_clock_now_ns() - begin) / 1000000;
    print_message("%s: %d mutants: %d refused, %d run, %d ms\n", strrchr(original, '/') + 1, N_MUTANTS, n_refused,
                  n_loaded, (int)ms);
    assert_true(n_refused > N_MUTANTS / 20 && n_loaded > N_MUTANTS / 20); /* the mutations reach what is checked */
}

static size_t gguf_header_bytes(const char *path)
{
    bw_err err = {0};
    bw_gguf *g;
    assert_ok(bw_gguf_open(path, &g, &err), err);
    size_t n = (size_t)((const unsigned char *)bw_gguf_tensor_at(g, 0)->data - bw_gguf_map(g, 0)->data);
    bw_gguf_close(g);
    return n;
}

static void gguf_mutants(void **state)
{
    (void)state;
    static const char *const originals[] = {BW_TEST_DATA "/lm/qwen2.gguf", BW_TEST_DATA "/lm/llama31-q8_0.gguf",
                                            BW_TEST_DATA "/cli/tiny.gguf"};
    char mutant[300];
    snprintf(mutant, sizeof mutant, "%s/mutant.gguf", folder);
    for (size_t i = 0; i < sizeof originals / sizeof *originals; i++)
        run_mutants(originals[i], mutant, mutant, gguf_header_bytes(originals[i]));
    unlink(mutant);
}

static void safetensors_mutants(void **state)
{
    (void)state;
    static const char *const names[] = {"llama-yarn", "gemma3"};
    char model[300], file[400], original[400];
    snprintf(model, sizeof model, "%s/model", folder);
    assert_int_equal(mkdir(model, 0777), 0);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        bw_err err = {0};
        char *data;
        size_t n;
        snprintf(original, sizeof original, "%s/lm/%s/model.safetensors", BW_TEST_DATA, names[i]);
        snprintf(file, sizeof file, "%s/model.safetensors", model);
        assert_ok(bw_file_read(original, MAX_BYTES, &data, &n, &err), err);
        raw_write(file, data, n);
        bw_free(data);
        snprintf(original, sizeof original, "%s/lm/%s/config.json", BW_TEST_DATA, names[i]);
        snprintf(file, sizeof file, "%s/config.json", model);
        run_mutants(original, file, model, SIZE_MAX);
        snprintf(original, sizeof original, "%s/lm/%s/model.safetensors", BW_TEST_DATA, names[i]);
        snprintf(file, sizeof file, "%s/model.safetensors", model);
        bw_safetensors *st;
        assert_ok(bw_safetensors_open(original, &st, &err), err);
        size_t n_header = bw_safetensors_map(st, 0)->n_bytes;
        for (size_t k = 0; k < bw_safetensors_count(st); k++)
            n_header -= bw_safetensors_at(st, k)->n_bytes;
        bw_safetensors_close(st);
        run_mutants(original, file, model, n_header);
    }
    unlink(file);
    snprintf(file, sizeof file, "%s/config.json", model);
    unlink(file);
    rmdir(model);
}

static int set_up(void **state)
{
    (void)state;
    bw_err err = {0};
    raw_folder(folder);
    bw_log_configure(BW_LOG_OFF, false); /* shapes without a kernel are told once per model */
    return bw_device_open(NULL, 2, &device, &err) == BW_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    bw_device_close(device);
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gguf_mutants),
        cmocka_unit_test(safetensors_mutants),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
