/* Copies: within a device, between devices and the host, joined arrays; and writes, which copy a shared buffer first.
 */
#include "array.h"

#include <stdio.h>
#include <string.h>

/* ---- within a device ----------------------------------------------------------------------------------------- */

/* Block types: rows of the last dimension, which is dense, by the device's own copy. */
static bw_status copy_rows(bw_device *device, const bw_tensor *from, const bw_tensor *to, bw_err *err)
{
    int last = from->n_dims - 1;
    int64_t n_rows = bw_shape_elements(from->dims, last), row_bytes = bw_dtype_bytes(from->dtype, from->dims[last]);
    for (int64_t r = 0; r < n_rows && row_bytes > 0; r++) {
        int64_t rest = r, source = 0, target = 0;
        for (int d = last - 1; d >= 0; d--) {
            source += rest % from->dims[d] * from->strides[d];
            target += rest % from->dims[d] * to->strides[d];
            rest /= from->dims[d];
        }
        BW_TRY(device->vtable->copy(device, (char *)to->data + array_offset_bytes(to->dtype, target),
                                    (const char *)from->data + array_offset_bytes(from->dtype, source),
                                    (size_t)row_bytes, err));
    }
    return BW_OK;
}

bw_status array_copy_into(const char *name, const bw_array *from, bw_tensor *to, bw_err *err)
{
    bw_device *device = from->buffer->device;
    size_t n_bytes = (size_t)bw_array_bytes(from);
    if (n_bytes == 0)
        return BW_OK;
    if (bw_tensor_is_contiguous(&from->t) && bw_tensor_is_contiguous(to))
        return device->vtable->copy(device, to->data, from->t.data, n_bytes, err);
    if (array_is_blocks(to->dtype))
        return copy_rows(device, &from->t, to, err);
    bw_array bytes = *from; /* i8 travels as u8: the op knows the ten public types */
    bw_tensor target = *to;
    if (to->dtype == BW_I8)
        bytes.t.dtype = target.dtype = BW_U8;
    array_call call = {.op = "ucopy", .name = name, .n_in = 1, .in = {&bytes}};
    return array_call_into(&call, device, (bw_tensor *const[]){&target}, 1, err);
}

bw_status bw_array_copy(const bw_array *x, bw_array **out, bw_err *err)
{
    BW_TRY(array_new(x->buffer->device, x->t.dtype, x->t.n_dims, x->t.dims, "copy", out, err));
    bw_status status = array_copy_into("copy", x, &(*out)->t, err);
    if (status != BW_OK) {
        bw_array_free(*out);
        *out = NULL;
    }
    return status;
}

bw_status bw_array_contiguous(const bw_array *x, bw_array **out, bw_err *err)
{
    return bw_array_is_contiguous(x) ? bw_array_share(x, out, err) : bw_array_copy(x, out, err);
}

bw_status bw_array_cast(const bw_array *x, bw_dtype dtype, bw_array **out, bw_err *err)
{
    *out = NULL;
    if (dtype == x->t.dtype)
        return bw_array_share(x, out, err);
    if ((int)dtype < 0 || dtype >= BW_DTYPE_COUNT || array_is_blocks(dtype) || array_is_blocks(x->t.dtype))
        return array_fail(err, "cast", x,
                          "to %s: both types must be plain (bw_array_quantise and bw_array_dequantise "
                          "are for the others)",
                          bw_dtype_name(dtype));
    array_call call = {.op = "cast", .n_in = 1, .in = {x}};
    return array_call_new(&call, dtype, x->t.n_dims, x->t.dims, out, err);
}

/* ---- joined arrays ------------------------------------------------------------------------------------------- */

/* Shapes but for dimension dim, types and devices. */
static bw_status check_parts(const bw_array *const *arrays, size_t n, int dim, int64_t *total, bw_err *err)
{
    const bw_array *first = arrays[0];
    *total = 0;
    for (size_t i = 0; i < n; i++) {
        const bw_tensor *t = &arrays[i]->t;
        bool fits = t->dtype == first->t.dtype && t->n_dims == first->t.n_dims;
        for (int d = 0; d < t->n_dims && fits; d++)
            fits = d == dim || t->dims[d] == first->t.dims[d];
        char text[128];
        if (!fits)
            return array_fail(err, "concat", first, "array %zu, %s, does not continue it in dimension %d", i,
                              bw_tensor_describe(t, text, sizeof text), dim);
        if (arrays[i]->buffer->device != first->buffer->device)
            return array_fail(err, "concat", first, "array %zu lies on another device, %s", i,
                              arrays[i]->buffer->device->name);
        if (!bw_add_i64(*total, t->dims[dim], total))
            return array_fail(err, "concat", first, "dimension %d would be too long", dim);
    }
    return BW_OK;
}

