/* libamdhip64 as far as driver_hip.c knows it (src/device/driver_hip.h), on host memory and with kernels that run on
 * the processor. One card, "gfxsim32" or "gfxsim64" by its wave; a code object is the text "simgpu FAMILY". Owns
 * memory: every allocation is filled with 0xff and lies between guard zones that are looked at after each launch and
 * when it is freed (an ASan build forbids them instead); refuses copies that leave an allocation, and launches that HIP
 * would refuse. */
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../src/device/driver_hip.h"
#include "simgpu.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SIM_ASAN 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define SIM_ASAN 1
#endif
#if defined(SIM_ASAN)
#include <sanitizer/asan_interface.h>
#endif

#define EXPORT __attribute__((visibility("default")))
enum { INVALID = 1, NO_DEVICE = 100, BAD_IMAGE = 200, BAD_HANDLE = 400, LAUNCH_FAILED = 719, UNITS = 4 };
enum { GUARD = 4096, GUARD_SEEN = 256, GUARD_BYTE = 0xfd }; /* GUARD_SEEN: how much of a guard zone is looked at */
static const size_t total_bytes = (size_t)4 << 30;

#define HIP(name, arguments) EXPORT int name arguments;
BW_HIP_FUNCTIONS
#undef HIP
EXPORT const char *hipGetErrorString(int error);
EXPORT int hipGetDevicePropertiesR0600(void *properties, int device);

typedef struct allocation {
    unsigned char *data; /* [n_bytes], with GUARD bytes on either side */
    size_t n_bytes;
} allocation;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static allocation *allocations; /* [n_allocations], by address */
static size_t n_allocations, used_bytes;
static int stream_token;

const char *hipGetErrorString(int error)
{
    switch (error) {
    case 0:
        return "no error";
    case INVALID:
        return sim_error[0] ? sim_error : "invalid value";
    case BW_HIP_OUT_OF_MEMORY:
        return "out of memory";
    case BAD_IMAGE:
        return "this is no code object of the simulation";
    case LAUNCH_FAILED:
        return sim_error;
    default:
        return "an error of the simulation";
    }
}

int hipInit(unsigned flags)
{
    (void)flags;
    const char *wrong = sim_shared_init();
    if (wrong)
        snprintf(sim_error, sizeof sim_error, "%s", wrong);
    return wrong ? INVALID : 0;
}

int hipGetDeviceCount(int *count)
{
    *count = 1;
    return 0;
}

int hipSetDevice(int device)
{
    return device == 0 ? 0 : NO_DEVICE;
}

int hipGetDevicePropertiesR0600(void *properties, int device)
{
    char *p = properties;
    if (device != 0)
        return NO_DEVICE;
    strcpy(p, "simulated GPU");
    memcpy(p + BW_HIP_R0600_SHARED, &(size_t){SIM_MAX_SHARED}, sizeof(size_t));
    memcpy(p + BW_HIP_R0600_WAVE, &(int){SIM_WAVE}, sizeof(int));
    memcpy(p + BW_HIP_R0600_UNITS, &(int){UNITS}, sizeof(int));
    snprintf(p + BW_HIP_R0600_ARCH, 32, "gfxsim%d", SIM_WAVE);
    return 0;
}

