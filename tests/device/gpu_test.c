/* The GPU backend without a GPU: on a HIP library that computes nothing (fake_hip.c), and the sentences said where
 * there is no runtime, no card or no kernel for it. */
#include "../bw_test.h"
#include "../bw_test_child.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "archive.h"
#include "bw_gpu_memory.h"
#include "bw_gpu.h"
#include "gpu_driver.h"

/* Stands in place of what the build embeds; filled in main. */
static _Alignas(64) unsigned char good[4096], broken[4096], missing[4096];
const bw_code_object bw_code_objects[] = {{"gfx90a", good, good + sizeof good},
                                          {"gfx1100", broken, broken + sizeof broken},
                                          {"gfx1201", missing, missing + sizeof missing}};
const int bw_n_code_objects = 3;

static void fill_archives(void)
{
    const test_family families[] = {
        {"first", "code", "known_1 known_0 known_3 known_2 known "},
        {"second", "code", "known_9 known_8 known_7 known_6 known_5 known_4 known_1 "},
    };
    make_archive(good, sizeof good, 2, families);
    make_archive(broken, sizeof broken, 1, &(test_family){"other", "rubbish", "known "});
    make_archive(missing, sizeof missing, 1, &(test_family){"half", "code", "known_1 lost_1 known_2 lost_2 "});
}

static bw_device *open_fake(const char *name)
{
    bw_err err = {0};
    bw_device *device = NULL;
    if (bw_device_open(name, 0, &device, &err) != BW_OK)
        fail_msg("%s", err.text);
    return device;
}

static int *fake(const char *name)
{
    void *library = dlopen(getenv("BW_HIP_LIBRARY"), RTLD_NOW | RTLD_NOLOAD);
    assert_non_null(library);
    return dlsym(library, name);
}

static void nothing_lives(void)
{
    assert_int_equal(*fake("fake_hip_live"), 0);
    assert_int_equal(*fake("fake_hip_streams"), 0);
    assert_int_equal(*fake("fake_hip_modules"), 0);
}

static void test_memory(void **state)
{
    (void)state;
    bw_err err = {0};
    bw_device *device = open_fake("rocm:1");
    assert_string_equal(device->name, "rocm:1");
    assert_int_equal(device->kind, BW_DEVICE_ROCM);
    assert_string_equal(device->description, "Fake Instinct, gfx90a, 104 units");
    bw_buffer a, b;
    const bw_device_vtable *v = device->vtable;
    assert_int_equal(v->alloc(device, 100, BW_MEMORY_DENSE, "a", &a, &err), BW_OK);
    assert_int_equal(v->alloc(device, 0, BW_MEMORY_SPARSE, "b", &b, &err), BW_OK);
    v->release(device, &b);
    assert_int_equal(v->alloc(device, 100, BW_MEMORY_SPARSE, "b", &b, &err), BW_OK);
    char text[100] = "over and back", back[100] = "";
    assert_int_equal(v->upload(device, a.data, text, sizeof text, &err), BW_OK);
    assert_int_equal(v->copy(device, b.data, a.data, sizeof text, &err), BW_OK);
    assert_int_equal(v->download(device, back, b.data, sizeof back, &err), BW_OK);
    assert_string_equal(back, text);
    assert_int_equal(v->synchronise(device, &err), BW_OK);
    int64_t free_bytes, total;
    assert_int_equal(v->memory_info(device, &free_bytes, &total, &err), BW_OK);
    assert_int_equal(total >> 30, 64);
    v->release(device, &a);
    v->release(device, &b);
    v->release(device, &b); /* empty: nothing happens */
    assert_int_equal(v->alloc(device, SIZE_MAX / 2, BW_MEMORY_DENSE, "weights", &a, &err), BW_E_MEMORY);
    assert_non_null(strstr(err.text, "rocm:1 (Fake Instinct): no memory for"));
    assert_non_null(strstr(err.text, "(weights); 49152 of 65536 MiB are free"));
    bw_device_close(device);
    nothing_lives();
}

