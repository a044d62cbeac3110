/* LINEAR's and QUANTISE_ACT's launches: which kernel by the number of activation rows, and what stands in the scratch.
 * A launch depends on the tensors' dims and types only, so a plan may capture it.
 *
 *   up to BW_LINEAR_FEW rows    linear_vec_*: no matrix units, f32 or 8-bit activations; also weights in GGUF's
 *                               blocks of the types that have no planes
 *   up to BW_LINEAR_SOME        linear_some_*: matrix units, weights decoded in registers
 *   more                        linear_big/small/part_*, or the vendor's library; quantised weights become f16 in
 * pieces
 */
#include <stdio.h>
#include <string.h>

#include "bw_gpu_library.h"
#include "bw_log.h"
#include "bw_op_gpu.h"
#include "linear/bw_linear_gpu.h"
#include "linear_layout.h"
#include "linear_planes.h"
#include "matmul/bw_gpu_gemm.h"

/* What a call may need at once: pieces of a weight as f16, partial sums. */
enum { PIECE_BYTES = 64 << 20, WORK_BYTES = 32 << 20, MOST_PARTS = 8, MOST_GRID = 65535 };

bool bw_quantise_act_gpu_supports(const bw_op_call *call, const bw_device *device);
bw_op_gpu_kernel bw_quantise_act_gpu;
bool bw_linear_gpu_supports(const bw_op_call *call, const bw_device *device);
bw_op_gpu_kernel bw_linear_gpu;
size_t bw_linear_gpu_scratch(const bw_op_call *call);

static bool is_aligned(const void *p, int64_t stride_bytes)
{
    return (uintptr_t)p % 16 == 0 && stride_bytes % 16 == 0;
}

static int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

static int64_t aligned(int64_t n)
{
    return (n + 255) / 256 * 256;
}

/* ---- QUANTISE_ACT ----------------------------------------------------------------------------------------------- */

bool bw_quantise_act_gpu_supports(const bw_op_call *call, const bw_device *device)
{
    (void)device;
    return call->out[0]->layout == BW_ACT_GPU && call->in[0]->dims[1] <= INT32_MAX / 32;
}

/* x f32 [T, K] to rows of 16 bits at out. */
static bw_status to_halves(bw_device *device, const bw_tensor *x, const char *kernel, void *out, bw_err *err)
{
    int64_t row = x->strides[0] * 4;
    bw_linear_args p = {.k = (int32_t)x->dims[1], .x_row = row, .x_is_aligned = is_aligned(x->data, row)};
    bw_gpu_grid grid = {.blocks = {(uint32_t)x->dims[0], 1, 1}, .threads = 256};
    return bw_gpu_run(device, kernel, &grid, (void *[]){&p, (void *)&x->data, &out}, err);
}

bw_status bw_quantise_act_gpu(const bw_op_call *call, bw_device *device, bw_err *err)
{
    const bw_tensor *x = call->in[0];
    void *out = call->out[0]->data;
    if (x->dims[0] > BW_LINEAR_FEW)
        return to_halves(device, x, "linear_act_f16", out, err);
    bw_linear_args p = {.k = (int32_t)x->dims[1], .x_row = x->strides[0] * 4};
    bw_gpu_grid grid = {.blocks = {(uint32_t)ceil_div(p.k / 32, 32), (uint32_t)x->dims[0], 1}, .threads = 256};
    return bw_gpu_run(device, "linear_act_q8", &grid, (void *[]){&p, (void *)&x->data, &out}, err);
}

/* ---- LINEAR ----------------------------------------------------------------------------------------------------- */

/* One call's operands as the kernels take them. */
struct job {
    const bw_op_call *call;
    bw_device *device;
    bw_linear_args p;
    const char *w, *x;
    const float *bias;
    float *y;
    const char *type; /* in kernels' names */
    bool is_packed;   /* quantised, in planes */
    char *scratch;
};

static bool is_half(bw_dtype dtype)
{
    return dtype == BW_F16 || dtype == BW_BF16;
}

/* Whether w's rows can be read 16 bytes at a time. */
static bool has_even_rows(const bw_tensor *w)
{
    int64_t size = bw_dtype_block_bytes(w->dtype);
    return w->dims[1] % 16 == 0 && is_aligned(w->data, (w->dims[0] > 1 ? w->strides[0] : w->dims[1]) * size);
}

