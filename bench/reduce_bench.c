/* bw-reduce-bench: times of reductions, row operations and sorts on large tensors, and of plain reading and copying as
 * a measure of the machine.
 *
 *     bw-reduce-bench [--threads N] [--variant NAME] [--filter TEXT] [--rounds N] [--serve]
 *
 * One line per case: name, variant, median and least microseconds, GB/s by the least. --serve instead reads names of
 * cases, one a line, and answers each with one time in microseconds (bench/compare_torch_reduce.py takes turns so);
 * "list" answers with all names and an empty line. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bw_clock.h"
#include "bw_mem.h"
#include "bw_ops.h"
#include "bw_rng.h"

typedef enum form { ROWS, REDUCE, NORM, GROUP, SORT, TOPK, ROPE, CUMSUM, READ, COPY } form;

/* dims; what: reduced axes, groups, K, or the axis. */
typedef struct bench_case {
    const char *name;
    form form;
    bw_op op;
    bw_dtype dtype;
    int n_dims;
    int64_t dims[4];
    int what;
} bench_case;

static const bench_case cases[] = {
    {"read f32 16M", READ, BW_OP_SUM, BW_F32, 1, {1 << 24}, 0},
    {"copy f32 16M", COPY, BW_OP_SUM, BW_F32, 1, {1 << 24}, 0},
    {"softmax f32 4096x4096", ROWS, BW_OP_SOFTMAX, BW_F32, 2, {4096, 4096}, 0},
    {"softmax bf16 4096x4096", ROWS, BW_OP_SOFTMAX, BW_BF16, 2, {4096, 4096}, 0},
    {"log_softmax f32 4096x4096", ROWS, BW_OP_LOG_SOFTMAX, BW_F32, 2, {4096, 4096}, 0},
    {"rmsnorm f32 4096x4096", NORM, BW_OP_RMSNORM, BW_F32, 2, {4096, 4096}, 0},
    {"rmsnorm bf16 4096x4096", NORM, BW_OP_RMSNORM, BW_BF16, 2, {4096, 4096}, 0},
    {"layernorm f32 4096x4096", NORM, BW_OP_LAYERNORM, BW_F32, 2, {4096, 4096}, 0},
    {"layernorm f16 4096x4096", NORM, BW_OP_LAYERNORM, BW_F16, 2, {4096, 4096}, 0},
    {"group_norm f32 16x320x57x57", GROUP, BW_OP_GROUP_NORM, BW_F32, 4, {16, 320, 57, 57}, 32},
    {"sum f32 all", REDUCE, BW_OP_SUM, BW_F32, 2, {4096, 4096}, 3},
    {"sum f32 rows", REDUCE, BW_OP_SUM, BW_F32, 2, {4096, 4096}, 2},
    {"sum f32 columns", REDUCE, BW_OP_SUM, BW_F32, 2, {4096, 4096}, 1},
    {"sum bf16 rows", REDUCE, BW_OP_SUM, BW_BF16, 2, {4096, 4096}, 2},
    {"max f32 all", REDUCE, BW_OP_FAST_MAX, BW_F32, 2, {4096, 4096}, 3},
    {"max f32 rows", REDUCE, BW_OP_FAST_MAX, BW_F32, 2, {4096, 4096}, 2},
    {"max f32 columns", REDUCE, BW_OP_FAST_MAX, BW_F32, 2, {4096, 4096}, 1},
    {"argmax f32 rows", REDUCE, BW_OP_FAST_ARGMAX, BW_F32, 2, {4096, 4096}, 2},
    {"argmax f32 columns", REDUCE, BW_OP_FAST_ARGMAX, BW_F32, 2, {4096, 4096}, 1},
    {"argmax f32 all", REDUCE, BW_OP_FAST_ARGMAX, BW_F32, 2, {4096, 4096}, 3},
    {"sum i64 rows", REDUCE, BW_OP_FAST_SUM, BW_I64, 2, {2048, 4096}, 2},
    {"sort f32 1M", SORT, BW_OP_ASORT_ASC, BW_F32, 1, {1 << 20}, 0},
    {"sort f32 1024x1024", SORT, BW_OP_ASORT_ASC, BW_F32, 2, {1024, 1024}, 0},
    {"sort i64 1M", SORT, BW_OP_ASORT_ASC, BW_I64, 1, {1 << 20}, 0},
    {"topk f32 1M K100", TOPK, BW_OP_TOPK, BW_F32, 1, {1 << 20}, 100},
    {"topk f32 1024x1024 K10", TOPK, BW_OP_TOPK, BW_F32, 2, {1024, 1024}, 10},
    {"topk f32 1M K100000", TOPK, BW_OP_TOPK, BW_F32, 1, {1 << 20}, 100000},
    {"cumsum f32 rows", CUMSUM, BW_OP_CUMSUM, BW_F32, 2, {4096, 4096}, 1},
    {"cumsum f32 columns", CUMSUM, BW_OP_CUMSUM, BW_F32, 2, {4096, 4096}, 0},
    {"rope f32 1x32x4096x128", ROPE, BW_OP_ROPE, BW_F32, 4, {1, 32, 4096, 128}, 0},
    {"rope_i f32 1x32x4096x128", ROPE, BW_OP_ROPE_I, BW_F32, 4, {1, 32, 4096, 128}, 0},
};
enum { N_CASES = sizeof cases / sizeof *cases, MAX_TENSORS = 8, MAX_ROUNDS = 101 };