static void test_kernels(void **state)
{
    (void)state;
    bw_err err = {0};
    bw_device *device = open_fake("rocm");
    bw_gpu_kernel *a, *b;
    /* in no order, so that the sorted list is exercised */
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < 20; i++) {
            char name[32];
            snprintf(name, sizeof name, "known_%d", i * 7 % 10);
            assert_int_equal(bw_gpu_find(device, name, &a, &err), BW_OK);
            assert_int_equal(bw_gpu_find(device, name, &b, &err), BW_OK);
            assert_ptr_equal(a, b);
        }
    assert_int_equal(bw_gpu_find(device, "unknown", &a, &err), BW_E_NOT_FOUND);
    assert_non_null(strstr(err.text, "there is no kernel unknown for gfx90a"));
    assert_int_equal(bw_gpu_find(device, "known_but_of_a_name_that_is_longer_than_any_kernel_of_ours", &a, &err),
                     BW_E_ARG);
    assert_non_null(strstr(err.text, "a kernel's name has at most 55 characters"));
    int64_t n = 5;
    void *args[] = {&n};
    int *launches = fake("fake_hip_launches");
    *launches = 0;
    bw_gpu_grid grid = bw_gpu_grid_for(device, 1000, 1);
    assert_int_equal(bw_gpu_run(device, "known_1", &grid, args, &err), BW_OK);
    assert_int_equal(*launches, 4);
    grid = bw_gpu_grid_for(device, 0, 1);
    assert_int_equal(bw_gpu_run(device, "known_1", &grid, args, &err), BW_OK);
    assert_int_equal(*launches, 4);
    grid = bw_gpu_grid_for(device, INT64_C(1) << 50, 4);
    assert_int_equal(grid.blocks[0], 104 * 32);
    grid.threads = 2048;
    assert_int_equal(bw_gpu_run(device, "known_1", &grid, args, &err), BW_E_DEVICE);
    assert_non_null(strstr(err.text, "rocm:0 (Fake Instinct): known_1: invalid value"));
    grid = (bw_gpu_grid){.blocks = {1u << 24, 1, 1}, .threads = 256}; /* 2^32 threads are one too many for HIP */
    assert_int_equal(bw_gpu_run(device, "known_1", &grid, args, &err), BW_E_DEVICE);
    bw_device_close(device);
}

/* What is released is handed out again; what is large goes back at once; no memory empties the pool. */
static void test_pool(void **state)
{
    (void)state;
    bw_err err = {0};
    bw_device *device = open_fake("rocm:0");
    const bw_device_vtable *v = device->vtable;
    bw_buffer a, b;
    int *live = fake("fake_hip_live"), before = *live;
    assert_int_equal(v->alloc(device, 1000000, BW_MEMORY_DENSE, "a", &a, &err), BW_OK);
    assert_in_range(a.reserved, 1000000, 1250000);
    void *address = a.data;
    v->release(device, &a);
    assert_int_equal(*live, before + 1);
    assert_int_equal(v->alloc(device, 999000, BW_MEMORY_DENSE, "b", &b, &err), BW_OK);
    assert_ptr_equal(b.data, address);
    v->release(device, &b);
    assert_int_equal(v->alloc(device, (size_t)64 << 20, BW_MEMORY_DENSE, "large", &a, &err), BW_OK);
    assert_int_equal(*live, before + 2);
    v->release(device, &a);
    assert_int_equal(*live, before + 1);
    bw_buffer many[8];
    for (int i = 0; i < 8; i++)
        assert_int_equal(v->alloc(device, (size_t)30 << 20, BW_MEMORY_DENSE, "many", &many[i], &err), BW_OK);
    for (int i = 0; i < 8; i++)
        v->release(device, &many[i]);
    assert_in_range(*live - before, 2, 6); /* the pool is bounded */
    assert_int_equal(v->alloc(device, SIZE_MAX / 2, BW_MEMORY_DENSE, "weights", &a, &err), BW_E_MEMORY);
    assert_int_equal(*live, before); /* and was emptied when memory ran out */
    bw_device_close(device);
    nothing_lives();
}

