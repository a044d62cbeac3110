/* Arrays from data, values, ranges and random generators. */
#include <math.h>

#include "array.h"

bw_status bw_array_from_data(bw_device *device, bw_dtype dtype, int n_dims, const int64_t *dims, const void *data,
                             size_t n_bytes, bw_array **out, bw_err *err)
{
    BW_TRY(array_new(device, dtype, n_dims, dims, "from_data", out, err));
    size_t need = (size_t)bw_array_bytes(*out);
    bw_status status;
    if (n_bytes != need)
        status = array_fail(err, "from_data", *out, "%zu bytes were given for %zu", n_bytes, need);
    else
        status = need ? device->vtable->upload(device, (*out)->t.data, data, need, err) : BW_OK;
    if (status != BW_OK) {
        bw_array_free(*out);
        *out = NULL;
    }
    return status;
}

/* One element seen as the whole shape. */
static bw_status spread(bw_device *device, bw_dtype dtype, int n_dims, const int64_t *dims, double value,
                        const char *name, bw_array **out, bw_err *err)
{
    *out = NULL;
    if (array_is_blocks(dtype)) {
        bw_array wanted = {.t = bw_tensor_view(dtype, n_dims, dims, NULL)};
        return array_fail(err, name, &wanted, "%s is no plain type", bw_dtype_name(dtype));
    }
    uint64_t element = 0;
    bw_array *one = NULL;
    bw_element_set_f64(dtype, &element, 0, value);
    BW_TRY(bw_array_from_data(device, dtype, 0, NULL, &element, (size_t)bw_dtype_block_bytes(dtype), &one, err));
    bw_status status = bw_array_broadcast_to(one, n_dims, dims, out, err);
    bw_array_free(one);
    return status;
}

static bw_status full(bw_device *device, bw_dtype dtype, int n_dims, const int64_t *dims, double value,
                      const char *name, bw_array **out, bw_err *err)
{
    bw_array *one = NULL;
    BW_TRY(array_new(device, dtype, n_dims, dims, name, out, err));
    bw_status status = spread(device, dtype, n_dims, dims, value, name, &one, err);
    if (status == BW_OK)
        status = array_copy_into(name, one, &(*out)->t, err);
    bw_array_free(one);
    if (status != BW_OK) {
        bw_array_free(*out);
        *out = NULL;
    }
    return status;
}

bw_status bw_array_zeros(bw_device *device, bw_dtype dtype, int n_dims, const int64_t *dims, bw_array **out,
                         bw_err *err)
{
    return full(device, dtype, n_dims, dims, 0, "zeros", out, err);
}

bw_status bw_array_full(bw_device *device, bw_dtype dtype, int n_dims, const int64_t *dims, double value,
                        bw_array **out, bw_err *err)
{
    return full(device, dtype, n_dims, dims, value, "full", out, err);
}

bw_status bw_array_fill(bw_array *x, double value, bw_err *err)
{
    bw_array *one = NULL;
    BW_TRY(spread(x->buffer->device, x->t.dtype, x->t.n_dims, x->t.dims, value, "fill", &one, err));
    bw_status status = array_make_own("fill", x, false, err);
    if (status == BW_OK)
        status = array_copy_into("fill", one, &x->t, err);
    bw_array_free(one);
    return status;
}

bw_status bw_array_arange(bw_device *device, bw_dtype dtype, double start, double end, double step, bw_array **out,
                          bw_err *err)
{
    *out = NULL;
    double count = ceil((end - start) / step);
    if ((int)dtype < 0 || dtype >= BW_DTYPE_COUNT || array_is_blocks(dtype))
        return array_fail(err, "arange", NULL, "%s is no plain type", bw_dtype_name(dtype));
    if (!isfinite(start) || !isfinite(end) || !isfinite(step) || step == 0 || !(count < 0x1p47))
        return array_fail(err, "arange", NULL, "from %g to %g in steps of %g is no range", start, end, step);
    int64_t n = count > 0 ? (int64_t)count : 0;
    size_t n_bytes = (size_t)n * (size_t)bw_dtype_block_bytes(dtype);
    void *data = bw_alloc(n_bytes);
    if (!data)
        return bw_fail_memory(err, n_bytes, "arange");
    for (int64_t i = 0; i < n; i++)
        bw_element_set_f64(dtype, data, i, start + (double)i * step);
    bw_status status = bw_array_from_data(device, dtype, 1, &n, data, n_bytes, out, err);
    bw_free(data);
    return status;
}

