/* MATMUL's launches: matrix units for f16 and bf16 where both inputs have a stride of 1 (matmul_tile.hip), else the
 * plain kernels; large products by the vendor's library where a timed trial found it faster. A launch depends on the
 * tensors' dims, strides and types only, so a plan may capture it. */
#include <stdio.h>
#include <string.h>

#include "bw_gpu_library.h"
#include "bw_log.h"
#include "bw_op_gpu.h"
#include "matmul/bw_gpu_gemm.h"
#include "matmul/bw_matmul_args.h"

bw_op_gpu_kernel bw_matmul_gpu;
size_t bw_matmul_gpu_scratch(const bw_op_call *call);

enum {
    MOST_X = 1 << 23,
    MOST_YZ = 65535,
    PLAIN_TILE = 64,
    LEAST_K = 16,         /* below, there is more to write than to multiply, and no use for matrix units */
    WORK_BYTES = 32 << 20 /* a library's scratch */
};
/* Multiplications that are worth a library's call, which takes the processor some tens of microseconds. */
#define LEAST_LIBRARY ((double)(1 << 27))

/* One call as a kernel takes it. */
struct job {
    bw_device *device;
    bw_matmul_args p;
    bw_dtype in, out;
    const char *a, *b;
    char *y;
    bool a_by_k, b_by_k; /* whether k is the neighbouring elements' dimension; else rows or columns are */
    const bw_op_call *call;
};

/* The last two dimensions' strides, and the tensor without them. */
static bw_tensor take_matrix(const bw_tensor *t, int64_t *row, int64_t *column)
{
    bw_tensor batch = *t;
    batch.n_dims -= 2;
    *row = t->strides[batch.n_dims];
    *column = t->strides[batch.n_dims + 1];
    return batch;
}

/* A batch that shares b and whose a and out follow each other row by row is one product of more rows. */
static void fold_batch(bw_matmul_args *p)
{
    bw_loop *l = &p->batch;
    if (l->n_dims != 1 || l->n <= 1 || l->strides[1][0] != 0 || p->m < 1)
        return;
    if (p->m == 1) {
        p->a_row = l->strides[0][0];
        p->out_row = l->strides[2][0];
    }
    if (l->strides[0][0] != p->m * p->a_row || l->strides[2][0] != p->m * p->out_row)
        return;
    p->m *= l->n;
    l->n = l->dims[0] = 1;
}

static struct job make_job(const bw_op_call *call, bw_device *device)
{
    struct job j = {.device = device, .in = call->in[0]->dtype, .out = call->out[0]->dtype, .call = call};
    bw_matmul_args *p = &j.p;
    bw_tensor a = take_matrix(call->in[0], &p->a_row, &p->a_column);
    bw_tensor b = take_matrix(call->in[1], &p->b_row, &p->b_column);
    bw_tensor out = take_matrix(call->out[0], &p->out_row, &p->out_column);
    p->m = out.dims[out.n_dims];
    p->n = out.dims[out.n_dims + 1];
    p->k = call->in[0]->dims[a.n_dims + 1];
    bw_loop_init(&p->batch, out.n_dims, out.dims, 3, (const bw_tensor *[]){&a, &b, &out});
    fold_batch(p);
    j.a = a.data;
    j.b = b.data;
    j.y = out.data;
    return j;
}

