/* bw-ops-bench: times of the ops around linear, as a model's step calls them: every member in one run, a barrier after
 * each call, and the KV cache of another layer each time.
 *
 *     bw-ops-bench [--threads N] [--variant NAME] [--filter TEXT] [--clock cpu|wall]
 *
 * --clock cpu counts the first member's processor time only, which is what a busy machine can measure with one thread.
 * One line per case: name, variant, microseconds per call (best of several rounds), GFLOP/s, GB/s. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bw_clock.h"
#include "bw_mem.h"
#include "bw_ops.h"
#include "bw_rng.h"

enum { MAX_CALLS = 512, ROUNDS = 40, MAX_TENSORS = 16 };

typedef struct bench {
    bw_device *device;
    const char *variant, *filter;
    bw_rng rng;
    bw_tensor tensors[MAX_TENSORS];
    bw_buffer buffers[MAX_TENSORS];
    int n_tensors;
    bw_op_call call;
    int n_layers; /* copies of the KV cache, of layer_bytes each; the call's in[1], in[2] or out[1], out[2] move */
    int64_t layer_bytes[2];
    int n_calls;
    bool use_cpu_time;
    _Atomic int64_t next[MAX_CALLS];
} bench;

static void die(const char *text)
{
    fprintf(stderr, "bw-ops-bench: %s\n", text);
    exit(1);
}

/* A tensor with `copies` times its storage, filled with normal values (f32, f16, bf16, q8_0) or zeros. */
static bw_tensor *add_tensor(bench *b, bw_dtype dtype, int n_dims, const int64_t *dims, int copies)
{
    bw_err err = {0};
    bw_tensor *t = &b->tensors[b->n_tensors];
    *t = bw_tensor_view(dtype, n_dims, dims, NULL);
    int64_t bytes = bw_tensor_bytes(dtype, n_dims, dims), n = bw_tensor_elements(t);
    bw_buffer *buffer = &b->buffers[b->n_tensors++];
    if (b->device->vtable->alloc(b->device, (size_t)(bytes * copies), BW_MEMORY_DENSE, "a tensor", buffer, &err) !=
        BW_OK)
        die(err.text);
    t->data = buffer->data;
    memset(t->data, 0, (size_t)(bytes * copies));
    if (dtype == BW_I32)
        return t;
    for (int64_t i = 0; i < n; i++) {
        float x = (float)bw_rng_f64(&b->rng) * 2 - 1;
        if (dtype == BW_F32)
            ((float *)t->data)[i] = x;
        else if (dtype == BW_F16)
            ((uint16_t *)t->data)[i] = bw_f32_to_f16(x);
        else if (dtype == BW_BF16)
            ((uint16_t *)t->data)[i] = bw_f32_to_bf16(x);
        else
            ((int8_t *)t->data)[i / 32 * 34 + 2 + i % 32] = (int8_t)(x * 127);
        if (dtype == BW_Q8_0 && i % 32 == 0)
            memcpy((char *)t->data + i / 32 * 34, &(uint16_t){0x2008}, 2); /* 1 / 127 */
    }
    for (int k = 1; k < copies; k++)
        memcpy((char *)t->data + bytes * k, t->data, (size_t)bytes);
    return t;
}

static void run_calls(void *arg, bw_member *member)
{
    bench *b = arg;
    bw_op_call call = b->call;
    bw_tensor k = {0}, v = {0};
    bool is_attention = call.op == BW_OP_ATTENTION;
    if (b->n_layers > 1) {
        k = is_attention ? *call.in[1] : *call.out[1];
        v = is_attention ? *call.in[2] : *call.out[2];
        if (is_attention) {
            call.in[1] = &k;
            call.in[2] = &v;
        } else {
            call.out[1] = &k;
            call.out[2] = &v;
        }
    }
    char *k_data = k.data, *v_data = v.data;
    for (int i = 0; i < b->n_calls; i++) {
        call.next = &b->next[i];
        if (b->n_layers > 1) {
            k.data = k_data + i % b->n_layers * b->layer_bytes[0];
            v.data = v_data + i % b->n_layers * b->layer_bytes[1];
        }
        call.kernel(&call, member);
        bw_team_barrier(member);
    }
}

