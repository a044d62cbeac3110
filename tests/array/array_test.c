/* Arrays: creation, views, copy on write, files, errors, memory. */
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "array_harness.h"
#include "bw_mem.h"

static void test_creation(void **state)
{
    (void)state;
    bw_err err = {0};
    bw_array *x = NULL;
    assert_ok(bw_array_zeros(device, BW_F32, DIMS(2, 2), &x, &err), err);
    expect(x, DIMS(2, 2), 0, 0, 0, 0);
    assert_ok(bw_array_full(device, BW_F32, DIMS(3), 1.5, &x, &err), err);
    expect(x, DIMS(3), 1.5f, 1.5f, 1.5f);
    assert_ok(bw_array_full(device, BW_U8, DIMS(3), 300, &x, &err), err);
    assert_memory_equal(host_bytes(x), "\377\377\377", 3);
    bw_array_free(x);
    assert_ok(bw_array_full(device, BW_I8, DIMS(3), -300, &x, &err), err);
    assert_memory_equal(host_bytes(x), "\200\200\200", 3);
    bw_array_free(x);
    assert_ok(bw_array_arange(device, BW_F32, 1, -1, -0.5, &x, &err), err);
    expect(x, DIMS(4), 1, 0.5f, 0, -0.5f);
    assert_ok(bw_array_arange(device, BW_I64, 3, 3, 1, &x, &err), err);
    assert_int_equal(bw_array_elements(x), 0);
    bw_array_free(x);
    float value = 7;
    assert_ok(bw_array_from_data(device, BW_F32, 0, NULL, &value, 4, &x, &err), err);
    assert_int_equal(bw_array_n_dims(x), 0);
    assert_int_equal(bw_array_elements(x), 1);
    assert_true(*(const float *)host_bytes(x) == 7);
    bw_array_free(x);
    for (int d = 0; d < BW_DTYPE_COUNT; d++) { /* every type holds bytes */
        unsigned char bytes[512], back[512];
        for (size_t i = 0; i < sizeof bytes; i++)
            bytes[i] = (unsigned char)(i * 7);
        int64_t n = d <= BW_F8_E4M3 ? 3 : 256;
        assert_ok(bw_array_zeros(device, BW_U8, DIMS(1), &x, &err), err);
        bw_array_free(x);
        bw_status status = bw_array_from_data(device, (bw_dtype)d, DIMS(1, n), bytes, 0, &x, &err);
        assert_int_equal(status, BW_E_ARG);
        assert_null(x);
        size_t n_bytes = (size_t)strtoul(strstr(err.text, "for ") + 4, NULL, 10);
        assert_ok(bw_array_from_data(device, (bw_dtype)d, DIMS(1, n), bytes, n_bytes, &x, &err), err);
        assert_int_equal(bw_array_bytes(x), n_bytes);
        assert_ok(bw_array_read(x, back, n_bytes, &err), err);
        assert_memory_equal(bytes, back, n_bytes);
        bw_array_free(x);
    }
}