/* ---- random numbers ------------------------------------------------------------------------------------------ */

/* How far one call moves a generator on; what it stands for is told by bw_random.h. */
static uint64_t words_drawn(const bw_random *random, bw_dtype dtype, uint64_t n, bool is_normal)
{
    uint64_t wide = bw_dtype_block_bytes(dtype) == 8;
    if (n == 0)
        return 0;
    if (random->mode == BW_RANDOM_PHILOX)
        return 1;
    if (random->mode == BW_RANDOM_TORCH_CUDA) {
        uint64_t threads = (n + 255) / 256 * 256, card = (uint64_t)random->cuda_threads;
        threads = card && card < threads ? card : threads;
        uint64_t per_round = threads * (wide ? 2 : 4);
        return (n + per_round - 1) / per_round * 4;
    }
    uint64_t per_element = wide ? 2 : 1;
    if (!is_normal || n % 16 == 0)
        return n * per_element;
    if (n < 16)
        return (n + 1) / 2 * 4;
    bool is_short = bw_dtype_block_bytes(dtype) == 2;
    return (is_short ? n - n % 16 + 16 : n + 16) * per_element;
}

static bw_status draw(bw_device *device, bw_dtype dtype, int n_dims, const int64_t *dims, bw_random *random,
                      const char *op, const char *name, double a, double b, bw_array **out, bw_err *err)
{
    bool is_normal = strcmp(op, "rand_normal") == 0;
    bw_random_source source = {random->seed, random->offset, random->cuda_threads, (int32_t)random->mode, 0};
    bw_rand_uniform_params uniform = {source, a, b};
    bw_rand_normal_params normal = {source, a, b};
    const void *params = is_normal ? (const void *)&normal : &uniform; /* RAND_BITS reads the source only */
    if (random->mode != BW_RANDOM_TORCH_CUDA)
        uniform.source.cuda_threads = normal.source.cuda_threads = 0;
    BW_TRY(array_new(device, dtype, n_dims, dims, name, out, err));
    array_call call = {.op = op, .name = name, .params = params};
    bw_status status = array_call_into(&call, device, (bw_tensor *const[]){&(*out)->t}, 1, err);
    if (status != BW_OK) {
        bw_array_free(*out);
        *out = NULL;
        return status;
    }
    random->offset += words_drawn(random, dtype, (uint64_t)bw_array_elements(*out), is_normal);
    return BW_OK;
}

bw_status bw_array_rand(bw_device *device, bw_dtype dtype, int n_dims, const int64_t *dims, bw_random *random,
                        double lo, double up, bw_array **out, bw_err *err)
{
    return draw(device, dtype, n_dims, dims, random, "rand_uniform", "rand", lo, up, out, err);
}

bw_status bw_array_randn(bw_device *device, bw_dtype dtype, int n_dims, const int64_t *dims, bw_random *random,
                         double mean, double std, bw_array **out, bw_err *err)
{
    return draw(device, dtype, n_dims, dims, random, "rand_normal", "randn", mean, std, out, err);
}

bw_status bw_array_rand_bits(bw_device *device, bw_dtype dtype, int n_dims, const int64_t *dims, bw_random *random,
                             bw_array **out, bw_err *err)
{
    return draw(device, dtype, n_dims, dims, random, "rand_bits", "rand_bits", 0, 0, out, err);
}