typedef struct bench {
    bw_device *device;
    const char *variant;
    bw_rng rng;
    bw_tensor tensors[MAX_TENSORS];
    bw_buffer buffers[MAX_TENSORS];
    int n_tensors;
    const bench_case *current;
    bw_op_call call;
    union {
        bw_reduce_params reduce;
        bw_layernorm_params norm;
        bw_group_norm_params group;
        bw_topk_params topk;
        bw_cumsum_params cumsum;
    } params;
    _Atomic int64_t next;
    uint64_t sink[256];
} bench;

static void die(const char *text)
{
    fprintf(stderr, "bw-reduce-bench: %s\n", text);
    exit(1);
}

static bw_tensor *add_tensor(bench *b, bw_dtype dtype, int n_dims, const int64_t *dims)
{
    bw_err err = {0};
    bw_tensor *t = &b->tensors[b->n_tensors];
    *t = bw_tensor_view(dtype, n_dims, dims, NULL);
    int64_t n = bw_tensor_elements(t);
    bw_buffer *buffer = &b->buffers[b->n_tensors++];
    if (b->device->vtable->alloc(b->device, (size_t)bw_tensor_bytes(dtype, n_dims, dims), BW_MEMORY_DENSE, "a tensor",
                                 buffer, &err) != BW_OK)
        die(err.text);
    t->data = buffer->data;
    for (int64_t i = 0; i < n; i++) {
        float x = (float)bw_rng_f64(&b->rng) * 6 - 3;
        if (dtype == BW_F32)
            ((float *)t->data)[i] = x;
        else if (dtype == BW_F16)
            ((uint16_t *)t->data)[i] = bw_f32_to_f16(x);
        else if (dtype == BW_BF16)
            ((uint16_t *)t->data)[i] = bw_f32_to_bf16(x);
        else if (dtype == BW_I64)
            ((int64_t *)t->data)[i] = (int64_t)((double)x * 1e9);
        else
            ((uint32_t *)t->data)[i] = 0;
    }
    return t;
}

static void release(bench *b)
{
    for (int i = 0; i < b->n_tensors; i++)
        b->device->vtable->release(b->device, &b->buffers[i]);
    bw_free(b->call.scratch);
    b->n_tensors = 0;
    b->call = (bw_op_call){0};
}

/* The tensors besides x, and the params. */
static void add_others(bench *b, const bench_case *c)
{
    bw_op_call *call = &b->call;
    int64_t dims[4];
    int n = 0;
    memcpy(dims, c->dims, sizeof dims);
    call->params = &b->params;
    if (c->form == REDUCE) {
        for (int d = 0; d < c->n_dims; d++)
            if (!(c->what >> d & 1))
                dims[n++] = c->dims[d];
        bool is_arg = c->op == BW_OP_FAST_ARGMAX || c->op == BW_OP_FAST_ARGMIN;
        b->params.reduce.axes = (uint32_t)c->what;
        call->out[0] = add_tensor(b, is_arg ? BW_U32 : c->dtype, n, dims);
        return;
    }
    if (c->form == NORM || c->form == GROUP) {
        int64_t d = c->form == GROUP ? c->dims[1] : c->dims[c->n_dims - 1];
        call->n_in = c->op == BW_OP_RMSNORM ? 2 : 3;
        for (int i = 1; i < call->n_in; i++)
            call->in[i] = add_tensor(b, c->dtype, 1, &d);
        if (c->form == NORM)
            b->params.norm.eps = 1e-5f;
        else
            b->params.group = (bw_group_norm_params){c->what, 1e-5f};
    } else if (c->form == ROPE) {
        call->n_in = 3;
        for (int i = 1; i < 3; i++)
            call->in[i] = add_tensor(b, c->dtype, 2, (int64_t[]){c->dims[2], c->dims[3] / 2});
    } else if (c->form == CUMSUM) {
        b->params.cumsum.axis = c->what;
    } else if (c->form == TOPK) {
        dims[c->n_dims - 1] = c->what;
        call->n_out = 2;
        call->out[1] = add_tensor(b, BW_U32, c->n_dims, dims);
        b->params.topk.is_smallest = 0;
    }
    call->out[0] = add_tensor(b, c->form == SORT ? BW_U32 : c->dtype, c->n_dims, dims);
}