static bool has_few_limits(const bw_op_call *call)
{
    const bw_tensor *w = call->in[1];
    return w->dims[0] <= INT32_MAX / 32 && w->dims[1] <= INT32_MAX / 32 && call->in[0]->dims[0] <= MOST_GRID;
}

bool bw_linear_gpu_supports(const bw_op_call *call, const bw_device *device)
{
    (void)device;
    const bw_tensor *x = call->in[0], *w = call->in[1];
    if (!has_few_limits(call))
        return false;
    if (w->layout == BW_LAYOUT_PLANES)
        return x->layout == BW_ACT_GPU;
    return w->layout == BW_LAYOUT_PLAIN && x->layout == BW_ACT_F32;
}

/* Parts that K is cut into, so that small results fill the card too. */
static int64_t choose_parts(int64_t n_tiles, int64_t k, int64_t result_bytes, int units)
{
    int64_t parts = 2 * units / n_tiles, most = k / (4 * BW_GPU_GEMM_K);
    parts = parts < MOST_PARTS ? parts : MOST_PARTS;
    parts = parts < most ? parts : most;
    return parts * result_bytes <= WORK_BYTES ? parts : WORK_BYTES / result_bytes;
}

/* Bytes: activations of 16 bits, then a weight's piece, then WORK_BYTES of partial sums or for the library. */
static int64_t act_bytes(const bw_op_call *call)
{
    const bw_tensor *x = call->in[0], *w = call->in[1];
    bool needs_them = is_half(w->dtype) || bw_dtype_is_quantised(w->dtype);
    return x->layout == BW_ACT_F32 && needs_them ? aligned(x->dims[0] * BW_ACT_HALF_BYTES(w->dims[1])) : 0;
}

static int64_t piece_rows(const bw_tensor *w)
{
    int64_t rows = PIECE_BYTES / (2 * w->dims[1]) / BW_GPU_GEMM_BIG * BW_GPU_GEMM_BIG;
    rows = rows ? rows : BW_GPU_GEMM_BIG;
    return rows < w->dims[0] ? rows : w->dims[0];
}

static int64_t piece_bytes(const bw_op_call *call)
{
    const bw_tensor *w = call->in[1];
    return bw_dtype_is_quantised(w->dtype) ? aligned(piece_rows(w) * 2 * w->dims[1]) : 0;
}

/* Whether w is of a type without planes (linear_vec_grid.hip), which so lies as GGUF has it. */
static bool has_grid(const bw_tensor *w)
{
    bw_planes planes;
    return bw_dtype_is_quantised(w->dtype) && !bw_planes_init(&planes, w->dtype, w->dims[1]);
}

size_t bw_linear_gpu_scratch(const bw_op_call *call)
{
    int64_t t = call->in[0]->dims[0];
    if (t <= BW_LINEAR_FEW && has_grid(call->in[1]))
        return 0;
    bool is_plain = bw_dtype_is_quantised(call->in[1]->dtype) && !call->in[1]->layout;
    if (t <= BW_LINEAR_SOME && is_plain)
        return (size_t)(act_bytes(call) + piece_bytes(call));
    if (t <= BW_LINEAR_FEW)
        return 0;
    if (t <= BW_LINEAR_SOME)
        return (size_t)act_bytes(call);
    return (size_t)(act_bytes(call) + piece_bytes(call) + WORK_BYTES);
}

static bw_status run(const struct job *j, const char *name, const bw_gpu_grid *grid, bw_err *err)
{
    return bw_gpu_run(j->device, name, grid,
                      (void *[]){(void *)&j->p, (void *)&j->w, (void *)&j->x, (void *)&j->bias, (void *)&j->y}, err);
}

static uint32_t threads_for(int64_t n_items)
{
    /* All threads have as many items as the others, or one less. */
    int64_t rounds = ceil_div(n_items, 256), threads = ceil_div(ceil_div(n_items, rounds), 64) * 64;
    return (uint32_t)threads;
}

