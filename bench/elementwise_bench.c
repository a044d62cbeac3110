/* bw-elementwise-bench: times of elementwise calls on large contiguous tensors.
 *
 *     bw-elementwise-bench [--threads N] [--elements N] [--variant NAME] [--filter TEXT] [--calls N]
 *
 * One line per case: name, variant, milliseconds per call (median of the calls after a first one), GB/s (each input
 * read once, the output written once). compare_torch_elementwise.py runs it beside PyTorch. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bw_clock.h"
#include "bw_element.h"
#include "bw_mem.h"
#include "bw_ops.h"
#include "bw_rng.h"

enum { MAX_CALLS = 101, MAX_TENSORS = 4 };

typedef enum params_kind { NO_PARAMS, UNARY_PARAMS, GLU_PARAMS, AFFINE_PARAMS, FILL_PARAMS } params_kind;

typedef struct row {
    const char *name;
    bw_op op;
    params_kind params;
    int n_in;
    bw_dtype in[3], out;
} row;

static const row rows[] = {
    {"copy f32", BW_OP_UCOPY, NO_PARAMS, 1, {BW_F32}, BW_F32},
    {"fill f32", BW_OP_FILL, FILL_PARAMS, 0, {BW_F32}, BW_F32},
    {"add f32", BW_OP_BADD, NO_PARAMS, 2, {BW_F32, BW_F32}, BW_F32},
    {"mul f32", BW_OP_BMUL, NO_PARAMS, 2, {BW_F32, BW_F32}, BW_F32},
    {"exp f32", BW_OP_UEXP, NO_PARAMS, 1, {BW_F32}, BW_F32},
    {"gelu f32", BW_OP_UGELU, NO_PARAMS, 1, {BW_F32}, BW_F32},
    {"gelu_erf f32", BW_OP_UGELU_ERF, NO_PARAMS, 1, {BW_F32}, BW_F32},
    {"silu f32", BW_OP_USILU, NO_PARAMS, 1, {BW_F32}, BW_F32},
    {"cast f32 bf16", BW_OP_CAST, NO_PARAMS, 1, {BW_F32}, BW_BF16},
    {"cast bf16 f32", BW_OP_CAST, NO_PARAMS, 1, {BW_BF16}, BW_F32},
    {"where u8 f32", BW_OP_WHERE, NO_PARAMS, 3, {BW_U8, BW_F32, BW_F32}, BW_F32},
    {"affine f32", BW_OP_AFFINE, AFFINE_PARAMS, 1, {BW_F32}, BW_F32},
    {"log f32", BW_OP_ULOG, NO_PARAMS, 1, {BW_F32}, BW_F32},
    {"sin f32", BW_OP_USIN, NO_PARAMS, 1, {BW_F32}, BW_F32},
    {"tanh f32", BW_OP_UTANH, NO_PARAMS, 1, {BW_F32}, BW_F32},
    {"erf f32", BW_OP_UERF, NO_PARAMS, 1, {BW_F32}, BW_F32},
    {"pow f32", BW_OP_UPOWF, UNARY_PARAMS, 1, {BW_F32}, BW_F32},
    {"glu f32", BW_OP_GLU, GLU_PARAMS, 2, {BW_F32, BW_F32}, BW_F32},
    {"lt f32", BW_OP_LT, NO_PARAMS, 2, {BW_F32, BW_F32}, BW_U8},
    {"add bf16", BW_OP_BADD, NO_PARAMS, 2, {BW_BF16, BW_BF16}, BW_BF16},
    {"silu bf16", BW_OP_USILU, NO_PARAMS, 1, {BW_BF16}, BW_BF16},
    {"add i64", BW_OP_BADD, NO_PARAMS, 2, {BW_I64, BW_I64}, BW_I64},
};

static void die(const char *text)
{
    fprintf(stderr, "bw-elementwise-bench: %s\n", text);
    exit(1);
}

static void fill(bw_tensor *t, int64_t n, bw_rng *rng)
{
    enum { PERIOD = 65536 };
    size_t size = (size_t)bw_dtype_block_bytes(t->dtype);
    for (int64_t i = 0; i < n && i < PERIOD; i++)
        bw_element_set_f64(t->dtype, t->data, i, t->dtype == BW_U8 ? (double)bw_rng_below(rng, 2) : bw_rng_normal(rng));
    for (int64_t i = PERIOD; i < n; i += PERIOD)
        memcpy((char *)t->data + (size_t)i * size, t->data, (size_t)(n - i < PERIOD ? n - i : PERIOD) * size);
}

static int compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static void measure(bw_device *device, const row *r, int64_t n, const char *variant, int n_calls)
{
    bw_err err = {0};
    bw_rng rng;
    bw_rng_init(&rng, 1);
    bw_buffer buffers[MAX_TENSORS];
    bw_tensor tensors[MAX_TENSORS];
    bw_unary_params unary = {2.5};
    bw_glu_params glu = {BW_ACTIVATION_SILU};
    bw_affine_params affine = {1.5, 0.5};
    bw_fill_params value = {1.5, 1};
    const void *const params[] = {NULL, &unary, &glu, &affine, &value};
    bw_op_call call = {.op = r->op, .n_in = r->n_in, .n_out = 1, .params = params[r->params]};
    for (int k = 0; k <= r->n_in; k++) {
        bw_dtype dtype = k < r->n_in ? r->in[k] : r->out;
        tensors[k] = bw_tensor_view(dtype, 1, &n, NULL);
        if (device->vtable->alloc(device, (size_t)bw_dtype_bytes(dtype, n), BW_MEMORY_DENSE, "a tensor", &buffers[k],
                                  &err) != BW_OK)
            die(err.text);
        tensors[k].data = buffers[k].data;
        fill(&tensors[k], n, &rng);
        if (k < r->n_in)
            call.in[k] = &tensors[k];
        else
            call.out[0] = &tensors[k];
    }
    int64_t times[MAX_CALLS];
    if (bw_op_prepare(&call, device, variant, &err) != BW_OK)
        die(err.text);
    for (int i = -1; i < n_calls; i++) {
        int64_t begin = bw_clock_now_ns();
        if (bw_op_run(&call, device, &err) != BW_OK)
            die(err.text);
        if (i >= 0)
            times[i] = bw_clock_now_ns() - begin;
    }
    qsort(times, (size_t)n_calls, sizeof *times, compare);
    bw_op_cost cost = {0};
    bw_op_get(r->op)->cost(&call, &cost);
    printf("%-16s %-7s %9.3f ms %7.2f GB/s\n", r->name, call.variant, (double)times[n_calls / 2] * 1e-6,
           cost.bytes / (double)times[n_calls / 2]);
    fflush(stdout);
    for (int k = 0; k <= r->n_in; k++)
        device->vtable->release(device, &buffers[k]);
}

int main(int argc, char **argv)
{
    const char *variant = NULL, *filter = NULL;
    int n_threads = 2, n_calls = 5;
    int64_t n = 16 << 20;
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--threads") == 0)
            n_threads = atoi(argv[i + 1]);
        else if (strcmp(argv[i], "--elements") == 0)
            n = strtoll(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--variant") == 0)
            variant = argv[i + 1];
        else if (strcmp(argv[i], "--filter") == 0)
            filter = argv[i + 1];
        else if (strcmp(argv[i], "--calls") == 0)
            n_calls = atoi(argv[i + 1]);
        else
            die("options are --threads N, --elements N, --variant NAME, --filter TEXT, --calls N");
    }
    if (n < 1 || n > (int64_t)1 << 32 || n_calls < 1 || n_calls > MAX_CALLS)
        die("--elements must be 1 to 2^32, --calls 1 to 101");
    bw_err err = {0};
    bw_device *device;
    if (bw_device_open(NULL, n_threads, &device, &err) != BW_OK)
        die(err.text);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!filter || strstr(rows[i].name, filter))
            measure(device, &rows[i], n, variant, n_calls);
    bw_device_close(device);
    return 0;
}