static int64_t now_ns(const bench *b)
{
    struct timespec t;
    if (!b->use_cpu_time)
        return bw_clock_now_ns();
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void measure(bench *b, const char *name, bool is_costed)
{
    bw_err err = {0};
    if (b->filter && !strstr(name, b->filter))
        return;
    bw_op_call *call = &b->call;
    if (bw_op_prepare(call, b->device, b->variant, &err) != BW_OK) {
        printf("%-34s %s\n", name, err.text);
        return;
    }
    size_t bytes = (call->scratch_bytes + 63) / 64 * 64 * (size_t)bw_team_size(b->device->team);
    call->scratch = bw_alloc_aligned(bytes);
    if (!call->scratch)
        die("no memory for scratch");
    memset(call->scratch, 0, bytes);
    double best = 1e30;
    b->n_calls = 2;
    double spent = 0;
    for (int round = 0; round <= ROUNDS && spent < 1e6; round++) {
        memset(b->next, 0, sizeof b->next);
        int64_t begin = now_ns(b);
        bw_team_run(b->device->team, run_calls, b);
        double us = (double)(now_ns(b) - begin) * 1e-3 / b->n_calls;
        best = us < best ? us : best;
        spent += us * b->n_calls;
        if (round == 0) /* some 3 ms a round: short enough to run undisturbed now and then */
            b->n_calls = us > 3000 ? 1 : us < 6 ? MAX_CALLS : (int)(3000 / us);
    }
    bw_op_cost cost = {0};
    bw_op_get(call->op)->cost(call, &cost);
    printf("%-34s %-7s %10.2f us", name, call->variant, best);
    if (is_costed)
        printf(" %8.2f GFLOP/s", cost.flops / best * 1e-3);
    printf(" %7.2f GB/s\n", cost.bytes / best * 1e-3);
    fflush(stdout);
    bw_free(call->scratch);
}

static void release(bench *b)
{
    for (int i = 0; i < b->n_tensors; i++)
        b->device->vtable->release(b->device, &b->buffers[i]);
    b->n_tensors = 0;
    b->call = (bw_op_call){0};
    b->n_layers = 1;
}

static void attention(bench *b, int64_t n_q, int64_t n_kv, int64_t d, bw_dtype cache, int64_t n_tokens,
                      int64_t n_cached, int n_seqs)
{
    enum { PAGE = 32 };
    char name[64];
    snprintf(name, sizeof name, "attn %d x %d@%d %d/%d D%d %s", n_seqs, (int)n_tokens, (int)n_cached, (int)n_q,
             (int)n_kv, (int)d, bw_dtype_name(cache));
    if (b->filter && !strstr(name, b->filter))
        return;
    int64_t seq_pages = (n_cached + PAGE - 1) / PAGE, n_pages = seq_pages * n_seqs;
    int64_t dims[] = {n_pages, n_kv, PAGE, d};
    int64_t bytes = bw_tensor_bytes(cache, 4, dims);
    b->n_layers = bytes > 8 << 20 ? 4 : 16;
    b->layer_bytes[0] = b->layer_bytes[1] = bytes;
    bw_tensor *q = add_tensor(b, BW_F32, 3, (int64_t[]){n_tokens * n_seqs, n_q, d}, 1);
    bw_tensor *k = add_tensor(b, cache, 4, dims, b->n_layers), *v = add_tensor(b, cache, 4, dims, b->n_layers);
    bw_tensor *seqs = add_tensor(b, BW_I32, 2, (int64_t[]){n_seqs, 4}, 1);
    bw_tensor *pages = add_tensor(b, BW_I32, 1, &n_pages, 1);
    for (int s = 0; s < n_seqs; s++) {
        int32_t row[4] = {(int32_t)(s * n_tokens), (int32_t)n_tokens, (int32_t)n_cached, (int32_t)(s * seq_pages)};
        memcpy((int32_t *)seqs->data + s * 4, row, sizeof row);
    }
    for (int64_t i = 0; i < n_pages; i++)
        ((int32_t *)pages->data)[i] = (int32_t)i;
    bw_tensor *y = add_tensor(b, BW_F32, 3, (int64_t[]){n_tokens * n_seqs, n_q, d}, 1);
    bw_attention_params params = {.scale = (float)(1 / sqrt((double)d))};
    b->call = (bw_op_call){.op = BW_OP_ATTENTION, .n_in = 5, .n_out = 1, .params = &params};
    const bw_tensor *in[] = {q, k, v, seqs, pages};
    memcpy(b->call.in, in, sizeof in);
    b->call.out[0] = y;
    measure(b, name, true);
    release(b);
}

static void rope_kv(bench *b, int64_t t, int64_t n_q, int64_t n_kv, int64_t d, bw_dtype cache, bool interleaved)
{
    char name[64];
    snprintf(name, sizeof name, "rope_kv T%d %d/%d D%d %s%s", (int)t, (int)n_q, (int)n_kv, (int)d, bw_dtype_name(cache),
             interleaved ? " pairs" : "");
    bw_rope_kv_params params = {interleaved, (int32_t)d, 1};
    int64_t half = d / 2, dims[] = {(t + 31) / 32, n_kv, 32, d};
    b->call = (bw_op_call){.op = BW_OP_ROPE_KV, .n_in = 6, .n_out = 3, .params = &params};
    b->call.in[0] = add_tensor(b, BW_F32, 3, (int64_t[]){t, n_q, d}, 1);
    b->call.in[1] = add_tensor(b, BW_F32, 3, (int64_t[]){t, n_kv, d}, 1);
    b->call.in[2] = add_tensor(b, BW_F32, 3, (int64_t[]){t, n_kv, d}, 1);
    bw_tensor *positions = add_tensor(b, BW_I32, 1, &t, 1), *slots = add_tensor(b, BW_I32, 1, &t, 1);
    for (int64_t i = 0; i < t; i++)
        ((int32_t *)positions->data)[i] = ((int32_t *)slots->data)[i] = (int32_t)i;
    b->call.in[3] = positions;
    b->call.in[4] = slots;
    b->call.in[5] = add_tensor(b, BW_F32, 1, &half, 1);
    b->call.out[0] = add_tensor(b, BW_F32, 3, (int64_t[]){t, n_q, d}, 1);
    b->call.out[1] = add_tensor(b, cache, 4, dims, 1);
    b->call.out[2] = add_tensor(b, cache, 4, dims, 1);
    measure(b, name, false);
    release(b);
}

/* rmsnorm, add_rms_norm, badd: inputs of [t, d], weights [d]. */
static void rows(bench *b, bw_op op, int64_t t, int64_t d)
{
    char name[64];
    snprintf(name, sizeof name, "%s T%d D%d", bw_op_get(op)->name, (int)t, (int)d);
    bw_rms_norm_params norm = {1e-5f};
    bw_glu_params glu = {BW_ACTIVATION_SILU};
    int64_t dims[] = {t, d};
    b->call = (bw_op_call){.op = op, .n_in = 2, .n_out = 1, .params = op == BW_OP_GLU ? (void *)&glu : (void *)&norm};
    b->call.in[0] = add_tensor(b, BW_F32, 2, dims, 1);
    b->call.in[1] = op == BW_OP_RMSNORM ? add_tensor(b, BW_F32, 1, &d, 1) : add_tensor(b, BW_F32, 2, dims, 1);
    b->call.out[0] = add_tensor(b, BW_F32, 2, dims, 1);
    if (op == BW_OP_ADD_RMS_NORM) {
        b->call.n_in = 4;
        b->call.n_out = 2;
        b->call.in[2] = add_tensor(b, BW_F32, 1, &d, 1);
        b->call.out[1] = add_tensor(b, BW_F32, 2, dims, 1);
    }
    measure(b, name, false);
    release(b);
}

int main(int argc, char **argv)
{
    static bench b;
    int n_threads = 0;
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--threads") == 0)
            n_threads = atoi(argv[i + 1]);
        else if (strcmp(argv[i], "--variant") == 0)
            b.variant = argv[i + 1];
        else if (strcmp(argv[i], "--filter") == 0)
            b.filter = argv[i + 1];
        else if (strcmp(argv[i], "--clock") == 0)
            b.use_cpu_time = strcmp(argv[i + 1], "cpu") == 0;
        else
            die("options are --threads N, --variant NAME, --filter TEXT, --clock cpu|wall");
    }
    bw_err err = {0};
    if (bw_device_open(NULL, n_threads, &b.device, &err) != BW_OK)
        die(err.text);
    printf("%s\n", b.device->description);
    bw_rng_init(&b.rng, 1);
    b.n_layers = 1;
    static const int64_t tokens[] = {1, 8, 512};
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++) {
        rows(&b, BW_OP_RMSNORM, tokens[i], 576);
        rows(&b, BW_OP_ADD_RMS_NORM, tokens[i], 576);
        rows(&b, BW_OP_BADD, tokens[i], 576);
        rows(&b, BW_OP_GLU, tokens[i], 1536);
        rope_kv(&b, tokens[i], 9, 3, 64, BW_F16, false);
        rope_kv(&b, tokens[i], 9, 3, 64, BW_F16, true);
        rope_kv(&b, tokens[i], 9, 3, 64, BW_Q8_0, true);
    }
    static const bw_dtype caches[] = {BW_F16, BW_Q8_0};
    static const int64_t heads[][3] = {{9, 3, 64}, {32, 8, 64}, {32, 8, 128}, {4, 1, 256}};
    for (size_t k = 0; k < 2; k++) {
        for (size_t i = 0; i < 4; i++) {
            const int64_t *h = heads[i];
            attention(&b, h[0], h[1], h[2], caches[k], 1, 64, 1);
            attention(&b, h[0], h[1], h[2], caches[k], 1, 512, 1);
            attention(&b, h[0], h[1], h[2], caches[k], 1, 4096, 1);
            attention(&b, h[0], h[1], h[2], caches[k], 1, 512, 8);
            attention(&b, h[0], h[1], h[2], caches[k], 512, 512, 1);
            attention(&b, h[0], h[1], h[2], caches[k], 2048, 2048, 1);
        }
    }
    bw_device_close(b.device);
    return 0;
}