static bw_status run_few(const struct job *j, bw_err *err)
{
    int64_t t = j->p.t, each = t <= 2 ? t : t <= 4 ? 4 : 8;
    char name[64];
    snprintf(name, sizeof name, "linear_vec_%s_%d", j->type, (int)each);
    bw_gpu_grid grid = {.blocks = {(uint32_t)ceil_div(j->p.n, BW_LINEAR_VEC_ROWS), (uint32_t)ceil_div(t, each), 1},
                        .threads = threads_for(j->is_packed ? j->p.k / 32 : j->p.k / 8)};
    return run(j, name, &grid, err);
}

static bw_status run_some(const struct job *j, bw_err *err)
{
    int tiles = (int)ceil_div(j->p.t, 16), rows = 1;
    tiles = tiles == 3 ? 4 : tiles;
    if (tiles == 1 && j->p.n >= 32 * bw_gpu_units(j->device) / 2)
        rows = 2;
    char name[64];
    snprintf(name, sizeof name, "linear_some_%s_%d_%d", j->type, rows, tiles);
    bw_gpu_grid grid = {.blocks = {(uint32_t)ceil_div(j->p.n, 16 * rows), 1, 1}, .threads = 256};
    return run(j, name, &grid, err);
}

/* Weights and activations of 16 bits, our kernels. work: WORK_BYTES. */
static bw_status run_own(const struct job *whole, const char *type, void *work, bw_err *err)
{
    struct job j = *whole;
    float *parts = work;
    int units = bw_gpu_units(j.device);
    int64_t big = ceil_div(j.p.t, BW_GPU_GEMM_BIG) * ceil_div(j.p.n, BW_GPU_GEMM_BIG);
    int64_t small_t = ceil_div(j.p.t, BW_GPU_GEMM_SMALL), small_n = ceil_div(j.p.n, BW_GPU_GEMM_SMALL);
    int64_t size = big >= units ? BW_GPU_GEMM_BIG : BW_GPU_GEMM_SMALL, n_parts = 1;
    if (size == BW_GPU_GEMM_SMALL)
        n_parts = choose_parts(small_t * small_n, j.p.k, 4 * (int64_t)j.p.t * j.p.n, units);
    n_parts = n_parts > 1 ? n_parts : 1;
    j.p.split_k = (int32_t)(ceil_div(ceil_div(j.p.k, n_parts), BW_GPU_GEMM_K) * BW_GPU_GEMM_K);
    n_parts = ceil_div(j.p.k, j.p.split_k);
    char name[64];
    snprintf(name, sizeof name, "linear_%s_%s", n_parts > 1 ? "part" : size == BW_GPU_GEMM_BIG ? "big" : "small", type);
    bw_gpu_grid grid = {.blocks = {(uint32_t)ceil_div(j.p.t, size), (uint32_t)ceil_div(j.p.n, size), (uint32_t)n_parts},
                        .threads = BW_GPU_GEMM_BLOCK};
    if (j.device->kind == BW_DEVICE_CUDA)
        grid.shared_bytes = (uint32_t)BW_GPU_GEMM_SHARED(size);
    if (n_parts == 1)
        return run(&j, name, &grid, err);
    float *y = j.y;
    const float *bias = j.bias;
    j.y = parts;
    BW_TRY(run(&j, name, &grid, err));
    grid = (bw_gpu_grid){.blocks = {(uint32_t)ceil_div(j.p.n, 256), (uint32_t)j.p.t, 1}, .threads = 256};
    int32_t count = (int32_t)n_parts;
    void *args[] = {&j.p, &parts, &count, (void *)&bias, &y};
    return bw_gpu_run(j.device, "linear_sum", &grid, args, err);
}

/* The same by the vendor's library. */
static bw_status run_library(const struct job *j, const char *type, void *work, bw_err *err)
{
    bw_gpu_product product = {.in = strcmp(type, "bf16") == 0 ? BW_BF16 : BW_F16,
                              .out = BW_F32,
                              .n = j->p.n,
                              .k = j->p.k,
                              .t = j->p.t,
                              .w_row = j->p.w_row / 2,
                              .x_row = j->p.x_row / 2,
                              .y_row = j->p.y_row,
                              .w = j->w,
                              .x = j->x,
                              .y = j->y,
                              .workspace = work,
                              .workspace_bytes = WORK_BYTES};
    BW_TRY(bw_gpu_library_product(j->device, &product, err));
    bw_gpu_grid grid = {.blocks = {(uint32_t)j->p.t, 1, 1}, .threads = 256};
    return bw_gpu_run(j->device, "linear_rescale", &grid,
                      (void *[]){(void *)&j->p, (void *)&j->x, (void *)&j->bias, (void *)&j->y}, err);
}

