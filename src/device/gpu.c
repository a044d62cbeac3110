/* The GPU rows of the device table, above whichever driver: memory, one stream, kernels by name. */
#include "gpu_driver.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bw_mem.h"
#include "kernel_images.h"

struct bw_gpu_kernel {
    char name[56];
    void *function;
};

typedef struct gpu {
    bw_device device; /* first, so that a device is its gpu */
    const bw_gpu_driver *driver;
    void *context, *stream;
    bw_gpu_info info;
    char label[100]; /* "rocm:0 (AMD Instinct MI250X)", for errors; without the card's name while that is unknown */
    bw_kernel_images images;
    void **modules; /* [n_modules], one per image */
    int n_modules;
    bw_gpu_kernel **kernels; /* found so far, sorted by name */
    size_t n_kernels, kernels_capacity;
} gpu;

static gpu *gpu_of(bw_device *device)
{
    return (gpu *)(void *)device;
}

static const gpu *gpu_of_const(const bw_device *device)
{
    return (const gpu *)(const void *)device;
}

static bw_status fail(const gpu *g, bw_err *err, int error, const char *what)
{
    return bw_fail(err, BW_E_DEVICE, "%s: %s: %s", g->label, what, g->driver->error_text(error));
}

/* Contexts belong to threads: whoever calls, makes it theirs. */
static bw_status enter(gpu *g, bw_err *err)
{
    int error = g->driver->make_current(g->context);
    return error ? fail(g, err, error, "the device's context cannot be used") : BW_OK;
}

static void gpu_destroy(bw_device *device)
{
    gpu *g = gpu_of(device);
    if (g->context && g->driver->make_current(g->context) == 0) {
        for (int i = 0; i < g->n_modules; i++)
            g->driver->module_free(g->modules[i]);
        if (g->stream)
            g->driver->stream_free(g->stream);
    }
    if (g->context) /* also where it cannot be used any more: what it holds goes with it */
        g->driver->close(g->device.index, g->context);
    for (size_t i = 0; i < g->n_kernels; i++)
        bw_free(g->kernels[i]);
    bw_free(g->kernels);
    bw_free(g->modules);
    bw_kernel_images_close(&g->images);
    bw_free(g);
}

static bw_status gpu_alloc(bw_device *device, size_t n_bytes, bw_memory_use use, const char *what, bw_buffer *buffer,
                           bw_err *err)
{
    (void)use;
    gpu *g = gpu_of(device);
    *buffer = (bw_buffer){.n_bytes = n_bytes};
    BW_TRY(enter(g, err));
    int error = g->driver->alloc(n_bytes ? n_bytes : 1, &buffer->data);
    if (!error)
        return BW_OK;
    buffer->data = NULL;
    if (!g->driver->is_out_of_memory(error))
        return fail(g, err, error, what);
    size_t free_bytes = 0, total = 0;
    g->driver->memory_info(&free_bytes, &total);
    return bw_fail(err, BW_E_MEMORY, "%s: no memory for %zu MiB (%s); %zu of %zu MiB are free", g->label, n_bytes >> 20,
                   what, free_bytes >> 20, total >> 20);
}

static void gpu_release(bw_device *device, bw_buffer *buffer)
{
    gpu *g = gpu_of(device);
    if (buffer->data && g->driver->make_current(g->context) == 0)
        g->driver->release(buffer->data);
    *buffer = (bw_buffer){0};
}

static bw_status gpu_upload(bw_device *device, void *dst, const void *host_src, size_t n_bytes, bw_err *err)
{
    gpu *g = gpu_of(device);
    BW_TRY(enter(g, err));
    int error = n_bytes ? g->driver->upload(dst, host_src, n_bytes, g->stream) : 0;
    return error ? fail(g, err, error, "upload") : BW_OK;
}

static bw_status gpu_download(bw_device *device, void *host_dst, const void *src, size_t n_bytes, bw_err *err)
{
    gpu *g = gpu_of(device);
    BW_TRY(enter(g, err));
    int error = n_bytes ? g->driver->download(host_dst, src, n_bytes, g->stream) : 0;
    return error ? fail(g, err, error, "download") : BW_OK;
}