static bw_status run_plain(const struct job *j, bw_err *err)
{
    bw_matmul_args p = j->p;
    int64_t rows = (p.m + PLAIN_TILE - 1) / PLAIN_TILE, columns = (p.n + PLAIN_TILE - 1) / PLAIN_TILE;
    if (columns > MOST_X)
        return bw_op_fail(j->call, err, "%lld columns are more than a grid holds", (long long)p.n);
    void *args[] = {&p, (void *)&j->a, (void *)&j->b, (void *)&j->y};
    char name[64];
    snprintf(name, sizeof name, "matmul_%s_%s", bw_dtype_name(j->in), bw_dtype_name(j->out));
    for (p.first_batch = 0; p.first_batch < p.batch.n; p.first_batch += MOST_YZ)
        for (p.first_tile_row = 0; p.first_tile_row < rows; p.first_tile_row += MOST_YZ) {
            int64_t z = p.batch.n - p.first_batch, y = rows - p.first_tile_row;
            bw_gpu_grid grid = {.blocks = {(uint32_t)columns, (uint32_t)(y < MOST_YZ ? y : MOST_YZ),
                                           (uint32_t)(z < MOST_YZ ? z : MOST_YZ)},
                                .threads = 256};
            BW_TRY(bw_gpu_run(j->device, name, &grid, args, err));
        }
    return BW_OK;
}

/* ---- the forms of operands -------------------------------------------------------------------------------------- */

/* Whether an operand [n_rows, k] has neighbouring elements; a stride that is never stepped is made to fit. */
static bool find_way(int64_t n_rows, int64_t k, int64_t *row, int64_t *column, bool *by_k)
{
    if (k <= 1 && *row != 1)
        *column = 1;
    if (n_rows <= 1 && *column != 1)
        *row = 1;
    *by_k = *column == 1;
    return *column == 1 || *row == 1;
}

static void swap(int64_t *a, int64_t *b)
{
    int64_t old = *a;
    *a = *b;
    *b = old;
}

/* out^T = b^T a^T. */
static void transpose(struct job *j)
{
    bw_matmul_args *p = &j->p;
    swap(&p->m, &p->n);
    swap(&p->a_row, &p->b_column);
    swap(&p->a_column, &p->b_row);
    swap(&p->out_row, &p->out_column);
    for (int d = 0; d < p->batch.n_dims; d++)
        swap(&p->batch.strides[0][d], &p->batch.strides[1][d]);
    const char *a = j->a;
    j->a = j->b;
    j->b = a;
    bool by_k = j->a_by_k;
    j->a_by_k = j->b_by_k;
    j->b_by_k = by_k;
}

static bool find_ways(struct job *j)
{
    bw_matmul_args *p = &j->p;
    return find_way(p->m, p->k, &p->a_row, &p->a_column, &j->a_by_k) &&
           find_way(p->n, p->k, &p->b_column, &p->b_row, &j->b_by_k);
}

/* ---- matrix units ----------------------------------------------------------------------------------------------- */

/* along: the extent of the neighbouring elements; across: the other stride; batch: the loop's tensor. */
static bool is_aligned(const void *data, int64_t along, int64_t across, const bw_loop *loop, int batch)
{
    bool even = (uintptr_t)data % 16 == 0 && along % 8 == 0 && across % 8 == 0;
    for (int d = 0; d < loop->n_dims; d++)
        even = even && (loop->dims[d] <= 1 || loop->strides[batch][d] % 8 == 0);
    return even;
}

/* In tiles of size x size; false where a grid does not hold them. */
static bool cut(bw_matmul_args *p, int64_t size)
{
    int64_t rows = (p->m + size - 1) / size, columns = (p->n + size - 1) / size;
    if (rows > MOST_X || columns > MOST_X || rows * columns > MOST_X)
        return false;
    p->n_tile_rows = (int32_t)rows;
    p->n_tile_columns = (int32_t)columns;
    return true;
}

/* Whether matrix units can serve the job, whose operands have neighbouring elements. */
static bool has_tile(const struct job *j)
{
    struct job small = *j;
    return (j->in == BW_F16 || j->in == BW_BF16) && j->p.k >= LEAST_K && j->p.k <= INT32_MAX - 1024 &&
           j->p.batch.n <= UINT32_MAX && cut(&small.p, BW_GPU_GEMM_SMALL);
}