/* Large memory that comes and goes is the driver's own in the order of the stream, so that releasing it does not wait;
 * where the driver has none it is as any other. */
static void test_ordered_memory(void **state)
{
    (void)state;
    enum { LARGE = 64 << 20 };
    bw_err err = {0};
    int *live = fake("fake_hip_live"), *ordered = fake("fake_hip_ordered");
    for (int is_refused = 0; is_refused < 2; is_refused++) {
        bw_device *device = open_fake("rocm:0");
        const bw_device_vtable *v = device->vtable;
        bw_buffer brief, small, weights, again;
        int before = *live;
        if (is_refused)
            setenv("FAKE_HIP_FAIL", "hipMallocAsync", 1);
        assert_int_equal(v->alloc(device, LARGE, BW_MEMORY_BRIEF, "brief", &brief, &err), BW_OK);
        assert_int_equal(*ordered, is_refused ? 0 : 1);
        unsetenv("FAKE_HIP_FAIL");
        assert_int_equal(v->alloc(device, LARGE, BW_MEMORY_BRIEF, "again", &again, &err), BW_OK);
        assert_int_equal(*ordered, is_refused ? 0 : 2); /* refused once, it is not asked again */
        assert_int_equal(v->alloc(device, 1000, BW_MEMORY_BRIEF, "small", &small, &err), BW_OK);
        assert_int_equal(v->alloc(device, LARGE, BW_MEMORY_DENSE, "weights", &weights, &err), BW_OK);
        assert_int_equal(*ordered, is_refused ? 0 : 2);
        assert_int_equal(*live, before + 4);
        v->release(device, &brief);
        v->release(device, &again);
        v->release(device, &small);
        v->release(device, &weights);
        assert_int_equal(*ordered, 0);
        int64_t free_bytes, total_bytes; /* which waits for what was given back */
        assert_int_equal(v->memory_info(device, &free_bytes, &total_bytes, &err), BW_OK);
        assert_int_equal(*live, before + 1); /* the small one waits in our pool */
        /* there is room only where what was given back in order has left the card: it is waited for */
        int *room = fake("fake_hip_room");
        assert_int_equal(v->alloc(device, LARGE, BW_MEMORY_BRIEF, "brief", &brief, &err), BW_OK);
        *room = *live;
        v->release(device, &brief);
        assert_int_equal(v->alloc(device, LARGE, BW_MEMORY_DENSE, "weights", &weights, &err), BW_OK);
        v->release(device, &weights);
        *room = -1;
        assert_int_equal(v->alloc(device, SIZE_MAX / 2, BW_MEMORY_BRIEF, "too large", &brief, &err), BW_E_MEMORY);
        assert_int_equal(*live, before); /* and was given back when memory ran out */
        bw_device_close(device);
        nothing_lives();
    }
}

