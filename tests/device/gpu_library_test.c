/* The glue between our products and AMD's matrix libraries, on a HIP library whose device memory is the host's and
 * libraries that compute plainly (fake_hip.c, fake_blas.c): operands, strides, versions, every way to fail. */
#include "../bw_test.h"
#include "../bw_test_child.h"

#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "archive.h"
#include "bw_gpu_library.h"
#include "bw_rng.h"
#include "gpu_private.h"

/* Stands in place of what the build embeds; filled in main. */
static _Alignas(64) unsigned char archive[4096];
const bw_code_object bw_code_objects[] = {{"gfx90a", archive, archive + sizeof archive}};
const int bw_n_code_objects = 1;

enum { N = 24, K = 40, T = 9, W_ROW = 48, X_ROW = 40, Y_ROW = 28 };

static void must_be(bool condition, int line)
{
    if (condition)
        return;
    fprintf(stderr, "gpu_library_test.c:%d: not so\n", line);
    bw_test_exit(1);
}
#define must(condition) must_be(condition, __LINE__)

static bw_device *open_card(void)
{
    bw_err err = {0};
    bw_device *device = NULL;
    must(bw_device_open("rocm:0", 0, &device, &err) == BW_OK);
    return device;
}

static int live(const char *file)
{
    void *library = dlopen(file, RTLD_NOW | RTLD_NOLOAD);
    const int *n = library ? dlsym(library, "fake_blas_live") : NULL;
    return n ? *n : 0;
}

/* Small whole numbers, which both types hold and whose sums are exact. */
static uint16_t half_of(int number, bool is_bf16)
{
    float f = (float)number;
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    if (is_bf16 || number == 0)
        return (uint16_t)(bits >> 16);
    uint32_t exponent = (bits >> 23 & 255) - 127 + 15;
    return (uint16_t)(bits >> 31 << 15 | exponent << 10 | (bits >> 13 & 1023));
}

static int w_at(int n, int k)
{
    return (n * 7 + k * 3) % 31 - 15;
}

static int x_at(int t, int k)
{
    return (t * 5 + k * 11) % 29 - 14;
}

static bw_status multiply(bw_device *device, bool is_bf16, float *y, bw_err *err)
{
    static uint16_t w[N * W_ROW], x[T * X_ROW];
    static char workspace[64];
    for (int n = 0; n < N; n++)
        for (int k = 0; k < W_ROW; k++)
            w[n * W_ROW + k] = half_of(k < K ? w_at(n, k) : 9, is_bf16);
    for (int t = 0; t < T; t++)
        for (int k = 0; k < K; k++)
            x[t * X_ROW + k] = half_of(x_at(t, k), is_bf16);
    for (int i = 0; i < T * Y_ROW; i++)
        y[i] = -1;
    bw_gpu_product p = {.in = is_bf16 ? BW_BF16 : BW_F16,
                        .out = BW_F32,
                        .n = N,
                        .k = K,
                        .t = T,
                        .w_row = W_ROW,
                        .x_row = X_ROW,
                        .y_row = Y_ROW,
                        .w = w,
                        .x = x,
                        .y = y,
                        .workspace = workspace,
                        .workspace_bytes = sizeof workspace};
    return bw_gpu_library_product(device, &p, err);
}

static void multiplies(bw_device *device)
{
    static float y[T * Y_ROW];
    bw_err err = {0};
    for (int is_bf16 = 0; is_bf16 < 2; is_bf16++) {
        must(multiply(device, is_bf16, y, &err) == BW_OK);
        for (int t = 0; t < T; t++)
            for (int n = 0; n < Y_ROW; n++) {
                int sum = 0;
                for (int k = 0; k < K && n < N; k++)
                    sum += w_at(n, k) * x_at(t, k);
                must(y[t * Y_ROW + n] == (n < N ? (float)sum : -1));
            }
    }
}

static void refuses(bw_device *device, const char *part)
{
    static float y[T * Y_ROW];
    bw_err err = {0};
    bw_status status = multiply(device, false, y, &err);
    must(status == (strstr(part, "no memory") ? BW_E_MEMORY : BW_E_DEVICE) || status == BW_E_UNSUPPORTED);
    must(strstr(err.text, part) != NULL && strstr(err.text, "rocm:0 (Fake Instinct)") != NULL);
}

static bool version_is(bw_device *device, const char *version)
{
    char text[64];
    bw_gpu_library_version(bw_gpu_of(device), text);
    return strcmp(text, version) == 0;
}

