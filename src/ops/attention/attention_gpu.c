/* ATTENTION's launches. Which kernel, and into how many parts the keys are cut, follows from dimensions only: a launch
 * may be replayed with other sequences and pages behind the same pointers. */
#include <stdio.h>

#include "attention/bw_attention_args.h"
#include "bw_gpu.h"
#include "bw_op_check.h"

bw_op_gpu_kernel bw_attention_gpu;

enum { MOST_TARGET = 1024, MOST_GRID = 65528, MOST_TOKENS = 1 << 22 }; /* MOST_GRID: whole sequences of slots */

static int64_t up(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

bool bw_attention_gpu_supports(const bw_op_call *call, const bw_device *device)
{
    (void)device;
    return call->in[1]->dtype == call->in[2]->dtype;
}

/* Query heads that a decode workgroup takes at once. */
static int decode_rows(int64_t group, int lanes)
{
    int rows = group == 1 ? 1 : group == 2 ? 2 : group <= 4 ? 4 : 8;
    return lanes == 32 && rows == 8 ? 4 : rows;
}

static int decode_lanes(const bw_op_call *call)
{
    int64_t d = call->in[0]->dims[2], d_v = call->out[0]->dims[2], widest = d > d_v ? d : d_v;
    return widest <= 64 ? 8 : widest <= 128 ? 16 : 32;
}

/* Workgroups for one token. */
static int64_t decode_width(const bw_op_call *call)
{
    int64_t n_kv = call->in[1]->dims[1], group = call->in[0]->dims[1] / n_kv;
    return n_kv * up(group, decode_rows(group, decode_lanes(call)));
}

/* Parts that a token's keys are cut into to have `target` workgroups. */
static int64_t count_splits(const bw_op_call *call, int64_t n_tokens, int64_t target)
{
    int64_t keys = call->in[4]->dims[0] * call->in[1]->dims[2];
    int64_t n =
        least(least(target / (n_tokens * decode_width(call)), up(keys, BW_ATTENTION_LEAST)), BW_ATTENTION_SPLITS);
    return n > 1 ? n : 1;
}

/* Partial results. With more than one part, tokens times parts are at most MOST_TARGET / width; where tokens are found
 * by their sequences' slots, so are sequences times parts. */
size_t bw_attention_gpu_scratch(const bw_op_call *call)
{
    int64_t n_tokens = call->in[0]->dims[0], n_seqs = call->in[3]->dims[0], parts = MOST_TARGET / decode_width(call);
    if (n_tokens == 0 || parts < 2)
        return 0;
    int64_t results = least(n_tokens * BW_ATTENTION_SPLITS, parts);
    if (n_tokens > BW_ATTENTION_FEW && n_seqs > 1) {
        int64_t of_slots = BW_ATTENTION_FEW * least(n_seqs * BW_ATTENTION_SPLITS, parts);
        results = of_slots > results ? of_slots : results;
    }
    return (size_t)(results * call->in[0]->dims[1] * (call->out[0]->dims[2] + 2)) * sizeof(float);
}

/* Whether the decode kernels take this: rows of whole 16-byte packs at such addresses, or of q8_0's blocks. */
static bool can_decode(const bw_op_call *call)
{
    const bw_tensor *k = call->in[1], *v = call->in[2];
    int64_t d = k->dims[3], d_v = v->dims[3];
    if (k->dtype == BW_F32 || d % 8 != 0 || d_v % 8 != 0 || d > 256 || d_v > 256)
        return false;
    return k->dtype == BW_Q8_0 || ((uintptr_t)k->data % 16 == 0 && (uintptr_t)v->data % 16 == 0);
}

/* Query rows of a prefill workgroup. */
static int32_t prefill_rows(int64_t d)
{
    return d > BW_ATTENTION_TILE_WIDTH ? BW_ATTENTION_WIDE_ROWS : BW_ATTENTION_TILE_ROWS;
}

/* Whether the prefill kernels take this, beside what decode asks for. Of q8_0 they read whole words. */
static bool can_prefill(const bw_op_call *call)
{
    const bw_tensor *q = call->in[0], *k = call->in[1], *v = call->in[2];
    int64_t d = q->dims[2];
    if (d != call->out[0]->dims[2] || q->dims[1] / k->dims[1] > prefill_rows(d))
        return false;
    if (d != 64 && d != 80 && d != 96 && d != 128 && d != 192 && d != 256)
        return false;
    return k->dtype != BW_Q8_0 || ((uintptr_t)k->data % 4 == 0 && (uintptr_t)v->data % 4 == 0);
}

static bw_attention_args make_args(const bw_op_call *call)
{
    const bw_tensor *q = call->in[0], *k = call->in[1], *y = call->out[0];
    const bw_attention_params *params = call->params;
    bw_attention_args p = {
        .q_token = q->strides[0],
        .q_head = q->strides[1],
        .y_token = y->strides[0],
        .y_head = y->strides[1],
        .n_seqs = (int32_t)call->in[3]->dims[0],
        .n_heads = (int32_t)q->dims[1],
        .n_kv = (int32_t)k->dims[1],
        .group = (int32_t)(q->dims[1] / k->dims[1]),
        .d = (int32_t)q->dims[2],
        .d_v = (int32_t)y->dims[2],
        .page_tokens = (int32_t)k->dims[2],
        .page_shift = -1,
        .n_splits = 1,
        .window = params->window,
        .most = INT32_MAX,
        .scale = params->scale,
        .softcap = params->softcap,
    };
    for (int shift = 0; shift < 31; shift++)
        if (p.page_tokens == (int32_t)1 << shift)
            p.page_shift = shift;
    return p;
}

/* A launch of one of the kernels that take a token (or slot) per workgroup in one dimension of the grid, of as many as
 * a grid holds. */
typedef struct job {
    const bw_op_call *call;
    bw_device *device;
    bw_attention_args p;
    void *args[8];
} job;

static bw_status launch_any(job *j, bw_err *err)
{
    char name[32];
    snprintf(name, sizeof name, "attention_any_%.8s", bw_dtype_name(j->call->in[1]->dtype));
    bw_gpu_grid grid = {.blocks = {(uint32_t)j->p.n_heads, (uint32_t)j->p.n_tokens, 1}, .threads = 256};
    return bw_gpu_run(j->device, name, &grid, j->args, err);
}

static bw_status launch_decode(job *j, bw_err *err)
{
    const bw_op_call *call = j->call;
    int lanes = decode_lanes(call), rows = decode_rows(j->p.group, lanes);
    int64_t target = least((int64_t)bw_gpu_units(j->device) * 2, MOST_TARGET);
    /* A sequence beside others' prompts has one token as a rule: its slots are not counted. */
    int64_t n_busy = j->p.seq_slots ? up(j->p.n_tokens, j->p.seq_slots) : j->p.n_tokens;
    j->p.n_splits = (int32_t)count_splits(call, n_busy, target);
    char name[48];
    snprintf(name, sizeof name, "attention_decode_%.8s_%d_%d", bw_dtype_name(call->in[1]->dtype), lanes, rows);
    bw_gpu_grid grid = {.blocks = {(uint32_t)j->p.n_splits, (uint32_t)decode_width(call), (uint32_t)j->p.n_tokens},
                        .threads = BW_ATTENTION_DECODE_BLOCK};
    BW_TRY(bw_gpu_run(j->device, name, &grid, j->args, err));
    if (j->p.n_splits == 1)
        return BW_OK;
    grid.blocks[0] = (uint32_t)j->p.n_heads;
    grid.blocks[1] = (uint32_t)j->p.n_tokens;
    grid.blocks[2] = 1;
    void *args[] = {&j->p, j->args[7], j->args[4], j->args[6]};
    return bw_gpu_run(j->device, "attention_decode_join", &grid, args, err);
}

static bw_status launch_prefill(job *j, bw_err *err)
{
    const bw_op_call *call = j->call;
    char name[48];
    snprintf(name, sizeof name, "attention_prefill_%.8s_%d", bw_dtype_name(call->in[1]->dtype), j->p.d);
    j->p.slot_tokens = prefill_rows(j->p.d) / j->p.group;
    j->p.n_slots = (int32_t)(call->in[0]->dims[0] / j->p.slot_tokens) + j->p.n_seqs;
    bw_gpu_grid grid = {
        .blocks = {(uint32_t)j->p.n_slots, (uint32_t)j->p.n_kv, 1},
        .threads = j->p.d > BW_ATTENTION_TILE_WIDTH ? BW_ATTENTION_WIDE_BLOCK : BW_ATTENTION_TILE_BLOCK,
    };
    return bw_gpu_run(j->device, name, &grid, j->args, err);
}

bw_status bw_attention_gpu(const bw_op_call *call, bw_device *device, bw_err *err)
{
    int64_t n_tokens = call->in[0]->dims[0], n_seqs = call->in[3]->dims[0];
    if (call->in[0]->dims[1] > MOST_GRID || n_tokens > MOST_TOKENS || n_seqs > MOST_TOKENS ||
        call->in[1]->dims[2] > INT32_MAX / 2)
        return bw_op_fail(call, err, "there are more heads or tokens than %s takes", device->name);
    job j = {.call = call, .device = device, .p = make_args(call)};
    j.args[0] = &j.p;
    for (int i = 0; i < 5; i++)
        j.args[1 + i] = (void *)&call->in[i]->data;
    j.args[6] = &call->out[0]->data;
    j.args[7] = (void *)&call->scratch;
    bool decodes = can_decode(call);
    int64_t n = n_tokens;
    /* Where there are no more tokens than sequences, they are taken to have one each, though any other way is served.
     */
    if (decodes && can_prefill(call) && n_tokens > BW_ATTENTION_FEW && n_tokens > n_seqs) {
        if (n_seqs > 1)
            j.p.least = BW_ATTENTION_FEW + 1;
        BW_TRY(launch_prefill(&j, err));
        if (n_seqs == 1)
            return BW_OK;
        j.p.least = 0;
        j.p.most = BW_ATTENTION_FEW;
        j.p.seq_slots = BW_ATTENTION_FEW; /* so that the prompts' tokens are no part of the grid */
        n = n_seqs * BW_ATTENTION_FEW;
    }
    for (; j.p.first_token < n; j.p.first_token += MOST_GRID) {
        j.p.n_tokens = (int32_t)least(n - j.p.first_token, MOST_GRID);
        BW_TRY(decodes ? launch_decode(&j, err) : launch_any(&j, err));
    }
    return BW_OK;
}