static void test_random(void **state)
{
    (void)state;
    bw_err err = {0};
    /* torch.manual_seed(42): torch.rand(3), then torch.randn(16)[:3] from a new generator */
    bw_random r = {.seed = 42, .mode = BW_RANDOM_TORCH_CPU};
    bw_array *x, *y;
    assert_ok(bw_array_rand(device, BW_F32, DIMS(3), &r, 0, 1, &x, &err), err);
    expect(x, DIMS(3), 0.8822692633f, 0.9150039554f, 0.3828637600f);
    assert_int_equal(r.offset, 3);
    r.offset = 0;
    assert_ok(bw_array_randn(device, BW_F32, DIMS(16), &r, 0, 1, &x, &err), err);
    assert_ok(bw_array_narrow(x, 0, 0, 3, &y, &err), err);
    bw_array_free(x);
    expect(y, DIMS(3), 1.9269152880f, 1.4872840643f, 0.9007171988f);
    assert_int_equal(r.offset, 16);
    r = (bw_random){.seed = 1, .mode = BW_RANDOM_PHILOX};
    assert_ok(bw_array_rand_bits(device, BW_I64, DIMS(5), &r, &x, &err), err);
    assert_ok(bw_array_rand_bits(device, BW_I64, DIMS(5), &r, &y, &err), err);
    assert_memory_not_equal(host_bytes(x), host_bytes(y), 40);
    bw_array_free(x);
    bw_array_free(y);
    r = (bw_random){.seed = 1, .mode = BW_RANDOM_TORCH_CUDA, .cuda_threads = 256};
    assert_ok(bw_array_randn(device, BW_F16, DIMS(1025), &r, 0, 1, &x, &err), err);
    assert_int_equal(r.offset, 8);
    bw_array_free(x);
    expect_failure(bw_array_rand(device, BW_I32, DIMS(3), &r, 0, 1, &x, error), x, "rand: ");
    expect_failure(bw_array_rand(device, BW_F32, DIMS(3), &r, 1, 0, &x, error), x, "[1, 0)");
}

static void test_views(void **state)
{
    (void)state;
    bw_err err = {0};
    bw_array *x = counting(DIMS(2, 3)), *y, *z;
    const float *data = bw_array_data(x);
    assert_ok(bw_array_transpose(x, 0, 1, &y, &err), err);
    assert_false(bw_array_is_contiguous(y));
    assert_null(bw_array_data(y));
    assert_int_equal(bw_array_strides(y)[1], 3);
    expect_failure(bw_array_view(y, DIMS(6), &z, error), z, "reshape would copy");
    assert_ok(bw_array_reshape(y, DIMS(-1), &z, &err), err); /* a copy */
    expect(z, DIMS(6), 0, 3, 1, 4, 2, 5);
    assert_ok(bw_array_reshape(y, DIMS(3, 1, 2, 1), &z, &err), err); /* a view */
    assert_int_equal(bw_array_strides(z)[0], 1);
    expect(z, DIMS(3, 1, 2, 1), 0, 3, 1, 4, 2, 5);
    expect(y, DIMS(3, 2), 0, 3, 1, 4, 2, 5);
    assert_ok(bw_array_narrow(x, -1, 1, 2, &y, &err), err);
    assert_ok(bw_array_narrow(y, 0, 1, 1, &z, &err), err);
    bw_array_free(y);
    expect(z, DIMS(1, 2), 4, 5);
    assert_ok(bw_array_unsqueeze(x, -1, &y, &err), err);
    assert_ok(bw_array_squeeze(y, 2, &z, &err), err);
    assert_true(bw_array_data(z) == data);
    bw_array_free(z);
    expect(y, DIMS(2, 3, 1), 0, 1, 2, 3, 4, 5);
    assert_ok(bw_array_permute(x, (int[]){-1, 0}, &y, &err), err);
    expect(y, DIMS(3, 2), 0, 3, 1, 4, 2, 5);
    bw_array_free(x);
    x = counting(DIMS(2, 1));
    assert_ok(bw_array_broadcast_to(x, DIMS(2, 2, 3), &y, &err), err);
    bw_array_free(x);
    assert_int_equal(bw_array_strides(y)[0], 0);
    assert_ok(bw_array_reshape(y, DIMS(4, 3), &z, &err), err);
    bw_array_free(z);
    expect(y, DIMS(2, 2, 3), 0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 1);
}

/* More than a GPU's pool keeps: such memory comes and goes in the order of its work, and keeps its values meanwhile. */
static void test_large(void **state)
{
    (void)state;
    enum { N = (33 << 20) + 5 };
    bw_err err = {0};
    unsigned char *data = malloc(N), *back = malloc(N);
    assert_true(data && back);
    for (int i = 0; i < N; i++)
        data[i] = (unsigned char)(i * 7 + i / 4096);
    bw_array *kept = NULL;
    for (int turn = 0; turn < 3; turn++) {
        bw_array *x, *part, *y;
        data[turn + 1] = (unsigned char)(100 + turn);
        assert_ok(bw_array_from_data(device, BW_U8, DIMS(N), data, N, &x, &err), err);
        assert_ok(bw_array_narrow(x, 0, 1, N - 1, &part, &err), err);
        bw_array_free(x);
        assert_ok(bw_array_copy(part, &y, &err), err);
        bw_array_free(part); /* the copy may still be under way */
        bw_array_free(kept);
        kept = y;
    }
    assert_ok(bw_array_read(kept, back, N - 1, &err), err);
    assert_memory_equal(back, data + 1, N - 1);
    bw_array_free(kept);
    free(data);
    free(back);
}