static void check_hipblaslt(void)
{
    bw_device *device = open_card();
    must(strcmp(bw_gpu_library(device), "hipblasLt") == 0);
    must(version_is(device, "hipblasLt 1200"));
    setenv("FAKE_BLAS_FAIL", "hipblasLtGetVersion", 1);
    must(version_is(device, "hipblasLt of unknown version"));
    unsetenv("FAKE_BLAS_FAIL");
    multiplies(device);
    /* each failure is an error with a sentence, and leaves nothing behind */
    static const char *const functions[] = {"hipblasLtMatmulDescCreate",
                                            "hipblasLtMatmulDescSetAttribute",
                                            "layout 0",
                                            "layout 1",
                                            "layout 2",
                                            "hipblasLtMatmulPreferenceCreate",
                                            "hipblasLtMatmulPreferenceSetAttribute",
                                            "hipblasLtMatmulAlgoGetHeuristic",
                                            "hipblasLtMatmul"};
    bw_device_close(device);
    must(live("libhipblaslt.so.1") == 0);
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        device = open_card();
        setenv("FAKE_BLAS_FAIL", functions[i], 1);
        refuses(device, "hipblasLt has no product for n 24, k 40, t 9: error 7");
        unsetenv("FAKE_BLAS_FAIL");
        bool has_plan = strcmp(functions[i], "hipblasLtMatmul") == 0; /* which is kept, with its five parts */
        must(live("libhipblaslt.so.1") == (has_plan ? 6 : 1));
        for (int run = 0; run < 2; run++) {
            multiplies(device);
            must(live("libhipblaslt.so.1") == 11);
        }
        bw_device_close(device);
        must(live("libhipblaslt.so.1") == 0);
    }
    device = open_card();
    setenv("FAKE_BLAS_FAIL", "hipblasLtMatmul", 1);
    setenv("FAKE_BLAS_ERROR", "2", 1);
    refuses(device, "hipblasLt has no memory for a product");
    unsetenv("FAKE_BLAS_FAIL");
    unsetenv("FAKE_BLAS_ERROR");
    bw_device_close(device);
    device = open_card();
    setenv("FAKE_BLAS_FOUND", "0", 1);
    refuses(device, "error -1");
    unsetenv("FAKE_BLAS_FOUND");
    setenv("FAKE_HIP_FAIL", "hipSetDevice", 1);
    refuses(device, "the device's context cannot be used");
    unsetenv("FAKE_HIP_FAIL");
    /* two devices have a handle each */
    bw_device *other = open_card();
    multiplies(other);
    must(live("libhipblaslt.so.1") == 12);
    bw_device_close(other);
    bw_device_close(device);
    must(live("libhipblaslt.so.1") == 0);
}

/* Where hipBLASLt is not usable. */
static void check_rocblas(void)
{
    setenv("FAKE_BLAS_FAIL", "hipblasLtCreate", 1);
    bw_device *device = open_card();
    must(strcmp(bw_gpu_library(device), "rocblas") == 0);
    must(version_is(device, "rocblas 4.2.1.fake"));
    setenv("FAKE_BLAS_FAIL", "rocblas_get_version_string", 1);
    must(version_is(device, "rocblas of unknown version"));
    multiplies(device);
    setenv("FAKE_BLAS_FAIL", "rocblas_gemm_strided_batched_ex", 1);
    refuses(device, "rocblas has no product for n 24, k 40, t 9: error 7");
    setenv("FAKE_BLAS_ERROR", "5", 1);
    refuses(device, "rocblas has no memory for a product");
    unsetenv("FAKE_BLAS_ERROR");
    unsetenv("FAKE_BLAS_FAIL");
    multiplies(device);
    bw_device_close(device);
    must(live("librocblas.so.5") == 0);
}

static void has_none(bw_device *device)
{
    must(bw_gpu_library(device) == NULL);
    must(version_is(device, "no library"));
    refuses(device, "no matrix library is loaded");
    bw_device_close(device);
}

static void check_hidden(void)
{
    setenv("BW_GPU_LIBRARIES", "0", 1);
    has_none(open_card());
    must(dlopen("libhipblaslt.so.1", RTLD_NOW | RTLD_NOLOAD) == NULL);
}

static void check_no_context(void)
{
    bw_device *device = open_card();
    setenv("FAKE_HIP_FAIL", "hipSetDevice", 1);
    must(bw_gpu_library(device) == NULL);
    unsetenv("FAKE_HIP_FAIL");
    has_none(device);
}

/* Both refuse, rocBLAS in its last call, when there is a handle already. */
static void check_nothing_works(void)
{
    setenv("FAKE_BLAS_FAIL", "hipblasLtCreate,rocblas_set_stream", 1);
    has_none(open_card());
    must(live("librocblas.so.5") == 0);
    setenv("FAKE_BLAS_FAIL", "hipblasLtCreate,rocblas_create_handle", 1);
    has_none(open_card());
    unsetenv("FAKE_BLAS_FAIL"); /* another device's luck */
    bw_device *device = open_card();
    multiplies(device);
    bw_device_close(device);
}

static void test_libraries(void **state)
{
    (void)state;
    bw_test_in_child(check_hipblaslt);
    bw_test_in_child(check_rocblas);
    bw_test_in_child(check_hidden);
    bw_test_in_child(check_no_context);
    bw_test_in_child(check_nothing_works);
}

int main(void)
{
    setenv("BW_GPU_TRIALS", "0", 1);
    make_archive(archive, sizeof archive, 1, &(test_family){"first", "code", "known "});
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_libraries)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
