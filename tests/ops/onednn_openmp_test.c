/* A host program with an OpenMP of its own: its functions, which a library's calls are bound to before the library's
 * dependencies, are told 1 thread while the library works, and then what was before. The library is a fake, and how
 * often it is entered shows how many primitives are made. */
#include "../bw_test.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "bw_sanitizer.h"
#include "library/bw_onednn.h"

#define EXPORT __attribute__((visibility("default")))

static _Thread_local int n_threads = 4;
static _Atomic int n_set_to_1;

EXPORT int omp_get_max_threads(void);
int omp_get_max_threads(void)
{
    return n_threads;
}

EXPORT void omp_set_num_threads(int n);
void omp_set_num_threads(int n)
{
    n_threads = n;
    n_set_to_1 += n == 1;
}

static void test_host_openmp(void **state)
{
    (void)state;
#if BW_HAS_TSAN
    printf("SKIPPED: libraries are not used under ThreadSanitizer\n");
#else
    if (!bw_cpu_get_features()->avx2) {
        printf("SKIPPED: libraries are used with AVX2 and better\n");
        return;
    }
    bw_onednn_tensor matrix = {.n_dims = 2, .dtype = BW_F32, .dims = {4, 4}, .strides = {4, 1}};
    bw_onednn_spec spec = {.kind = BW_ONEDNN_MATMUL, .src = matrix, .weights = matrix, .dst = matrix};
    float values[16] = {0};
    _Alignas(64) char scratch[64];
    assert_true(bw_onednn_is_there());
    const char *file = bw_onednn_file();
    assert_memory_equal(file, getenv("BW_ONEDNN_LIBRARY"), strlen(file)); /* of a long name the beginning */
    assert_true(strlen(file) > 0);
    bw_onednn_part *part = bw_onednn_take(&spec); /* the library asks for threads when it makes a primitive too */
    assert_non_null(part);
    assert_int_equal(n_set_to_1, 1);
    assert_int_equal(n_threads, 4);
    assert_int_equal(bw_onednn_scratch(part), 0);
    assert_false(bw_onednn_run(part, values, values, values, scratch)); /* the fake's runs fail */
    assert_int_equal(n_set_to_1, 2);
    assert_int_equal(n_threads, 4);
    bw_onednn_give(part);
    /* Primitives of many shapes are kept: 40 shapes on 32 threads are made once. */
    for (int k = 0; k < 2 * 40 * 32; k++) {
        spec.src.dims[0] = spec.dst.dims[0] = 5 + k % (40 * 32);
        part = bw_onednn_take(&spec);
        assert_non_null(part);
        bw_onednn_give(part);
    }
    assert_int_equal(n_set_to_1, 2 + 40 * 32);
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_host_openmp)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