/* What both ways take. */
struct ways {
    const struct job *j;
    const char *type;
    void *work;
};

static bw_status try_own(const void *what, bw_err *err)
{
    const struct ways *w = what;
    return run_own(w->j, w->type, w->work, err);
}

static bw_status try_library(const void *what, bw_err *err)
{
    const struct ways *w = what;
    return run_library(w->j, w->type, w->work, err);
}

/* By a trial for shapes like this one: T to the next power of two. */
static bool wants_library(const struct job *j, const char *type, bw_gpu_trial *t)
{
    const char *library = bw_gpu_library(j->device);
    if (!library || j->p.y_row % 4 || !is_aligned(j->y, 0))
        return false;
    int bits = 0;
    while ((int64_t)1 << bits < j->p.t)
        bits++;
    uint64_t shape = (uint64_t)j->p.n << 36 | (uint64_t)j->p.k << 8 | (uint64_t)bits << 1 | (type[0] == 'b');
    bool is_faster = bw_gpu_is_library_faster(j->device, shape, t);
    if (t->own_ms > 0)
        bw_log_debug("%s: n %d, k %d, t %d, %s: %.3f ms, %s %.3f ms", j->device->name, (int)j->p.n, (int)j->p.k,
                     (int)j->p.t, type, (double)t->own_ms, library, (double)t->library_ms);
    return is_faster;
}

static bw_status run_many(const struct job *j, const char *type, void *work, bw_err *err)
{
    const struct ways ways = {j, type, work};
    bw_gpu_trial t = {.own = try_own, .library = try_library, .what = &ways};
    return bw_gpu_run_either(&t, wants_library(j, type, &t), err);
}

/* A quantised weight: piece by piece to f16. */
static bw_status run_pieces(const struct job *whole, bw_err *err)
{
    struct job j = *whole;
    int64_t rows = piece_rows(j.call->in[1]), n = j.p.n, k = j.p.k;
    char *piece = j.scratch;
    char name[64];
    snprintf(name, sizeof name, "linear_halves_%s", j.type);
    for (int64_t begin = 0; begin < n; begin += rows) {
        struct job part = j;
        part.p.n = (int32_t)(n - begin < rows ? n - begin : rows);
        part.w = j.w + begin * j.p.w_row;
        bw_gpu_grid grid = {.blocks = {(uint32_t)ceil_div(part.p.n * (k / 32), 256), 1, 1}, .threads = 256};
        BW_TRY(bw_gpu_run(j.device, name, &grid, (void *[]){&part.p, (void *)&part.w, &piece}, err));
        part.w = piece;
        part.p.w_row = 2 * k;
        part.bias = j.bias ? j.bias + begin : NULL;
        part.y = j.y + begin;
        BW_TRY(run_many(&part, "f16", piece + piece_bytes(j.call), err));
    }
    return BW_OK;
}

/* GGUF's blocks of types that have no planes, by DEQUANTIZE_BLOCK's kernels (quantized/dequantize.hip). */
static bw_status run_blocks(struct job *j, bw_err *err)
{
    const bw_tensor *x = j->call->in[0], *w = j->call->in[1];
    int64_t rows = piece_rows(w), n = j->p.n, k = j->p.k, column = 1;
    int64_t stride = n > 1 ? w->strides[0] : k, block = bw_dtype_block_elements(w->dtype);
    char *piece = j->scratch + act_bytes(j->call), name[64];
    BW_TRY(to_halves(j->device, x, "linear_act_f16", j->scratch, err));
    snprintf(name, sizeof name, "dequantize_block_%s_f16", j->type);
    for (int64_t begin = 0; begin < n; begin += rows) {
        struct job part = *j;
        int64_t count = n - begin < rows ? n - begin : rows, first = 0;
        const char *from = j->w + begin * (stride / block) * bw_dtype_block_bytes(w->dtype);
        bw_tensor source = bw_tensor_view(BW_U8, 1, &count, NULL), target = source; /* a row each */
        source.strides[0] = stride;
        target.strides[0] = k;
        bw_loop loop;
        bw_loop_init(&loop, 1, &count, 2, (const bw_tensor *[]){&source, &target});
        void *args[] = {&loop, &first, (void *)&from, &piece, &k, &column};
        for (; first < count; first += MOST_GRID) {
            int64_t y = count - first < MOST_GRID ? count - first : MOST_GRID;
            bw_gpu_grid grid = {.blocks = {(uint32_t)ceil_div(k, 2048), (uint32_t)y, 1}, .threads = 256};
            BW_TRY(bw_gpu_run(j->device, name, &grid, args, err));
        }
        part.p.n = (int32_t)count;
        part.w = piece;
        part.p.w_row = 2 * k;
        part.x = j->scratch;
        part.p.x_row = BW_ACT_HALF_BYTES(k);
        part.bias = j->bias ? j->bias + begin : NULL;
        part.y = j->y + begin;
        part.type = "f16";
        BW_TRY(j->p.t <= BW_LINEAR_SOME ? run_some(&part, err)
                                        : run_many(&part, "f16", piece + piece_bytes(j->call), err));
    }
    return BW_OK;
}

