/* The simulation of GPUs notices kernels that break the rules (rules.hip), and lets the others pass. */
#include "../bw_test.h"
#include "../bw_test_child.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bw_gpu.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HAS_ASAN 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define HAS_ASAN 1
#endif
#if !defined(HAS_ASAN)
#define HAS_ASAN 0
#endif

enum { THREADS = 256, BLOCKS = 3, N = THREADS * BLOCKS };

static bw_device *device;
static bw_buffer x, y;
static float host_x[N], host_y[N];

static int set_up(void **state)
{
    (void)state;
    bw_err err = {0};
    if (bw_device_open("rocm:0", 0, &device, &err) != BW_OK)
        fail_msg("%s", err.text);
    for (int i = 0; i < N; i++)
        host_x[i] = (float)(i % 7);
    const bw_device_vtable *v = device->vtable;
    assert_int_equal(v->alloc(device, sizeof host_x, BW_MEMORY_DENSE, "x", &x, &err), BW_OK);
    assert_int_equal(v->alloc(device, sizeof host_y, BW_MEMORY_DENSE, "y", &y, &err), BW_OK);
    assert_int_equal(v->upload(device, x.data, host_x, sizeof host_x, &err), BW_OK);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    device->vtable->release(device, &x);
    device->vtable->release(device, &y);
    bw_device_close(device);
    return 0;
}

/* y is NaN before. */
static bw_status run(const char *kernel, uint32_t threads, void **args, bw_err *err)
{
    bw_gpu_grid grid = {.blocks = {BLOCKS, 1, 1}, .threads = threads};
    memset(host_y, 0xff, sizeof host_y);
    bw_err ignored = {0};
    assert_int_equal(device->vtable->upload(device, y.data, host_y, sizeof host_y, &ignored), BW_OK);
    bw_status status = bw_gpu_run(device, kernel, &grid, args, err);
    assert_int_equal(device->vtable->download(device, host_y, y.data, sizeof host_y, &ignored), BW_OK);
    return status;
}

static void refuse(const char *kernel, uint32_t threads, void **args, const char *part)
{
    bw_err err = {0};
    assert_int_equal(run(kernel, threads, args, &err), BW_E_DEVICE);
    if (!strstr(err.text, kernel) || !strstr(err.text, part))
        fail_msg("%s: \"%s\" does not say \"%s\"", kernel, err.text, part);
}

static void test_good(void **state)
{
    (void)state;
    bw_err err = {0};
    const char *const seeds[] = {"0", "1", "2", "3"};
    for (size_t s = 0; s < sizeof seeds / sizeof *seeds; s++) {
        setenv("BW_SIM_SEED", seeds[s], 1);
        for (int32_t n = THREADS; n > 0; n -= 85) {
            assert_int_equal(run("good_sum", THREADS, (void *[]){&x.data, &y.data, &n}, &err), BW_OK);
            for (int b = 0; b < BLOCKS; b++) {
                float sum = 0;
                for (int i = 0; i < n; i++)
                    sum += host_x[b * THREADS + i];
                for (int i = 0; i < THREADS; i++)
                    if (i < n)
                        assert_true(host_y[b * THREADS + i] == sum);
                    else
                        assert_true(host_y[b * THREADS + i] != host_y[b * THREADS + i]);
            }
        }
        assert_int_equal(run("good_wave", 64, (void *[]){&x.data, &y.data}, &err), BW_OK);
        int wave = strstr(device->description, "gfxsim32") ? 32 : 64;
        for (int i = 0; i < 64 * BLOCKS; i++) {
            float sum = 0;
            for (int k = 0; k < wave; k++)
                sum += host_x[i / wave * wave + k];
            assert_true(host_y[i] == sum);
        }
    }
    unsetenv("BW_SIM_SEED");
    assert_int_equal(run("good_quotient", THREADS, (void *[]){&x.data, &y.data}, &err), BW_OK);
    for (int i = 0; i < THREADS * BLOCKS; i++)
        assert_true(host_y[i] == 0);
}

/* Whether a kernel that hands x on to a neighbour got any of it wrong. */
static bool is_wrong(const char *kernel)
{
    bw_err err = {0};
    assert_int_equal(run(kernel, THREADS, (void *[]){&x.data, &y.data}, &err), BW_OK);
    for (int i = 0; i < N; i++)
        if (!(host_y[i] == host_x[i / THREADS * THREADS + (i + 1) % THREADS]))
            return true;
    return false;
}

static void test_order(void **state)
{
    (void)state;
    assert_true(is_wrong("missing_barrier"));
    assert_true(is_wrong("reads_unwritten"));
    for (int i = 0; i < N; i++) /* also where a workgroup before wrote there */
        assert_true(host_y[i] != host_y[i]);
}

