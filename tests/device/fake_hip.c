/* libamdhip64 as far as driver_hip.c knows it, on host memory: allocations, copies, modules that hold kernels named
 * "known", launches that are counted. Environment: FAKE_HIP_ARCH (gfx90a:sramecc+:xnack-), FAKE_HIP_FAIL (a function's
 * name: that function fails); the R0600 form is always offered. What lives is counted. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../../src/device/driver_hip.h"

#define EXPORT __attribute__((visibility("default")))
enum { INVALID = 1, N_DEVICES = 2 };

EXPORT int fake_hip_launches, fake_hip_live, fake_hip_streams, fake_hip_modules;
static int captures, recorded; /* a graph here is the number of launches that were recorded */
static int module_token, function_token, stream_token;

static int result(const char *function)
{
    const char *fail = getenv("FAKE_HIP_FAIL");
    return fail && strcmp(fail, function) == 0 ? INVALID : 0;
}

#define HIP(name, arguments) EXPORT int name arguments;
BW_HIP_FUNCTIONS
#undef HIP
EXPORT const char *hipGetErrorString(int error);
EXPORT int hipGetDevicePropertiesR0600(void *properties, int device);

const char *hipGetErrorString(int error)
{
    return error == BW_HIP_OUT_OF_MEMORY ? "out of memory" : error == INVALID ? "invalid value" : "no error";
}

int hipInit(unsigned flags)
{
    (void)flags;
    return result("hipInit");
}

int hipGetDeviceCount(int *count)
{
    *count = N_DEVICES;
    return result("hipGetDeviceCount");
}

int hipSetDevice(int device)
{
    return device < 0 || device >= N_DEVICES ? INVALID : result("hipSetDevice");
}

int hipGetDevicePropertiesR0600(void *properties, int device)
{
    const char *arch = getenv("FAKE_HIP_ARCH");
    char *p = properties;
    (void)device;
    strcpy(p, "Fake Instinct");
    memcpy(p + BW_HIP_R0600_SHARED, &(size_t){65536}, sizeof(size_t));
    memcpy(p + BW_HIP_R0600_WAVE, &(int){64}, sizeof(int));
    memcpy(p + BW_HIP_R0600_UNITS, &(int){104}, sizeof(int));
    strcpy(p + BW_HIP_R0600_ARCH, arch ? arch : "gfx90a:sramecc+:xnack-");
    return result("hipGetDeviceProperties");
}

int hipGetDeviceProperties(void *properties, int device)
{
    (void)properties;
    (void)device;
    return INVALID;
}

int hipMalloc(void **address, size_t n_bytes)
{
    if (n_bytes > (size_t)1 << 40)
        return BW_HIP_OUT_OF_MEMORY;
    if (result("hipMalloc"))
        return result("hipMalloc");
    *address = malloc(n_bytes);
    fake_hip_live++;
    return 0;
}

int hipFree(void *address)
{
    free(address);
    fake_hip_live--;
    return 0;
}

int hipMemGetInfo(size_t *free_bytes, size_t *total_bytes)
{
    *free_bytes = (size_t)48 << 30;
    *total_bytes = (size_t)64 << 30;
    return result("hipMemGetInfo");
}

int hipMemcpyAsync(void *dst, const void *src, size_t n_bytes, int kind, void *stream)
{
    if (kind < BW_HIP_HOST_TO_DEVICE || kind > BW_HIP_DEVICE_TO_DEVICE || stream != &stream_token)
        return INVALID;
    memcpy(dst, src, n_bytes);
    return result("hipMemcpyAsync");
}

int hipMemcpyPeerAsync(void *dst, int dst_device, const void *src, int src_device, size_t n_bytes, void *stream)
{
    if (dst_device >= N_DEVICES || src_device >= N_DEVICES || stream != &stream_token)
        return INVALID;
    memcpy(dst, src, n_bytes);
    return result("hipMemcpyPeerAsync");
}

int hipMemsetAsync(void *dst, int value, size_t n_bytes, void *stream)
{
    if (stream != &stream_token)
        return INVALID;
    memset(dst, value, n_bytes);
    return result("hipMemsetAsync");
}

int hipHostMalloc(void **address, size_t n_bytes, unsigned flags)
{
    if (n_bytes > (size_t)1 << 40)
        return BW_HIP_OUT_OF_MEMORY;
    if (flags != 0 || result("hipHostMalloc"))
        return INVALID;
    *address = malloc(n_bytes);
    fake_hip_live++;
    return 0;
}

