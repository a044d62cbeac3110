/* Shape arithmetic: element counts, byte counts, contiguous strides, descriptions. */
#include "bw_tensor.h"

#include <inttypes.h>
#include <stdio.h>

#include "bw_mem.h"

int64_t bw_shape_elements(const int64_t *dims, int n_dims)
{
    int64_t n = 1;
    bool overflow = false, empty = false;
    for (int i = 0; i < n_dims; i++) {
        if (dims[i] < 0)
            return -1;
        if (dims[i] == 0)
            empty = true;
        else if (!overflow)
            overflow = !bw_mul_i64(n, dims[i], &n);
    }
    if (empty)
        return 0;
    return overflow ? -1 : n;
}

bw_tensor bw_tensor_view(bw_dtype dtype, int n_dims, const int64_t *dims, const void *data)
{
    bw_tensor t = {.dtype = dtype, .n_dims = n_dims, .data = (void *)(uintptr_t)data};
    int64_t stride = 1;
    for (int i = n_dims - 1; i >= 0; i--) {
        t.dims[i] = dims[i];
        t.strides[i] = stride;
        if (!bw_mul_i64(stride, dims[i], &stride))
            stride = INT64_MAX;
    }
    return t;
}

bool bw_tensor_is_contiguous(const bw_tensor *t)
{
    int64_t stride = 1;
    for (int i = t->n_dims - 1; i >= 0; i--) {
        if (t->dims[i] == 0)
            return true;
        if (t->dims[i] != 1 && t->strides[i] != stride)
            return false;
        if (!bw_mul_i64(stride, t->dims[i], &stride))
            stride = INT64_MAX;
    }
    return true;
}

int64_t bw_tensor_bytes(bw_dtype dtype, int n_dims, const int64_t *dims)
{
    if (n_dims < 0 || n_dims > BW_MAX_DIMS)
        return -1;
    int64_t n = bw_shape_elements(dims, n_dims);
    int64_t row = n_dims > 0 ? dims[n_dims - 1] : 1;
    if (n < 0 || row % bw_dtype_block_elements(dtype) != 0)
        return -1;
    return bw_dtype_bytes(dtype, n);
}

char *bw_tensor_describe(const bw_tensor *t, char *out, size_t n_out)
{
    if (n_out == 0)
        return out;
    size_t used = 0;
    int n = snprintf(out, n_out, "%s [", bw_dtype_name(t->dtype));
    for (int i = 0; n >= 0 && i <= t->n_dims; i++) {
        used += (size_t)n;
        if (used >= n_out)
            break;
        if (i < t->n_dims)
            n = snprintf(out + used, n_out - used, "%s%" PRId64, i ? ", " : "", t->dims[i]);
        else
            snprintf(out + used, n_out - used, "]");
    }
    return out;
}
