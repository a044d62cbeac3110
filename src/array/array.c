/* Arrays' lives: buffers and who shares them, descriptions, the list of those that live. Refuses impossible shapes;
 * knows no operation. */
#include "array.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bw_log.h"

/* ---- the arrays that live ------------------------------------------------------------------------------------ */

enum { MAX_REPORTED = 20 };

static pthread_mutex_t live_lock = PTHREAD_MUTEX_INITIALIZER;
static bw_array *live_first;
static int64_t n_live;
static bool has_asked; /* whether the environment was read */

static void report_leaks(void)
{
    pthread_mutex_lock(&live_lock);
    if (n_live > 0)
        bw_log_warn("%lld array%s not freed:", (long long)n_live, n_live == 1 ? " was" : "s were");
    int n = 0;
    for (const bw_array *x = live_first; x && n < MAX_REPORTED; x = x->next, n++) {
        char text[128];
        bw_log_warn("  %s on %s, %lld sharing its buffer", bw_tensor_describe(&x->t, text, sizeof text),
                    x->buffer->device_name, (long long)atomic_load(&x->buffer->n_arrays));
    }
    if (n_live > n)
        bw_log_warn("  and %lld more", (long long)(n_live - n));
    pthread_mutex_unlock(&live_lock);
}

static bool wants_leak_check(void)
{
    const char *value = getenv("BW_LEAK_CHECK");
    if (value && *value)
        return strcmp(value, "0") != 0;
#if defined(NDEBUG)
    return false;
#else
    return true;
#endif
}

static void list_add(bw_array *x)
{
    pthread_mutex_lock(&live_lock);
    if (!has_asked) {
        has_asked = true;
        if (wants_leak_check())
            atexit(report_leaks);
    }
    x->next = live_first;
    if (live_first)
        live_first->previous = x;
    live_first = x;
    n_live++;
    pthread_mutex_unlock(&live_lock);
}

static void list_remove(bw_array *x)
{
    pthread_mutex_lock(&live_lock);
    if (x->previous)
        x->previous->next = x->next;
    else
        live_first = x->next;
    if (x->next)
        x->next->previous = x->previous;
    n_live--;
    pthread_mutex_unlock(&live_lock);
}

int64_t bw_array_live(void)
{
    pthread_mutex_lock(&live_lock);
    int64_t n = n_live;
    pthread_mutex_unlock(&live_lock);
    return n;
}

/* ---- making and freeing -------------------------------------------------------------------------------------- */

bw_status array_fail(bw_err *err, const char *name, const bw_array *x, const char *format, ...)
{
    char sentence[300], text[128];
    va_list args;
    va_start(args, format);
    vsnprintf(sentence, sizeof sentence, format, args);
    va_end(args);
    if (!x)
        return bw_fail(err, BW_E_ARG, "%s: %s", name, sentence);
    return bw_fail(err, BW_E_ARG, "%s: %s; x %s", name, sentence, bw_tensor_describe(&x->t, text, sizeof text));
}

bool array_is_possible(bw_dtype dtype, int n_dims, const int64_t *dims)
{
    int64_t filled[BW_MAX_DIMS];
    if (n_dims < 0 || n_dims > BW_MAX_DIMS)
        return false;
    for (int i = 0; i < n_dims; i++)
        filled[i] = dims[i] == 0 ? 1 : dims[i];
    int64_t n = bw_shape_elements(filled, n_dims);
    return n >= 0 && n <= INT64_MAX / bw_dtype_block_bytes(dtype);
}

bw_status array_new(bw_device *device, bw_dtype dtype, int n_dims, const int64_t *dims, const char *name,
                    bw_array **out, bw_err *err)
{
    *out = NULL;
    if ((int)dtype < 0 || dtype >= BW_DTYPE_COUNT)
        return array_fail(err, name, NULL, "there is no element type %d", (int)dtype);
    if (n_dims < 0 || n_dims > BW_MAX_DIMS)
        return array_fail(err, name, NULL, "an array has 0 to %d dimensions, not %d", BW_MAX_DIMS, n_dims);
    int64_t n_bytes = bw_tensor_bytes(dtype, n_dims, dims);
    if (n_bytes < 0 || (uint64_t)n_bytes > SIZE_MAX / 2 || !array_is_possible(dtype, n_dims, dims)) {
        bw_array wanted = {.t = bw_tensor_view(dtype, n_dims, dims, NULL)};
        return array_fail(err, name, &wanted, "this shape is not possible");
    }
    bw_tensor t = bw_tensor_view(dtype, n_dims, dims, NULL);
    char text[128], what[200];
    snprintf(what, sizeof what, "%s: %s", name, bw_tensor_describe(&t, text, sizeof text));
    bw_array *x = bw_alloc_zero(1, sizeof *x);
    array_buffer *buffer = bw_alloc_zero(1, sizeof *buffer);
    bw_status status = x && buffer ? BW_OK : bw_fail_memory(err, sizeof *x + sizeof *buffer, what);
    if (status == BW_OK)
        status = device->vtable->alloc(device, (size_t)n_bytes, BW_MEMORY_BRIEF, what, &buffer->memory, err);
    if (status != BW_OK) {
        bw_free(x);
        bw_free(buffer);
        return status;
    }
    atomic_init(&buffer->n_arrays, 1);
    buffer->device = device;
    snprintf(buffer->device_name, sizeof buffer->device_name, "%s", device->name);
    x->buffer = buffer;
    x->t = t;
    x->t.data = buffer->memory.data;
    list_add(x);
    *out = x;
    return BW_OK;
}