static bw_status run_tile(const struct job *job, bw_err *err)
{
    struct job j = *job;
    bw_matmul_args *p = &j.p;
    if (!j.a_by_k && j.b_by_k)
        transpose(&j); /* three of the four ways have kernels */
    p->a_is_aligned = is_aligned(j.a, j.a_by_k ? p->k : p->m, j.a_by_k ? p->a_row : p->a_column, &p->batch, 0);
    p->b_is_aligned = is_aligned(j.b, j.b_by_k ? p->k : p->n, j.b_by_k ? p->b_column : p->b_row, &p->batch, 1);
    int size = BW_GPU_GEMM_BIG;
    if (!cut(p, size) || p->n_tile_rows * p->n_tile_columns * p->batch.n < bw_gpu_units(j.device)) {
        size = BW_GPU_GEMM_SMALL;
        cut(p, size);
    }
    void *args[] = {p, (void *)&j.a, (void *)&j.b, (void *)&j.y};
    char name[64];
    snprintf(name, sizeof name, "matmul_tile_%s_%s_%c%c_%d", bw_dtype_name(j.in), bw_dtype_name(j.out),
             j.a_by_k ? 'n' : 't', j.b_by_k ? 't' : 'n', size);
    bw_gpu_grid grid = {.blocks = {(uint32_t)(p->n_tile_rows * p->n_tile_columns), 1, 1}, .threads = BW_GPU_GEMM_BLOCK};
    if (j.device->kind == BW_DEVICE_CUDA)
        grid.shared_bytes = (uint32_t)BW_GPU_GEMM_SHARED(size);
    for (; p->first_batch < p->batch.n; p->first_batch += MOST_YZ) {
        int64_t z = p->batch.n - p->first_batch;
        grid.blocks[2] = (uint32_t)(z < MOST_YZ ? z : MOST_YZ);
        BW_TRY(bw_gpu_run(j.device, name, &grid, args, err));
    }
    return BW_OK;
}

/* ---- the vendor's library --------------------------------------------------------------------------------------- */

static bool has_type(bw_dtype in, bw_dtype out)
{
    return (in == BW_F16 || in == BW_BF16 || in == BW_F32) && (out == in || out == BW_F32);
}

static bool is_large(int64_t m, int64_t n, int64_t k, int64_t n_batch)
{
    return (double)m * (double)n * (double)k * (double)n_batch >= LEAST_LIBRARY;
}

size_t bw_matmul_gpu_scratch(const bw_op_call *call)
{
    const bw_tensor *a = call->in[0], *out = call->out[0];
    int64_t m = out->dims[out->n_dims - 2], n = out->dims[out->n_dims - 1];
    int64_t n_batch = bw_shape_elements(out->dims, out->n_dims - 2);
    bool is_wanted = has_type(a->dtype, out->dtype) && is_large(m, n, a->dims[a->n_dims - 1], n_batch);
    return is_wanted ? WORK_BYTES : 0;
}

