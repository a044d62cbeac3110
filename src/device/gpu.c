/* The GPU rows of the device table, above whichever driver: memory, one stream, kernels by name. */
#include "gpu_private.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bw_mem.h"

struct bw_gpu_kernel {
    char name[56];
    void *function;
    uint32_t shared_bytes; /* the driver knows that launches may have so many */
};

static void gpu_destroy(bw_device *device)
{
    bw_gpu *g = bw_gpu_of(device);
    bw_gpu_choices_close(g);
    bw_gpu_library_close(g);
    bw_gpu_dnn_close(g);
    bw_gpu_memory_deinit(g);
    if (g->context && bw_gpu_can_free(g)) {
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

#define GPU_VTABLE(kind)                                                                                               \
    {                                                                                                                  \
        .kind_name = kind, .destroy = gpu_destroy, .alloc = bw_gpu_alloc, .release = bw_gpu_release,                   \
        .upload = bw_gpu_upload, .download = bw_gpu_download, .copy = bw_gpu_copy, .synchronise = bw_gpu_synchronise,  \
        .memory_info = bw_gpu_memory_info, .host_alloc = bw_gpu_host_alloc, .host_release = bw_gpu_host_release,       \
        .upload_later = bw_gpu_upload_later, .download_later = bw_gpu_download_later, .copy_from = bw_gpu_copy_from,   \
        .rest = bw_gpu_rest,                                                                                           \
    }
static const bw_device_vtable rocm_vtable = GPU_VTABLE("rocm"), cuda_vtable = GPU_VTABLE("cuda");

/* ---- code objects and kernels ---------------------------------------------------------------------------------- */

static size_t kernel_place(const bw_gpu *g, const char *name)
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

/* Into the sorted list, at kernel_place(). */
static bw_status keep_kernel(bw_gpu *g, size_t at, const char *name, void *function, bw_err *err)
{
    bw_gpu_kernel *k = bw_alloc_zero(1, sizeof *k);
    if (!k || !bw_reserve((void **)&g->kernels, &g->kernels_capacity, g->n_kernels + 1, sizeof *g->kernels)) {
        bw_free(k);
        return bw_fail_memory(err, sizeof *k, "a kernel's entry");
    }
    snprintf(k->name, sizeof k->name, "%s", name);
    k->function = function;
    k->shared_bytes = BW_GPU_SHARED_PLAIN;
    memmove(g->kernels + at + 1, g->kernels + at, (g->n_kernels - at) * sizeof *g->kernels);
    g->kernels[at] = k;
    g->n_kernels++;
    return BW_OK;
}

/* Every kernel that the build listed must be in the module that the driver made: else a step would find out. */
static bw_status find_all(bw_gpu *g, const bw_kernel_image *image, void *module, bw_err *err)
{
    const char *name = image->names, *first_missing = NULL;
    size_t n_missing = 0;
    for (size_t i = 0; i < image->n_names; i++, name += strlen(name) + 1) {
        void *function = NULL;
        int error = g->driver->find(module, name, &function);
        if (error && error != BW_GPU_NOT_FOUND)
            return bw_gpu_fail(g, err, error, name);
        if (error) {
            first_missing = first_missing ? first_missing : name;
            n_missing++;
            continue;
        }
        size_t at = kernel_place(g, name);
        if (at == g->n_kernels || strcmp(g->kernels[at]->name, name) != 0)
            BW_TRY(keep_kernel(g, at, name, function, err));
    }
    if (n_missing == 0)
        return BW_OK;
    return bw_fail(
        err, BW_E_DEVICE,
        "%s: %zu of the %zu %s kernels for %s are not in the loaded code object, the first is %s: build again, "
        "and if it stays, this driver does not load what this compiler makes",
        g->label, n_missing, image->n_names, image->family, g->images.target, first_missing);
}

static bw_status load_modules(bw_gpu *g, bw_err *err)
{
    BW_TRY(bw_kernel_images_open(g->label, g->info.target, &g->images, err));
    g->modules = bw_alloc_zero((size_t)g->images.n_images, sizeof *g->modules);
    if (!g->modules)
        return bw_fail_memory(err, sizeof *g->modules, "code objects");
    for (int i = 0; i < g->images.n_images; i++) {
        const bw_kernel_image *image = &g->images.images[i];
        int error = g->driver->module_load(image->data, &g->modules[i]);
        if (error)
            return bw_fail(err, BW_E_DEVICE, "%s: the %s kernels for %s do not load: %s", g->label, image->family,
                           g->images.target, g->driver->error_text(error));
        g->n_modules++;
        BW_TRY(find_all(g, image, g->modules[i], err));
    }
    return BW_OK;
}

bw_status bw_gpu_find(bw_device *device, const char *name, bw_gpu_kernel **kernel, bw_err *err)
{
    bw_gpu *g = bw_gpu_of(device);
    if (strlen(name) >= sizeof(*kernel)->name)
        return bw_fail(err, BW_E_ARG, "%s: a kernel's name has at most %zu characters, unlike %s", g->label,
                       sizeof(*kernel)->name - 1, name);
    size_t at = kernel_place(g, name);
    if (at < g->n_kernels && strcmp(g->kernels[at]->name, name) == 0) {
        *kernel = g->kernels[at];
        return BW_OK;
    }
    BW_TRY(bw_gpu_enter(g, err));
    void *function = NULL;
    for (int i = 0; i < g->n_modules && !function; i++) {
        if (g->images.images[i].names) /* all of them were found at the start */
            continue;
        int error = g->driver->find(g->modules[i], name, &function);
        if (error == BW_GPU_NOT_FOUND)
            function = NULL;
        else if (error)
            return bw_gpu_fail(g, err, error, name);
    }
    if (!function)
        return bw_fail(err, BW_E_NOT_FOUND, "%s: there is no kernel %s for %s", g->label, name, g->info.target);
    BW_TRY(keep_kernel(g, at, name, function, err));
    *kernel = g->kernels[at];
    return BW_OK;
}

bw_status bw_gpu_launch(bw_device *device, bw_gpu_kernel *kernel, const bw_gpu_grid *grid, void **args, bw_err *err)
{
    bw_gpu *g = bw_gpu_of(device);
    if (grid->blocks[0] == 0 || grid->blocks[1] == 0 || grid->blocks[2] == 0)
        return BW_OK;
    BW_TRY(bw_gpu_enter(g, err));
    int error = 0;
    if (grid->shared_bytes > kernel->shared_bytes && g->driver->allow_shared) {
        error = g->driver->allow_shared(kernel->function, grid->shared_bytes);
        if (!error)
            kernel->shared_bytes = grid->shared_bytes;
    }
    if (!error)
        error = g->driver->launch(kernel->function, grid, g->stream, args);
    return error ? bw_gpu_fail(g, err, error, kernel->name) : BW_OK;
}

bw_status bw_gpu_run(bw_device *device, const char *name, const bw_gpu_grid *grid, void **args, bw_err *err)
{
    bw_gpu_kernel *kernel;
    BW_TRY(bw_gpu_find(device, name, &kernel, err));
    return bw_gpu_launch(device, kernel, grid, args, err);
}

int bw_gpu_units(const bw_device *device)
{
    return bw_gpu_of_const(device)->info.units;
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
    bw_gpu *g = bw_alloc_zero(1, sizeof *g);
    if (!g)
        return bw_fail_memory(err, sizeof *g, "a device");
    g->driver = driver;
    const char *pool = getenv("BW_GPU_POOL");
    g->no_pool = pool && strcmp(pool, "0") == 0;
    g->is_ordered = !g->no_pool;
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
    bw_status status = error ? bw_gpu_fail(g, err, error, "the device cannot be opened") : load_modules(g, err);
    if (status != BW_OK) {
        gpu_destroy(&g->device);
        return status;
    }
    snprintf(g->device.description, sizeof g->device.description, "%.50s, %.20s, %d units", g->info.name,
             g->info.target, g->info.units);
    *out = &g->device;
    return BW_OK;
}
