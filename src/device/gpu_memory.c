/* Memory of a GPU: a pool of what was released, pinned host memory, the staging ring, copies.
 *
 * One stream does all the work of a device, so memory that was released may be handed out again at once: whoever gets
 * it comes later in the stream. Sizes are rounded up to a quarter of a power of two (at most a fifth more). What is
 * larger than POOLED_BYTES and brief comes from the driver's own pool in the order of the stream, where the driver
 * offers one. Other large memory, and what would make our pool hold more than POOL_BYTES, goes back to the driver,
 * which may wait for the device; nothing on the way of a model's step releases such memory.
 */
#include <string.h>

#include "bw_gpu_memory.h"
#include "bw_mem.h"
#include "gpu_private.h"

enum { LEAST_BYTES = 512, SMALL_UPLOAD = 64 << 10, MOST_DEAD = 3 };
static const size_t pooled_bytes = (size_t)32 << 20, pool_bytes = (size_t)128 << 20;

/* Errors that say nothing about the card (unknown error, no device) are the end of it all the same when not even
 * waiting for its work succeeds any more, several failures in a row. */
static bool is_dead(bw_gpu *g, int error)
{
    if (!g->stream || g->is_capturing || g->driver->is_out_of_memory(error))
        return false;
    int probe = g->driver->make_current(g->context);
    if (!probe)
        probe = g->driver->synchronise(g->stream);
    g->n_dead = probe ? g->n_dead + 1 : 0;
    return g->n_dead >= MOST_DEAD || (probe && g->driver->is_lost(probe));
}

bw_status bw_gpu_fail(bw_gpu *g, bw_err *err, int error, const char *what)
{
    g->is_lost = g->is_lost || g->driver->is_lost(error) || is_dead(g, error);
    bw_status status = g->is_lost ? BW_E_LOST : g->driver->is_out_of_memory(error) ? BW_E_MEMORY : BW_E_DEVICE;
    return bw_fail(err, status, "%s: %s: %s", g->label, what, g->driver->error_text(error));
}

bw_status bw_gpu_enter(bw_gpu *g, bw_err *err)
{
    if (g->is_lost)
        return bw_fail(err, BW_E_LOST, "%s: the device failed earlier; start the program again", g->label);
    int error = g->driver->make_current(g->context);
    return error ? bw_gpu_fail(g, err, error, "the device's context cannot be used") : BW_OK;
}

/* ---- the pool ---------------------------------------------------------------------------------------------------- */

static size_t class_of(size_t n_bytes)
{
    if (n_bytes <= LEAST_BYTES)
        return LEAST_BYTES;
    size_t quarter = (size_t)1 << (61 - __builtin_clzll((unsigned long long)(n_bytes - 1)));
    return n_bytes > SIZE_MAX - quarter ? n_bytes : (n_bytes + quarter - 1) / quarter * quarter;
}

static void empty_pool(bw_gpu *g)
{
    for (size_t i = 0; i < g->n_idle; i++)
        g->driver->release(g->idle[i].address);
    g->held_bytes -= g->idle_bytes;
    g->n_idle = g->idle_bytes = 0;
}

static void *take_idle(bw_gpu *g, size_t n_bytes)
{
    for (size_t i = g->n_idle; i-- > 0;) {
        if (g->idle[i].n_bytes != n_bytes)
            continue;
        void *address = g->idle[i].address;
        g->idle[i] = g->idle[--g->n_idle];
        g->idle_bytes -= n_bytes;
        return address;
    }
    return NULL;
}

static int take_new(bw_gpu *g, bw_memory_use use, bw_buffer *buffer)
{
    if (g->is_ordered && use == BW_MEMORY_BRIEF && buffer->reserved > pooled_bytes) {
        int error = g->driver->alloc_later(buffer->reserved, &buffer->data, g->stream);
        buffer->is_ordered = !error;
        if (!error || g->driver->is_out_of_memory(error) || g->driver->is_lost(error))
            return error;
        g->is_ordered = false; /* not this card, or not this driver */
    }
    return g->driver->alloc(buffer->reserved, &buffer->data);
}