/* Uploads larger than the ring, pinned memory, fills, copies between two cards. */
static void test_staging(void **state)
{
    (void)state;
    enum { BYTES = 5 * BW_STAGE_BYTES + 3 };
    bw_err err = {0};
    bw_device *device = open_fake("rocm:0"), *other = open_fake("rocm:1");
    const bw_device_vtable *v = device->vtable;
    bw_buffer a, b, pinned;
    char *data = malloc(BYTES);
    for (int i = 0; i < BYTES; i++)
        data[i] = (char)(i * 7 + i / 4096);
    assert_int_equal(v->alloc(device, BYTES, BW_MEMORY_DENSE, "a", &a, &err), BW_OK);
    assert_int_equal(v->alloc(other, BYTES, BW_MEMORY_DENSE, "b", &b, &err), BW_OK);
    assert_int_equal(v->host_alloc(device, BYTES, "pinned", &pinned, &err), BW_OK);
    assert_int_equal(v->upload(device, a.data, data, BYTES, &err), BW_OK);
    assert_int_equal(v->copy_from(other, b.data, device, a.data, BYTES, &err), BW_OK);
    assert_int_equal(v->download_later(other, pinned.data, b.data, BYTES, &err), BW_OK);
    assert_int_equal(v->synchronise(other, &err), BW_OK);
    assert_memory_equal(pinned.data, data, BYTES);
    setenv("FAKE_HIP_FAIL", "hipMemcpyPeerAsync", 1);
    assert_int_equal(v->copy_from(other, b.data, device, a.data, BYTES, &err), BW_E_DEVICE);
    assert_non_null(strstr(err.text, "a copy from another device"));
    unsetenv("FAKE_HIP_FAIL");
    assert_int_equal(bw_gpu_fill(device, a.data, 0, 100, &err), BW_OK);
    assert_int_equal(v->upload_later(device, (char *)a.data + 50, pinned.data, 50, &err), BW_OK);
    char back[100], zeros[50] = {0};
    assert_int_equal(v->download(device, back, a.data, 100, &err), BW_OK);
    assert_memory_equal(back, zeros, 50);
    assert_memory_equal(back + 50, data, 50);
    static const char *const functions[] = {"hipHostMalloc", "hipEventCreateWithFlags", "hipEventRecord"};
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        bw_gpu_stage_free(device);
        setenv("FAKE_HIP_FAIL", functions[i], 1);
        assert_int_equal(v->upload(device, a.data, data, BYTES, &err), BW_E_DEVICE);
        unsetenv("FAKE_HIP_FAIL");
        assert_int_equal(v->upload(device, a.data, data, BYTES, &err), BW_OK);
    }
    v->host_release(device, &pinned);
    assert_int_equal(v->host_alloc(device, SIZE_MAX / 2, "too much", &pinned, &err), BW_E_MEMORY);
    assert_null(pinned.data);
    v->release(device, &a);
    v->release(other, &b);
    bw_device_close(other);
    free(data);
    bw_device_close(device);
    nothing_lives();
}

static void test_graphs(void **state)
{
    (void)state;
    bw_err err = {0};
    bw_device *device = open_fake("rocm:0");
    bw_gpu_grid grid = {.blocks = {3, 1, 1}, .threads = 64};
    int64_t n = 5;
    void *args[] = {&n}, *begin, *end;
    int *count = fake("fake_hip_launches");
    *count = 0;
    bw_gpu_graph *graph;
    float ms = 0;
    assert_int_equal(bw_gpu_capture_begin(device, &err), BW_OK);
    for (int i = 0; i < 4; i++)
        assert_int_equal(bw_gpu_run(device, "known", &grid, args, &err), BW_OK);
    assert_int_equal(bw_gpu_capture_end(device, &graph, &err), BW_OK);
    assert_int_equal(*count, 0);
    assert_int_equal(bw_gpu_event_new(device, &begin, &err), BW_OK);
    assert_int_equal(bw_gpu_event_new(device, &end, &err), BW_OK);
    assert_int_equal(bw_gpu_event_record(device, begin, &err), BW_OK);
    assert_int_equal(bw_gpu_graph_launch(device, graph, &err), BW_OK);
    assert_int_equal(bw_gpu_graph_launch(device, graph, &err), BW_OK);
    assert_int_equal(bw_gpu_event_record(device, end, &err), BW_OK);
    assert_int_equal(bw_gpu_event_elapsed(device, begin, end, &ms, &err), BW_OK);
    assert_true(ms == 1.5f);
    assert_int_equal(*count, 24);
    bw_gpu_event_free(device, begin);
    bw_gpu_event_free(device, end);
    bw_gpu_graph_free(device, graph);
    bw_gpu_graph_free(device, NULL);
    static const char *const functions[] = {"hipStreamEndCapture", "hipGraphInstantiateWithFlags"};
    for (size_t i = 0; i < 2; i++) {
        setenv("FAKE_HIP_FAIL", functions[i], 1);
        assert_int_equal(bw_gpu_capture_begin(device, &err), BW_OK);
        assert_int_equal(bw_gpu_capture_end(device, &graph, &err), BW_E_DEVICE);
        assert_null(graph);
        unsetenv("FAKE_HIP_FAIL");
    }
    bw_device_close(device);
    nothing_lives();
}

