/* The processor as a device: memory small and large, copies, levels of instructions. */
#include "../bw_test.h"
#include "../bw_test_child.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bw_log.h"
#include "bw_mem.h"
#include "gpu_driver.h"

const bw_code_object bw_code_objects[] = {{"gfx90a", NULL, NULL}};
const int bw_n_code_objects = 0;

static void test_memory(void **state)
{
    (void)state;
    bw_err err = {0};
    bw_device *device;
    int64_t live = bw_mem_live();
    assert_ok(bw_device_open(NULL, 1, &device, &err), err);
    assert_string_equal(bw_device_name(device), "cpu:0");
    assert_int_equal(device->kind, BW_DEVICE_CPU);
    assert_string_equal(device->vtable->kind_name, "cpu");
    assert_non_null(strstr(device->description, ", 1 thread"));
    const bw_device_vtable *v = device->vtable;
    static const size_t sizes[] = {0, 1, 1000, (2 << 20) - 1, 2 << 20, (2 << 20) + 1, 9 << 20};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        bw_buffer a, b;
        size_t n = sizes[i];
        assert_ok(v->alloc(device, n, BW_MEMORY_DENSE, "a", &a, &err), err);
        assert_ok(v->host_alloc(device, n, "b", &b, &err), err);
        assert_int_equal(a.n_bytes, n);
        assert_int_equal((uintptr_t)a.data % (n < 2 << 20 ? 64 : 2 << 20), 0);
        if (n > 0) {
            memset(b.data, (int)i + 1, n);
            assert_ok(v->upload(device, a.data, b.data, n, &err), err);
            memset(b.data, 0, n);
            assert_ok(v->download_later(device, b.data, a.data, n, &err), err);
            assert_ok(v->synchronise(device, &err), err);
            assert_int_equal(((unsigned char *)b.data)[n - 1], (int)i + 1);
            ((unsigned char *)b.data)[0] = 99;
            assert_ok(v->upload_later(device, a.data, b.data, n, &err), err);
            assert_ok(v->copy(device, b.data, a.data, n, &err), err);
            assert_ok(v->download(device, b.data, a.data, n, &err), err);
            assert_int_equal(((unsigned char *)b.data)[0], 99);
        }
        v->release(device, &a);
        v->host_release(device, &b);
        assert_true(!a.data && !b.data);
        v->release(device, &a);
    }
    bw_buffer much;
    assert_int_equal(v->alloc(device, SIZE_MAX, BW_MEMORY_DENSE, "weights", &much, &err), BW_E_MEMORY);
    assert_non_null(strstr(err.text, "weights"));
    assert_int_equal(v->alloc(device, SIZE_MAX / 2, BW_MEMORY_SPARSE, "pages", &much, &err), BW_E_MEMORY);
    assert_non_null(strstr(err.text, "pages"));
    for (int64_t i = 0; i < 2; i++) {
        bw_mem_fail_at(1);
        assert_int_equal(v->alloc(device, i ? 4 << 20 : 100, BW_MEMORY_DENSE, "x", &much, &err), BW_E_MEMORY);
        bw_mem_fail_at(0);
    }
    int64_t free_bytes = 0, total = 0;
    assert_ok(v->memory_info(device, &free_bytes, &total, &err), err);
    assert_true(free_bytes > 0 && free_bytes <= total && total > 64 << 20);
    v->rest(device);
    bw_device_close(device);
    assert_int_equal(bw_mem_live(), live);
    for (int64_t n = 1; n <= 2; n++) {
        bw_mem_fail_at(n);
        assert_int_equal(bw_device_open("cpu:0", 1, &device, &err), BW_E_MEMORY);
        bw_mem_fail_at(0);
        assert_null(device);
        assert_int_equal(bw_mem_live(), live);
    }
}

/* What each level leaves, in the order of the levels; "" is what there is. */
static void test_levels(void **state)
{
    (void)state;
    static const char *const levels[] = {"baseline", "avx2", "avx512", "amx", "pentium", ""};
    int has[6];
    fflush(NULL);
    for (int i = 0; i < 6; i++) {
        pid_t child = fork(); /* looked at once per process */
        assert_true(child >= 0);
        if (child == 0) {
            bw_err err = {0};
            bw_device *device;
            setenv("BW_CPU_LEVEL", levels[i], 1);
            if (i == 4)
                bw_log_configure(BW_LOG_OFF, false);
            const bw_cpu_features *f = bw_cpu_get_features();
            if (!f->name[0] || f->l2_bytes < 0 || bw_device_open("cpu:0", 2, &device, &err) != BW_OK ||
                device->cpu != f || !strstr(device->description, ", 2 threads"))
                bw_test_exit(255);
            const char *shown = f->amx_int8 ? "AMX" : f->avx512 ? "AVX-512" : f->avx2 ? "AVX2" : "baseline";
            if (!strstr(device->description, shown))
                bw_test_exit(254);
            bw_device_close(device);
            bw_test_exit(f->avx2 | f->avx512 << 1 | f->avx512_vnni << 2 | f->avx512_bf16 << 3 | f->avx_vnni << 4 |
                         f->amx_int8 << 5 | f->amx_bf16 << 6);
        }
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) < 128);
        has[i] = WEXITSTATUS(status);
    }
    int all = has[5];
    assert_int_equal(has[0], 0);
    assert_int_equal(has[1], all & 0x01);
    assert_int_equal(has[2], all & 0x1f);
    assert_int_equal(has[3], all);
    assert_int_equal(has[4], all);
}

int main(void)
{
    unsetenv("BW_CPU_LEVEL");
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_levels), cmocka_unit_test(test_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