bw_status bw_array_concat(const bw_array *const *arrays, size_t n, int dim, bw_array **out, bw_err *err)
{
    int64_t dims[BW_MAX_DIMS], total, at = 0;
    *out = NULL;
    if (n == 0)
        return array_fail(err, "concat", NULL, "there is no array");
    const bw_array *first = arrays[0];
    BW_TRY(array_dim("concat", first, first->t.n_dims, dim, &dim, err));
    BW_TRY(check_parts(arrays, n, dim, &total, err));
    memcpy(dims, first->t.dims, sizeof dims);
    dims[dim] = total;
    BW_TRY(array_new(first->buffer->device, first->t.dtype, first->t.n_dims, dims, "concat", out, err));
    bw_status status = BW_OK;
    for (size_t i = 0; i < n && status == BW_OK; i++) {
        bw_tensor part = (*out)->t;
        part.dims[dim] = arrays[i]->t.dims[dim];
        if (bw_tensor_elements(&part) == 0)
            continue;
        part.data = array_data_at(&(*out)->t, dim, at);
        status = array_copy_into("concat", arrays[i], &part, err);
        at += part.dims[dim];
    }
    if (status != BW_OK) {
        bw_array_free(*out);
        *out = NULL;
    }
    return status;
}

bw_status bw_array_stack(const bw_array *const *arrays, size_t n, int dim, bw_array **out, bw_err *err)
{
    *out = NULL;
    if (n == 0)
        return array_fail(err, "stack", NULL, "there is no array");
    if (arrays[0]->t.n_dims == BW_MAX_DIMS)
        return array_fail(err, "stack", arrays[0], "an array has at most %d dimensions", BW_MAX_DIMS);
    BW_TRY(array_dim("stack", arrays[0], arrays[0]->t.n_dims + 1, dim, &dim, err));
    bw_array **parts = bw_alloc_zero(n, sizeof *parts);
    if (!parts)
        return bw_fail_memory(err, n * sizeof *parts, "stack");
    bw_status status = BW_OK;
    for (size_t i = 0; i < n && status == BW_OK; i++) {
        if (arrays[i]->t.n_dims != arrays[0]->t.n_dims)
            status = array_fail(err, "stack", arrays[i], "it does not have the first array's %d dimensions",
                                arrays[0]->t.n_dims);
        else
            status = bw_array_unsqueeze(arrays[i], dim, &parts[i], err);
    }
    for (size_t i = 0; i < n && status == BW_OK; i++)
        if (parts[i]->t.dims[dim] != 1 ||
            memcmp(parts[i]->t.dims, parts[0]->t.dims, (size_t)parts[0]->t.n_dims * sizeof(int64_t)) != 0)
            status = array_fail(err, "stack", arrays[i], "it does not have the first array's shape");
    if (status == BW_OK)
        status = bw_array_concat((const bw_array *const *)parts, n, dim, out, err);
    for (size_t i = 0; i < n; i++)
        bw_array_free(parts[i]);
    bw_free(parts);
    return status;
}

/* ---- to and from the host and other devices ------------------------------------------------------------------ */

bw_status bw_array_read(const bw_array *x, void *data, size_t n_bytes, bw_err *err)
{
    bw_array *dense;
    size_t have = (size_t)bw_array_bytes(x);
    if (n_bytes != have)
        return array_fail(err, "read", x, "it has %zu bytes, and room for %zu was given", have, n_bytes);
    if (have == 0)
        return BW_OK;
    BW_TRY(bw_array_contiguous(x, &dense, err));
    bw_device *device = x->buffer->device;
    bw_status status = device->vtable->download(device, data, dense->t.data, n_bytes, err);
    bw_array_free(dense);
    return status;
}

/* Between two devices of one kind the host's memory is not needed. */
static bw_status copy_across(const bw_array *x, bw_device *device, bw_array **out, bw_err *err)
{
    bw_array *dense;
    BW_TRY(bw_array_contiguous(x, &dense, err));
    bw_status status = array_new(device, x->t.dtype, x->t.n_dims, x->t.dims, "to_device", out, err);
    if (status == BW_OK)
        status = device->vtable->copy_from(device, (*out)->t.data, x->buffer->device, dense->t.data,
                                           (size_t)bw_array_bytes(x), err);
    bw_array_free(dense);
    if (status != BW_OK) {
        bw_array_free(*out);
        *out = NULL;
    }
    return status;
}