static void test_view_errors(void **state)
{
    (void)state;
    bw_err err = {0};
    bw_array *x = counting(DIMS(2, 3)), *y, *q;
    expect_failure(bw_array_narrow(x, 1, 2, 2, &y, error), y,
                   "narrow: 2 elements from 2 on are not in dimension 1; x f32 [2, 3]");
    expect_failure(bw_array_narrow(x, 1, INT64_MAX, 2, &y, error), y, "narrow");
    expect_failure(bw_array_narrow(x, 2, 0, 1, &y, error), y, "there is no dimension 2");
    expect_failure(bw_array_transpose(x, 0, -3, &y, error), y, "there is no dimension -3");
    expect_failure(bw_array_permute(x, (int[]){0, 0}, &y, error), y, "named twice");
    expect_failure(bw_array_squeeze(x, 0, &y, error), y, "not of size 1");
    expect_failure(bw_array_reshape(x, DIMS(4, -1), &y, error), y, "do not fill f32 [4, -1]");
    expect_failure(bw_array_reshape(x, DIMS(-1, -1), &y, error), y, "dimension 1 cannot be -1");
    expect_failure(bw_array_reshape(x, DIMS(0, -1), &y, error), y, "do not fill");
    expect_failure(bw_array_broadcast_to(x, DIMS(3), &y, error), y, "broadcast_to");
    expect_failure(bw_array_broadcast_to(x, DIMS(4, 3), &y, error), y,
                   "size 2 cannot become 4 for f32 [4, 3]; x f32 [2, 3]");
    expect_failure(bw_array_zeros(device, BW_F32, DIMS(-1), &y, error), y, "not possible");
    expect_failure(bw_array_zeros(device, BW_F32, DIMS(INT64_MAX, INT64_MAX), &y, error), y, "not possible");
    const int64_t huge = INT64_C(1) << 40;
    expect_failure(bw_array_zeros(device, BW_F32, DIMS(0, huge, huge), &y, error), y, "not possible");
    expect_failure(bw_array_broadcast_to(x, DIMS(huge, huge, 2, 3), &y, error), y, "is not possible");
    expect_failure(bw_array_zeros(device, BW_F32, DIMS(1, 1, 1, 1, 1, 1, 1), &y, error), y, "0 to 6 dimensions");
    expect_failure(bw_array_full(device, BW_Q4_0, DIMS(32), 1, &y, error), y,
                   "full: q4_0 is no plain type; x q4_0 [32]");
    expect_failure(bw_array_arange(device, BW_F32, 0, 1, 0, &y, error), y, "is no range");
    assert_int_equal(bw_array_read(x, NULL, 23, &err), BW_E_ARG);
    assert_int_equal(bw_array_zeros(device, BW_F64, DIMS(1 << 20, 1 << 26), &y, &err), BW_E_MEMORY);
    assert_non_null(strstr(err.text, "zeros: f64 [1048576, 67108864]"));
    bw_array_free(x);
    /* blocks stay whole */
    unsigned char bytes[4 * 18] = {1};
    assert_ok(bw_array_from_data(device, BW_Q4_0, DIMS(2, 64), bytes, sizeof bytes, &q, &err), err);
    expect_failure(bw_array_transpose(q, 0, 1, &y, error), y, "must stay the last");
    assert_int_equal(bw_array_fill(q, 1, &err), BW_E_ARG);
    assert_string_equal(err.text, "fill: q4_0 is no plain type; x q4_0 [2, 64]");
    expect_failure(bw_array_narrow(q, 1, 16, 32, &y, error), y, "whole blocks of 32");
    expect_failure(bw_array_reshape(q, DIMS(8, 16), &y, error), y, "whole blocks of 32");
    expect_failure(bw_array_cast(q, BW_F32, &y, error), y, "dequantise");
    assert_ok(bw_array_narrow(q, 1, 32, 32, &y, &err), err);
    bw_array_free(q);
    assert_ok(bw_array_copy(y, &q, &err), err);
    assert_int_equal(bw_array_bytes(q), 36);
    bw_array_free(q);
    bw_array_free(y);
}

