/* CUDA's driver row without a card: what a GPU does is what fake_cuda.c does on host memory, and each call must reach
 * the right function with the right arguments, or say why not. */
#include "../bw_test.h"
#include "../bw_test_child.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "archive.h"
#include "bw_gpu_library.h"
#include "bw_probe.h"
#include "gpu_private.h"

/* Stands in place of what the build embeds; filled in main. */
static _Alignas(64) unsigned char archive[4096];
const bw_code_object bw_code_objects[] = {{"sm_80", archive, archive}, {"sm_90", archive, archive + sizeof archive}};
const int bw_n_code_objects = 2;

static int *fake(const char *name)
{
    void *library = dlopen(getenv("BW_CUDA_LIBRARY"), RTLD_NOW | RTLD_NOLOAD);
    assert_non_null(library);
    return dlsym(library, name);
}

static void nothing_lives(void)
{
    assert_int_equal(*fake("fake_hip_live"), 0);
    assert_int_equal(*fake("fake_hip_streams"), 0);
    assert_int_equal(*fake("fake_hip_modules"), 0);
    assert_int_equal(*fake("fake_cuda_contexts"), 0);
}

static bw_device *open_card(const char *name)
{
    bw_err err = {0};
    bw_device *device = NULL;
    assert_ok(bw_device_open(name, 0, &device, &err), err);
    return device;
}