bw_status bw_array_to_device(const bw_array *x, bw_device *device, bw_array **out, bw_err *err)
{
    *out = NULL;
    if (device == x->buffer->device)
        return bw_array_share(x, out, err);
    if (device->kind == x->buffer->device->kind)
        return copy_across(x, device, out, err);
    size_t n_bytes = (size_t)bw_array_bytes(x);
    void *host = bw_alloc(n_bytes);
    if (!host)
        return bw_fail_memory(err, n_bytes, "to_device");
    bw_status status = bw_array_read(x, host, n_bytes, err);
    if (status == BW_OK)
        status = bw_array_from_data(device, x->t.dtype, x->t.n_dims, x->t.dims, host, n_bytes, out, err);
    bw_free(host);
    return status;
}

/* ---- writes -------------------------------------------------------------------------------------------------- */

/* Whether two elements may lie in one place: a repeated dimension, or strides that do not nest. */
static bool may_overlap(const bw_tensor *t)
{
    int order[BW_MAX_DIMS], n = 0;
    for (int d = 0; d < t->n_dims; d++)
        if (t->dims[d] > 1) {
            int at = n++;
            for (; at > 0 && t->strides[order[at - 1]] > t->strides[d]; at--)
                order[at] = order[at - 1];
            order[at] = d;
        }
    int64_t reach = 0; /* of the dimensions inside */
    for (int k = 0; k < n; k++) {
        if (t->strides[order[k]] <= reach)
            return true;
        reach += (t->dims[order[k]] - 1) * t->strides[order[k]];
    }
    return false;
}

bw_status array_make_own(const char *name, bw_array *x, bool keeps_values, bw_err *err)
{
    if (atomic_load(&x->buffer->n_arrays) == 1 && !may_overlap(&x->t))
        return BW_OK;
    bw_array *own;
    BW_TRY(array_new(x->buffer->device, x->t.dtype, x->t.n_dims, x->t.dims, name, &own, err));
    bw_status status = keeps_values ? array_copy_into(name, x, &own->t, err) : BW_OK;
    if (status == BW_OK) { /* x takes the new buffer, and the old one goes with `own` */
        bw_tensor t = x->t;
        array_buffer *buffer = x->buffer;
        x->t = own->t;
        x->buffer = own->buffer;
        own->t = t;
        own->buffer = buffer;
    }
    bw_array_free(own);
    return status;
}

bw_status bw_array_write(bw_array *x, const void *data, size_t n_bytes, bw_err *err)
{
    size_t have = (size_t)bw_array_bytes(x);
    bw_device *device = x->buffer->device;
    if (n_bytes != have)
        return array_fail(err, "write", x, "it has %zu bytes, and %zu were given", have, n_bytes);
    if (have == 0)
        return BW_OK;
    bool is_own = atomic_load(&x->buffer->n_arrays) == 1;
    if (is_own && bw_tensor_is_contiguous(&x->t))
        return device->vtable->upload(device, x->t.data, data, n_bytes, err);
    bw_array *fresh;
    BW_TRY(bw_array_from_data(device, x->t.dtype, x->t.n_dims, x->t.dims, data, n_bytes, &fresh, err));
    bw_tensor t = x->t;
    array_buffer *buffer = x->buffer;
    x->t = fresh->t;
    x->buffer = fresh->buffer;
    fresh->t = t;
    fresh->buffer = buffer;
    bw_array_free(fresh);
    return BW_OK;
}

bw_status bw_array_write_slice(bw_array *x, int dim, int64_t start, const bw_array *src, bw_err *err)
{
    char text[128];
    BW_TRY(array_dim("write_slice", x, x->t.n_dims, dim, &dim, err));
    bool fits = src->t.dtype == x->t.dtype && src->t.n_dims == x->t.n_dims && src->buffer->device == x->buffer->device;
    for (int d = 0; d < x->t.n_dims && fits; d++)
        fits = d == dim ? start >= 0 && start <= x->t.dims[d] && src->t.dims[d] <= x->t.dims[d] - start
                        : src->t.dims[d] == x->t.dims[d];
    if (fits && array_is_blocks(x->t.dtype) && dim == x->t.n_dims - 1)
        fits = start % bw_dtype_block_elements(x->t.dtype) == 0;
    if (!fits)
        return array_fail(err, "write_slice", x, "%s on %s does not fit at %lld of dimension %d",
                          bw_tensor_describe(&src->t, text, sizeof text), src->buffer->device->name, (long long)start,
                          dim);
    if (bw_array_elements(src) == 0)
        return BW_OK;
    bw_array *held; /* src may be x itself or share its buffer: then x moves to another one */
    BW_TRY(bw_array_share(src, &held, err));
    bw_status status = array_make_own("write_slice", x, true, err);
    if (status == BW_OK) {
        bw_tensor part = x->t;
        part.dims[dim] = src->t.dims[dim];
        part.data = array_data_at(&x->t, dim, start);
        status = array_copy_into("write_slice", held, &part, err);
    }
    bw_array_free(held);
    return status;
}