static void test_copy_on_write(void **state)
{
    (void)state;
    bw_err err = {0};
    bw_array *x = counting(DIMS(2, 3)), *y, *z;
    const void *before = bw_array_data(x);
    assert_ok(bw_array_fill(x, 9, &err), err); /* alone: in place */
    assert_true(bw_array_data(x) == before);
    assert_ok(bw_array_share(x, &y, &err), err);
    assert_true(bw_array_data(y) == before);
    assert_ok(bw_array_fill(x, 1, &err), err); /* shared: x moves away */
    assert_true((!before || bw_array_data(x) != before) && bw_array_data(y) == before);
    expect(y, DIMS(2, 3), 9, 9, 9, 9, 9, 9);
    /* a view that is written to leaves its base alone, and the base its view */
    assert_ok(bw_array_narrow(x, 1, 1, 2, &y, &err), err);
    assert_ok(bw_array_write(y, (float[]){5, 6, 7, 8}, 16, &err), err);
    assert_ok(bw_array_narrow(x, 1, 0, 1, &z, &err), err);
    assert_ok(bw_array_write_slice(x, 0, 1, x, &err) == BW_E_ARG ? BW_OK : BW_E_INTERNAL, err);
    bw_array *row = f32_array(DIMS(1, 3), (float[]){2, 3, 4}, 3);
    assert_ok(bw_array_write_slice(x, 0, 1, row, &err), err);
    bw_array_free(row);
    expect(z, DIMS(2, 1), 1, 1);
    expect(y, DIMS(2, 2), 5, 6, 7, 8);
    /* over itself */
    assert_ok(bw_array_narrow(x, 1, 0, 2, &y, &err), err);
    assert_ok(bw_array_write_slice(x, 1, 1, y, &err), err);
    bw_array_free(y);
    expect(x, DIMS(2, 3), 1, 1, 1, 2, 2, 3);
    /* a broadcast array becomes its own elements */
    x = counting(DIMS(2, 1));
    assert_ok(bw_array_broadcast_to(x, DIMS(2, 2), &y, &err), err);
    bw_array_free(x);
    bw_array *one = f32_array(DIMS(2, 1), (float[]){7, 8}, 2);
    assert_ok(bw_array_write_slice(y, 1, 1, one, &err), err);
    bw_array_free(one);
    expect(y, DIMS(2, 2), 0, 7, 1, 8);
    /* a transposed array alone on its buffer is written in place, in its own order */
    x = counting(DIMS(2, 2));
    assert_ok(bw_array_transpose(x, 0, 1, &y, &err), err);
    bw_array_free(x);
    one = f32_array(DIMS(1, 2), (float[]){7, 8}, 2);
    assert_ok(bw_array_write_slice(y, 0, 0, one, &err), err);
    bw_array_free(one);
    assert_int_equal(bw_array_strides(y)[0], 1);
    expect(y, DIMS(2, 2), 7, 8, 1, 3);
}

