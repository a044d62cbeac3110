/* Arrays in safetensors files. */
#include "array.h"

#include <stdlib.h>
#include <string.h>

#include "bw_safetensors.h"
#include "bw_str.h"

static int by_name(const void *a, const void *b)
{
    const bw_named_array *const *one = a, *const *two = b;
    return strcmp((*one)->name, (*two)->name);
}

/* JSON holds nothing else: another byte would come back as another name. */
static bool is_utf8(const char *name)
{
    uint32_t code_point;
    size_t n = strlen(name);
    while (n > 0) {
        int step = bw_utf8_decode(name, n, &code_point);
        if (step <= 0)
            return false;
        name += step;
        n -= (size_t)step;
    }
    return true;
}

/* Names must be there, be UTF-8, differ, and not be the format's own. */
static bw_status check_names(const char *path, const bw_named_array *arrays, size_t n, bw_err *err)
{
    const bw_named_array **sorted = bw_alloc_array(n, sizeof *sorted);
    if (!sorted)
        return bw_fail_memory(err, n * sizeof *sorted, "save");
    bw_status status = BW_OK;
    for (size_t i = 0; i < n && status == BW_OK; i++) {
        sorted[i] = &arrays[i];
        if (!arrays[i].name || !arrays[i].array || strcmp(arrays[i].name, "__metadata__") == 0)
            status = bw_fail(err, BW_E_ARG, "save: array %zu for %s has no name of its own or no array", i, path);
        else if (!is_utf8(arrays[i].name))
            status = bw_fail(err, BW_E_ARG, "save: the name of array %zu for %s is not UTF-8", i, path);
    }
    if (status == BW_OK)
        qsort(sorted, n, sizeof *sorted, by_name);
    for (size_t i = 1; i < n && status == BW_OK; i++)
        if (strcmp(sorted[i - 1]->name, sorted[i]->name) == 0)
            status = bw_fail(err, BW_E_ARG, "save: %s would hold two arrays of the name %s", path, sorted[i]->name);
    bw_free(sorted);
    return status;
}

/* Fills t; *host is to be freed. An array that is dense in the host's memory is written from where it lies. */
static bw_status describe(const bw_named_array *named, bw_safetensor *t, void **host, bw_err *err)
{
    const bw_array *x = named->array;
    *t = (bw_safetensor){.name = named->name, .dtype = x->t.dtype, .n_dims = x->t.n_dims};
    memcpy(t->dims, x->t.dims, sizeof t->dims);
    t->n_bytes = (size_t)bw_array_bytes(x);
    t->data = bw_array_data(x);
    if (t->data || t->n_bytes == 0)
        return BW_OK;
    *host = bw_alloc(t->n_bytes);
    if (!*host)
        return bw_fail_memory(err, t->n_bytes, "save");
    t->data = *host;
    return bw_array_read(x, *host, t->n_bytes, err);
}

bw_status bw_array_save(const char *path, const bw_named_array *arrays, size_t n, bw_err *err)
{
    BW_TRY(check_names(path, arrays, n, err));
    bw_safetensor *tensors = bw_alloc_zero(n, sizeof *tensors);
    void **host = bw_alloc_zero(n, sizeof *host);
    bw_status status = tensors && host ? BW_OK : bw_fail_memory(err, n * sizeof *tensors, "save");
    for (size_t i = 0; i < n && status == BW_OK; i++)
        status = describe(&arrays[i], &tensors[i], &host[i], err);
    if (status == BW_OK)
        status = bw_safetensors_write(path, tensors, n, err);
    for (size_t i = 0; i < n && host; i++)
        bw_free(host[i]);
    bw_free(host);
    bw_free(tensors);
    return status;
}

static bw_status load(bw_device *device, const bw_safetensor *t, bw_array **out, bw_err *err)
{
    bw_status status = bw_array_from_data(device, t->dtype, t->n_dims, t->dims, t->data, t->n_bytes, out, err);
    if (status != BW_OK)
        bw_err_prefix(err, "tensor %s", t->name);
    return status;
}

bw_status bw_array_load(bw_device *device, const char *path, bw_named_array **arrays, size_t *n, bw_err *err)
{
    bw_safetensors *file;
    *arrays = NULL;
    *n = 0;
    BW_TRY(bw_safetensors_open(path, &file, err));
    size_t count = bw_safetensors_count(file);
    bw_named_array *list = bw_alloc_zero(count, sizeof *list);
    bw_status status = list ? BW_OK : bw_fail_memory(err, count * sizeof *list, "load");
    for (size_t i = 0; i < count && status == BW_OK; i++) {
        const bw_safetensor *t = bw_safetensors_at(file, i);
        list[i].name = bw_strdup(t->name);
        status = list[i].name ? load(device, t, &list[i].array, err) : bw_fail_memory(err, strlen(t->name) + 1, "load");
    }
    bw_safetensors_close(file);
    if (status != BW_OK) {
        bw_named_arrays_free(list, count);
        return status;
    }
    *arrays = list;
    *n = count;
    return BW_OK;
}

bw_status bw_array_load_one(bw_device *device, const char *path, const char *name, bw_array **out, bw_err *err)
{
    bw_safetensors *file;
    *out = NULL;
    BW_TRY(bw_safetensors_open(path, &file, err));
    const bw_safetensor *t = bw_safetensors_find(file, name);
    bw_status status =
        t ? load(device, t, out, err) : bw_fail(err, BW_E_NOT_FOUND, "%s holds no tensor %s", path, name);
    bw_safetensors_close(file);
    return status;
}

void bw_named_arrays_free(bw_named_array *arrays, size_t n)
{
    for (size_t i = 0; i < n && arrays; i++) {
        bw_free(arrays[i].name);
        bw_array_free(arrays[i].array);
    }
    bw_free(arrays);
}
