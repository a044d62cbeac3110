/* PyTorch's CUDA generator on outputs that have more elements than the card holds threads: single values from a card,
 * in tests/data/ops/random_cuda_large.txt (tools/fixtures/op_random_cuda.py). */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "bw_element.h"
#include "bw_mem.h"
#include "bw_ops.h"
#include "../bw_test.h"

typedef struct line {
    char op[32], dtype[8];
    long long seed, threads, n, i;
    double value;
} line;

/* Draws a line's output into *data, which is freed first. */
static void draw(bw_device *device, const line *l, void **data)
{
    bw_err err = {0};
    bw_dtype dtype = bw_dtype_from_name(l->dtype);
    bw_free(*data);
    *data = bw_alloc_array((size_t)l->n, (size_t)bw_dtype_block_bytes(dtype));
    assert_non_null(*data);
    bw_tensor y = bw_tensor_view(dtype, 1, (int64_t[]){l->n}, *data);
    bw_random_source source = {.seed = (uint64_t)l->seed, .cuda_threads = l->threads, .mode = BW_RANDOM_TORCH_CUDA};
    bw_rand_uniform_params uniform = {source, 0, 1};
    bw_rand_normal_params normal = {source, 0, 1};
    bool is_normal = strcmp(l->op, "rand_normal") == 0;
    bw_op_call call = {.op = is_normal ? BW_OP_RAND_NORMAL : BW_OP_RAND_UNIFORM, .n_out = 1, .out = {&y}};
    call.params = is_normal ? (const void *)&normal : &uniform;
    assert_int_equal(bw_op_prepare(&call, device, NULL, &err), BW_OK);
    assert_int_equal(bw_op_run(&call, device, &err), BW_OK);
}

static void test_large(void **state)
{
    (void)state;
    bw_err err = {0};
    bw_device *device;
    assert_int_equal(bw_device_open("cpu", 2, &device, &err), BW_OK);
    FILE *f = fopen(BW_TEST_DATA "/ops/random_cuda_large.txt", "re");
    assert_non_null(f);
    line l, last = {0};
    void *data = NULL;
    int n_lines = 0;
    while (fscanf(f, "%31s %7s %lld %lld %lld %lld %lf", l.op, l.dtype, &l.seed, &l.threads, &l.n, &l.i, &l.value) ==
           7) {
        if (strcmp(l.op, last.op) != 0 || strcmp(l.dtype, last.dtype) != 0 || l.n != last.n)
            draw(device, &l, &data);
        last = l;
        double got = bw_element_f64(bw_dtype_from_name(l.dtype), data, l.i), size = fmax(1, fabs(l.value));
        double allowed = strcmp(l.dtype, "f64") == 0   ? 1e-14
                         : strcmp(l.dtype, "f16") == 0 ? 0x1p-10
                                                       : 3e-6; /* the card's own sine and cosine */
        if (fabs(got - l.value) > allowed * size)
            fail_msg("%s %s of %lld: element %lld is %.9g, on the card %.9g", l.op, l.dtype, l.n, l.i, got, l.value);
        n_lines++;
    }
    fclose(f);
    assert_true(n_lines > 100);
    bw_free(data);
    bw_device_close(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_large)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
