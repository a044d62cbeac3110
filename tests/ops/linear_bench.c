/* bw-linear-bench [threads] [type substring]: times the matrix products of a 135M and a 1B llama on this processor, for
 * every kernel it has. Weights stand in memory several times, so that a product with one token reads them from memory,
 * as in a model. Each figure is the best of several rounds. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bw_clock.h"
#include "linear/bw_linear.h"
#include "bw_mem.h"

typedef struct shape {
    const char *name;
    int64_t n, k;
} shape;

static const shape shapes[] = {{"135M attn", 576, 576},  {"135M up", 1536, 576},  {"135M down", 576, 1536},
                               {"135M out", 49152, 576}, {"1B attn", 2048, 2048}, {"1B up", 8192, 2048},
                               {"1B down", 2048, 8192}};

static double time_call(bw_op_call *call, bw_device *device, const bw_tensor *weights, int n_weights, double seconds)
{
    double best = 1e30, spent = 0;
    bw_err err = {0};
    for (int i = 0; spent < seconds || i < 2 * n_weights; i++) {
        call->in[1] = &weights[i % n_weights];
        int64_t begin = bw_clock_now_ns();
        if (bw_op_run(call, device, &err) != BW_OK)
            exit(1);
        double ns = (double)(bw_clock_now_ns() - begin);
        best = ns < best ? ns : best;
        spent += ns * 1e-9;
        if (spent > 4 * seconds)
            break;
    }
    return best;
}

static void bench_shape(bw_device *device, bw_dtype dtype, const shape *s)
{
    enum { MAX_WEIGHTS = 64 };
    uint32_t layout = bw_linear_choose_layout(device, dtype, s->n, s->k);
    int64_t bytes = bw_linear_layout_bytes(layout, dtype, s->n, s->k),
            plain = bw_linear_layout_bytes(0, dtype, s->n, s->k);
    int n_weights = (int)(100000000 / bytes) + 1;
    n_weights = n_weights > MAX_WEIGHTS ? MAX_WEIGHTS : n_weights;
    uint8_t *src = bw_alloc((size_t)plain), *data = bw_alloc_aligned((size_t)(bytes * n_weights));
    if (!src || !data)
        exit(1);
    for (int64_t i = 0; i < plain; i++)
        src[i] = (uint8_t)(i * 37 % 61 + 1);
    bw_tensor weights[MAX_WEIGHTS];
    double pack_ns = 1e30;
    for (int i = 0; i < n_weights; i++) {
        int64_t begin = bw_clock_now_ns();
        bw_linear_pack_rows(layout, dtype, s->n, s->k, 0, s->n, src, data + i * bytes);
        double ns = (double)(bw_clock_now_ns() - begin);
        pack_ns = ns < pack_ns ? ns : pack_ns;
        weights[i] = bw_tensor_view(dtype, 2, (int64_t[]){s->n, s->k}, data + i * bytes);
        weights[i].layout = layout;
    }
    printf("%-8s %-10s pack %.2f GB/s\n", bw_dtype_name(dtype), s->name, (double)bytes / pack_ns);
    static const int64_t ts[] = {1, 2, 4, 8, 32, 512};
    for (size_t i = 0; i < sizeof ts / sizeof *ts; i++) {
        int64_t t = ts[i];
        if (t == 512 && s->n > 10000)
            continue;
        uint32_t format = bw_linear_act_format(device, &weights[0]);
        int64_t row_bytes = bw_act_row_bytes(format, s->k);
        float *x = bw_alloc_array((size_t)(t * s->k), sizeof *x), *y = bw_alloc_array((size_t)(t * s->n), sizeof *y);
        void *act = bw_alloc_aligned((size_t)(t * row_bytes));
        if (!x || !y || !act)
            exit(1);
        for (int64_t j = 0; j < t * s->k; j++)
            x[j] = (float)(j % 17 - 8);
        bw_tensor xt = bw_tensor_view(BW_F32, 2, (int64_t[]){t, s->k}, x), at = xt;
        bw_err err = {0};
        double quantise_ns = 0;
        if (format) {
            at = bw_tensor_view(BW_U8, 2, (int64_t[]){t, row_bytes}, act);
            at.layout = format;
            bw_op_call q = {.op = BW_OP_QUANTISE_ACT, .n_in = 1, .n_out = 1, .in = {&xt}, .out = {&at}};
            if (bw_op_prepare(&q, device, NULL, &err) != BW_OK)
                exit(1);
            quantise_ns = time_call(&q, device, weights, n_weights, 0.01);
        }
        bw_tensor yt = bw_tensor_view(BW_F32, 2, (int64_t[]){t, s->n}, y);
        bw_linear_params params = {.k = s->k};
        bw_op_call call = {
            .op = BW_OP_LINEAR, .n_in = 2, .n_out = 1, .in = {&at, &weights[0]}, .out = {&yt}, .params = &params};
        const char *names[16];
        int n_names = bw_op_list_variants(&call, device, names, 16);
        for (int v = 1; v < n_names; v++) {
            if (strcmp(names[v], "plain") == 0 && (n_names > 2 || t > 8))
                continue;
            if (bw_op_prepare(&call, device, names[v], &err) != BW_OK)
                exit(1);
            double ns = time_call(&call, device, weights, n_weights, 0.15);
            printf("%-8s %-10s T %3" PRId64 " %-10s %11.0f ns %7.1f GMAC/s %6.1f GB/s   quantise %.0f ns\n",
                   bw_dtype_name(dtype), s->name, t, names[v], ns, (double)(t * s->n * s->k) / ns, (double)bytes / ns,
                   quantise_ns);
            fflush(stdout);
        }
        bw_free(x);
        bw_free(y);
        bw_free(act);
    }
    bw_free(src);
    bw_free(data);
}

int main(int argc, char **argv)
{
    static const bw_dtype types[] = {BW_Q4_0, BW_Q4_1, BW_Q5_0, BW_Q5_1, BW_Q8_0, BW_Q2_K,   BW_Q3_K,   BW_Q4_K,
                                     BW_Q5_K, BW_Q6_K, BW_F32,  BW_F16,  BW_BF16, BW_IQ4_NL, BW_IQ4_XS, BW_MXFP4};
    int threads = argc > 1 ? atoi(argv[1]) : 0;
    bw_err err = {0};
    bw_device *device;
    if (bw_device_open("cpu:0", threads, &device, &err) != BW_OK) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    printf("%s\n", device->description);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        for (size_t j = 0; j < sizeof shapes / sizeof *shapes; j++)
            if ((argc <= 2 || strstr(bw_dtype_name(types[i]), argv[2])) &&
                (argc <= 3 || strstr(shapes[j].name, argv[3])) && shapes[j].k % bw_dtype_block_elements(types[i]) == 0)
                bench_shape(device, types[i], &shapes[j]);
    bw_device_close(device);
    return 0;
}