bw_status bw_gpu_alloc(bw_device *device, size_t n_bytes, bw_memory_use use, const char *what, bw_buffer *buffer,
                       bw_err *err)
{
    bw_gpu *g = bw_gpu_of(device);
    *buffer = (bw_buffer){.n_bytes = n_bytes, .reserved = n_bytes};
    BW_TRY(bw_gpu_enter(g, err));
    if (n_bytes == 0)
        buffer->reserved = 1;
    if (n_bytes <= pooled_bytes && !g->no_pool) {
        buffer->reserved = class_of(n_bytes);
        buffer->data = take_idle(g, buffer->reserved);
        if (buffer->data)
            return BW_OK;
    }
    int error = take_new(g, use, buffer);
    if (error && g->driver->is_out_of_memory(error)) {
        /* what both pools hold back: the driver's is emptied when the stream has been waited for */
        empty_pool(g);
        int waited = g->driver->synchronise(g->stream);
        error = waited ? waited : take_new(g, use, buffer);
    }
    if (!error) {
        g->held_bytes += buffer->reserved;
        return BW_OK;
    }
    *buffer = (bw_buffer){0};
    if (!g->driver->is_out_of_memory(error))
        return bw_gpu_fail(g, err, error, what);
    size_t free_bytes = 0, total = 0;
    g->driver->memory_info(&free_bytes, &total);
    return bw_fail(err, BW_E_MEMORY, "%s: no memory for %zu bytes (%s); %zu of %zu MiB are free", g->label, n_bytes,
                   what, free_bytes >> 20, total >> 20);
}

void bw_gpu_release(bw_device *device, bw_buffer *buffer)
{
    bw_gpu *g = bw_gpu_of(device);
    bw_buffer b = *buffer;
    *buffer = (bw_buffer){0};
    if (!b.data)
        return;
    if (b.is_ordered) {
        if (bw_gpu_can_free(g))
            g->driver->release_later(b.data, g->stream);
        g->is_giving_back = true;
        g->held_bytes -= b.reserved;
    } else if (!g->no_pool && b.reserved <= pooled_bytes && g->idle_bytes + b.reserved <= pool_bytes &&
               bw_reserve((void **)&g->idle, &g->idle_capacity, g->n_idle + 1, sizeof *g->idle)) {
        g->idle[g->n_idle++] = (bw_gpu_idle){b.data, b.reserved};
        g->idle_bytes += b.reserved;
    } else {
        if (bw_gpu_can_free(g))
            g->driver->release(b.data);
        g->held_bytes -= b.reserved;
    }
}

int64_t bw_gpu_held_bytes(bw_device *device)
{
    return device->kind == BW_DEVICE_CPU ? 0 : (int64_t)bw_gpu_of(device)->held_bytes;
}

bw_status bw_gpu_memory_info(bw_device *device, int64_t *free_bytes, int64_t *total_bytes, bw_err *err)
{
    bw_gpu *g = bw_gpu_of(device);
    BW_TRY(bw_gpu_enter(g, err));
    size_t free_size = 0, total_size = 0;
    if (g->is_giving_back) /* what was released in the stream's order is free when the stream has come so far */
        BW_TRY(bw_gpu_synchronise(device, err));
    int error = g->driver->memory_info(&free_size, &total_size);
    *free_bytes = (int64_t)(free_size + g->idle_bytes);
    *total_bytes = (int64_t)total_size;
    return error ? bw_gpu_fail(g, err, error, "memory information") : BW_OK;
}

/* ---- pinned memory ------------------------------------------------------------------------------------------------
 */