int hipGetDeviceProperties(void *properties, int device)
{
    (void)properties;
    (void)device;
    return INVALID;
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

/* The place of the first allocation that begins above this address. */
static size_t place_above(const unsigned char *address)
{
    size_t low = 0, high = n_allocations;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (allocations[middle].data <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void guard(const allocation *a)
{
#if defined(SIM_ASAN)
    __asan_poison_memory_region(a->data - GUARD, GUARD);
    __asan_poison_memory_region(a->data + a->n_bytes, GUARD);
#else
    memset(a->data - GUARD, GUARD_BYTE, GUARD);
    memset(a->data + a->n_bytes, GUARD_BYTE, GUARD);
#endif
}

/* Whether the guard zones are as they were; says so if not. */
static bool is_whole(const allocation *a, const char *when)
{
#if defined(SIM_ASAN)
    (void)a;
    (void)when;
#else
    for (int i = 1; i <= GUARD_SEEN; i++)
        if (a->data[-i] != GUARD_BYTE || a->data[a->n_bytes + (size_t)i - 1] != GUARD_BYTE) {
            snprintf(sim_error, sizeof sim_error, "%s: memory around an allocation of %zu bytes was written, byte %lld",
                     when, a->n_bytes, a->data[-i] != GUARD_BYTE ? -(long long)i : (long long)a->n_bytes + i - 1);
            return false;
        }
#endif
    return true;
}

static int allocate(void **address, size_t n_bytes)
{
    if (n_bytes > total_bytes - used_bytes)
        return BW_HIP_OUT_OF_MEMORY;
    allocation *grown = realloc(allocations, (n_allocations + 1) * sizeof *allocations);
    if (!grown)
        return BW_HIP_OUT_OF_MEMORY;
    allocations = grown;
    void *memory = NULL;
    if (posix_memalign(&memory, GUARD, n_bytes + 2 * GUARD) != 0)
        return BW_HIP_OUT_OF_MEMORY;
    allocation a = {.data = (unsigned char *)memory + GUARD, .n_bytes = n_bytes};
    memset(a.data, 0xff, n_bytes);
    guard(&a);
    size_t at = place_above(a.data);
    memmove(allocations + at + 1, allocations + at, (n_allocations - at) * sizeof *allocations);
    allocations[at] = a;
    n_allocations++;
    used_bytes += n_bytes;
    *address = a.data;
    return 0;
}

static int release(void *address)
{
    size_t at = place_above(address);
    if (at == 0 || allocations[at - 1].data != address)
        return INVALID;
    allocation a = allocations[at - 1];
    bool whole = is_whole(&a, "free");
#if defined(SIM_ASAN)
    __asan_unpoison_memory_region(a.data - GUARD, a.n_bytes + 2 * GUARD);
#endif
    free(a.data - GUARD);
    used_bytes -= a.n_bytes;
    n_allocations--;
    memmove(allocations + at - 1, allocations + at, (n_allocations - at + 1) * sizeof *allocations);
    return whole ? 0 : LAUNCH_FAILED;
}

int hipMalloc(void **address, size_t n_bytes)
{
    pthread_mutex_lock(&lock);
    int error = allocate(address, n_bytes);
    pthread_mutex_unlock(&lock);
    return error;
}

int hipFree(void *address)
{
    pthread_mutex_lock(&lock);
    int error = address ? release(address) : 0;
    pthread_mutex_unlock(&lock);
    return error;
}

int hipMemGetInfo(size_t *free_bytes, size_t *total)
{
    *free_bytes = total_bytes - used_bytes;
    *total = total_bytes;
    return 0;
}

/* Whether all of it lies in one allocation (or none of it does, for memory of the host). */
static bool is_device(const void *address, size_t n_bytes)
{
    size_t at = place_above(address);
    if (at == 0)
        return false;
    const allocation *a = &allocations[at - 1];
    size_t offset = (size_t)((const unsigned char *)address - a->data);
    return offset <= a->n_bytes && n_bytes <= a->n_bytes - offset;
}

int hipMemcpyAsync(void *dst, const void *src, size_t n_bytes, int kind, void *stream)
{
    if (kind < BW_HIP_HOST_TO_DEVICE || kind > BW_HIP_DEVICE_TO_DEVICE || stream != &stream_token)
        return INVALID;
    pthread_mutex_lock(&lock);
    bool good = is_device(dst, n_bytes) == (kind != BW_HIP_DEVICE_TO_HOST) &&
                is_device(src, n_bytes) == (kind != BW_HIP_HOST_TO_DEVICE);
    if (good)
        memmove(dst, src, n_bytes);
    else
        snprintf(sim_error, sizeof sim_error, "a copy of %zu bytes leaves its allocation", n_bytes);
    pthread_mutex_unlock(&lock);
    return good ? 0 : INVALID;
}

/* ---- streams, modules, launches ---------------------------------------------------------------------------------- */

int hipStreamCreateWithFlags(void **stream, unsigned flags)
{
    *stream = &stream_token;
    return flags == BW_HIP_STREAM_NON_BLOCKING ? 0 : INVALID;
}

int hipStreamDestroy(void *stream)
{
    return stream == &stream_token ? 0 : INVALID;
}

int hipStreamSynchronize(void *stream)
{
    return stream == &stream_token ? 0 : INVALID;
}

int hipModuleLoadData(void **module, const void *image)
{
    const char *text = image;
    if (strncmp(text, "simgpu ", 7) != 0)
        return BAD_IMAGE;
    for (int i = 0; i < sim_n_families; i++) {
        size_t n = strlen(sim_families[i]->name);
        if (strncmp(text + 7, sim_families[i]->name, n) == 0 && (unsigned char)text[7 + n] <= ' ') {
            *module = (void *)(uintptr_t)sim_families[i];
            return 0;
        }
    }
    return BAD_IMAGE;
}

int hipModuleUnload(void *module)
{
    return module ? 0 : BAD_HANDLE;
}

int hipModuleGetFunction(void **function, void *module, const char *name)
{
    const sim_family *family = module;
    for (int i = 0; i < family->n_kernels; i++)
        if (strcmp(family->kernels[i].name, name) == 0) {
            *function = (void *)(uintptr_t)&family->kernels[i];
            return 0;
        }
    return BW_HIP_NOT_FOUND;
}

int hipModuleLaunchKernel(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                          unsigned block_y, unsigned block_z, unsigned shared_bytes, void *stream, void **args,
                          void **extra)
{
    const sim_kernel *kernel = function;
    unsigned grid[3] = {grid_x, grid_y, grid_z};
    if (stream != &stream_token || extra || !args)
        return INVALID;
    pthread_mutex_lock(&lock);
    int error = 0;
    if (grid_x == 0 || grid_y == 0 || grid_z == 0 || block_y * block_z != 1 || block_x == 0 ||
        block_x > (unsigned)kernel->max_threads || (uint64_t)grid_x * block_x > UINT32_MAX || grid_y > 65535 ||
        grid_z > 65535 || shared_bytes > SIM_MAX_SHARED) {
        snprintf(sim_error, sizeof sim_error,
                 "%s: no card takes %u,%u,%u workgroups of %u threads (at most %d) and %u bytes", kernel->name, grid_x,
                 grid_y, grid_z, block_x, kernel->max_threads, shared_bytes);
        error = INVALID;
    } else {
        error = sim_launch(kernel, grid, block_x, shared_bytes, args);
        for (size_t i = 0; i < n_allocations && !error; i++)
            if (!is_whole(&allocations[i], kernel->name)) {
                guard(&allocations[i]);
                error = LAUNCH_FAILED;
            }
    }
    pthread_mutex_unlock(&lock);
    return error;
}