static void prepare(bench *b, const bench_case *c)
{
    if (b->current == c)
        return;
    release(b);
    b->current = c;
    b->call = (bw_op_call){.op = c->op, .n_in = 1, .n_out = 1, .next = &b->next};
    b->call.in[0] = add_tensor(b, c->dtype, c->n_dims, c->dims);
    add_others(b, c);
    if (c->form == READ || c->form == COPY)
        return;
    bw_err err = {0};
    if (bw_op_prepare(&b->call, b->device, b->variant, &err) != BW_OK)
        die(err.text);
    size_t bytes = (b->call.scratch_bytes + 63) / 64 * 64 * (size_t)bw_team_size(b->device->team);
    b->call.scratch = bw_alloc_aligned(bytes + 64);
    if (!b->call.scratch)
        die("no memory for scratch");
    memset(b->call.scratch, 0, bytes);
}

static void run_member(void *arg, bw_member *member)
{
    bench *b = arg;
    int64_t begin, end;
    if (b->current->form == READ || b->current->form == COPY) {
        bw_team_split(member, bw_tensor_elements(b->call.in[0]) / 2, 64, &begin, &end);
        const uint64_t *x = (const uint64_t *)b->call.in[0]->data;
        if (b->current->form == COPY) {
            memcpy((uint64_t *)b->call.out[0]->data + begin, x + begin, (size_t)(end - begin) * 8);
            return;
        }
        uint64_t s[8] = {0};
        for (int64_t i = begin; i + 8 <= end; i += 8)
            for (int k = 0; k < 8; k++)
                s[k] ^= x[i + k];
        for (int k = 0; k < 8; k++)
            b->sink[member->rank] += s[k];
        return;
    }
    b->call.kernel(&b->call, member);
}

static double measure_once(bench *b)
{
    b->next = 0;
    int64_t begin = bw_clock_now_ns();
    bw_team_run(b->device->team, run_member, b);
    return (double)(bw_clock_now_ns() - begin) * 1e-3;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double bytes_of(const bench *b)
{
    bw_op_cost cost = {0};
    double x_bytes = (double)bw_tensor_elements(b->call.in[0]) * (double)bw_dtype_block_bytes(b->call.in[0]->dtype);
    if (b->current->form == READ || b->current->form == COPY)
        return b->current->form == COPY ? 2 * x_bytes : x_bytes;
    bw_op_get(b->call.op)->cost(&b->call, &cost);
    return cost.bytes;
}

static void table(bench *b, const char *filter, int rounds)
{
    for (int i = 0; i < N_CASES; i++) {
        double us[MAX_ROUNDS];
        if (filter && !strstr(cases[i].name, filter))
            continue;
        prepare(b, &cases[i]);
        measure_once(b);
        for (int k = 0; k < rounds; k++)
            us[k] = measure_once(b);
        qsort(us, (size_t)rounds, sizeof *us, compare);
        printf("%-30s %-7s %11.1f %11.1f us %7.2f GB/s\n", cases[i].name, b->call.variant ? b->call.variant : "-",
               us[rounds / 2], us[0], bytes_of(b) / us[0] * 1e-3);
        fflush(stdout);
    }
}

static void serve(bench *b)
{
    char line[128];
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = 0;
        for (int i = 0; i < N_CASES; i++) {
            if (strcmp(line, "list") == 0) {
                printf("%s\n", cases[i].name);
            } else if (strcmp(line, cases[i].name) == 0) {
                bool is_new = b->current != &cases[i];
                prepare(b, &cases[i]);
                if (is_new)
                    measure_once(b);
                printf("%.1f\n", measure_once(b));
            }
        }
        if (strcmp(line, "list") == 0)
            printf("\n");
        fflush(stdout);
    }
}

int main(int argc, char **argv)
{
    static bench b;
    int n_threads = 0, rounds = 11;
    const char *filter = NULL;
    bool is_serving = false;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--serve") == 0)
            is_serving = true;
        else if (i + 1 < argc && strcmp(argv[i], "--threads") == 0)
            n_threads = atoi(argv[++i]);
        else if (i + 1 < argc && strcmp(argv[i], "--rounds") == 0)
            rounds = atoi(argv[++i]);
        else if (i + 1 < argc && strcmp(argv[i], "--variant") == 0)
            b.variant = argv[++i];
        else if (i + 1 < argc && strcmp(argv[i], "--filter") == 0)
            filter = argv[++i];
        else
            die("options are --threads N, --variant NAME, --filter TEXT, --rounds N, --serve");
    }
    if (rounds < 1 || rounds > MAX_ROUNDS)
        die("--rounds is 1 to 101");
    bw_err err = {0};
    if (bw_device_open(NULL, n_threads, &b.device, &err) != BW_OK)
        die(err.text);
    bw_rng_init(&b.rng, 1);
    if (is_serving) {
        serve(&b);
    } else {
        printf("%s\n", b.device->description);
        table(&b, filter, rounds);
    }
    release(&b);
    bw_device_close(b.device);
    return 0;
}