bw_status bw_gpu_host_alloc(bw_device *device, size_t n_bytes, const char *what, bw_buffer *buffer, bw_err *err)
{
    bw_gpu *g = bw_gpu_of(device);
    *buffer = (bw_buffer){.n_bytes = n_bytes, .reserved = n_bytes};
    BW_TRY(bw_gpu_enter(g, err));
    int error = g->driver->host_alloc(n_bytes ? n_bytes : 1, &buffer->data);
    if (!error)
        return BW_OK;
    *buffer = (bw_buffer){0};
    if (!g->driver->is_out_of_memory(error))
        return bw_gpu_fail(g, err, error, what);
    return bw_fail(err, BW_E_MEMORY, "%s: no pinned host memory for %zu bytes (%s)", g->label, n_bytes, what);
}

void bw_gpu_host_release(bw_device *device, bw_buffer *buffer)
{
    bw_gpu *g = bw_gpu_of(device);
    if (buffer->data && bw_gpu_can_free(g))
        g->driver->host_release(buffer->data);
    *buffer = (bw_buffer){0};
}

bw_status bw_gpu_upload_later(bw_device *device, void *dst, const void *host_src, size_t n_bytes, bw_err *err)
{
    bw_gpu *g = bw_gpu_of(device);
    BW_TRY(bw_gpu_enter(g, err));
    int error = n_bytes ? g->driver->upload_later(dst, host_src, n_bytes, g->stream) : 0;
    return error ? bw_gpu_fail(g, err, error, "upload") : BW_OK;
}

bw_status bw_gpu_download_later(bw_device *device, void *host_dst, const void *src, size_t n_bytes, bw_err *err)
{
    bw_gpu *g = bw_gpu_of(device);
    BW_TRY(bw_gpu_enter(g, err));
    int error = n_bytes ? g->driver->download_later(host_dst, src, n_bytes, g->stream) : 0;
    return error ? bw_gpu_fail(g, err, error, "download") : BW_OK;
}

bw_status bw_gpu_stage(bw_device *device, void **room, bw_err *err)
{
    bw_gpu *g = bw_gpu_of(device);
    bw_gpu_slot *s = &g->stages[g->next_stage];
    BW_TRY(bw_gpu_enter(g, err));
    int error = 0;
    if (!s->host) {
        error = g->driver->event_new(&s->event);
        if (!error && (error = g->driver->host_alloc(BW_STAGE_BYTES, &s->host)) != 0) {
            g->driver->event_free(s->event);
            s->event = NULL;
        }
    } else if (s->in_use) {
        error = g->driver->event_wait(s->event);
    }
    if (error)
        return bw_gpu_fail(g, err, error, "the staging memory of uploads");
    s->in_use = false;
    *room = s->host;
    return BW_OK;
}

bw_status bw_gpu_send(bw_device *device, void *dst, size_t n_bytes, bw_err *err)
{
    bw_gpu *g = bw_gpu_of(device);
    bw_gpu_slot *s = &g->stages[g->next_stage];
    BW_TRY(bw_gpu_upload_later(device, dst, s->host, n_bytes, err));
    int error = g->driver->event_record(s->event, g->stream);
    if (error)
        return bw_gpu_fail(g, err, error, "an upload");
    s->in_use = true;
    g->next_stage = (g->next_stage + 1) % BW_STAGES;
    return BW_OK;
}

void bw_gpu_stage_free(bw_device *device)
{
    bw_gpu *g = bw_gpu_of(device);
    if (!bw_gpu_can_free(g))
        return;
    for (int i = 0; i < BW_STAGES; i++) {
        bw_gpu_slot *s = &g->stages[i];
        if (s->host && s->in_use)
            g->driver->event_wait(s->event);
        if (s->host)
            g->driver->host_release(s->host);
        if (s->event)
            g->driver->event_free(s->event);
        *s = (bw_gpu_slot){0};
    }
}

