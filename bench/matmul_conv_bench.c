/* matmul-conv-bench: times of products, convolutions and attention, one run for each line on its standard input, so
 * that another program (compare_torch_matmul.py) can alternate it with its own runs.
 *
 *     matmul-conv-bench THREADS matmul TYPE M N K [t]                 t: b is transposed
 *     matmul-conv-bench THREADS conv2d TYPE N C H W O K STRIDE PADDING GROUPS
 *     matmul-conv-bench THREADS sdpa TYPE B H T S D [causal]
 *     matmul-conv-bench THREADS indexed_moe_forward TYPE EXPERTS N K TOKENS SLOTS
 *
 * THREADS may be a GPU, such as "cuda:0". BW_BENCH_VARIANT in the environment: a kernel by name, such as "onednn" or
 * "avx2", in place of what a program gets. For each line of input: the seconds of one run, by the clock and of
 * processor time; on a GPU the seconds by its own clock, the mean of GPU_RUNS, and TFLOP/s. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bw_clock.h"
#include "bw_element.h"
#include "bw_gpu.h"
#include "bw_log.h"
#include "bw_mem.h"
#include "bw_ops.h"
#include "bw_quant.h"
#include "bw_rng.h"

enum { GPU_RUNS = 20 };

static void die(const char *text)
{
    fprintf(stderr, "matmul-conv-bench: %s\n", text);
    exit(1);
}

static double cpu_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static bw_device *device;
static bw_tensor tensors[8];
static bw_buffer buffers[8];
static int n_tensors;
static bw_rng rng;

/* Random values; of quantised types, whose encoders are slow, one row again and again. Ids: below `most`. */
static void fill(bw_tensor *t, uint32_t most)
{
    int64_t n = bw_tensor_elements(t), k = t->dims[t->n_dims - 1];
    bool is_blocks = bw_dtype_is_quantised(t->dtype);
    for (int64_t i = 0; i < n && !is_blocks; i++)
        if (t->dtype == BW_U32)
            ((uint32_t *)t->data)[i] = (uint32_t)bw_rng_below(&rng, most);
        else
            bw_element_set_f64(t->dtype, t->data, i, bw_rng_f64(&rng) - 0.5);
    if (!is_blocks)
        return;
    float *row = bw_alloc_array((size_t)k, 4);
    if (!row)
        die("no memory");
    for (int64_t i = 0; i < k; i++)
        row[i] = (float)bw_rng_f64(&rng) - 0.5f;
    size_t n_bytes = (size_t)bw_dtype_bytes(t->dtype, k);
    bw_err err = {0};
    if (bw_can_encode(t->dtype) && bw_encode_row(t->dtype, row, t->data, k, NULL, &err) != BW_OK)
        die(err.text);
    if (!bw_can_encode(t->dtype)) /* small scales, if they are where most types have them */
        memset(t->data, 0x1c, n_bytes);
    bw_free(row);
    for (int64_t i = 1; i < n / k; i++)
        memcpy((char *)t->data + (size_t)i * n_bytes, t->data, n_bytes);
}

static uint32_t most_id = 1;

static bw_tensor *add(bw_dtype dtype, int n_dims, const int64_t *dims)
{
    bw_tensor *t = &tensors[n_tensors++];
    *t = bw_tensor_view(dtype, n_dims, dims, NULL);
    t->data = bw_alloc_aligned((size_t)bw_tensor_bytes(dtype, n_dims, dims));
    if (!t->data)
        die("no memory");
    fill(t, most_id);
    if (device->kind == BW_DEVICE_CPU)
        return t;
    bw_err err = {0};
    bw_buffer *b = &buffers[n_tensors - 1];
    size_t n_bytes = (size_t)bw_tensor_bytes(dtype, n_dims, dims);
    if (device->vtable->alloc(device, n_bytes, BW_MEMORY_DENSE, "a tensor", b, &err) != BW_OK ||
        device->vtable->upload(device, b->data, t->data, n_bytes, &err) != BW_OK)
        die(err.text);
    bw_free(t->data);
    t->data = b->data;
    return t;
}

/* Seconds of one run. */
static double run_gpu(bw_op_call *call)
{
    bw_err err = {0};
    float ms = 0;
    void *begin, *end;
    bw_buffer scratch = {0};
    if (call->scratch_bytes &&
        device->vtable->alloc(device, call->scratch_bytes, BW_MEMORY_DENSE, "scratch", &scratch, &err) != BW_OK)
        die(err.text);
    call->scratch = scratch.data;
    if (bw_gpu_event_new(device, &begin, &err) != BW_OK || bw_gpu_event_new(device, &end, &err) != BW_OK ||
        call->launch(call, device, &err) != BW_OK || bw_gpu_event_record(device, begin, &err) != BW_OK)
        die(err.text);
    for (int i = 0; i < GPU_RUNS; i++)
        if (call->launch(call, device, &err) != BW_OK)
            die(err.text);
    if (bw_gpu_event_record(device, end, &err) != BW_OK || bw_gpu_event_elapsed(device, begin, end, &ms, &err) != BW_OK)
        die(err.text);
    bw_gpu_event_free(device, begin);
    bw_gpu_event_free(device, end);
    if (scratch.data)
        device->vtable->release(device, &scratch);
    return (double)ms * 1e-3 / GPU_RUNS;
}

