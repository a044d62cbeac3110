/* The CPU row of the device table. */
#include "bw_device.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "bw_limits.h"
#include "bw_mem.h"
#include "device_private.h"

enum { HUGE_PAGE = 2 << 20 };

static void cpu_destroy(bw_device *device)
{
    bw_team_free(device->team);
    bw_free(device);
}

static bw_status cpu_alloc(bw_device *device, size_t n_bytes, bw_memory_use use, const char *what, bw_buffer *buffer,
                           bw_err *err)
{
    (void)device;
    *buffer = (bw_buffer){.n_bytes = n_bytes};
    if (n_bytes < (size_t)HUGE_PAGE) {
        buffer->data = bw_alloc_aligned(n_bytes);
        return buffer->data ? BW_OK : bw_fail_memory(err, n_bytes, what);
    }
    /* Counted like every other allocation, so that tests can make it fail; freed in cpu_release. */
    void *marker = bw_alloc(1);
    size_t reserved;
    if (!marker || !bw_add_size(n_bytes, HUGE_PAGE - 1, &reserved)) {
        bw_free(marker);
        return bw_fail_memory(err, n_bytes, what);
    }
    bw_free(marker);
    reserved = reserved / HUGE_PAGE * HUGE_PAGE;
    /* One huge page more than needed, so that the start can be aligned to one; the rest is given back. */
    char *data = mmap(NULL, reserved + HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED)
        return bw_fail_memory(err, n_bytes, what);
    size_t skip = (HUGE_PAGE - (size_t)(uintptr_t)data % HUGE_PAGE) % HUGE_PAGE;
    if (skip)
        munmap(data, skip);
    munmap(data + skip + reserved, HUGE_PAGE - skip);
    madvise(data + skip, reserved, use == BW_MEMORY_SPARSE ? MADV_NOHUGEPAGE : MADV_HUGEPAGE);
    buffer->data = data + skip;
    buffer->reserved = reserved;
    return BW_OK;
}

static void cpu_release(bw_device *device, bw_buffer *buffer)
{
    (void)device;
    if (buffer->reserved)
        munmap(buffer->data, buffer->reserved);
    else
        bw_free(buffer->data);
    *buffer = (bw_buffer){0};
}

static bw_status cpu_host_alloc(bw_device *device, size_t n_bytes, const char *what, bw_buffer *buffer, bw_err *err)
{
    return cpu_alloc(device, n_bytes, BW_MEMORY_SPARSE, what, buffer, err);
}

static bw_status cpu_copy(bw_device *device, void *dst, const void *src, size_t n_bytes, bw_err *err)
{
    (void)device;
    (void)err;
    memcpy(dst, src, n_bytes);
    return BW_OK;
}

static bw_status cpu_copy_from(bw_device *device, void *dst, bw_device *src_device, const void *src, size_t n_bytes,
                               bw_err *err)
{
    (void)src_device;
    return cpu_copy(device, dst, src, n_bytes, err);
}

static bw_status cpu_synchronise(bw_device *device, bw_err *err)
{
    (void)device;
    (void)err;
    return BW_OK;
}

/* What programs may still take without swapping: the kernel's own estimate, which counts file pages that can go. */
static int64_t available_bytes(void)
{
    FILE *f = fopen("/proc/meminfo", "re");
    char line[128];
    long long kib = -1;
    while (f && kib < 0 && fgets(line, sizeof line, f))
        if (sscanf(line, "MemAvailable: %lld kB", &kib) != 1)
            kib = -1;
    if (f)
        fclose(f);
    return kib < 0 ? -1 : (int64_t)kib * 1024;
}

static bw_status cpu_memory_info(bw_device *device, int64_t *free_bytes, int64_t *total_bytes, bw_err *err)
{
    (void)device;
    long page = sysconf(_SC_PAGESIZE), total = sysconf(_SC_PHYS_PAGES);
    int64_t available = available_bytes();
    struct sysinfo info; /* where /proc is not there, sysconf may say nothing, or 0 */
    if (page > 0 && total > 0)
        *total_bytes = (int64_t)page * total;
    else if (sysinfo(&info) == 0 && info.totalram > 0)
        *total_bytes = (int64_t)info.totalram * info.mem_unit;
    else
        return bw_fail(err, BW_E_IO, "the size of memory is unknown");
    *free_bytes = available >= 0 && available <= *total_bytes ? available : *total_bytes / 2;
    bw_limits limits;
    bw_limits_read("", &limits);
    if (limits.memory_bytes >= 0 && limits.memory_bytes < *total_bytes)
        *total_bytes = limits.memory_bytes;
    if (limits.memory_free_bytes >= 0 && limits.memory_free_bytes < *free_bytes)
        *free_bytes = limits.memory_free_bytes;
    return BW_OK;
}

static void cpu_rest(bw_device *device)
{
    (void)device;
}

static const bw_device_vtable cpu_vtable = {
    .kind_name = "cpu",
    .destroy = cpu_destroy,
    .alloc = cpu_alloc,
    .release = cpu_release,
    .upload = cpu_copy,
    .download = cpu_copy,
    .copy = cpu_copy,
    .synchronise = cpu_synchronise,
    .memory_info = cpu_memory_info,
    .host_alloc = cpu_host_alloc,
    .host_release = cpu_release,
    .upload_later = cpu_copy,
    .download_later = cpu_copy,
    .copy_from = cpu_copy_from,
    .rest = cpu_rest,
};

static const char *level_name(const bw_cpu_features *f)
{
    if (f->amx_int8)
        return "AVX-512, AMX";
    if (f->avx512_vnni)
        return f->avx512_bf16 ? "AVX-512 VNNI BF16" : "AVX-512 VNNI";
    if (f->avx512)
        return "AVX-512";
    return f->avx2 ? "AVX2" : "baseline";
}

bw_status bw_cpu_open(int n_threads, bw_device **out, bw_err *err)
{
    *out = NULL;
    bw_device *device = bw_alloc_zero(1, sizeof *device);
    if (!device)
        return bw_fail_memory(err, sizeof *device, "a device");
    bw_status status = bw_team_new(n_threads, &device->team, err);
    if (status != BW_OK) {
        bw_free(device);
        return status;
    }
    device->vtable = &cpu_vtable;
    device->kind = BW_DEVICE_CPU;
    device->cpu = bw_cpu_get_features();
    snprintf(device->name, sizeof device->name, "cpu:0");
    int size = bw_team_size(device->team);
    snprintf(device->description, sizeof device->description, "%.40s, %s, %d thread%s", device->cpu->name,
             level_name(device->cpu), size, size == 1 ? "" : "s");
    *out = device;
    return BW_OK;
}