/* Weights of any other float or integer type, or rows that lie unevenly. */
static bw_status run_any(const struct job *j, bw_err *err)
{
    char name[64];
    snprintf(name, sizeof name, "linear_any_%s", j->type);
    bw_gpu_grid grid = {.blocks = {(uint32_t)j->p.n, (uint32_t)j->p.t, 1}, .threads = 64};
    return run(j, name, &grid, err);
}

static struct job make_job(const bw_op_call *call, bw_device *device)
{
    const bw_tensor *x = call->in[0], *w = call->in[1], *bias = call->n_in > 2 ? call->in[2] : NULL, *y = call->out[0];
    struct job j = {.call = call,
                    .device = device,
                    .w = w->data,
                    .x = x->data,
                    .bias = bias ? bias->data : NULL,
                    .y = y->data,
                    .type = bw_dtype_name(w->dtype),
                    .is_packed = w->layout == BW_LAYOUT_PLANES,
                    .scratch = call->scratch};
    j.p = (bw_linear_args){
        .n = (int32_t)w->dims[0], .k = (int32_t)w->dims[1], .t = (int32_t)x->dims[0], .y_row = y->strides[0]};
    bw_planes planes;
    if (j.is_packed && bw_planes_init(&planes, w->dtype, w->dims[1])) {
        j.p.high = planes.high;
        j.p.sub = planes.sub;
        j.p.d = planes.d;
        j.p.w_row = planes.row_bytes;
        j.p.x_row = BW_ACT_HALF_BYTES(w->dims[1]);
    } else {
        j.p.w_row = bw_dtype_bytes(w->dtype, w->dims[0] > 1 ? w->strides[0] : w->dims[1]);
        j.p.x_row = x->strides[0] * 4;
        j.p.x_is_aligned = is_aligned(x->data, j.p.x_row);
    }
    return j;
}

bw_status bw_linear_gpu(const bw_op_call *call, bw_device *device, bw_err *err)
{
    struct job j = make_job(call, device);
    const bw_tensor *x = call->in[0], *w = call->in[1];
    if (j.is_packed) {
        if (j.p.t <= BW_LINEAR_FEW)
            return run_few(&j, err);
        return j.p.t <= BW_LINEAR_SOME ? run_some(&j, err) : run_pieces(&j, err);
    }
    if (bw_dtype_is_quantised(w->dtype))
        return j.p.t <= BW_LINEAR_FEW && has_grid(w) ? run_few(&j, err) : run_blocks(&j, err);
    if (!has_even_rows(w) || !(is_half(w->dtype) || w->dtype == BW_F32))
        return run_any(&j, err);
    if (j.p.t <= BW_LINEAR_FEW || w->dtype == BW_F32)
        return run_few(&j, err);
    char name[64];
    snprintf(name, sizeof name, "linear_act_%s", j.type);
    BW_TRY(to_halves(device, x, name, j.scratch, err));
    j.x = j.scratch;
    j.p.x_row = BW_ACT_HALF_BYTES(w->dims[1]);
    if (j.p.t <= BW_LINEAR_SOME)
        return run_some(&j, err);
    return run_many(&j, j.type, j.scratch + act_bytes(call), err);
}