/* Errors that name no cause end it too when the card does not even answer any more; others never do. */
static void test_dead_device(void **state)
{
    (void)state;
    bw_err err = {0};
    bw_device *device = open_fake("rocm:0");
    bw_buffer a;
    assert_int_equal(device->vtable->alloc(device, 1000, BW_MEMORY_DENSE, "a", &a, &err), BW_OK);
    setenv("FAKE_HIP_FAIL", "hipMemsetAsync", 1);
    for (int i = 0; i < 10; i++)
        assert_int_equal(bw_gpu_fill(device, a.data, 0, 1000, &err), BW_E_DEVICE);
    setenv("FAKE_HIP_FAIL", "hipSetDevice", 1);
    assert_int_equal(bw_gpu_fill(device, a.data, 0, 1000, &err), BW_E_DEVICE);
    assert_int_equal(bw_gpu_fill(device, a.data, 0, 1000, &err), BW_E_DEVICE);
    unsetenv("FAKE_HIP_FAIL");
    assert_int_equal(device->vtable->synchronise(device, &err), BW_OK); /* it answers: what was counts no more */
    setenv("FAKE_HIP_FAIL", "hipSetDevice", 1);
    assert_int_equal(bw_gpu_fill(device, a.data, 0, 1000, &err), BW_E_DEVICE);
    assert_int_equal(bw_gpu_fill(device, a.data, 0, 1000, &err), BW_E_DEVICE);
    assert_int_equal(bw_gpu_fill(device, a.data, 0, 1000, &err), BW_E_LOST);
    unsetenv("FAKE_HIP_FAIL");
    assert_int_equal(bw_gpu_fill(device, a.data, 0, 1000, &err), BW_E_LOST);
    device->vtable->release(device, &a);
    bw_device_close(device);
}

/* One bad address, and the card is lost for good: every call says so; closing works and does not touch the card, which
 * may not answer any more. */
static void test_lost_device(void **state)
{
    (void)state;
    bw_err err = {0};
    bw_device *device = open_fake("rocm:0");
    const bw_device_vtable *v = device->vtable;
    bw_gpu_grid grid = {.blocks = {1, 1, 1}, .threads = 64};
    bw_buffer a, b;
    void *event, *room;
    assert_int_equal(v->alloc(device, 100, BW_MEMORY_DENSE, "a", &a, &err), BW_OK);
    assert_int_equal(v->host_alloc(device, 100, "b", &b, &err), BW_OK);
    assert_int_equal(bw_gpu_event_new(device, &event, &err), BW_OK);
    assert_int_equal(bw_gpu_stage(device, &room, &err), BW_OK);
    setenv("FAKE_HIP_LOST", "1", 1);
    assert_int_equal(bw_gpu_run(device, "known", &grid, (void *[]){&a.data}, &err), BW_E_LOST);
    unsetenv("FAKE_HIP_LOST");
    assert_int_equal(bw_gpu_run(device, "known", &grid, (void *[]){&a.data}, &err), BW_E_LOST);
    assert_int_equal(v->synchronise(device, &err), BW_E_LOST);
    assert_non_null(strstr(err.text, "start the program again"));
    int live = *fake("fake_hip_live");
    v->release(device, &a);
    v->host_release(device, &b);
    bw_gpu_event_free(device, event);
    bw_gpu_stage_free(device);
    bw_device_close(device);
    assert_int_equal(*fake("fake_hip_live"), live);
    assert_int_equal(*fake("fake_hip_streams"), 1);
    void *library = dlopen(getenv("BW_HIP_LIBRARY"), RTLD_NOW | RTLD_NOLOAD);
    void (*end)(void);
    *(void **)&end = dlsym(library, "fake_hip_end");
    end();
    nothing_lives();
}