bw_status array_new_view(const bw_array *x, const bw_tensor *t, bw_array **out, bw_err *err)
{
    *out = NULL;
    bw_array *y = bw_alloc_zero(1, sizeof *y);
    if (!y)
        return bw_fail_memory(err, sizeof *y, "an array");
    y->t = *t;
    y->buffer = x->buffer;
    atomic_fetch_add(&y->buffer->n_arrays, 1);
    list_add(y);
    *out = y;
    return BW_OK;
}

static void release_buffer(array_buffer *buffer)
{
    if (atomic_fetch_sub(&buffer->n_arrays, 1) != 1)
        return;
    buffer->device->vtable->release(buffer->device, &buffer->memory);
    bw_free(buffer);
}

void bw_array_free(bw_array *x)
{
    if (!x)
        return;
    list_remove(x);
    release_buffer(x->buffer);
    bw_free(x);
}

bw_status bw_array_share(const bw_array *x, bw_array **out, bw_err *err)
{
    return array_new_view(x, &x->t, out, err);
}

/* ---- what an array is ---------------------------------------------------------------------------------------- */

bw_dtype bw_array_dtype(const bw_array *x)
{
    return x->t.dtype;
}

int bw_array_n_dims(const bw_array *x)
{
    return x->t.n_dims;
}

const int64_t *bw_array_dims(const bw_array *x)
{
    return x->t.dims;
}

const int64_t *bw_array_strides(const bw_array *x)
{
    return x->t.strides;
}

int64_t bw_array_elements(const bw_array *x)
{
    return bw_tensor_elements(&x->t);
}

int64_t bw_array_bytes(const bw_array *x)
{
    return bw_tensor_bytes(x->t.dtype, x->t.n_dims, x->t.dims);
}

bw_device *bw_array_device(const bw_array *x)
{
    return x->buffer->device;
}

bool bw_array_is_contiguous(const bw_array *x)
{
    return bw_tensor_is_contiguous(&x->t);
}

char *bw_array_describe(const bw_array *x, char *text, size_t n_text)
{
    return bw_tensor_describe(&x->t, text, n_text);
}

const void *bw_array_data(const bw_array *x)
{
    bool is_host = x->buffer->device->kind == BW_DEVICE_CPU;
    return is_host && bw_tensor_is_contiguous(&x->t) ? x->t.data : NULL;
}

/* ---- dimensions ---------------------------------------------------------------------------------------------- */

bw_status array_dim(const char *name, const bw_array *x, int n_dims, int dim, int *out, bw_err *err)
{
    if (dim < -n_dims || dim >= n_dims)
        return array_fail(err, name, x, "there is no dimension %d", dim);
    *out = dim < 0 ? dim + n_dims : dim;
    return BW_OK;
}

int64_t array_offset_bytes(bw_dtype dtype, int64_t elements)
{
    return elements / bw_dtype_block_elements(dtype) * bw_dtype_block_bytes(dtype);
}

void *array_data_at(const bw_tensor *t, int dim, int64_t i)
{
    return (char *)t->data + array_offset_bytes(t->dtype, i * t->strides[dim]);
}

bw_status array_common_shape(const char *name, const bw_array *a, const bw_array *b, bw_shape *shape, bw_err *err)
{
    int n = a->t.n_dims > b->t.n_dims ? a->t.n_dims : b->t.n_dims;
    *shape = (bw_shape){.n_dims = n};
    for (int i = 1; i <= n; i++) {
        int64_t one = i <= a->t.n_dims ? a->t.dims[a->t.n_dims - i] : 1;
        int64_t two = i <= b->t.n_dims ? b->t.dims[b->t.n_dims - i] : 1;
        if (one != two && one != 1 && two != 1) {
            char text_a[128], text_b[128];
            return bw_fail(err, BW_E_ARG,
                           "%s: the shapes cannot be broadcast to one another: dimension %d from the end is %lld and "
                           "%lld; in0 %s, in1 %s",
                           name, i, (long long)one, (long long)two, bw_tensor_describe(&a->t, text_a, sizeof text_a),
                           bw_tensor_describe(&b->t, text_b, sizeof text_b));
        }
        shape->dims[n - i] = one == 1 ? two : one;
    }
    return BW_OK;
}
