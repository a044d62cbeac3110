/* oneDNN where it is, where it is not, and where it is broken: `onednn_test lacks|fails|absent|off|real`, with
 * BW_ONEDNN_LIBRARY and BW_CPU_LIBRARIES set by CMakeLists.txt; and timed trials by themselves (`onednn_test trials`).
 */
#include "../bw_test.h"

#include <math.h>
#include <time.h>
#include <unistd.h>

#include "bw_mem.h"
#include "bw_ops.h"
#include "bw_rng.h"
#include "bw_sanitizer.h"
#include "library/bw_onednn.h"
#include "library/bw_trial.h"

enum { M = 128, N = 300, K = 280, CHANNELS = 32, SIDE = 32 };

static bw_device *device;
static float *a, *b, *out, *expected; /* [M, K], [K, N], [M, N]; or x, w, y, y of the convolution */
static char log_text[4096];

/* What fn writes to standard error, into log_text. */
static void with_log(void (*fn)(void))
{
    fflush(stderr);
    int before = dup(2);
    FILE *file = tmpfile();
    assert_non_null(file);
    dup2(fileno(file), 2);
    fn();
    fflush(stderr);
    dup2(before, 2);
    close(before);
    rewind(file);
    log_text[fread(log_text, 1, sizeof log_text - 1, file)] = 0;
    fclose(file);
    fputs(log_text, stderr);
}

/* Whether this build and processor use libraries at all. */
static bool is_possible(void)
{
#if BW_HAS_TSAN
    printf("SKIPPED: libraries are not used under ThreadSanitizer\n");
    return false;
#else
    if (!device->cpu->avx2)
        printf("SKIPPED: libraries are used with AVX2 and better\n");
    return device->cpu->avx2;
#endif
}

static void load(void)
{
    bw_onednn_is_there();
}

static bw_op_call matmul_call(bw_tensor *t, int64_t m)
{
    t[0] = bw_tensor_view(BW_F32, 2, (int64_t[]){m, K}, a);
    t[1] = bw_tensor_view(BW_F32, 2, (int64_t[]){K, N}, b);
    t[2] = bw_tensor_view(BW_F32, 2, (int64_t[]){m, N}, out);
    return (bw_op_call){.op = BW_OP_MATMUL, .n_in = 2, .n_out = 1, .in = {&t[0], &t[1]}, .out = {&t[2]}};
}

static bw_op_call conv_call(bw_tensor *t)
{
    static const bw_conv2d_params params = {1, 1, 1, 1, 1, 1, 0, 0, 1};
    t[0] = bw_tensor_view(BW_F32, 4, (int64_t[]){1, CHANNELS, SIDE, SIDE}, a);
    t[1] = bw_tensor_view(BW_F32, 4, (int64_t[]){CHANNELS, CHANNELS, 3, 3}, b);
    t[2] = bw_tensor_view(BW_F32, 4, (int64_t[]){1, CHANNELS, SIDE, SIDE}, out);
    return (bw_op_call){
        .op = BW_OP_CONV2D, .n_in = 2, .n_out = 1, .in = {&t[0], &t[1]}, .out = {&t[2]}, .params = &params};
}

static int64_t out_bytes(const bw_op_call *call)
{
    return bw_tensor_elements(call->out[0]) * 4;
}

/* Run over NaNs and hold the result against ref's. */
static void run(bw_op_call *call, const char *variant)
{
    bw_err err = {0};
    assert_ok(bw_op_prepare(call, device, "ref", &err), err);
    assert_ok(bw_op_run(call, device, &err), err);
    memcpy(expected, out, (size_t)out_bytes(call));
    memset(out, 0xff, (size_t)out_bytes(call));
    assert_ok(bw_op_prepare(call, device, variant, &err), err);
    assert_ok(bw_op_run(call, device, &err), err);
    for (int64_t i = 0; i < bw_tensor_elements(call->out[0]); i++)
        if (!(fabsf(out[i] - expected[i]) < 1e-3f))
            fail_msg("%s: element %lld is %g, not %g", call->variant, (long long)i, (double)out[i],
                     (double)expected[i]);
}

/* Our kernels alone, and the library's is not to be had. */
static void assert_ours(void)
{
    bw_tensor t[3];
    bw_err err = {0};
    bw_op_call matmul = matmul_call(t, M);
    run(&matmul, NULL);
    assert_string_not_equal(matmul.variant, "trial");
    assert_int_not_equal(bw_op_prepare(&matmul, device, "onednn", &err), BW_OK);
    bw_op_call conv = conv_call(t);
    run(&conv, NULL);
    assert_string_not_equal(conv.variant, "trial");
}

