/* The launch of the random family. */
#include <math.h>
#include <stdio.h>

#include "bw_op_gpu.h"
#include "random/bw_random_args.h"
#include "random/random_core.h"

bw_op_gpu_kernel bw_random_gpu;
size_t bw_random_gpu_scratch(const bw_op_call *call);

/* TORCH_CPU, normal numbers: where the remainder's last sixteen begin. f32 and f64 first draw its own, f16 and bf16 do
 * not. */
static int64_t last_word(const bw_tensor *y)
{
    int64_t n = bw_tensor_elements(y), size = bw_dtype_block_bytes(y->dtype);
    return (n / 16 * 16 + (size >= 4 ? n % 16 : 0)) * (size == 8 ? 2 : 1);
}

/* Words that TORCH_CPU draws for a call. */
static int64_t count_words(const bw_op_call *call)
{
    const bw_tensor *y = call->out[0];
    int64_t n = bw_tensor_elements(y), each = bw_dtype_block_bytes(y->dtype) == 8 ? 2 : 1;
    if (call->op != BW_OP_RAND_NORMAL)
        return n * each;
    if (n < 16)
        return (n + 1) / 2 * 4;
    return n % 16 == 0 ? n * each : last_word(y) + 16 * each;
}

size_t bw_random_gpu_scratch(const bw_op_call *call)
{
    const bw_random_source *source = call->params; /* the first member of each params struct */
    return source->mode == BW_RANDOM_TORCH_CPU ? (size_t)count_words(call) * sizeof(uint32_t) : 0;
}

static void set_uniform(const bw_op_call *call, bw_random_args *r)
{
    const bw_rand_uniform_params *p = call->params;
    bw_dtype dtype = call->out[0]->dtype;
    double lo = bw_element_round(dtype, p->lo), up = bw_element_round(dtype, p->up);
    if (r->mode == BW_RANDOM_PHILOX) {
        r->a = p->lo;
        r->b = p->up - p->lo;
        r->up = p->up;
        r->instead = fmax(bw_random_below(dtype, p->up), lo);
        r->bounded = p->lo < p->up;
        return;
    }
    r->a = lo;
    r->b = r->mode == BW_RANDOM_TORCH_CUDA ? bw_element_round(dtype, up - lo) : up - lo;
    r->up = up;
    r->instead = lo;
}

/* n threads, in grids of at most 2^31. */
static bw_status run_threads(bw_device *device, const char *name, int64_t n, bw_random_args *r, void **args,
                             bw_err *err)
{
    const int64_t most = (int64_t)1 << 31;
    for (r->first = 0; r->first < n; r->first += most) {
        int64_t left = n - r->first < most ? n - r->first : most;
        bw_gpu_grid grid = {.blocks = {(uint32_t)((left + BW_RANDOM_THREADS - 1) / BW_RANDOM_THREADS), 1, 1},
                            .threads = BW_RANDOM_THREADS};
        BW_TRY(bw_gpu_run(device, name, &grid, args, err));
    }
    return BW_OK;
}

static bw_status run_torch_cpu(const bw_op_call *call, bw_device *device, bw_loop *loop, bw_random_args *r, bw_err *err)
{
    int64_t n_words = count_words(call);
    void *y = call->out[0]->data, *words = call->scratch;
    bw_gpu_grid one = {.blocks = {1, 1, 1}, .threads = BW_RANDOM_THREADS};
    BW_TRY(bw_gpu_run(device, "rand_words", &one, (void *[]){r, &words, &n_words}, err));
    char name[64];
    snprintf(name, sizeof name, "%s_torch_cpu_%s", bw_op_get(call->op)->name, bw_dtype_name(call->out[0]->dtype));
    return run_threads(device, name, r->n, r, (void *[]){loop, r, &y, &words}, err);
}

bw_status bw_random_gpu(const bw_op_call *call, bw_device *device, bw_err *err)
{
    const bw_random_source *source = call->params;
    bw_tensor *y = call->out[0];
    random_blocks blocks;
    random_blocks_init(&blocks, source, y);
    bw_loop loop;
    bw_loop_init(&loop, y->n_dims, y->dims, 1, (const bw_tensor *[]){y});
    bw_random_args r = {.seed = source->seed,
                        .offset = source->offset,
                        .n = loop.n,
                        .threads = blocks.threads,
                        .last = last_word(y),
                        .mode = source->mode};
    if (call->op == BW_OP_RAND_UNIFORM)
        set_uniform(call, &r);
    if (call->op == BW_OP_RAND_NORMAL) {
        r.a = ((const bw_rand_normal_params *)call->params)->mean;
        r.b = ((const bw_rand_normal_params *)call->params)->std;
    }
    if (source->mode == BW_RANDOM_TORCH_CPU)
        return run_torch_cpu(call, device, &loop, &r, err);
    int64_t n_blocks = (r.n + blocks.per_block - 1) / blocks.per_block;
    if (source->mode == BW_RANDOM_TORCH_CUDA) { /* every thread of every round of PyTorch's launch */
        int64_t round = blocks.threads * blocks.per_block;
        n_blocks = (r.n + round - 1) / round * blocks.threads;
    }
    char name[64];
    bw_gpu_entry_name(call, name);
    return run_threads(device, name, n_blocks, &r, (void *[]){&loop, &r, &y->data}, err);
}