static void test_waits(void **state)
{
    (void)state;
    void *args[] = {&x.data, &y.data};
    refuse("two_barriers", THREADS, args, "while others wait in that at");
    refuse("left_barrier", THREADS, args, "which came to earlier barriers, never reach");
    refuse("lane_returns", THREADS, args, "1 have returned");
    refuse("lane_in_barrier", THREADS, args, "1 wait in a barrier");
    refuse("lanes_apart", THREADS, args, "while others are in that at");
    refuse("good_wave", 33, args, "of its wave, which has"); /* lanes that are not there */
    refuse("good_wave", 257, args, "no card takes");
    refuse("good_wave", 0, args, "no card takes");
    /* and the next launch is none the worse for it */
    bw_err err = {0};
    assert_int_equal(run("good_wave", THREADS, args, &err), BW_OK);
}

/* The kernel in a child, which ASan ends. */
static void refuse_in_child(const char *kernel, void **args, const char *part)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        bw_err err = {0};
        dup2(ends[1], 2);
        bw_gpu_grid grid = {.blocks = {1, 1, 1}, .threads = THREADS};
        bw_test_exit(bw_gpu_run(device, kernel, &grid, args, &err) == BW_OK ? 0 : 3);
    }
    close(ends[1]);
    static char text[1 << 16];
    size_t n = 0;
    for (ssize_t got; (got = read(ends[0], text + n, sizeof text - 1 - n)) > 0;)
        n += (size_t)got;
    text[n] = 0;
    close(ends[0]);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_false(WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 3));
    if (!strstr(text, part) || !strstr(text, kernel))
        fail_msg("%s: \"%s\" does not say \"%s\"", kernel, text, part);
}

static void test_bounds(void **state)
{
    (void)state;
    static const int64_t outside[] = {N, -1, N + 40, -30};
    bw_err err = {0};
    for (size_t i = 0; i < sizeof outside / sizeof *outside; i++) {
        int64_t at = outside[i];
        if (HAS_ASAN) {
            refuse_in_child("writes_at", (void *[]){&y.data, &at}, "AddressSanitizer");
            refuse_in_child("reads_at", (void *[]){&x.data, &y.data, &at}, "AddressSanitizer");
        } else {
            refuse("writes_at", THREADS, (void *[]){&y.data, &at}, "memory around an allocation of 3072 bytes");
            assert_int_equal(run("reads_at", THREADS, (void *[]){&x.data, &y.data, &at}, &err), BW_OK);
            assert_true(!(host_y[0] >= 0)); /* what lies there is no number of ours */
        }
    }
    if (HAS_ASAN)
        refuse_in_child("writes_shared_at", (void *[]){&y.data, &(int32_t){THREADS}}, "AddressSanitizer");
    int64_t at = N - 1;
    assert_int_equal(run("writes_at", THREADS, (void *[]){&y.data, &at}, &err), BW_OK);
    assert_true(host_y[at] == 1);
    /* copies */
    const bw_device_vtable *v = device->vtable;
    assert_int_equal(v->upload(device, (char *)y.data + 4, host_x, sizeof host_x, &err), BW_E_DEVICE);
    assert_non_null(strstr(err.text, "a copy of 3072 bytes leaves its allocation"));
    assert_int_equal(v->download(device, host_y, (char *)y.data - 4, 8, &err), BW_E_DEVICE);
    assert_int_equal(v->download(device, host_y, host_x, 8, &err), BW_E_DEVICE);
}

/* What a captured stream was asked for happens when the graph is launched, with the arguments of then. */
static void test_graph(void **state)
{
    (void)state;
    bw_err err = {0};
    bw_gpu_graph *graph;
    int32_t n = THREADS;
    bw_gpu_grid grid = {.blocks = {BLOCKS, 1, 1}, .threads = THREADS};
    const bw_device_vtable *v = device->vtable;
    memset(host_y, 0xff, sizeof host_y);
    assert_int_equal(v->upload(device, y.data, host_y, sizeof host_y, &err), BW_OK);
    assert_int_equal(bw_gpu_capture_begin(device, &err), BW_OK);
    assert_int_equal(bw_gpu_run(device, "good_sum", &grid, (void *[]){&x.data, &y.data, &n}, &err), BW_OK);
    assert_int_equal(v->copy(device, (char *)y.data + 4, y.data, 4, &err), BW_OK);
    assert_int_equal(v->synchronise(device, &err), BW_E_DEVICE);
    assert_non_null(strstr(err.text, "not permitted while a stream is captured"));
    assert_int_equal(bw_gpu_capture_end(device, &graph, &err), BW_OK);
    n = 0;
    assert_int_equal(v->download(device, host_y, y.data, sizeof host_y, &err), BW_OK);
    assert_true(host_y[0] != host_y[0]);
    for (int round = 0; round < 2; round++) {
        assert_int_equal(bw_gpu_graph_launch(device, graph, &err), BW_OK);
        assert_int_equal(v->download(device, host_y, y.data, sizeof host_y, &err), BW_OK);
        float sum = 0;
        for (int i = 0; i < THREADS; i++)
            sum += host_x[i];
        assert_true(host_y[0] == sum && host_y[1] == sum && host_y[2] == sum);
    }
    bw_gpu_graph_free(device, graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_good), cmocka_unit_test(test_order),
                                       cmocka_unit_test(test_waits), cmocka_unit_test(test_bounds),
                                       cmocka_unit_test(test_graph)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