static void test_lacks(void **state)
{
    (void)state;
    if (!is_possible())
        return;
    with_log(load);
    assert_non_null(strstr(log_text, "WARN"));
    assert_non_null(strstr(log_text, " lacks dnnl_set_max_cpu_isa"));
    assert_non_null(strstr(log_text, "our own kernels are used"));
    assert_ours();
}

static void test_absent(void **state)
{
    (void)state;
    if (!is_possible())
        return;
    with_log(load);
    assert_non_null(strstr(log_text, "oneDNN is not here"));
    assert_ours();
}

static void test_off(void **state)
{
    (void)state;
    with_log(load);
    assert_string_equal(log_text, "");
    assert_ours();
}

/* Every run of the library fails: ours computes, in trials and by name. */
static void test_fails(void **state)
{
    (void)state;
    if (!is_possible())
        return;
    with_log(load);
    assert_non_null(strstr(log_text, "oneDNN 2.6.0"));
    for (int i = 0; i < 3; i++) {
        bw_tensor t[3];
        bw_op_call matmul = matmul_call(t, M);
        run(&matmul, i < 2 ? NULL : "onednn");
        assert_string_equal(matmul.variant, i < 2 ? "trial" : "onednn");
        bw_op_call conv = conv_call(t);
        run(&conv, i < 2 ? NULL : "onednn");
        assert_string_equal(conv.variant, i < 2 ? "trial" : "onednn");
    }
}

/* The installed library: right, the same bits from the trial's run on, right again when a dimension has changed since
 * the call was prepared, as in a plan. */
static void test_real(void **state)
{
    (void)state;
    if (!bw_onednn_is_there()) {
        printf("SKIPPED: oneDNN is not installed\n");
        return;
    }
    bw_tensor t[3];
    bw_err err = {0};
    for (int i = 0; i < 2; i++) {
        bw_op_call call = i ? conv_call(t) : matmul_call(t, M);
        run(&call, NULL);
        assert_string_equal(call.variant, "trial");
        memcpy(expected, out, (size_t)out_bytes(&call));
        for (int k = 0; k < 3; k++) {
            memset(out, 0xff, (size_t)out_bytes(&call));
            assert_ok(bw_op_run(&call, device, &err), err);
            assert_memory_equal(out, expected, (size_t)out_bytes(&call));
        }
        run(&call, "onednn");
    }
    static const char *const variants[] = {NULL, "onednn"};
    for (int i = 0; i < 2; i++)
        for (int64_t m = 1; m <= M; m += 51) {
            bw_op_call call = matmul_call(t, m);
            assert_ok(bw_op_prepare(&call, device, "ref", &err), err);
            assert_ok(bw_op_run(&call, device, &err), err);
            memcpy(expected, out, (size_t)(M * N) * 4);
            call = matmul_call(t, M);
            assert_ok(bw_op_prepare(&call, device, variants[i], &err), err);
            t[0].dims[0] = t[2].dims[0] = m;
            memset(out, 0xff, (size_t)(m * N) * 4);
            assert_ok(bw_op_run(&call, device, &err), err);
            for (int64_t k = 0; k < m * N; k++)
                assert_true(fabsf(out[k] - expected[k]) < 1e-3f);
        }
}

/* ---- trials ----------------------------------------------------------------------------------------------------- */

static long ours_ms, theirs_ms;
static bool is_failing;
static int n_ours, n_theirs; /* runs, as member 0 counts them */
static char last;            /* who ran last */

static void take_ms(long ms)
{
    nanosleep(&(struct timespec){.tv_nsec = ms * 1000000}, NULL);
}

static void ours(const bw_op_call *call, bw_member *member)
{
    assert_true(atomic_load(call->next) == 0);
    if (member->rank == 0) {
        take_ms(ours_ms);
        n_ours++;
        last = 'o';
    }
}

static bool theirs(const bw_op_call *call, bw_member *member)
{
    (void)call;
    if (member->rank == 0) {
        take_ms(theirs_ms);
        n_theirs++;
        last = 't';
    }
    return !(is_failing && member->rank == member->size - 1);
}

typedef struct trial_run {
    bw_op_call call;
    bw_trial_key key;
    bool by_name;
} trial_run;

static void run_member(void *arg, bw_member *member)
{
    trial_run *r = arg;
    if (r->by_name)
        bw_library_run(&r->call, member, ours, theirs);
    else
        bw_trial_run(&r->call, member, &r->key, ours, theirs);
}