/* Kernels of a folder are looked up when they are asked for: nothing lists them. */
static void test_folder(void **state)
{
    (void)state;
    bw_err err = {0};
    bw_gpu_kernel *a, *b;
    char folder[] = "/tmp/gpu_test_XXXXXX", path[64]; /* a run that is stopped leaves nothing in a checkout */
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/first.gfx90a.hsaco", folder);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs("code", f);
    fclose(f);
    setenv("BW_KERNEL_DIR", folder, 1);
    bw_device *device = open_fake("rocm");
    unsetenv("BW_KERNEL_DIR");
    unlink(path);
    rmdir(folder);
    for (int i = 0; i < 20; i++) { /* in no order, so that the sorted list is exercised */
        char name[32];
        snprintf(name, sizeof name, "known_too_%d", i * 7 % 20);
        assert_int_equal(bw_gpu_find(device, name, &a, &err), BW_OK);
        assert_int_equal(bw_gpu_find(device, name, &b, &err), BW_OK);
        assert_ptr_equal(a, b);
    }
    assert_int_equal(bw_gpu_find(device, "unknown", &a, &err), BW_E_NOT_FOUND);
    setenv("FAKE_HIP_FAIL", "hipModuleGetFunction", 1);
    assert_int_equal(bw_gpu_find(device, "known", &a, &err), BW_E_DEVICE);
    unsetenv("FAKE_HIP_FAIL");
    bw_device_close(device);
    nothing_lives();
}

static void refuse(const char *name, bw_status status, const char *part)
{
    bw_err err = {0};
    bw_device *device = (void *)&err;
    assert_int_equal(bw_device_open(name, 0, &device, &err), status);
    assert_null(device);
    if (!strstr(err.text, part))
        fail_msg("\"%s\" does not say \"%s\"", err.text, part);
}

static void test_names(void **state)
{
    (void)state;
    refuse("rocm:2", BW_E_NOT_FOUND, "device rocm:2 does not exist; there are 2");
    refuse("rocm:", BW_E_NOT_FOUND, "is unknown");
    refuse("rocm:x", BW_E_NOT_FOUND, "is unknown");
    refuse("rocm:-1", BW_E_NOT_FOUND, "is unknown");
    refuse("rocm:99999999999", BW_E_NOT_FOUND, "is unknown");
    refuse("cpu:1", BW_E_NOT_FOUND, "is unknown");
    refuse("metal:0", BW_E_NOT_FOUND, "cpu:0, rocm:N and cuda:N are what there is");
}