/* The job as a library takes it; false where none does. */
static bool find_product(const struct job *job, bw_gpu_product *product)
{
    struct job j = *job;
    const bw_matmul_args *p = &j.p;
    bool is_worth_it = is_large(p->m, p->n, p->k, p->batch.n) || bw_gpu_library_is_forced(j.device);
    if (!has_type(j.in, j.out) || !is_worth_it || p->k == 0 || (p->batch.n > 1 && p->batch.n_dims != 1))
        return false;
    if (p->out_column != 1 && p->n > 1)
        transpose(&j);
    if (p->out_column != 1 && p->n > 1)
        return false;
    /* What a plan's calls share may be less than this call would want, where a library is forced on small products. */
    const size_t work_bytes = j.call->scratch_bytes < WORK_BYTES ? j.call->scratch_bytes : WORK_BYTES;
    *product = (bw_gpu_product){.in = j.in,
                                .out = j.out,
                                .n = p->n,
                                .k = p->k,
                                .t = p->m,
                                .w_row = j.b_by_k ? p->b_column : p->b_row,
                                .x_row = j.a_by_k ? p->a_row : p->a_column,
                                .y_row = p->out_row,
                                .w_by_n = !j.b_by_k,
                                .x_by_t = !j.a_by_k,
                                .n_batch = p->batch.n,
                                .w_batch = p->batch.n > 1 ? p->batch.strides[1][0] : 0,
                                .x_batch = p->batch.n > 1 ? p->batch.strides[0][0] : 0,
                                .y_batch = p->batch.n > 1 ? p->batch.strides[2][0] : 0,
                                .w = j.b,
                                .x = j.a,
                                .y = j.y,
                                .workspace = j.call->scratch,
                                .workspace_bytes = work_bytes};
    /* Rows that are not stepped over may be anywhere; a library wants them one after another. */
    int64_t w_least = j.b_by_k ? p->k : p->n, x_least = j.a_by_k ? p->k : p->m;
    if ((j.b_by_k ? p->n : p->k) == 1)
        product->w_row = w_least;
    if ((j.a_by_k ? p->m : p->k) == 1)
        product->x_row = x_least;
    if (p->m == 1)
        product->y_row = p->n;
    const int64_t most = INT32_MAX;
    return product->w_row >= w_least && product->x_row >= x_least && product->y_row >= p->n && p->m <= most &&
           p->n <= most && p->k <= most && product->w_row <= most && product->x_row <= most && product->y_row <= most &&
           p->batch.n <= most;
}

/* What both ways take. */
struct ways {
    const struct job *j;
    const bw_gpu_product *product;
};

static bw_status run_own(const void *what, bw_err *err)
{
    const struct job *j = ((const struct ways *)what)->j;
    return has_tile(j) ? run_tile(j, err) : run_plain(j, err);
}

static bw_status run_library(const void *what, bw_err *err)
{
    const struct ways *w = what;
    return bw_gpu_library_product(w->j->device, w->product, err);
}

static uint64_t mix(uint64_t hash, int64_t value)
{
    hash = (hash ^ (uint64_t)value) * 0x9e3779b97f4a7c15u;
    return hash ^ hash >> 29;
}

/* A number for products like this one: m to the next power of two. LINEAR's are below 2^63. */
static uint64_t shape_of(const struct job *j)
{
    int64_t m = 1;
    while (m < j->p.m)
        m *= 2;
    const int64_t parts[] = {m,      j->p.n,    j->p.k,    j->p.batch.n,        j->in,
                             j->out, j->a_by_k, j->b_by_k, j->p.out_column == 1};
    uint64_t hash = 1;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        hash = mix(hash, parts[i]);
    return hash | (uint64_t)1 << 63;
}

static bool wants_library(const struct job *j, bw_gpu_trial *t)
{
    const char *library = bw_gpu_library(j->device);
    if (!library || !bw_gpu_library_keeps_subnormal(j->device, j->in))
        return false;
    if (bw_gpu_library_is_forced(j->device))
        return true;
    bool is_faster = bw_gpu_is_library_faster(j->device, shape_of(j), t);
    if (t->own_ms > 0)
        bw_log_debug("%s: matmul %s, %lld x %lld x %lld, %lld times: %.3f ms, %s %.3f ms", j->device->name,
                     bw_dtype_name(j->in), (long long)j->p.m, (long long)j->p.n, (long long)j->p.k,
                     (long long)j->p.batch.n, (double)t->own_ms, library, (double)t->library_ms);
    return is_faster;
}

bw_status bw_matmul_gpu(const bw_op_call *call, bw_device *device, bw_err *err)
{
    struct job j = make_job(call, device), plain = j;
    if (!find_ways(&j))
        return run_plain(&plain, err);
    bw_gpu_product product;
    const struct ways both = {&j, &product};
    bw_gpu_trial t = {.own = run_own, .library = run_library, .what = &both};
    return bw_gpu_run_either(&t, find_product(&j, &product) && wants_library(&j, &t), err);
}
