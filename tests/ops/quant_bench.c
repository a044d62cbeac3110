/* bw-quant-bench [threads] [type substring]: times the quantized and indexing families' kernels on this processor, each
 * variant: best of several rounds, of one thread its processor time. Weights are [4096, 4096]; products with one column
 * read them from memory. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bw_clock.h"
#include "bw_mem.h"
#include "bw_ops.h"
#include "bw_rng.h"

enum { N = 4096, K = 4096, MOST_T = 128 };

/* A single thread is timed by what it computed, so that other programs on the machine disturb less. */
static int64_t now_ns(const bw_device *device)
{
    struct timespec t;
    if (bw_team_size(device->team) > 1)
        return bw_clock_now_ns();
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Best time of a call, or none where the variant is too slow to be of interest. */
static double best_ns(bw_op_call *call, bw_device *device)
{
    double best = 1e30, spent = 0;
    bw_err err = {0};
    for (int i = 0; i < 3 || (spent < 0.3e9 && i < 1000); i++) {
        int64_t begin = now_ns(device);
        if (bw_op_run(call, device, &err) != BW_OK) {
            fprintf(stderr, "%s\n", err.text);
            exit(1);
        }
        double ns = (double)(now_ns(device) - begin);
        best = ns < best ? ns : best;
        spent += ns;
    }
    return best;
}

/* Every variant of a call. */
static void bench(bw_op_call *call, bw_device *device, const char *what)
{
    const char *names[16];
    int n = bw_op_list_variants(call, device, names, 16);
    bw_err err = {0};
    bw_op_cost cost;
    bw_op_get(call->op)->cost(call, &cost);
    for (int v = 1; v < n; v++) {
        if (strcmp(names[v], "plain") == 0 && n > 2)
            continue;
        if (bw_op_prepare(call, device, names[v], &err) != BW_OK) {
            fprintf(stderr, "%s\n", err.text);
            exit(1);
        }
        double ns = best_ns(call, device);
        printf("%-24s %-22s %-12s %12.0f ns %7.1f GFLOP/s %6.1f GB/s\n", bw_op_get(call->op)->name, what, names[v], ns,
               cost.flops / ns, cost.bytes / ns);
        fflush(stdout);
    }
}

static void *must_alloc(size_t n)
{
    void *p = bw_alloc_aligned(n);
    if (!p) {
        fprintf(stderr, "no memory for %zu bytes\n", n);
        exit(1);
    }
    memset(p, 0, n);
    return p;
}

static void bench_type(bw_device *device, bw_dtype dtype, const bw_tensor *x_f32, const bw_tensor *x_q8, bw_tensor *y)
{
    int64_t bytes = bw_tensor_bytes(dtype, 2, (int64_t[]){N, K});
    uint8_t *data = must_alloc((size_t)bytes);
    for (int64_t i = 0; i < bytes; i++)
        data[i] = (uint8_t)(i * 37 % 61 + 1);
    bw_tensor w = bw_tensor_view(dtype, 2, (int64_t[]){N, K}, data);
    bw_tensor values = bw_tensor_view(BW_F32, 2, (int64_t[]){N, K}, must_alloc((size_t)N * K * 4));
    bw_op_call call = {.op = BW_OP_DEQUANTIZE_BLOCK, .n_in = 1, .n_out = 1, .in = {&w}, .out = {&values}};
    bench(&call, device, bw_dtype_name(dtype));
    bw_tensor row = bw_tensor_view(BW_F32, 1, (int64_t[]){K}, x_f32->data),
              out = bw_tensor_view(BW_F32, 1, (int64_t[]){N}, y->data);
    call = (bw_op_call){.op = BW_OP_DEQUANTIZE_MUL_MAT_VEC, .n_in = 2, .n_out = 1, .in = {&w, &row}, .out = {&out}};
    bench(&call, device, bw_dtype_name(dtype));
    static const int64_t columns[] = {1, 4, 8, MOST_T};
    for (int i = 0; i < 4; i++) {
        char what[40];
        snprintf(what, sizeof what, "%s, %d columns", bw_dtype_name(dtype), (int)columns[i]);
        bw_tensor x = bw_tensor_view(BW_Q8_1, 2, (int64_t[]){columns[i], K}, x_q8->data);
        bw_tensor z = bw_tensor_view(BW_F32, 2, (int64_t[]){columns[i], N}, y->data);
        call = (bw_op_call){.op = BW_OP_MUL_MAT, .n_in = 2, .n_out = 1, .in = {&w, &x}, .out = {&z}};
        bench(&call, device, what);
    }
    bw_free(values.data);
    bw_free(data);
}

static void bench_indexing(bw_device *device, bw_dtype dtype)
{
    size_t n_bytes = (size_t)(N * K * bw_dtype_block_bytes(dtype));
    bw_tensor x = bw_tensor_view(dtype, 2, (int64_t[]){N, K}, must_alloc(n_bytes)), y = x;
    y.data = must_alloc(n_bytes);
    uint32_t *ids = must_alloc((size_t)N * K * 4);
    bw_rng rng;
    bw_rng_init(&rng, 1);
    for (int64_t i = 0; i < N * K; i++)
        ids[i] = (uint32_t)bw_rng_below(&rng, N);
    bw_tensor row = bw_tensor_view(BW_U32, 1, (int64_t[]){N}, ids),
              all = bw_tensor_view(BW_U32, 2, (int64_t[]){N, K}, ids);
    static const bw_op ops[] = {BW_OP_IS, BW_OP_GATHER, BW_OP_IA, BW_OP_SA, BW_OP_S};
    for (int i = 0; i < 10; i++) {
        bw_indexing_params params = {.dim = i % 2};
        bool is_row = ops[i / 2] == BW_OP_IS || ops[i / 2] == BW_OP_IA;
        bw_op_call call = {
            .op = ops[i / 2], .n_in = 2, .n_out = 1, .in = {&x, is_row ? &row : &all}, .out = {&y}, .params = &params};
        char what[40];
        snprintf(what, sizeof what, "%s, dimension %d", bw_dtype_name(dtype), i % 2);
        bench(&call, device, what);
    }
    bw_free(x.data);
    bw_free(y.data);
    bw_free(ids);
}

int main(int argc, char **argv)
{
    static const bw_dtype types[] = {BW_Q4_0, BW_Q4_1, BW_Q5_0, BW_Q5_1, BW_Q8_0,  BW_Q2_K,
                                     BW_Q3_K, BW_Q4_K, BW_Q5_K, BW_Q6_K, BW_IQ4_XS};
    const char *wanted = argc > 2 ? argv[2] : "";
    bw_err err = {0};
    bw_device *device;
    if (bw_device_open("cpu:0", argc > 1 ? atoi(argv[1]) : 0, &device, &err) != BW_OK) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    printf("%s\n", device->description);
    bw_tensor x = bw_tensor_view(BW_F32, 2, (int64_t[]){MOST_T, K}, must_alloc((size_t)MOST_T * K * 4));
    for (int64_t i = 0; i < MOST_T * K; i++)
        ((float *)x.data)[i] = (float)(i % 17 - 8);
    bw_tensor q = bw_tensor_view(BW_Q8_1, 2, x.dims, must_alloc((size_t)MOST_T * K / 32 * 36));
    bw_tensor y = bw_tensor_view(BW_F32, 2, (int64_t[]){MOST_T, N}, must_alloc((size_t)MOST_T * N * 4));
    bw_op_call call = {.op = BW_OP_QUANTIZE_Q8_1, .n_in = 1, .n_out = 1, .in = {&x}, .out = {&q}};
    bench(&call, device, "[128, 4096]");
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strstr(bw_dtype_name(types[i]), wanted))
            bench_type(device, types[i], &x, &q, &y);
    if (strstr("f32", wanted))
        bench_indexing(device, BW_F32);
    if (strstr("f16", wanted))
        bench_indexing(device, BW_F16);
    bw_free(x.data);
    bw_free(q.data);
    bw_free(y.data);
    bw_device_close(device);
    return 0;
}