static bw_status gpu_copy(bw_device *device, void *dst, const void *src, size_t n_bytes, bw_err *err)
{
    gpu *g = gpu_of(device);
    BW_TRY(enter(g, err));
    int error = n_bytes ? g->driver->copy(dst, src, n_bytes, g->stream) : 0;
    return error ? fail(g, err, error, "copy") : BW_OK;
}

static bw_status gpu_synchronise(bw_device *device, bw_err *err)
{
    gpu *g = gpu_of(device);
    BW_TRY(enter(g, err));
    int error = g->driver->synchronise(g->stream);
    return error ? fail(g, err, error, "waiting for the device") : BW_OK;
}

static bw_status gpu_memory_info(bw_device *device, int64_t *free_bytes, int64_t *total_bytes, bw_err *err)
{
    gpu *g = gpu_of(device);
    BW_TRY(enter(g, err));
    size_t free_size = 0, total_size = 0;
    int error = g->driver->memory_info(&free_size, &total_size);
    *free_bytes = (int64_t)free_size;
    *total_bytes = (int64_t)total_size;
    return error ? fail(g, err, error, "memory information") : BW_OK;
}

#define GPU_VTABLE(kind)                                                                                               \
    {                                                                                                                  \
        .kind_name = kind, .destroy = gpu_destroy, .alloc = gpu_alloc, .release = gpu_release, .upload = gpu_upload,   \
        .download = gpu_download, .copy = gpu_copy, .synchronise = gpu_synchronise, .memory_info = gpu_memory_info,    \
    }
static const bw_device_vtable rocm_vtable = GPU_VTABLE("rocm"), cuda_vtable = GPU_VTABLE("cuda");

/* ---- code objects and kernels ---------------------------------------------------------------------------------- */

static bw_status load_modules(gpu *g, bw_err *err)
{
    BW_TRY(bw_kernel_images_open(g->label, g->info.target, &g->images, err));
    g->modules = bw_alloc_zero((size_t)g->images.n_images, sizeof *g->modules);
    if (!g->modules)
        return bw_fail_memory(err, sizeof *g->modules, "code objects");
    for (int i = 0; i < g->images.n_images; i++) {
        const bw_kernel_image *image = &g->images.images[i];
        int error = g->driver->module_load(image->data, &g->modules[g->n_modules]);
        if (error)
            return bw_fail(err, BW_E_DEVICE, "%s: the %s kernels for %s do not load: %s", g->label, image->family,
                           g->images.target, g->driver->error_text(error));
        g->n_modules++;
    }
    return BW_OK;
}