static double run_once(bw_op_call *call)
{
    bw_err err = {0};
    int64_t begin = bw_clock_now_ns();
    if (bw_op_run(call, device, &err) != BW_OK)
        die(err.text);
    return (double)(bw_clock_now_ns() - begin) * 1e-9;
}

int main(int argc, char **argv)
{
    int64_t v[16] = {0};
    bw_err err = {0};
    if (argc < 6)
        die("THREADS|GPU matmul|conv2d|sdpa|indexed_moe_forward TYPE sizes");
    bw_log_configure(BW_LOG_DEBUG, false); /* what trials found */
    const char *name = strchr(argv[1], ':') ? argv[1] : NULL;
    if (bw_device_open(name, name ? 0 : atoi(argv[1]), &device, &err) != BW_OK)
        die(err.text);
    bw_dtype dtype = bw_dtype_from_name(argv[3]);
    for (int i = 4; i < argc && i < 20; i++)
        v[i - 4] = atoll(argv[i]);
    bw_rng_init(&rng, 1);
    bw_op_call call = {.op = bw_op_from_name(argv[2]), .n_in = 2, .n_out = 1};
    bw_conv2d_params conv = {v[6], v[6], v[7], v[7], 1, 1, 0, 0, v[8]};
    bw_sdpa_params sdpa = {.scale = 0.125f};
    if (call.op == BW_OP_MATMUL) {
        bool is_transposed = argc > 7 && strcmp(argv[7], "t") == 0;
        call.in[0] = add(dtype, 2, (int64_t[]){v[0], v[2]});
        bw_tensor *b = add(dtype, 2, (int64_t[]){v[2], v[1]});
        if (is_transposed) {
            b->strides[0] = 1;
            b->strides[1] = v[2];
        }
        call.in[1] = b;
        call.out[0] = add(dtype, 2, (int64_t[]){v[0], v[1]});
    } else if (call.op == BW_OP_CONV2D) {
        call.params = &conv;
        call.in[0] = add(dtype, 4, v);
        call.in[1] = add(dtype, 4, (int64_t[]){v[4], v[1] / v[8], v[5], v[5]});
        call.out[0] =
            add(dtype, 4,
                (int64_t[]){v[0], v[4], (v[2] + 2 * v[7] - v[5]) / v[6] + 1, (v[3] + 2 * v[7] - v[5]) / v[6] + 1});
    } else if (call.op == BW_OP_SDPA) {
        sdpa.causal = argc > 9 && strcmp(argv[9], "causal") == 0;
        call.params = &sdpa;
        call.n_in = 4;
        call.in[0] = add(dtype, 4, (int64_t[]){v[0], v[1], v[2], v[4]});
        call.in[1] = add(dtype, 4, (int64_t[]){v[0], v[1], v[3], v[4]});
        call.in[2] = add(dtype, 4, (int64_t[]){v[0], v[1], v[3], v[4]});
        call.out[0] = add(dtype, 4, (int64_t[]){v[0], v[1], v[2], v[4]});
    } else if (call.op == BW_OP_INDEXED_MOE_FORWARD) {
        call.n_in = 3;
        most_id = (uint32_t)v[0];
        call.in[0] = add(dtype, 3, v);
        call.in[1] = add(BW_Q8_1, 3, (int64_t[]){v[3], 1, v[2]});
        call.in[2] = add(BW_U32, 2, v + 3);
        call.out[0] = add(BW_F32, 3, (int64_t[]){v[3], v[4], v[1]});
    } else {
        die("an op this program does not know");
    }
    if (bw_op_prepare(&call, device, getenv("BW_BENCH_VARIANT"), &err) != BW_OK)
        die(err.text);
    fprintf(stderr, "%s: %s\n", device->description, call.variant);
    bw_op_cost cost = {0};
    bw_op_get(call.op)->cost(&call, &cost);
    char line[16];
    while (fgets(line, sizeof line, stdin)) {
        double cpu = cpu_seconds();
        bool is_gpu = device->kind != BW_DEVICE_CPU;
        double seconds = is_gpu ? run_gpu(&call) : run_once(&call);
        printf("%.9f %.9f\n", seconds, is_gpu ? cost.flops / seconds * 1e-12 : cpu_seconds() - cpu);
        fflush(stdout);
    }
    for (int i = 0; i < n_tensors; i++)
        if (buffers[i].data)
            device->vtable->release(device, &buffers[i]);
        else
            bw_free(tensors[i].data);
    bw_device_close(device);
    return 0;
}
