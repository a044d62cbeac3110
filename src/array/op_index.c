/* Values picked from, or put at, places that ids name; sorting. */
#include <string.h>

#include "array.h"

bw_status bw_array_index_select(const bw_array *x, int dim, const bw_array *ids, bw_array **out, bw_err *err)
{
    int64_t dims[BW_MAX_DIMS];
    *out = NULL;
    BW_TRY(array_dim("index_select", x, x->t.n_dims, dim, &dim, err));
    if (ids->t.n_dims != 1)
        return array_fail(err, "index_select", ids, "ids must have one dimension");
    memcpy(dims, x->t.dims, sizeof dims);
    dims[dim] = ids->t.dims[0];
    array_call call = {
        .op = "is", .name = "index_select", .n_in = 2, .in = {x, ids}, .params = &(bw_indexing_params){dim}};
    return array_call_new(&call, x->t.dtype, x->t.n_dims, dims, out, err);
}

bw_status bw_array_gather(const bw_array *x, int dim, const bw_array *ids, bw_array **out, bw_err *err)
{
    *out = NULL;
    BW_TRY(array_dim("gather", x, x->t.n_dims, dim, &dim, err));
    array_call call = {.op = "gather", .n_in = 2, .in = {x, ids}, .params = &(bw_indexing_params){dim}};
    return array_call_new(&call, x->t.dtype, ids->t.n_dims, ids->t.dims, out, err);
}

/* A copy of x that the op then writes into. */
static bw_status write_into(const char *op, const char *name, const bw_array *x, int dim, const bw_array *ids,
                            const bw_array *src, bw_array **out, bw_err *err)
{
    bw_device *device;
    *out = NULL;
    BW_TRY(array_dim(name, x, x->t.n_dims, dim, &dim, err));
    array_call call = {.op = op, .name = name, .n_in = 3, .in = {src, ids, x}, .params = &(bw_indexing_params){dim}};
    BW_TRY(array_call_device(&call, &device, err));
    BW_TRY(bw_array_copy(x, out, err));
    call.n_in = 2;
    bw_status status = array_call_into(&call, device, (bw_tensor *const[]){&(*out)->t}, 1, err);
    if (status != BW_OK) {
        bw_array_free(*out);
        *out = NULL;
    }
    return status;
}

bw_status bw_array_index_add(const bw_array *x, int dim, const bw_array *ids, const bw_array *src, bw_array **out,
                             bw_err *err)
{
    return write_into("ia", "index_add", x, dim, ids, src, out, err);
}

bw_status bw_array_scatter(const bw_array *x, int dim, const bw_array *ids, const bw_array *src, bw_array **out,
                           bw_err *err)
{
    return write_into("s", "scatter", x, dim, ids, src, out, err);
}

bw_status bw_array_scatter_add(const bw_array *x, int dim, const bw_array *ids, const bw_array *src, bw_array **out,
                               bw_err *err)
{
    return write_into("sa", "scatter_add", x, dim, ids, src, out, err);
}

bw_status bw_array_argsort(const bw_array *x, bool descending, bw_array **out, bw_err *err)
{
    array_call call = {.op = descending ? "asort_desc" : "asort_asc", .name = "argsort", .n_in = 1, .in = {x}};
    return array_call_new(&call, BW_U32, x->t.n_dims, x->t.dims, out, err);
}

/* Give what was asked for, free the rest. */
static bw_status hand_out(bw_status status, bw_array *y, bw_array *ids, bw_array **values, bw_array **indices)
{
    bool gives_values = status == BW_OK && values, gives_indices = status == BW_OK && indices;
    if (values)
        *values = gives_values ? y : NULL;
    if (indices)
        *indices = gives_indices ? ids : NULL;
    if (!gives_values)
        bw_array_free(y);
    if (!gives_indices)
        bw_array_free(ids);
    return status;
}

bw_status bw_array_sort(const bw_array *x, bool descending, bw_array **values, bw_array **indices, bw_err *err)
{
    bw_array *y = NULL, *ids = NULL;
    bw_status status = bw_array_argsort(x, descending, &ids, err);
    if (status == BW_OK && values)
        status = bw_array_gather(x, -1, ids, &y, err);
    return hand_out(status, y, ids, values, indices);
}

bw_status bw_array_topk(const bw_array *x, int64_t k, bool smallest, bw_array **values, bw_array **indices, bw_err *err)
{
    bw_array *y = NULL, *ids = NULL;
    int64_t dims[BW_MAX_DIMS];
    bw_device *device = x->buffer->device;
    int last = x->t.n_dims - 1;
    bw_status status = BW_OK;
    if (last < 0 || k < 0 || k > x->t.dims[last]) {
        status = array_fail(err, "topk", x, "its rows do not have %lld elements", (long long)k);
    } else {
        memcpy(dims, x->t.dims, sizeof dims);
        dims[last] = k;
        status = array_new(device, x->t.dtype, last + 1, dims, "topk", &y, err);
    }
    if (status == BW_OK)
        status = array_new(device, BW_U32, last + 1, dims, "topk", &ids, err);
    array_call call = {.op = "topk", .n_in = 1, .in = {x}, .params = &(bw_topk_params){smallest}};
    if (status == BW_OK)
        status = array_call_into(&call, device, (bw_tensor *const[]){&y->t, &ids->t}, 2, err);
    return hand_out(status, y, ids, values, indices);
}