/* One call of the kind `key` as a plan runs it: with scratch and a counter at 0. */
static void run_trial(int64_t key, bool by_name)
{
    bw_tensor t[3];
    _Atomic int64_t next = 0;
    trial_run r = {.call = matmul_call(t, M), .key = {{-1, key}}, .by_name = by_name};
    r.call.scratch_bytes = 64 + BW_TRIAL_SCRATCH;
    r.call.scratch = bw_alloc_aligned(r.call.scratch_bytes * (size_t)bw_team_size(device->team));
    assert_non_null(r.call.scratch);
    r.call.next = &next;
    bw_team_run(device->team, run_member, &r);
    bw_free(r.call.scratch);
}

static bw_trial_choice find(int64_t key)
{
    return bw_trial_find(&(bw_trial_key){{-1, key}});
}

static void test_trials(void **state)
{
    (void)state;
    ours_ms = 10;
    theirs_ms = 1;
    assert_int_equal(find(1), BW_TRIAL_NEW);
    run_trial(1, false);
    assert_int_equal(find(1), BW_TRIAL_THEIRS);
    assert_true(n_ours == 3 && n_theirs == 3 && last == 't');
    run_trial(1, false);
    assert_true(n_ours == 3 && n_theirs == 4);
    is_failing = true; /* later on: ours computes that call */
    run_trial(1, false);
    assert_true(n_ours == 4 && n_theirs == 5 && last == 'o');
    run_trial(0, true);
    assert_true(n_ours == 5 && n_theirs == 6 && last == 'o');
    run_trial(2, false); /* in the trial itself: found out in the first round */
    assert_int_equal(find(2), BW_TRIAL_OURS);
    assert_true(n_ours == 7 && n_theirs == 7 && last == 'o');
    is_failing = false;
    ours_ms = 1;
    theirs_ms = 10;
    run_trial(3, false);
    assert_int_equal(find(3), BW_TRIAL_OURS);
    assert_true(n_ours == 11 && n_theirs == 10 && last == 'o');
    run_trial(3, false);
    assert_true(n_ours == 12 && n_theirs == 10);
    /* The table is bounded: what comes when it is full is ours without a trial, and nothing is tried twice. */
    ours_ms = theirs_ms = 0;
    for (int64_t key = 100; key < 1300; key++)
        run_trial(key, false);
    assert_int_equal(find(1), BW_TRIAL_THEIRS);
    assert_true(find(359) == BW_TRIAL_OURS || find(359) == BW_TRIAL_THEIRS);
    assert_int_equal(find(1299), BW_TRIAL_NEW);
    int before = n_ours + n_theirs;
    for (int64_t key = 100; key < 1300; key++)
        run_trial(key, false);
    assert_int_equal(n_ours + n_theirs, before + 1200);
    assert_int_equal(bw_trial_round(7), 7);
    assert_int_equal(bw_trial_round(1000), 896);
    assert_int_equal(bw_trial_round(1024), 1024);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        struct CMUnitTest test;
    } tests[] = {{"", cmocka_unit_test(test_trials)},       {"", cmocka_unit_test(test_real)},
                 {"lacks", cmocka_unit_test(test_lacks)},   {"fails", cmocka_unit_test(test_fails)},
                 {"absent", cmocka_unit_test(test_absent)}, {"off", cmocka_unit_test(test_off)}};
    const char *wanted = argc > 1 ? argv[1] : "";
    bw_err err = {0};
    bw_rng rng;
    bw_rng_init(&rng, 1);
    enum { ROOM = 100000 };
    float **arrays[] = {&a, &b, &out, &expected};
    for (int i = 0; i < 4; i++) {
        *arrays[i] = bw_alloc_aligned(ROOM * sizeof(float));
        for (int k = 0; *arrays[i] && k < ROOM; k++)
            (*arrays[i])[k] = (float)bw_rng_f64(&rng) - 0.5f;
    }
    if (!a || !b || !out || !expected || bw_device_open("cpu:0", 3, &device, &err) != BW_OK)
        return 2;
    int failed = 0, n = 0;
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
        if (strcmp(wanted, tests[i].name) == 0) {
            failed += _cmocka_run_group_tests(tests[i].test.name, &tests[i].test, 1, NULL, NULL);
            n++;
        }
    bw_device_close(device);
    for (int i = 0; i < 4; i++)
        bw_free(*arrays[i]);
    return failed || n == 0;
}
