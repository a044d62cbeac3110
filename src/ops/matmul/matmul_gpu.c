/* MATMUL's launches: matrix units for f16 and bf16 where both inputs have a stride of 1 (matmul_tile.hip), else the
 * plain kernels. */
#include <stdio.h>

#include "bw_gpu.h"
#include "bw_op_check.h"
#include "matmul/bw_matmul_args.h"

bw_op_gpu_kernel bw_matmul_gpu;

enum {
    MOST_X = 1 << 23,
    MOST_YZ = 65535,
    PLAIN_TILE = 64,
    LEAST_K = 16 /* below, there is more to write than to multiply, and no use for matrix units */
};

/* One call as a kernel takes it. */
struct job {
    bw_device *device;
    bw_matmul_args p;
    bw_dtype in, out;
    const char *a, *b;
    char *y;
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
    struct job j = {.device = device, .in = call->in[0]->dtype, .out = call->out[0]->dtype};
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

static bw_status run_plain(const struct job *j, const bw_op_call *call, bw_err *err)
{
    bw_matmul_args p = j->p;
    int64_t rows = (p.m + PLAIN_TILE - 1) / PLAIN_TILE, columns = (p.n + PLAIN_TILE - 1) / PLAIN_TILE;
    if (columns > MOST_X)
        return bw_op_fail(call, err, "%lld columns are more than a grid holds", (long long)p.n);
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

/* ---- matrix units ----------------------------------------------------------------------------------------------- */

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

/* along: the extent of the neighbouring elements; across: the other stride; batch: the loop's tensor. */
static bool is_aligned(const void *data, int64_t along, int64_t across, const bw_loop *loop, int batch)
{
    bool even = (uintptr_t)data % 16 == 0 && along % 8 == 0 && across % 8 == 0;
    for (int d = 0; d < loop->n_dims; d++)
        even = even && (loop->dims[d] <= 1 || loop->strides[batch][d] % 8 == 0);
    return even;
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
}

/* Whether matrix units can serve the job, which is brought into the form that a kernel has. way: "nn", "nt" or "tn". */
static bool find_tile(struct job *j, const char **way)
{
    bw_matmul_args *p = &j->p;
    bool a_by_k, b_by_k;
    if ((j->in != BW_F16 && j->in != BW_BF16) || p->k < LEAST_K || p->k > INT32_MAX - 1024 || p->batch.n > UINT32_MAX)
        return false;
    if (!find_way(p->m, p->k, &p->a_row, &p->a_column, &a_by_k) ||
        !find_way(p->n, p->k, &p->b_column, &p->b_row, &b_by_k))
        return false;
    if (!a_by_k && b_by_k) {
        transpose(j);
        a_by_k = true;
        b_by_k = false;
    }
    *way = !a_by_k ? "tn" : b_by_k ? "nt" : "nn";
    p->a_is_aligned = is_aligned(j->a, a_by_k ? p->k : p->m, a_by_k ? p->a_row : p->a_column, &p->batch, 0);
    p->b_is_aligned = is_aligned(j->b, b_by_k ? p->k : p->n, b_by_k ? p->b_column : p->b_row, &p->batch, 1);
    return true;
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

static bw_status run_tile(const struct job *j, const char *way, int size, bw_err *err)
{
    bw_matmul_args p = j->p;
    void *args[] = {&p, (void *)&j->a, (void *)&j->b, (void *)&j->y};
    char name[64];
    snprintf(name, sizeof name, "matmul_tile_%s_%s_%s_%d", bw_dtype_name(j->in), bw_dtype_name(j->out), way, size);
    bw_gpu_grid grid = {.blocks = {(uint32_t)(p.n_tile_rows * p.n_tile_columns), 1, 1}, .threads = 256};
    if (j->device->kind == BW_DEVICE_CUDA)
        grid.shared_bytes = (uint32_t)(BW_MATMUL_TILE_STAGES * 2 * size * BW_MATMUL_TILE_STRIDE * 2);
    for (; p.first_batch < p.batch.n; p.first_batch += MOST_YZ) {
        int64_t z = p.batch.n - p.first_batch;
        grid.blocks[2] = (uint32_t)(z < MOST_YZ ? z : MOST_YZ);
        BW_TRY(bw_gpu_run(j->device, name, &grid, args, err));
    }
    return BW_OK;
}

bw_status bw_matmul_gpu(const bw_op_call *call, bw_device *device, bw_err *err)
{
    struct job j = make_job(call, device), plain = j;
    const char *way = NULL;
    if (j.p.m == 0 || j.p.n == 0 || j.p.batch.n == 0)
        return BW_OK;
    if (!find_tile(&j, &way) || !cut(&j.p, BW_MATMUL_TILE_SMALL))
        return run_plain(&plain, call, err);
    int size = BW_MATMUL_TILE_SMALL;
    struct job big = j;
    if (cut(&big.p, BW_MATMUL_TILE_BIG) &&
        big.p.n_tile_rows * big.p.n_tile_columns * big.p.batch.n >= bw_gpu_units(device)) {
        j = big;
        size = BW_MATMUL_TILE_BIG;
    }
    return run_tile(&j, way, size, err);
}