static void test_failures(void **state)
{
    (void)state;
    static const char *const functions[] = {"hipGetDeviceCount", "hipGetDeviceProperties",
                                            "hipSetDevice",      "hipStreamCreateWithFlags",
                                            "hipModuleLoadData", "hipModuleGetFunction"};
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        setenv("FAKE_HIP_FAIL", functions[i], 1);
        refuse("rocm:0", BW_E_DEVICE, "invalid value");
        if (i == 1) /* the card's name is not known yet */
            refuse("rocm:0", BW_E_DEVICE, "rocm:0: the device cannot be opened");
        unsetenv("FAKE_HIP_FAIL");
        nothing_lives();
    }
    bw_err err = {0};
    bw_buffer buffer = {0};
    char byte[1] = {0};
    bw_device *device = open_fake("rocm:0");
    const bw_device_vtable *v = device->vtable;
    setenv("FAKE_HIP_FAIL", "hipMemcpyAsync", 1);
    assert_int_equal(v->upload(device, byte, byte, 1, &err), BW_E_DEVICE);
    assert_int_equal(v->download(device, byte, byte, 1, &err), BW_E_DEVICE);
    assert_int_equal(v->copy(device, byte, byte, 1, &err), BW_E_DEVICE);
    setenv("FAKE_HIP_FAIL", "hipStreamSynchronize", 1);
    assert_int_equal(v->synchronise(device, &err), BW_E_DEVICE);
    setenv("FAKE_HIP_FAIL", "hipMemGetInfo", 1);
    assert_int_equal(v->memory_info(device, &(int64_t){0}, &(int64_t){0}, &err), BW_E_DEVICE);
    setenv("FAKE_HIP_FAIL", "hipSetDevice", 1);
    assert_int_equal(v->synchronise(device, &err), BW_E_DEVICE);
    assert_int_equal(v->alloc(device, 1, BW_MEMORY_DENSE, "x", &buffer, &err), BW_E_DEVICE);
    unsetenv("FAKE_HIP_FAIL");
    bw_device_close(device);
    /* a card that no code object fits, and one whose code object is broken */
    setenv("FAKE_HIP_ARCH", "gfx1030", 1);
    refuse("rocm:0", BW_E_DEVICE, "this build holds no kernels for gfx1030");
    setenv("FAKE_HIP_ARCH", "gfx1100", 1);
    refuse("rocm:0", BW_E_DEVICE, "the other kernels for gfx1100 do not load");
    setenv("FAKE_HIP_ARCH", "gfx1201", 1);
    refuse("rocm:0", BW_E_DEVICE,
           "2 of the 4 half kernels for gfx1201 are not in the loaded code object, the first is lost_1");
    unsetenv("FAKE_HIP_ARCH");
    nothing_lives();
}

static int n_closed, fails_current;
static void counting_close(int index, void *context)
{
    n_closed++;
    bw_gpu_driver_hip.close(index, context);
}
static int failing_current(void *context)
{
    return fails_current ? 1 : bw_gpu_driver_hip.make_current(context);
}

/* A context that cannot be made current any more is given back all the same. */
static void test_lost_context(void **state)
{
    (void)state;
    bw_err err = {0};
    bw_device *device;
    bw_gpu_driver driver = bw_gpu_driver_hip;
    driver.close = counting_close;
    driver.make_current = failing_current;
    assert_int_equal(bw_gpu_open(&driver, 0, &device, &err), BW_OK);
    fails_current = 1;
    bw_device_close(device);
    assert_int_equal(n_closed, 1);
    assert_int_equal(bw_gpu_open(&driver, 0, &device, &err), BW_E_DEVICE);
    assert_null(device);
    assert_int_equal(n_closed, 2);
}

static int n_allowed, fails_allowing;
static uint32_t allowed_bytes;
static int counting_allow(void *function, uint32_t n_bytes)
{
    assert_non_null(function);
    n_allowed++;
    allowed_bytes = n_bytes;
    return fails_allowing ? 1 : 0;
}

/* A driver that must be told of much shared memory is told once for each function and size. */
static void test_much_shared_memory(void **state)
{
    (void)state;
    bw_err err = {0};
    bw_device *device;
    bw_gpu_driver driver = bw_gpu_driver_hip;
    driver.allow_shared = counting_allow;
    assert_ok(bw_gpu_open(&driver, 0, &device, &err), err);
    bw_gpu_grid grid = {.blocks = {1, 1, 1}, .threads = 64};
    int64_t n = 5;
    void *args[] = {&n};
    static const struct {
        const char *kernel;
        uint32_t bytes;
        int n_allowed;
    } launches[] = {{"known_1", 0, 0},        {"known_1", 48 << 10, 0}, {"known_1", 64 << 10, 1},
                    {"known_1", 64 << 10, 1}, {"known_1", 50 << 10, 1}, {"known_2", 50 << 10, 2},
                    {"known_2", 51 << 10, 3}, {"known_2", 50 << 10, 3}, {"known_1", 64 << 10, 3}};
    for (size_t i = 0; i < sizeof launches / sizeof *launches; i++) {
        grid.shared_bytes = launches[i].bytes;
        assert_ok(bw_gpu_run(device, launches[i].kernel, &grid, args, &err), err);
        assert_int_equal(n_allowed, launches[i].n_allowed);
    }
    assert_int_equal(allowed_bytes, 51 << 10);
    fails_allowing = 1;
    grid.shared_bytes = 65 << 10;
    for (int i = 0; i < 2; i++) { /* asked again: nothing was granted */
        assert_int_equal(bw_gpu_run(device, "known_1", &grid, args, &err), BW_E_DEVICE);
        assert_int_equal(n_allowed, 4 + i);
    }
    bw_device_close(device);
}