static void test_join(void **state)
{
    (void)state;
    bw_err err = {0};
    bw_array *x = counting(DIMS(2, 2)), *t, *y, *none;
    assert_ok(bw_array_transpose(x, 0, 1, &t, &err), err);
    assert_ok(bw_array_zeros(device, BW_F32, DIMS(2, 0), &none, &err), err);
    const bw_array *parts[] = {x, none, t};
    assert_ok(bw_array_concat(parts, 3, -1, &y, &err), err);
    expect(y, DIMS(2, 4), 0, 1, 0, 2, 2, 3, 1, 3);
    const bw_array *both[] = {x, t};
    assert_ok(bw_array_stack(both, 2, 0, &y, &err), err);
    expect(y, DIMS(2, 2, 2), 0, 1, 2, 3, 0, 2, 1, 3);
    assert_ok(bw_array_stack(both, 2, -1, &y, &err), err);
    expect(y, DIMS(2, 2, 2), 0, 0, 1, 2, 2, 1, 3, 3);
    expect_failure(bw_array_concat(parts, 3, 0, &y, error), y, "array 1, f32 [2, 0], does not continue it");
    expect_failure(bw_array_stack(parts, 2, 0, &y, error), y, "first array's shape");
    expect_failure(bw_array_concat(NULL, 0, 0, &y, error), y, "there is no array");
    bw_array_free(x);
    bw_array_free(t);
    bw_array_free(none);
}

/* A second device of the same kind stands for another one. */
static void test_devices(void **state)
{
    (void)state;
    bw_err err = {0};
    bw_device *other;
    const char *name = getenv("BW_TEST_OTHER_DEVICE"); /* cuda:1 beside cuda:0 */
    assert_ok(bw_device_open(name ? name : bw_device_name(device), 1, &other, &err), err);
    assert_string_equal(bw_device_name(other), name ? name : bw_device_name(device));
    bw_array *x = counting(DIMS(3)), *y, *z;
    assert_ok(bw_array_to_device(x, other, &y, &err), err);
    assert_true(bw_array_device(y) == other);
    expect_failure(bw_array_matmul(x, y, &z, error), z, "at least two dimensions");
    expect_failure(bw_array_binary(x, "add", y, &z, error), z, "two devices");
    const bw_array *parts[] = {x, y};
    expect_failure(bw_array_concat(parts, 2, 0, &z, error), z, "another device");
    bw_array_free(x);
    expect(y, DIMS(3), 0, 1, 2);
    bw_device_close(other);
}

static void test_files(void **state)
{
    (void)state;
    bw_err err = {0};
    char folder[] = "/tmp/bw_array_test_XXXXXX", path[128], missing[160];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/a.safetensors", folder);
    bw_array *x = counting(DIMS(2, 3)), *t, *e, *i;
    assert_ok(bw_array_transpose(x, 0, 1, &t, &err), err);
    assert_ok(bw_array_zeros(device, BW_BF16, DIMS(0, 4), &e, &err), err);
    assert_ok(bw_array_arange(device, BW_I64, 0, 5, 1, &i, &err), err);
    bw_named_array list[] = {{(char *)"x", x}, {(char *)"t \"quoted\"", t}, {(char *)"empty", e}, {(char *)"i", i}};
    assert_ok(bw_array_save(path, list, 4, &err), err);
    assert_ok(bw_array_save(path, list, 4, &err), err); /* over the old one */
    bw_named_array *back;
    size_t n;
    assert_ok(bw_array_load(device, path, &back, &n, &err), err);
    assert_int_equal(n, 4);
    bw_named_arrays_free(back, n);
    bw_array *y;
    assert_ok(bw_array_load_one(device, path, "t \"quoted\"", &y, &err), err);
    expect(y, DIMS(3, 2), 0, 3, 1, 4, 2, 5);
    assert_ok(bw_array_load_one(device, path, "empty", &y, &err), err);
    assert_int_equal(bw_array_dtype(y), BW_BF16);
    assert_int_equal(bw_array_dims(y)[1], 4);
    bw_array_free(y);
    assert_int_equal(bw_array_load_one(device, path, "z", &y, &err), BW_E_NOT_FOUND);
    assert_null(y);
    list[1].name = (char *)"x";
    assert_int_equal(bw_array_save(path, list, 4, &err), BW_E_ARG);
    assert_non_null(strstr(err.text, "two arrays of the name x"));
    list[1].name = (char *)"__metadata__";
    assert_int_equal(bw_array_save(path, list, 4, &err), BW_E_ARG);
    list[1].name = (char *)"caf\xe9"; /* Latin-1; a name that ends in the middle; one beyond Unicode */
    assert_int_equal(bw_array_save(path, list, 4, &err), BW_E_ARG);
    assert_non_null(strstr(err.text, "the name of array 1 for "));
    list[1].name = (char *)"caf\xc3";
    assert_int_equal(bw_array_save(path, list, 4, &err), BW_E_ARG);
    list[1].name = (char *)"\xf4\x90\x80\x80";
    assert_int_equal(bw_array_save(path, list, 4, &err), BW_E_ARG);
    snprintf(missing, sizeof missing, "%s/none/a.safetensors", folder);
    assert_int_equal(bw_array_save(missing, list, 1, &err), BW_E_IO);
    assert_int_equal(bw_array_load(device, missing, &back, &n, &err), BW_E_IO);
    unlink(path);
    assert_int_equal(rmdir(folder), 0); /* nothing else was left there */
    bw_array_free(x);
    bw_array_free(t);
    bw_array_free(e);
    bw_array_free(i);
}

