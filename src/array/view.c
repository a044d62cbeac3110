/* Views: other shapes and strides over one buffer. Refuses what would need a copy, but for reshape, which makes it. */
#include "array.h"

#include <stdio.h>

/* ---- reshape ------------------------------------------------------------------------------------------------- */

/* dims with the one -1 replaced by what is left. */
static bw_status resolve(const char *name, const bw_array *x, int n_dims, const int64_t *dims, int64_t *out,
                         bw_err *err)
{
    int unknown = -1;
    int64_t n = bw_array_elements(x);
    if (n_dims < 0 || n_dims > BW_MAX_DIMS)
        return array_fail(err, name, x, "an array has 0 to %d dimensions, not %d", BW_MAX_DIMS, n_dims);
    for (int i = 0; i < n_dims; i++) {
        out[i] = dims[i];
        if (dims[i] == -1 && unknown < 0) {
            unknown = i;
            out[i] = 1;
        } else if (dims[i] < 0) {
            return array_fail(err, name, x, "dimension %d cannot be %lld", i, (long long)dims[i]);
        }
    }
    int64_t known = bw_shape_elements(out, n_dims);
    if (unknown >= 0 && known == 0 && n == 0)
        return array_fail(err, name, x, "the size of dimension %d does not follow: another is 0", unknown);
    if (unknown >= 0 && known > 0 && n % known == 0) {
        out[unknown] = n / known;
        known = n;
    }
    if (known != n || (unknown >= 0 && bw_shape_elements(out, n_dims) != n) ||
        !array_is_possible(x->t.dtype, n_dims, out)) {
        bw_tensor wanted = bw_tensor_view(x->t.dtype, n_dims, dims, NULL);
        char text[128];
        return array_fail(err, name, x, "its %lld elements do not fill %s", (long long)n,
                          bw_tensor_describe(&wanted, text, sizeof text));
    }
    return BW_OK;
}

/* Strides for new dims over x's elements; false: only a copy can have them. Walks both shapes from the outermost in
 * groups of equal products; a group of x must be evenly strided. */
static bool restride(const bw_tensor *x, int n_dims, const int64_t *dims, int64_t *strides)
{
    int old_n = 0;
    int64_t old_dims[BW_MAX_DIMS], old_strides[BW_MAX_DIMS];
    for (int i = 0; i < x->n_dims; i++) /* dimensions of size 1 are anywhere */
        if (x->dims[i] != 1) {
            old_dims[old_n] = x->dims[i];
            old_strides[old_n++] = x->strides[i];
        }
    int o = 0, n = 0;
    while (o < old_n && n < n_dims) {
        int o_end = o + 1, n_end = n + 1;
        int64_t old_size = old_dims[o], new_size = dims[n];
        while (old_size != new_size) {
            if (new_size < old_size && n_end < n_dims)
                new_size *= dims[n_end++];
            else if (old_size < new_size && o_end < old_n)
                old_size *= old_dims[o_end++];
            else
                return false;
        }
        for (int k = o; k + 1 < o_end; k++)
            if (old_strides[k] != old_dims[k + 1] * old_strides[k + 1])
                return false;
        int64_t stride = old_strides[o_end - 1];
        for (int k = n_end - 1; k >= n; k--) {
            strides[k] = stride;
            stride *= dims[k];
        }
        o = o_end;
        n = n_end;
    }
    for (; n < n_dims; n++) /* what is left is of size 1 */
        strides[n] = 1;
    return o == old_n;
}

static bw_status reshape(const char *name, const bw_array *x, int n_dims, const int64_t *dims, bool may_copy,
                         bw_array **out, bw_err *err)
{
    int64_t wanted[BW_MAX_DIMS] = {0};
    *out = NULL;
    BW_TRY(resolve(name, x, n_dims, dims, wanted, err));
    if (array_is_blocks(x->t.dtype) && (n_dims == 0 || wanted[n_dims - 1] % bw_dtype_block_elements(x->t.dtype) != 0))
        return array_fail(err, name, x, "the last dimension must be whole blocks of %lld elements",
                          (long long)bw_dtype_block_elements(x->t.dtype));
    bw_tensor t = bw_tensor_view(x->t.dtype, n_dims, wanted, x->t.data);
    if (bw_array_elements(x) == 0 || bw_tensor_is_contiguous(&x->t) || restride(&x->t, n_dims, wanted, t.strides))
        return array_new_view(x, &t, out, err);
    if (!may_copy)
        return array_fail(err, name, x, "its strides leave no such view: reshape would copy it");
    BW_TRY(bw_array_copy(x, out, err));
    void *data = (*out)->t.data;
    (*out)->t = bw_tensor_view(x->t.dtype, n_dims, wanted, data);
    return BW_OK;
}

bw_status bw_array_reshape(const bw_array *x, int n_dims, const int64_t *dims, bw_array **out, bw_err *err)
{
    return reshape("reshape", x, n_dims, dims, true, out, err);
}

bw_status bw_array_view(const bw_array *x, int n_dims, const int64_t *dims, bw_array **out, bw_err *err)
{
    return reshape("view", x, n_dims, dims, false, out, err);
}

/* ---- the others ---------------------------------------------------------------------------------------------- */