static size_t kernel_place(const gpu *g, const char *name)
{
    size_t low = 0, high = g->n_kernels;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (strcmp(g->kernels[middle]->name, name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

bw_status bw_gpu_find(bw_device *device, const char *name, bw_gpu_kernel **kernel, bw_err *err)
{
    gpu *g = gpu_of(device);
    if (strlen(name) >= sizeof(*kernel)->name)
        return bw_fail(err, BW_E_ARG, "%s: a kernel's name has at most %zu characters, unlike %s", g->label,
                       sizeof(*kernel)->name - 1, name);
    size_t at = kernel_place(g, name);
    if (at < g->n_kernels && strcmp(g->kernels[at]->name, name) == 0) {
        *kernel = g->kernels[at];
        return BW_OK;
    }
    BW_TRY(enter(g, err));
    void *function = NULL;
    for (int i = 0; i < g->n_modules && !function; i++) {
        int error = g->driver->find(g->modules[i], name, &function);
        if (error == BW_GPU_NOT_FOUND)
            function = NULL;
        else if (error)
            return fail(g, err, error, name);
    }
    if (!function)
        return bw_fail(err, BW_E_NOT_FOUND, "%s: there is no kernel %s for %s", g->label, name, g->info.target);
    bw_gpu_kernel *k = bw_alloc_zero(1, sizeof *k);
    if (!k || !bw_reserve((void **)&g->kernels, &g->kernels_capacity, g->n_kernels + 1, sizeof *g->kernels)) {
        bw_free(k);
        return bw_fail_memory(err, sizeof *k, "a kernel's entry");
    }
    memcpy(k->name, name, strlen(name) + 1);
    k->function = function;
    memmove(g->kernels + at + 1, g->kernels + at, (g->n_kernels - at) * sizeof *g->kernels);
    g->kernels[at] = k;
    g->n_kernels++;
    *kernel = k;
    return BW_OK;
}

bw_status bw_gpu_launch(bw_device *device, bw_gpu_kernel *kernel, const bw_gpu_grid *grid, void **args, bw_err *err)
{
    gpu *g = gpu_of(device);
    if (grid->blocks[0] == 0 || grid->blocks[1] == 0 || grid->blocks[2] == 0)
        return BW_OK;
    BW_TRY(enter(g, err));
    int error = g->driver->launch(kernel->function, grid, g->stream, args);
    return error ? fail(g, err, error, kernel->name) : BW_OK;
}

bw_status bw_gpu_run(bw_device *device, const char *name, const bw_gpu_grid *grid, void **args, bw_err *err)
{
    bw_gpu_kernel *kernel;
    BW_TRY(bw_gpu_find(device, name, &kernel, err));
    return bw_gpu_launch(device, kernel, grid, args, err);
}

int bw_gpu_units(const bw_device *device)
{
    return gpu_of_const(device)->info.units;
}

bw_gpu_grid bw_gpu_grid_for(const bw_device *device, int64_t n, int64_t each)
{
    int64_t blocks = (n + 256 * each - 1) / (256 * each), most = (int64_t)bw_gpu_units(device) * 32;
    return (bw_gpu_grid){.blocks = {(uint32_t)(blocks < most ? blocks : most), 1, 1}, .threads = 256};
}

/* ---- opening ------------------------------------------------------------------------------------------------------
 */

bw_status bw_gpu_open(const bw_gpu_driver *driver, int index, bw_device **out, bw_err *err)
{
    *out = NULL;
    BW_TRY(driver->load(err));
    int n = 0, error = driver->count(&n);
    if (error)
        return bw_fail(err, BW_E_DEVICE, "%s: the devices cannot be counted: %s", driver->kind_name,
                       driver->error_text(error));
    if (index < 0 || index >= n)
        return bw_fail(err, BW_E_NOT_FOUND, "device %s:%d does not exist; there %s %d", driver->kind_name, index,
                       n == 1 ? "is" : "are", n);
    gpu *g = bw_alloc_zero(1, sizeof *g);
    if (!g)
        return bw_fail_memory(err, sizeof *g, "a device");
    g->driver = driver;
    g->device = (bw_device){
        .vtable = driver->kind == BW_DEVICE_ROCM ? &rocm_vtable : &cuda_vtable, .kind = driver->kind, .index = index};
    g->device.cpu = bw_cpu_get_features();
    snprintf(g->device.name, sizeof g->device.name, "%s:%d", driver->kind_name, index);
    snprintf(g->label, sizeof g->label, "%s", g->device.name);
    error = driver->open(index, &g->context, &g->info);
    if (g->info.name[0])
        snprintf(g->label, sizeof g->label, "%s (%s)", g->device.name, g->info.name);
    if (!error)
        error = driver->make_current(g->context);
    if (!error)
        error = driver->stream_new(&g->stream);
    bw_status status = error ? fail(g, err, error, "the device cannot be opened") : load_modules(g, err);
    if (status != BW_OK) {
        gpu_destroy(&g->device);
        return status;
    }
    snprintf(g->device.description, sizeof g->device.description, "%.50s, %.20s, %d units", g->info.name,
             g->info.target, g->info.units);
    *out = &g->device;
    return BW_OK;
}