/* What another process, in which the library is loaded anew, says. */
static void refuse_in_child(const char *library, const char *fail, const char *part)
{
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        bw_err err = {0};
        bw_device *device;
        setenv("BW_CUDA_LIBRARY", library, 1);
        if (fail)
            setenv("FAKE_HIP_FAIL", fail, 1);
        bool ok = bw_device_open("cuda:0", 0, &device, &err) == BW_E_DEVICE && strstr(err.text, part) &&
                  bw_device_open("cuda:0", 0, &device, NULL) == BW_E_DEVICE;
        if (!ok)
            fprintf(stderr, "\"%s\" does not say \"%s\"\n", err.text, part);
        bw_test_exit(ok ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* First of all: the library is loaded once per process. */
static void test_no_driver(void **state)
{
    (void)state;
    refuse_in_child("/nowhere/libcuda.so.1", NULL, "/nowhere/libcuda.so.1 cannot be loaded: no NVIDIA driver");
    refuse_in_child("libm.so.6", NULL, "libm.so.6 lacks cu");
    refuse_in_child(getenv("BW_CUDA_LIBRARY"), "hipInit", "the NVIDIA driver does not start: invalid value");
}

static void test_card(void **state)
{
    (void)state;
    bw_err err = {0};
    bw_gpu_info info = {0};
    char runtime[32] = "", driver[32] = "unknown";
    bw_device *device = open_card("cuda:1");
    assert_int_equal(device->kind, BW_DEVICE_CUDA);
    assert_string_equal(device->description, "Fake Hopper, sm_90, 132 units");
    const bw_gpu_driver *d = &bw_gpu_driver_cuda;
    assert_int_equal(d->describe(0, &info), 0);
    assert_int_equal(info.shared_bytes_per_block, 227 << 10);
    assert_int_equal(info.memory_bytes, INT64_C(80) << 30);
    assert_int_equal(info.wave, 32);
    assert_false(info.integrated);
    d->versions(runtime, driver);
    assert_string_equal(runtime, "13.2");
    assert_string_equal(driver, "unknown");
    assert_string_equal(d->library(), getenv("BW_CUDA_LIBRARY"));
    assert_string_equal(d->error_text(1000), "unknown error");
    assert_true(d->is_out_of_memory(2) && !d->is_out_of_memory(1));
    static const int lost[] = {46, 214, 220, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719},
                     kept[] = {0, 1, 2, 500, 701};
    for (size_t i = 0; i < sizeof lost / sizeof *lost; i++)
        assert_true(d->is_lost(lost[i]));
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        assert_false(d->is_lost(kept[i]));
    bw_device_close(device);
    assert_int_equal(bw_device_open("cuda:2", 0, &device, &err), BW_E_NOT_FOUND);
    static const char *const functions[] = {"hipGetDeviceCount",        "cuDeviceGet",
                                            "cuDeviceGetName",          "cuDeviceTotalMem_v2",
                                            "cuDeviceGetAttribute 75",  "cuDeviceGetAttribute 76",
                                            "cuDeviceGetAttribute 16",  "cuDeviceGetAttribute 97",
                                            "cuDeviceGetAttribute 18",  "cuDevicePrimaryCtxGetState",
                                            "cuDevicePrimaryCtxRetain", "cuCtxSetCurrent",
                                            "hipStreamCreateWithFlags", "hipModuleLoadData",
                                            "hipModuleGetFunction"};
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        setenv("FAKE_HIP_FAIL", functions[i], 1);
        assert_int_equal(bw_device_open("cuda:0", 0, &device, &err), BW_E_DEVICE);
        assert_non_null(strstr(err.text, "invalid value"));
        unsetenv("FAKE_HIP_FAIL");
    }
    assert_int_equal(*fake("fake_cuda_contexts"), 0);
    /* stacks are left alone where somebody uses the card already; it is no harm where they cannot be given up */
    int *limits = fake("fake_cuda_limits");
    *limits = 0;
    device = open_card("cuda:0");
    assert_int_equal(*limits, 1);
    bw_device *second = open_card("cuda:1");
    assert_int_equal(*limits, 1);
    bw_device_close(second);
    bw_device_close(device);
    setenv("FAKE_HIP_FAIL", "cuCtxSetLimit", 1);
    bw_device_close(open_card("cuda:0"));
    unsetenv("FAKE_HIP_FAIL");
    bw_probe probe;
    bw_probe_run(&probe, "", false);
    assert_int_equal(probe.backends[1].n_cards, 2);
    assert_string_equal(probe.backends[1].cards[1].code_object, "sm_90");
    assert_string_equal(probe.backends[1].runtime, "13.2");
    nothing_lives();
}

static void test_memory(void **state)
{
    (void)state;
    bw_err err = {0};
    bw_device *device = open_card("cuda:0"), *other = open_card("cuda:1");
    const bw_device_vtable *v = device->vtable;
    bw_buffer a, b, host;
    char text[100] = "over and back", back[100] = "";
    assert_ok(v->alloc(device, 100, BW_MEMORY_DENSE, "a", &a, &err), err);
    assert_ok(v->alloc(other, 100, BW_MEMORY_DENSE, "b", &b, &err), err);
    assert_ok(v->host_alloc(device, 100, "pinned", &host, &err), err);
    assert_ok(v->upload(device, a.data, text, sizeof text, &err), err);
    assert_ok(bw_gpu_copy_from(other, b.data, device, a.data, sizeof text, &err), err);
    assert_ok(v->copy(device, a.data, b.data, sizeof text, &err), err);
    assert_ok(v->download(device, back, a.data, sizeof back, &err), err);
    assert_string_equal(back, text);
    assert_ok(bw_gpu_fill(device, a.data, 7, 100, &err), err);
    assert_ok(v->download_later(device, host.data, a.data, 100, &err), err);
    assert_ok(v->synchronise(device, &err), err);
    assert_int_equal(((char *)host.data)[99], 7);
    assert_ok(v->upload_later(device, b.data, host.data, 100, &err), err);
    int64_t free_bytes, total;
    assert_ok(v->memory_info(device, &free_bytes, &total, &err), err);
    assert_int_equal(total >> 30, 64);
    bw_buffer much;
    assert_int_equal(v->alloc(device, SIZE_MAX / 2, BW_MEMORY_DENSE, "weights", &much, &err), BW_E_MEMORY);
    assert_int_equal(v->host_alloc(device, SIZE_MAX / 2, "rows", &much, &err), BW_E_MEMORY);
    setenv("FAKE_HIP_FAIL", "hipMalloc", 1);
    assert_int_equal(v->alloc(device, 5000000, BW_MEMORY_DENSE, "x", &much, &err), BW_E_DEVICE);
    setenv("FAKE_HIP_FAIL", "hipHostMalloc", 1);
    assert_int_equal(v->host_alloc(device, 100, "x", &much, &err), BW_E_DEVICE);
    setenv("FAKE_HIP_FAIL", "hipMemcpyAsync", 1);
    assert_int_equal(v->upload(device, a.data, text, 10, &err), BW_E_DEVICE);
    assert_int_equal(v->download(device, back, a.data, 10, &err), BW_E_DEVICE);
    assert_int_equal(v->upload_later(device, a.data, host.data, 10, &err), BW_E_DEVICE);
    assert_int_equal(v->download_later(device, host.data, a.data, 10, &err), BW_E_DEVICE);
    assert_int_equal(v->copy(device, b.data, a.data, 10, &err), BW_E_DEVICE);
    setenv("FAKE_HIP_FAIL", "hipMemcpyPeerAsync", 1);
    assert_int_equal(bw_gpu_copy_from(other, b.data, device, a.data, 10, &err), BW_E_DEVICE);
    setenv("FAKE_HIP_FAIL", "hipMemsetAsync", 1);
    assert_int_equal(bw_gpu_fill(device, a.data, 7, 10, &err), BW_E_DEVICE);
    unsetenv("FAKE_HIP_FAIL");
    v->release(device, &a);
    v->release(other, &b);
    v->host_release(device, &host);
    bw_device_close(device);
    bw_device_close(other);
    nothing_lives();
}

static void test_launches(void **state)
{
    (void)state;
    bw_err err = {0};
    bw_device *device = open_card("cuda");
    int64_t n = 5;
    void *args[] = {&n}, *begin, *end;
    float ms = 0;
    bw_gpu_grid grid = {.blocks = {3, 1, 1}, .threads = 64};
    int *announced = fake("fake_cuda_announced"), *launches = fake("fake_hip_launches");
    *launches = 0;
    assert_ok(bw_gpu_run(device, "known_1", &grid, args, &err), err);
    for (int i = 0; i < 3; i++) {
        grid.shared_bytes = (60u + (i == 2)) << 10;
        assert_ok(bw_gpu_run(device, "known_1", &grid, args, &err), err);
        assert_int_equal(*announced, i == 2 ? 2 : 1);
    }
    assert_int_equal(*launches, 12);
    grid.shared_bytes = 300 << 10; /* more than a card has */
    assert_int_equal(bw_gpu_run(device, "known_1", &grid, args, &err), BW_E_DEVICE);
    grid.shared_bytes = 0;
    bw_gpu_kernel *kernel;
    assert_int_equal(bw_gpu_find(device, "unknown", &kernel, &err), BW_E_NOT_FOUND);
    assert_ok(bw_gpu_event_new(device, &begin, &err), err);
    assert_ok(bw_gpu_event_new(device, &end, &err), err);
    bw_gpu_graph *graph;
    assert_ok(bw_gpu_capture_begin(device, &err), err);
    assert_true(bw_gpu_is_capturing(device));
    assert_ok(bw_gpu_run(device, "known_1", &grid, args, &err), err);
    assert_ok(bw_gpu_capture_end(device, &graph, &err), err);
    assert_false(bw_gpu_is_capturing(device));
    assert_ok(bw_gpu_event_record(device, begin, &err), err);
    assert_ok(bw_gpu_graph_launch(device, graph, &err), err);
    assert_ok(bw_gpu_event_record(device, end, &err), err);
    assert_ok(bw_gpu_event_elapsed(device, begin, end, &ms, &err), err);
    assert_int_equal(*launches, 15);
    static const char *const functions[] = {"hipEventSynchronize", "hipEventElapsedTime"};
    for (int i = 0; i < 2; i++) {
        setenv("FAKE_HIP_FAIL", functions[i], 1);
        assert_int_equal(bw_gpu_event_elapsed(device, begin, end, &ms, &err), BW_E_DEVICE);
    }
    setenv("FAKE_HIP_FAIL", "hipEventCreateWithFlags", 1);
    void *event;
    assert_int_equal(bw_gpu_event_new(device, &event, &err), BW_E_DEVICE);
    setenv("FAKE_HIP_FAIL", "hipEventRecord", 1);
    assert_int_equal(bw_gpu_event_record(device, begin, &err), BW_E_DEVICE);
    setenv("FAKE_HIP_FAIL", "hipGraphLaunch", 1);
    assert_int_equal(bw_gpu_graph_launch(device, graph, &err), BW_E_DEVICE);
    bw_gpu_graph *broken;
    static const char *const captures[] = {"hipStreamEndCapture", "hipGraphInstantiateWithFlags"};
    for (int i = 0; i < 2; i++) {
        setenv("FAKE_HIP_FAIL", captures[i], 1);
        assert_ok(bw_gpu_capture_begin(device, &err), err);
        assert_int_equal(bw_gpu_capture_end(device, &broken, &err), BW_E_DEVICE);
    }
    unsetenv("FAKE_HIP_FAIL");
    bw_gpu_event_free(device, begin);
    bw_gpu_event_free(device, end);
    bw_gpu_graph_free(device, graph);
    assert_null(bw_gpu_library(device)); /* hidden: it would take the pretended context for a real one */
    bw_device_close(device);
    nothing_lives();
    device = open_card("cuda:0");
    setenv("FAKE_HIP_LOST", "1", 1);
    assert_int_equal(bw_gpu_run(device, "known_1", &grid, args, &err), BW_E_LOST);
    unsetenv("FAKE_HIP_LOST");
    assert_int_equal(device->vtable->synchronise(device, &err), BW_E_LOST);
    bw_device_close(device);
    assert_int_equal(*fake("fake_cuda_contexts"), 0);
}

int main(void)
{
    setenv("BW_GPU_TRIALS", "0", 1);
    setenv("BW_GPU_LIBRARIES", "0", 1);
    make_archive(archive, sizeof archive, 1, &(test_family){"first", "code", "known_1 known_2 "});
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_no_driver), cmocka_unit_test(test_card),
                                       cmocka_unit_test(test_memory), cmocka_unit_test(test_launches)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