void bw_gpu_memory_deinit(bw_gpu *g)
{
    if (g->context && bw_gpu_can_free(g)) {
        if (g->is_giving_back)
            g->driver->synchronise(g->stream);
        bw_gpu_stage_free(&g->device);
        empty_pool(g);
    }
    bw_free(g->idle);
    g->idle = NULL;
}

/* ---- copies --------------------------------------------------------------------------------------------------------
 */

bw_status bw_gpu_upload(bw_device *device, void *dst, const void *host_src, size_t n_bytes, bw_err *err)
{
    bw_gpu *g = bw_gpu_of(device);
    BW_TRY(bw_gpu_enter(g, err));
    if (n_bytes <= SMALL_UPLOAD) {
        int error = n_bytes ? g->driver->upload(dst, host_src, n_bytes, g->stream) : 0;
        return error ? bw_gpu_fail(g, err, error, "upload") : BW_OK;
    }
    for (size_t at = 0; at < n_bytes;) {
        size_t part = n_bytes - at < BW_STAGE_BYTES ? n_bytes - at : BW_STAGE_BYTES;
        void *room = NULL;
        BW_TRY(bw_gpu_stage(device, &room, err));
        memcpy(room, (const char *)host_src + at, part);
        BW_TRY(bw_gpu_send(device, (char *)dst + at, part, err));
        at += part;
    }
    return BW_OK;
}

bw_status bw_gpu_download(bw_device *device, void *host_dst, const void *src, size_t n_bytes, bw_err *err)
{
    bw_gpu *g = bw_gpu_of(device);
    BW_TRY(bw_gpu_enter(g, err));
    int error = n_bytes ? g->driver->download(host_dst, src, n_bytes, g->stream) : 0;
    return error ? bw_gpu_fail(g, err, error, "download") : BW_OK;
}

bw_status bw_gpu_copy(bw_device *device, void *dst, const void *src, size_t n_bytes, bw_err *err)
{
    bw_gpu *g = bw_gpu_of(device);
    BW_TRY(bw_gpu_enter(g, err));
    int error = n_bytes ? g->driver->copy(dst, src, n_bytes, g->stream) : 0;
    return error ? bw_gpu_fail(g, err, error, "copy") : BW_OK;
}

bw_status bw_gpu_copy_from(bw_device *device, void *dst, bw_device *src_device, const void *src, size_t n_bytes,
                           bw_err *err)
{
    bw_gpu *g = bw_gpu_of(device), *from = bw_gpu_of(src_device);
    if (g->driver->kind != from->driver->kind)
        return bw_fail(err, BW_E_UNSUPPORTED, "no direct copies go from %s to %s", from->label, g->label);
    BW_TRY(bw_gpu_synchronise(src_device, err)); /* what wrote the source is done */
    BW_TRY(bw_gpu_enter(g, err));
    int error = n_bytes ? g->driver->copy_peer(dst, device->index, g->context, src, src_device->index, from->context,
                                               n_bytes, g->stream)
                        : 0;
    /* The source may be written again by its own stream, which does not know this one. */
    return error ? bw_gpu_fail(g, err, error, "a copy from another device") : bw_gpu_synchronise(device, err);
}

bw_status bw_gpu_fill(bw_device *device, void *dst, int byte, size_t n_bytes, bw_err *err)
{
    bw_gpu *g = bw_gpu_of(device);
    BW_TRY(bw_gpu_enter(g, err));
    int error = n_bytes ? g->driver->fill(dst, byte, n_bytes, g->stream) : 0;
    return error ? bw_gpu_fail(g, err, error, "fill") : BW_OK;
}

bw_status bw_gpu_synchronise(bw_device *device, bw_err *err)
{
    bw_gpu *g = bw_gpu_of(device);
    BW_TRY(bw_gpu_enter(g, err));
    int error = g->driver->synchronise(g->stream);
    if (error)
        return bw_gpu_fail(g, err, error, "waiting for the device");
    g->n_dead = 0;
    g->is_giving_back = false;
    return BW_OK;
}
