/* What the tests of arrays share: one device, short ways to make arrays of f32 and to look at them. */
#ifndef BW_ARRAY_HARNESS_H
#define BW_ARRAY_HARNESS_H

#include <stdlib.h>
#include <string.h>

#include "../bw_test.h"

#define DIMS(...)                                                                                                      \
    (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[])                                             \
    {                                                                                                                  \
        __VA_ARGS__                                                                                                    \
    }

static bw_device *device;

static inline int open_device(void **state)
{
    bw_err err = {0};
    (void)state;
    const char *name = getenv("BW_TEST_DEVICE"); /* the same tests on a GPU, or on a simulated one */
    if (bw_device_open(name ? name : "cpu", 2, &device, &err) == BW_OK)
        return 0;
    fprintf(stderr, "%s\n", err.text);
    return -1;
}

/* Says what is left out on a GPU, and whether this is one. */
static inline bool on_gpu(const char *what)
{
    bool is_gpu = strncmp(bw_device_name(device), "cpu", 3) != 0;
    if (is_gpu)
        printf("SKIPPED: %s\n", what);
    return is_gpu;
}

static inline int close_device(void **state)
{
    (void)state;
    bw_device_close(device);
    return 0;
}

/* The last test of a program: every array was freed. (A group's teardown is no place for it: cmocka reports its failure
 * and exits with 0.) */
static inline void test_nothing_left(void **state)
{
    (void)state;
    assert_int_equal(bw_array_live(), 0);
}

/* Its bytes on the host, wherever it is: of the last two that were asked for. */
static inline const void *host_bytes(const bw_array *x)
{
    static char room[2][1 << 16];
    static int next;
    bw_err err = {0};
    assert_true(bw_array_bytes(x) <= (int64_t)sizeof room[0]);
    next = !next;
    assert_ok(bw_array_read(x, room[next], (size_t)bw_array_bytes(x), &err), err);
    return room[next];
}

/* f32 0, 1, 2, ... in this shape. */
static inline bw_array *counting(int n_dims, const int64_t *dims)
{
    bw_err err = {0};
    bw_array *flat, *x;
    int64_t n = 1;
    for (int i = 0; i < n_dims; i++)
        n *= dims[i];
    assert_ok(bw_array_arange(device, BW_F32, 0, (double)n, 1, &flat, &err), err);
    assert_ok(bw_array_reshape(flat, n_dims, dims, &x, &err), err);
    bw_array_free(flat);
    return x;
}

static inline bw_array *f32_array(int n_dims, const int64_t *dims, const float *values, size_t n)
{
    bw_err err = {0};
    bw_array *x;
    assert_ok(bw_array_from_data(device, BW_F32, n_dims, dims, values, n * sizeof *values, &x, &err), err);
    return x;
}

/* Shape and f32 values (within 1e-5), then frees x. */
static inline void expect_at(const char *where, int line, bw_array *x, int n_dims, const int64_t *dims,
                             const float *values)
{
    bw_err err = {0};
    float got[4096];
    char text[128];
    int64_t n = bw_array_elements(x);
    if (bw_array_n_dims(x) != n_dims ||
        (n_dims > 0 && memcmp(bw_array_dims(x), dims, (size_t)n_dims * sizeof *dims) != 0))
        fail_msg("%s:%d: it is %s", where, line, bw_array_describe(x, text, sizeof text));
    assert_int_equal(bw_array_dtype(x), BW_F32);
    assert_true(n <= 4096);
    assert_ok(bw_array_read(x, got, (size_t)n * sizeof *got, &err), err);
    for (int64_t i = 0; i < n; i++)
        if (!(got[i] - values[i] < 1e-5f && values[i] - got[i] < 1e-5f))
            fail_msg("%s:%d: element %d is %g, not %g", where, line, (int)i, (double)got[i], (double)values[i]);
    bw_array_free(x);
}
#define expect(x, dims_of, ...) expect_at(__FILE__, __LINE__, x, dims_of, (const float[]){__VA_ARGS__})

/* The call fails, gives no array, and its sentence holds these words. */
#define expect_failure(call, out, words)                                                                               \
    do {                                                                                                               \
        bw_err err_ = {0};                                                                                             \
        bw_err *error = &err_;                                                                                         \
        assert_int_equal((call), BW_E_ARG);                                                                            \
        assert_null(out);                                                                                              \
        if (!strstr(err_.text, words))                                                                                 \
            fail_msg("\"%s\" does not say \"%s\"", err_.text, words);                                                  \
    } while (0)

#endif