bw_status bw_array_narrow(const bw_array *x, int dim, int64_t start, int64_t length, bw_array **out, bw_err *err)
{
    *out = NULL;
    BW_TRY(array_dim("narrow", x, x->t.n_dims, dim, &dim, err));
    if (start < 0 || length < 0 || start > x->t.dims[dim] || length > x->t.dims[dim] - start)
        return array_fail(err, "narrow", x, "%lld elements from %lld on are not in dimension %d", (long long)length,
                          (long long)start, dim);
    int64_t block = bw_dtype_block_elements(x->t.dtype);
    if (dim == x->t.n_dims - 1 && (start % block != 0 || length % block != 0))
        return array_fail(err, "narrow", x, "%lld elements from %lld on are not whole blocks of %lld",
                          (long long)length, (long long)start, (long long)block);
    bw_tensor t = x->t;
    t.dims[dim] = length;
    if (bw_tensor_elements(&t) > 0)
        t.data = array_data_at(&x->t, dim, start);
    return array_new_view(x, &t, out, err);
}

bw_status bw_array_permute(const bw_array *x, const int *order, bw_array **out, bw_err *err)
{
    int n = x->t.n_dims;
    unsigned seen = 0;
    bw_tensor t = x->t;
    *out = NULL;
    for (int i = 0; i < n; i++) {
        int dim;
        BW_TRY(array_dim("permute", x, n, order[i], &dim, err));
        if (seen >> dim & 1)
            return array_fail(err, "permute", x, "dimension %d is named twice", dim);
        seen |= 1u << dim;
        t.dims[i] = x->t.dims[dim];
        t.strides[i] = x->t.strides[dim];
        if (i == n - 1 && dim != i && array_is_blocks(x->t.dtype))
            return array_fail(err, "permute", x, "the last dimension holds blocks and must stay the last");
    }
    return array_new_view(x, &t, out, err);
}

bw_status bw_array_transpose(const bw_array *x, int dim_a, int dim_b, bw_array **out, bw_err *err)
{
    int order[BW_MAX_DIMS];
    *out = NULL;
    BW_TRY(array_dim("transpose", x, x->t.n_dims, dim_a, &dim_a, err));
    BW_TRY(array_dim("transpose", x, x->t.n_dims, dim_b, &dim_b, err));
    for (int i = 0; i < x->t.n_dims; i++)
        order[i] = i == dim_a ? dim_b : i == dim_b ? dim_a : i;
    return bw_array_permute(x, order, out, err);
}

bw_status bw_array_squeeze(const bw_array *x, int dim, bw_array **out, bw_err *err)
{
    *out = NULL;
    BW_TRY(array_dim("squeeze", x, x->t.n_dims, dim, &dim, err));
    if (x->t.dims[dim] != 1)
        return array_fail(err, "squeeze", x, "dimension %d is not of size 1", dim);
    bw_tensor t = x->t;
    t.n_dims--;
    for (int i = dim; i < t.n_dims; i++) {
        t.dims[i] = x->t.dims[i + 1];
        t.strides[i] = x->t.strides[i + 1];
    }
    return array_new_view(x, &t, out, err);
}

bw_status bw_array_unsqueeze(const bw_array *x, int dim, bw_array **out, bw_err *err)
{
    *out = NULL;
    if (x->t.n_dims == BW_MAX_DIMS)
        return array_fail(err, "unsqueeze", x, "an array has at most %d dimensions", BW_MAX_DIMS);
    BW_TRY(array_dim("unsqueeze", x, x->t.n_dims + 1, dim, &dim, err));
    if (dim == x->t.n_dims && array_is_blocks(x->t.dtype))
        return array_fail(err, "unsqueeze", x, "the last dimension holds blocks and must stay the last");
    bw_tensor t = x->t;
    for (int i = t.n_dims; i > dim; i--) {
        t.dims[i] = x->t.dims[i - 1];
        t.strides[i] = x->t.strides[i - 1];
    }
    t.dims[dim] = 1;
    t.strides[dim] = 1; /* of one element: any */
    t.n_dims++;
    return array_new_view(x, &t, out, err);
}

bw_status bw_array_broadcast_to(const bw_array *x, int n_dims, const int64_t *dims, bw_array **out, bw_err *err)
{
    *out = NULL;
    if (n_dims < x->t.n_dims || n_dims > BW_MAX_DIMS)
        return array_fail(err, "broadcast_to", x, "cannot have %d dimensions", n_dims);
    bw_tensor wanted = bw_tensor_view(x->t.dtype, n_dims, dims, NULL);
    char text[128];
    bw_tensor_describe(&wanted, text, sizeof text);
    if (!array_is_possible(x->t.dtype, n_dims, dims))
        return array_fail(err, "broadcast_to", x, "%s is not possible", text);
    bw_tensor t = {.dtype = x->t.dtype, .n_dims = n_dims, .data = x->t.data, .layout = x->t.layout};
    int missing = n_dims - x->t.n_dims;
    for (int i = 0; i < n_dims; i++) {
        int64_t own = i < missing ? 1 : x->t.dims[i - missing];
        t.dims[i] = dims[i];
        t.strides[i] = own == 1 ? 0 : x->t.strides[i - missing];
        if (own == 1 && dims[i] == 1 && i >= missing)
            t.strides[i] = x->t.strides[i - missing];
        if (own != 1 && own != dims[i])
            return array_fail(err, "broadcast_to", x, "dimension %d of size %lld cannot become %lld for %s", i,
                              (long long)own, (long long)dims[i], text);
    }
    if (array_is_blocks(t.dtype) && n_dims > 0 && t.strides[n_dims - 1] == 0)
        return array_fail(err, "broadcast_to", x, "the last dimension holds blocks and cannot be repeated");
    return array_new_view(x, &t, out, err);
}
