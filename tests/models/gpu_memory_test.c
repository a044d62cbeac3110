/* A model on a GPU that runs out of memory at every allocation in turn, the host's and the card's, and on one that is
 * lost: a sentence, and nothing stays behind. On a HIP library that computes nothing (tests/device/fake_hip.c). */
#include "../bw_test.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bw_lm.h"
#include "bw_mem.h"

static int *fake(const char *name)
{
    void *library = dlopen(getenv("BW_HIP_LIBRARY"), RTLD_NOW);
    assert_non_null(library);
    return dlsym(library, name);
}

/* Three steps: the third replays what the second recorded. */
static bw_status run(bw_lm *lm, bw_err *err)
{
    int32_t tokens[3] = {1, 2, 3}, pages[1] = {0}, last = 2;
    bw_lm_seq seq = {.n_tokens = 3, .n_cached = 3, .pages = pages};
    bw_lm_batch batch = {.n_tokens = 3, .tokens = tokens, .n_seqs = 1, .seqs = &seq, .n_outputs = 1, .outputs = &last};
    const float *logits;
    for (int i = 0; i < 3; i++)
        BW_TRY(bw_lm_step(lm, &batch, &logits, err));
    return BW_OK;
}

static bw_status open_lm(int32_t n_gpu_layers, bw_device **device, bw_lm **lm, bw_err *err)
{
    bw_lm_file *file;
    bw_lm_options options = {.kv_dtype = BW_F16,
                             .n_pages = 4,
                             .max_tokens = 16,
                             .max_seqs = 2,
                             .max_outputs = 2,
                             .max_seq_pages = 2,
                             .n_gpu_layers = n_gpu_layers};
    BW_TRY(bw_device_open("rocm:0", 2, device, err));
    BW_TRY(bw_lm_file_open(BW_TEST_DATA "/lm/llama31-q8_0.gguf", &file, err));
    return bw_lm_new(file, *device, &options, lm, err);
}

/* All of a model's life, with its n-th allocation failing. Whether it ended before that. */
static bool is_over(int32_t n_gpu_layers, int n, bool of_card)
{
    bw_err err = {0};
    bw_device *device = NULL;
    bw_lm *lm = NULL;
    int64_t live = bw_mem_live(), asked = bw_mem_count();
    int *left = fake("fake_hip_left");
    if (of_card)
        *left = n - 1;
    else
        bw_mem_fail_at(n);
    bw_status status = open_lm(n_gpu_layers, &device, &lm, &err);
    if (status == BW_OK)
        status = run(lm, &err);
    bool failed = of_card ? *left == 0 : bw_mem_count() - asked >= n;
    bw_mem_fail_at(0);
    *left = -1;
    if (status != BW_OK && (status != BW_E_MEMORY || !strstr(err.text, "memory")))
        fail_msg("allocation %d of the %s: %s: %s", n, of_card ? "card" : "host", bw_status_name(status), err.text);
    bw_lm_free(lm);
    bw_device_close(device);
    assert_int_equal(*fake("fake_hip_live"), 0);
    assert_int_equal(*fake("fake_hip_streams"), 0);
    assert_int_equal(*fake("fake_hip_modules"), 0);
    assert_int_equal(bw_mem_live(), live);
    return status == BW_OK && !failed;
}

static void test_failing_allocations(void **state)
{
    (void)state;
    for (int32_t n_gpu_layers = 0; n_gpu_layers < 2; n_gpu_layers++) /* all on the card, or one */
        for (int of_card = 0; of_card < 2; of_card++) {
            int n = 1;
            while (!is_over(n_gpu_layers, n, of_card))
                n++;
            assert_in_range(n, of_card ? 8 : 40, 100000);
            print_message("%d allocations of the %s, each failed once\n", n - 1, of_card ? "card" : "host");
        }
}

/* Too many layers asked for are all of them; the sentence says what takes less. */
static void test_advice(void **state)
{
    (void)state;
    bw_err err = {0};
    bw_device *device = NULL;
    bw_lm *lm = NULL;
    *fake("fake_hip_left") = 3; /* inputs, logits and chosen tokens */
    assert_int_equal(open_lm(999999, &device, &lm, &err), BW_E_MEMORY);
    *fake("fake_hip_left") = -1;
    assert_non_null(strstr(err.text, "(weights)"));
    assert_non_null(strstr(err.text, "fewer layers on the GPU take less"));
    bw_device_close(device);
}

static void test_lost_device(void **state)
{
    (void)state;
    bw_err err = {0};
    bw_device *device = NULL;
    bw_lm *lm = NULL;
    int64_t live = bw_mem_live();
    assert_ok(open_lm(0, &device, &lm, &err), err);
    setenv("FAKE_HIP_LOST", "1", 1);
    assert_int_equal(run(lm, &err), BW_E_LOST);
    unsetenv("FAKE_HIP_LOST");
    assert_int_equal(run(lm, &err), BW_E_LOST);
    int on_card = *fake("fake_hip_live");
    bw_lm_free(lm);
    bw_device_close(device);
    assert_int_equal(*fake("fake_hip_live"), on_card); /* a lost card is not touched */
    assert_int_equal(bw_mem_live(), live);
    void (*end)(void);
    *(void **)&end = fake("fake_hip_end");
    end();
}

int main(void)
{
    char folder[] = "gpu_memory_test_XXXXXX", path[64];
    if (!mkdtemp(folder))
        return 1;
    snprintf(path, sizeof path, "%s/all.gfx90a.hsaco", folder);
    FILE *f = fopen(path, "w");
    if (!f)
        return 1;
    fputs("code", f);
    fclose(f);
    setenv("BW_KERNEL_DIR", folder, 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_failing_allocations),
        cmocka_unit_test(test_advice),
        cmocka_unit_test(test_lost_device),
    };
    int result = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(path);
    rmdir(folder);
    return result;
}