/* What another process, in which the library is loaded anew, says with this library. */
static void refuse_in_child(const char *library, const char *fail, const char *part)
{
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        bw_err err = {0};
        bw_device *device;
        if (library)
            setenv("BW_HIP_LIBRARY", library, 1);
        else
            unsetenv("BW_HIP_LIBRARY");
        if (fail)
            setenv("FAKE_HIP_FAIL", fail, 1);
        bool ok = bw_device_open("rocm:0", 0, &device, &err) == BW_E_DEVICE && strstr(err.text, part);
        if (!ok)
            fprintf(stderr, "\"%s\" does not say \"%s\"\n", err.text, part);
        bw_test_exit(ok ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* First of all: the library is loaded once per process, and these processes must be without it. */
static void test_no_runtime(void **state)
{
    (void)state;
    refuse_in_child("/nowhere/libamdhip64.so", NULL, "/nowhere/libamdhip64.so cannot be loaded");
    refuse_in_child("libm.so.6", NULL, "libm.so.6 lacks hip");
    refuse_in_child(getenv("BW_HIP_LIBRARY"), "hipInit", "finds no usable AMD GPU: invalid value");
}

/* What is told of a card's memory: what was taken from the driver, the pool's included, until it is given back. */
static void test_held_memory(void **state)
{
    (void)state;
    bw_err err = {0};
    bw_device *device = open_fake("rocm:0");
    bw_buffer small, large;
    int64_t before = bw_gpu_held_bytes(device);
    assert_int_equal(device->vtable->alloc(device, 1000000, BW_MEMORY_DENSE, "small", &small, &err), BW_OK);
    assert_int_equal(device->vtable->alloc(device, (size_t)40 << 20, BW_MEMORY_DENSE, "large", &large, &err), BW_OK);
    int64_t held = bw_gpu_held_bytes(device) - before;
    assert_true(held >= 1000000 + (40 << 20) && held <= 1250000 + (40 << 20));
    device->vtable->release(device, &large);
    assert_int_equal(bw_gpu_held_bytes(device) - before, held - (40 << 20));
    device->vtable->release(device, &small); /* the pool keeps it */
    held = bw_gpu_held_bytes(device);
    assert_true(held - before >= 1000000);
    assert_int_equal(device->vtable->alloc(device, 1000000, BW_MEMORY_DENSE, "again", &small, &err), BW_OK);
    assert_int_equal(bw_gpu_held_bytes(device), held);
    device->vtable->release(device, &small);
    bw_device_close(device);
    assert_int_equal(bw_device_open("cpu:0", 1, &device, &err), BW_OK);
    assert_int_equal(bw_gpu_held_bytes(device), 0);
    bw_device_close(device);
    nothing_lives();
}

int main(void)
{
    fill_archives();
    /* test_lost_context last: it leaves a stream behind */
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_no_runtime),     cmocka_unit_test(test_memory),
                                       cmocka_unit_test(test_kernels),        cmocka_unit_test(test_folder),
                                       cmocka_unit_test(test_names),          cmocka_unit_test(test_failures),
                                       cmocka_unit_test(test_pool),           cmocka_unit_test(test_held_memory),
                                       cmocka_unit_test(test_ordered_memory), cmocka_unit_test(test_staging),
                                       cmocka_unit_test(test_graphs),         cmocka_unit_test(test_much_shared_memory),
                                       cmocka_unit_test(test_lost_device),    cmocka_unit_test(test_dead_device),
                                       cmocka_unit_test(test_lost_context)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
