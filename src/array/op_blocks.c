/* Block types: quantising, dequantising and products with quantised weights. */
#include <string.h>

#include "array.h"

/* x itself where the elements of a row follow one another, else a copy. */
static bw_status dense_rows(const bw_array *x, bw_array **out, bw_err *err)
{
    int last = x->t.n_dims - 1;
    bool is_dense = last < 0 || x->t.dims[last] <= 1 || x->t.strides[last] == 1;
    return is_dense ? bw_array_share(x, out, err) : bw_array_copy(x, out, err);
}

bw_status bw_array_quantise(const bw_array *x, bw_dtype dtype, const bw_array *importance, bw_array **out, bw_err *err)
{
    bw_array *dense = NULL, *weights = NULL;
    *out = NULL;
    if ((int)dtype < 0 || dtype >= BW_DTYPE_COUNT || !array_is_blocks(dtype))
        return array_fail(err, "quantise", x, "%s is no block type", bw_dtype_name(dtype));
    bw_status status = bw_array_contiguous(x, &dense, err);
    if (status == BW_OK && importance)
        status = bw_array_contiguous(importance, &weights, err);
    array_call call = {.op = "quantize", .name = "quantise", .n_in = importance ? 2 : 1, .in = {dense, weights}};
    if (status == BW_OK)
        status = array_call_new(&call, dtype, x->t.n_dims, x->t.dims, out, err);
    bw_array_free(dense);
    bw_array_free(weights);
    return status;
}

bw_status bw_array_dequantise(const bw_array *x, bw_dtype dtype, bw_array **out, bw_err *err)
{
    bw_array *dense;
    *out = NULL;
    BW_TRY(dense_rows(x, &dense, err));
    array_call call = {.op = "dequantize_block", .name = "dequantise", .n_in = 1, .in = {dense}};
    bw_status status = array_call_new(&call, dtype, x->t.n_dims, x->t.dims, out, err);
    bw_array_free(dense);
    return status;
}

/* x f32 [.., K] as q8_1 [.., K rounded up to 512]. */
static bw_status columns(const bw_array *x, const char *name, bw_array **out, bw_err *err)
{
    int64_t dims[BW_MAX_DIMS];
    bw_array *dense;
    *out = NULL;
    memcpy(dims, x->t.dims, sizeof dims);
    if (x->t.n_dims < 1 || dims[x->t.n_dims - 1] > INT64_MAX - 511)
        return array_fail(err, name, x, "needs rows of values");
    dims[x->t.n_dims - 1] = (dims[x->t.n_dims - 1] + 511) / 512 * 512;
    BW_TRY(bw_array_contiguous(x, &dense, err));
    array_call call = {.op = "quantize_q8_1", .name = name, .n_in = 1, .in = {dense}};
    bw_status status = array_call_new(&call, BW_Q8_1, x->t.n_dims, dims, out, err);
    bw_array_free(dense);
    return status;
}

/* The q8_1 form of x says no longer how long its rows are. */
static bw_status check_rows(const char *name, const bw_array *x, const bw_array *w, int w_dims, bw_err *err)
{
    char text[128];
    if (x->t.dtype == BW_F32 && w->t.n_dims == w_dims && x->t.n_dims > 0 && array_is_blocks(w->t.dtype) &&
        x->t.dims[x->t.n_dims - 1] == w->t.dims[w_dims - 1])
        return BW_OK;
    return array_fail(err, name, x, "x must be f32 and w of a block type, with rows of one length; w %s",
                      bw_tensor_describe(&w->t, text, sizeof text));
}

bw_status bw_array_quantised_matmul(const bw_array *x, const bw_array *w, bw_array **out, bw_err *err)
{
    bw_array *flat = NULL, *packed = NULL, *y = NULL;
    int64_t dims[BW_MAX_DIMS];
    *out = NULL;
    BW_TRY(check_rows("quantised_matmul", x, w, 2, err));
    memcpy(dims, x->t.dims, sizeof dims);
    int64_t k = dims[x->t.n_dims - 1], t = bw_shape_elements(dims, x->t.n_dims - 1);
    dims[x->t.n_dims - 1] = w->t.dims[0];
    bw_status status = bw_array_reshape(x, 2, (int64_t[]){t, k}, &flat, err);
    if (status == BW_OK)
        status = columns(flat, "quantised_matmul", &packed, err);
    array_call call = {.op = "mul_mat", .name = "quantised_matmul", .n_in = 2, .in = {w, packed}};
    if (status == BW_OK)
        status = array_call_new(&call, BW_F32, 2, (int64_t[]){t, w->t.dims[0]}, &y, err);
    if (status == BW_OK)
        status = bw_array_reshape(y, x->t.n_dims, dims, out, err);
    bw_array_free(flat);
    bw_array_free(packed);
    bw_array_free(y);
    return status;
}

bw_status bw_array_indexed_moe(const bw_array *x, const bw_array *w, const bw_array *ids, bw_array **out, bw_err *err)
{
    bw_array *packed;
    *out = NULL;
    BW_TRY(check_rows("indexed_moe", x, w, 3, err));
    if (x->t.n_dims != 3 || ids->t.n_dims != 2)
        return array_fail(err, "indexed_moe", x, "x needs three dimensions and ids two, not %d", ids->t.n_dims);
    BW_TRY(columns(x, "indexed_moe", &packed, err));
    array_call call = {.op = "indexed_moe_forward", .name = "indexed_moe", .n_in = 3, .in = {w, packed, ids}};
    int64_t dims[3] = {ids->t.dims[0], ids->t.dims[1], w->t.dims[1]};
    bw_status status = array_call_new(&call, BW_F32, 3, dims, out, err);
    bw_array_free(packed);
    return status;
}

bw_status bw_array_get_rows(const bw_array *table, const bw_array *ids, bw_array **out, bw_err *err)
{
    *out = NULL;
    if (table->t.n_dims != 2 || ids->t.n_dims != 1 || ids->t.dtype != BW_I32)
        return array_fail(err, "get_rows", table, "needs a table of two dimensions and i32 ids of one");
    /* The op leaves it to its caller that ids are in the table. */
    size_t n_bytes = (size_t)bw_array_bytes(ids);
    int32_t *host = bw_alloc(n_bytes);
    if (!host)
        return bw_fail_memory(err, n_bytes, "get_rows");
    bw_status status = bw_array_read(ids, host, n_bytes, err);
    for (int64_t i = 0; i < ids->t.dims[0] && status == BW_OK; i++)
        if (host[i] < 0 || host[i] >= table->t.dims[0])
            status = array_fail(err, "get_rows", table, "id %lld is %d, outside the table", (long long)i, (int)host[i]);
    bw_free(host);
    BW_TRY(status);
    bw_array *dense = NULL, *dense_ids = NULL;
    status = bw_array_contiguous(ids, &dense_ids, err);
    if (status == BW_OK)
        status = dense_rows(table, &dense, err);
    array_call call = {.op = "get_rows", .n_in = 2, .in = {dense, dense_ids}, .params = &(bw_get_rows_params){1}};
    if (status == BW_OK)
        status = array_call_new(&call, BW_F32, 2, (int64_t[]){ids->t.dims[0], table->t.dims[1]}, out, err);
    bw_array_free(dense);
    bw_array_free(dense_ids);
    return status;
}
