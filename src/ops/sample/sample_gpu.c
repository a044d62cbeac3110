/* The launches of ROW_ARGMAX, ROW_TOP_K and ROW_SAMPLE. */
#include "bw_gpu.h"
#include "bw_op_check.h"
#include "sample/bw_sample_args.h"

bw_op_gpu_kernel bw_row_argmax_gpu, bw_row_top_k_gpu, bw_row_sample_gpu;

enum { MOST_ROWS = 65535 };

static int64_t count_parts(const bw_op_call *call)
{
    return (call->in[0]->dims[1] + BW_SAMPLE_PART - 1) / BW_SAMPLE_PART;
}

static bw_sample_args make_args(const bw_op_call *call)
{
    const bw_tensor *x = call->in[0];
    return (bw_sample_args){.row = x->strides[0], .n = (int32_t)x->dims[1], .n_parts = (int32_t)count_parts(call)};
}

static uint32_t rows_left(const bw_op_call *call, const bw_sample_args *p)
{
    int64_t left = call->in[0]->dims[0] - p->first_row;
    return (uint32_t)(left < MOST_ROWS ? left : MOST_ROWS);
}

/* Every row begins at a multiple of 16 bytes. */
static int32_t rows_are_packed(const bw_tensor *x)
{
    return (uintptr_t)x->data % 16 == 0 && (x->dims[0] == 1 || x->strides[0] % 4 == 0);
}

size_t bw_row_argmax_gpu_scratch(const bw_op_call *call)
{
    return (size_t)(call->in[0]->dims[0] * count_parts(call)) * sizeof(bw_sample_best);
}

bw_status bw_row_argmax_gpu(const bw_op_call *call, bw_device *device, bw_err *err)
{
    const bw_tensor *x = call->in[0];
    bw_sample_args p = make_args(call);
    int32_t is_packed = rows_are_packed(x);
    void *parts = call->scratch, *in = x->data, *tokens = call->out[0]->data, *finite = call->out[1]->data;
    void *part_args[] = {&p, &in, &parts, &is_packed}, *join_args[] = {&p, &parts, &tokens, &finite};
    for (; p.first_row < x->dims[0]; p.first_row += MOST_ROWS) {
        uint32_t rows = rows_left(call, &p);
        bw_gpu_grid grid = {.blocks = {(uint32_t)p.n_parts, rows, 1}, .threads = BW_SAMPLE_BLOCK};
        BW_TRY(bw_gpu_run(device, "row_argmax_parts", &grid, part_args, err));
        grid = (bw_gpu_grid){.blocks = {rows, 1, 1}, .threads = BW_SAMPLE_BLOCK};
        BW_TRY(bw_gpu_run(device, "row_argmax_join", &grid, join_args, err));
    }
    return BW_OK;
}

/* A workgroup holds all candidates of a row. */
bool bw_row_top_k_gpu_supports(const bw_op_call *call, const bw_device *device)
{
    (void)device;
    int64_t k = call->out[0]->dims[1];
    return k <= BW_SAMPLE_MOST_K && count_parts(call) * k <= BW_SAMPLE_CANDIDATES;
}

static size_t count_candidates(const bw_op_call *call)
{
    return (size_t)(call->in[0]->dims[0] * count_parts(call) * call->out[0]->dims[1]);
}

/* Candidates, then sums. */
size_t bw_row_top_k_gpu_scratch(const bw_op_call *call)
{
    return count_candidates(call) * sizeof(bw_sample_candidate) +
           (size_t)(call->in[0]->dims[0] * count_parts(call)) * sizeof(bw_sample_sums);
}

bw_status bw_row_top_k_gpu(const bw_op_call *call, bw_device *device, bw_err *err)
{
    const bw_tensor *x = call->in[0];
    bw_sample_args p = make_args(call);
    p.k = (int32_t)call->out[0]->dims[1];
    void *in = x->data, *temperatures = call->in[1]->data, *candidates = call->scratch;
    void *parts = (bw_sample_candidate *)call->scratch + count_candidates(call);
    void *values = call->out[0]->data, *tokens = call->out[1]->data, *sums = call->out[2]->data;
    void *part_args[] = {&p, &in, &temperatures, &candidates, &parts};
    void *join_args[] = {&p, &in, &temperatures, &candidates, &parts, &values, &tokens, &sums};
    for (; p.first_row < x->dims[0]; p.first_row += MOST_ROWS) {
        uint32_t rows = rows_left(call, &p);
        bw_gpu_grid grid = {.blocks = {(uint32_t)p.n_parts, rows, 1}, .threads = BW_SAMPLE_BLOCK};
        BW_TRY(bw_gpu_run(device, "row_top_k_parts", &grid, part_args, err));
        grid = (bw_gpu_grid){.blocks = {rows, 1, 1}, .threads = BW_SAMPLE_JOIN};
        BW_TRY(bw_gpu_run(device, "row_top_k_join", &grid, join_args, err));
    }
    return BW_OK;
}

bool bw_row_sample_gpu_supports(const bw_op_call *call, const bw_device *device)
{
    (void)device;
    return BW_SAMPLE_CAN_DRAW(call->in[0]->dims[1]);
}

/* Sums of weights, then the parts' first tokens. */
size_t bw_row_sample_gpu_scratch(const bw_op_call *call)
{
    return (size_t)(call->in[0]->dims[0] * count_parts(call)) * (sizeof(uint64_t) + sizeof(bw_sample_best));
}

bw_status bw_row_sample_gpu(const bw_op_call *call, bw_device *device, bw_err *err)
{
    const bw_tensor *x = call->in[0];
    bw_sample_args p = make_args(call);
    int32_t is_packed = rows_are_packed(x);
    void *in = x->data, *temperatures = call->in[1]->data, *leasts = call->in[2]->data, *randoms = call->in[3]->data;
    void *weights = call->scratch, *parts = (uint64_t *)call->scratch + x->dims[0] * count_parts(call);
    void *tokens = call->out[0]->data, *finite = call->out[1]->data;
    void *best_args[] = {&p, &in, &parts, &is_packed};
    void *part_args[] = {&p, &in, &temperatures, &leasts, &parts, &weights};
    void *join_args[] = {&p, &in, &temperatures, &leasts, &randoms, &parts, &weights, &tokens, &finite};
    for (; p.first_row < x->dims[0]; p.first_row += MOST_ROWS) {
        uint32_t rows = rows_left(call, &p);
        bw_gpu_grid grid = {.blocks = {(uint32_t)p.n_parts, rows, 1}, .threads = BW_SAMPLE_BLOCK};
        BW_TRY(bw_gpu_run(device, "row_argmax_parts", &grid, best_args, err));
        BW_TRY(bw_gpu_run(device, "row_sample_parts", &grid, part_args, err));
        grid = (bw_gpu_grid){.blocks = {rows, 1, 1}, .threads = BW_SAMPLE_BLOCK};
        BW_TRY(bw_gpu_run(device, "row_sample_join", &grid, join_args, err));
    }
    return BW_OK;
}