int hipHostFree(void *address)
{
    return hipFree(address);
}

int hipEventCreateWithFlags(void **event, unsigned flags)
{
    if (flags != 0 || result("hipEventCreateWithFlags"))
        return INVALID;
    *event = malloc(1);
    fake_hip_live++;
    return 0;
}

int hipEventRecord(void *event, void *stream)
{
    return event && stream == &stream_token ? result("hipEventRecord") : INVALID;
}

int hipEventSynchronize(void *event)
{
    return event ? result("hipEventSynchronize") : INVALID;
}

int hipEventElapsedTime(float *ms, void *begin, void *end)
{
    *ms = 1.5f;
    return begin && end ? result("hipEventElapsedTime") : INVALID;
}

int hipEventDestroy(void *event)
{
    return hipFree(event);
}

int hipStreamBeginCapture(void *stream, int mode)
{
    if (captures || stream != &stream_token || mode != BW_HIP_CAPTURE_THREAD_LOCAL)
        return INVALID;
    captures = 1;
    recorded = 0;
    return result("hipStreamBeginCapture");
}

int hipStreamEndCapture(void *stream, void **graph)
{
    if (!captures || stream != &stream_token)
        return INVALID;
    captures = 0;
    if (result("hipStreamEndCapture"))
        return INVALID;
    int *made = malloc(sizeof *made);
    *made = recorded;
    *graph = made;
    fake_hip_live++;
    return 0;
}

int hipGraphInstantiateWithFlags(void **exec, void *graph, unsigned long long flags)
{
    if (flags != 0 || result("hipGraphInstantiateWithFlags"))
        return INVALID;
    int *made = malloc(sizeof *made);
    *made = *(int *)graph;
    *exec = made;
    fake_hip_live++;
    return 0;
}

int hipGraphLaunch(void *exec, void *stream)
{
    fake_hip_launches += *(int *)exec;
    return stream == &stream_token ? result("hipGraphLaunch") : INVALID;
}

int hipGraphExecDestroy(void *exec)
{
    return hipFree(exec);
}

int hipGraphDestroy(void *graph)
{
    return hipFree(graph);
}

int hipStreamCreateWithFlags(void **stream, unsigned flags)
{
    int error = flags == BW_HIP_STREAM_NON_BLOCKING ? result("hipStreamCreateWithFlags") : INVALID;
    if (error)
        return error;
    *stream = &stream_token;
    fake_hip_streams++;
    return 0;
}

int hipStreamDestroy(void *stream)
{
    if (stream != &stream_token)
        return INVALID;
    fake_hip_streams--;
    return 0;
}

int hipStreamSynchronize(void *stream)
{
    return stream == &stream_token ? result("hipStreamSynchronize") : INVALID;
}

int hipModuleLoadData(void **module, const void *image)
{
    int error = memcmp(image, "code", 4) == 0 ? result("hipModuleLoadData") : INVALID;
    if (error)
        return error;
    *module = &module_token;
    fake_hip_modules++;
    return 0;
}

int hipModuleUnload(void *module)
{
    if (module != &module_token)
        return INVALID;
    fake_hip_modules--;
    return 0;
}

int hipModuleGetFunction(void **function, void *module, const char *name)
{
    (void)module;
    *function = &function_token;
    return strncmp(name, "known", 5) == 0 ? result("hipModuleGetFunction") : BW_HIP_NOT_FOUND;
}

int hipModuleLaunchKernel(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                          unsigned block_y, unsigned block_z, unsigned shared_bytes, void *stream, void **args,
                          void **extra)
{
    if (function != &function_token || stream != &stream_token || extra || !args || grid_y * grid_z == 0 ||
        block_y * block_z != 1 || block_x > 1024 || shared_bytes > 65536 ||
        (uint64_t)grid_x * block_x > UINT32_MAX) /* HIP counts a dimension's threads in 32 bits */
        return INVALID;
    if (captures)
        recorded += (int)grid_x;
    else
        fake_hip_launches += (int)grid_x;
    const char *lost = getenv("FAKE_HIP_LOST"); /* the card fails as a bad address makes it fail */
    return lost ? BW_HIP_ILLEGAL_ADDRESS : result("hipModuleLaunchKernel");
}