/* A disk with no room: /dev/full cannot be renamed over, so the limit on a file's size stands for it. */
static void test_full_disk(void **state)
{
    (void)state;
    if (on_gpu("full_disk: a forked process cannot use its parent's GPU"))
        return;
    bw_err err = {0};
    char folder[] = "/tmp/bw_array_test_XXXXXX", path[128];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/a.safetensors", folder);
    bw_array *x;
    assert_ok(bw_array_zeros(device, BW_F32, DIMS(1 << 20), &x, &err), err);
    bw_array *old;
    assert_ok(bw_array_full(device, BW_F32, DIMS(2), 5, &old, &err), err);
    assert_ok(bw_array_save(path, (bw_named_array[]){{(char *)"old", old}}, 1, &err), err);
    bw_array_free(old);
    bw_named_array list[] = {{(char *)"x", x}};
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct rlimit limit = {1 << 16, 1 << 16};
        signal(SIGXFSZ, SIG_IGN);
        bool ok = setrlimit(RLIMIT_FSIZE, &limit) == 0;
        ok = ok && bw_array_save(path, list, 1, &err) == BW_E_IO;
        ok = ok && strstr(err.text, path) && strstr(err.text, "cannot be written");
        _exit(ok ? 0 : 1);
    }
    int status;
    assert_true(waitpid(child, &status, 0) == child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_ok(bw_array_load_one(device, path, "old", &old, &err), err); /* the old file is still there */
    expect(old, DIMS(2), 5, 5);
    unlink(path);
    assert_int_equal(rmdir(folder), 0); /* and no half file beside it */
    bw_array_free(x);
}

/* A short program in which every allocation fails in turn: no crash, no leak, BW_E_MEMORY. */
static bw_status program(const char *path, bw_err *err)
{
    enum { N = 9 };
    bw_array *a[N] = {0};
    bw_named_array *back = NULL;
    size_t n = 0;
    bw_random r = {.seed = 1};
    bw_status s = bw_array_randn(device, BW_F32, DIMS(4, 6), &r, 0, 1, &a[0], err);
    if (s == BW_OK)
        s = bw_array_full(device, BW_F32, DIMS(6, 2), 0.5, &a[1], err);
    if (s == BW_OK)
        s = bw_array_matmul(a[0], a[1], &a[2], err);
    if (s == BW_OK)
        s = bw_array_transpose(a[2], 0, 1, &a[3], err);
    if (s == BW_OK)
        s = bw_array_softmax(a[3], 0, &a[4], err);
    if (s == BW_OK)
        s = bw_array_stack((const bw_array *const[]){a[3], a[4]}, 2, 0, &a[5], err);
    if (s == BW_OK)
        s = bw_array_fill(a[3], 1, err);
    if (s == BW_OK)
        s = bw_array_group_norm(a[5], 2, NULL, NULL, 1e-5f, &a[6], err);
    if (s == BW_OK)
        s = bw_array_sort(a[6], true, &a[7], &a[8], err);
    bw_named_array list[] = {{(char *)"a", a[3]}, {(char *)"b", a[7]}};
    if (s == BW_OK)
        s = bw_array_save(path, list, 2, err);
    if (s == BW_OK)
        s = bw_array_load(device, path, &back, &n, err);
    if (s == BW_OK)
        bw_named_arrays_free(back, n);
    for (int i = 0; i < N; i++)
        bw_array_free(a[i]);
    return s;
}

static void test_no_memory(void **state)
{
    (void)state;
    if (on_gpu("no_memory: the driver's own memory is not counted"))
        return;
    bw_err err = {0};
    char folder[] = "/tmp/bw_array_test_XXXXXX", path[128];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/a.safetensors", folder);
    assert_ok(program(path, &err), err);
    int64_t before = bw_mem_live(), first = bw_mem_count();
    assert_ok(program(path, &err), err);
    int64_t n = bw_mem_count() - first;
    assert_true(n > 30);
    for (int64_t i = 1; i <= n; i++) {
        bw_mem_fail_at(i);
        bw_status s = program(path, &err);
        bw_mem_fail_at(0);
        if (s != BW_E_MEMORY)
            fail_msg("allocation %d of %d: %s: %s", (int)i, (int)n, bw_status_name(s), err.text);
        assert_int_equal(bw_array_live(), 0);
        assert_int_equal(bw_mem_live(), before);
    }
    unlink(path);
    assert_int_equal(rmdir(folder), 0);
}

/* At the end of a program that forgot one, the log says which. */
static void test_leak_check(void **state)
{
    (void)state;
    int ends[2];
    for (int wanted = 0; wanted <= 1; wanted++) {
        assert_int_equal(pipe(ends), 0);
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) { /* a new program image, for a new atexit list and a first array */
            dup2(ends[1], 2);
            close(ends[0]);
            setenv("BW_LEAK_CHECK", wanted ? "1" : "0", 1);
            setenv("BW_ARRAY_TEST_LEAK", "1", 1);
            setenv("ASAN_OPTIONS", "detect_leaks=0", 1);
            execl("/proc/self/exe", "array_test", (char *)NULL);
            _exit(9);
        }
        close(ends[1]);
        char text[2000] = "";
        size_t n = 0;
        ssize_t got;
        while (n + 1 < sizeof text && (got = read(ends[0], text + n, sizeof text - 1 - n)) > 0)
            n += (size_t)got;
        close(ends[0]);
        int status;
        assert_true(waitpid(child, &status, 0) == child);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        assert_int_equal(strstr(text, "1 array was not freed") != NULL, wanted);
        assert_int_equal(strstr(text, "f32 [2, 3] on cpu:0") != NULL, wanted);
    }
}

static int leak_one(void)
{
    bw_err err = {0};
    bw_array *x;
    bool ok = bw_device_open("cpu", 1, &device, &err) == BW_OK &&
              bw_array_full(device, BW_F32, DIMS(2, 3), 1, &x, &err) == BW_OK;
    bw_device_close(device); /* the report comes after, and must not need it */
    return ok ? 0 : 1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_creation),     cmocka_unit_test(test_random),      cmocka_unit_test(test_views),
        cmocka_unit_test(test_large),        cmocka_unit_test(test_view_errors), cmocka_unit_test(test_copy_on_write),
        cmocka_unit_test(test_join),         cmocka_unit_test(test_devices),     cmocka_unit_test(test_files),
        cmocka_unit_test(test_full_disk),    cmocka_unit_test(test_no_memory),   cmocka_unit_test(test_leak_check),
        cmocka_unit_test(test_nothing_left),
    };
    if (getenv("BW_ARRAY_TEST_LEAK"))
        return leak_one();
    return cmocka_run_group_tests(tests, open_device, close_device);
}
