/* libamdhip64 as far as driver_hip.c knows it, on host memory: allocations, copies, modules that hold kernels named
 * "known", launches that are counted. Environment: FAKE_HIP_ARCH (gfx90a:sramecc+:xnack-), FAKE_HIP_FAIL (a function's
 * name: that function fails), FAKE_HIP_HANG_MS (hipInit takes so long), FAKE_HIP_KERNELS (any: modules hold whatever is
 * asked for), FAKE_HIP_CARDS (for each card memory in GiB, whether integrated, target: "64,0,gfx90a 16,1,gfx1103"); the
 * R0600 form is always offered. What lives is counted; fake_hip_left allocations succeed, then there is no memory, as
 * there is none while fake_hip_room of them live (below 0: there always is). */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../src/device/driver_hip.h"

#define EXPORT __attribute__((visibility("default")))
enum { INVALID = 1, N_DEVICES = 2 };

EXPORT int fake_hip_launches, fake_hip_live, fake_hip_streams, fake_hip_modules, fake_hip_left = -1, fake_hip_room = -1;
static int captures, recorded; /* a graph here is the number of launches that were recorded */
static int module_token, function_token, stream_token;

/* Everything that lives, so that nothing is lost to a leak checker which a lost device keeps. */
enum { MOST_LIVE = 65536 };
static void *lives[MOST_LIVE];

static int make(void **address, size_t n_bytes)
{
    if (n_bytes > (size_t)1 << 40 || fake_hip_left == 0 || fake_hip_live == MOST_LIVE || fake_hip_live == fake_hip_room)
        return BW_HIP_OUT_OF_MEMORY;
    if (fake_hip_left > 0)
        fake_hip_left--;
    *address = malloc(n_bytes ? n_bytes : 1);
    lives[fake_hip_live++] = *address;
    return *address ? 0 : BW_HIP_OUT_OF_MEMORY;
}

/* What a process leaves behind. */
EXPORT void fake_hip_end(void);
void fake_hip_end(void)
{
    while (fake_hip_live > 0)
        free(lives[--fake_hip_live]);
    fake_hip_streams = fake_hip_modules = 0;
}

static int result(const char *function)
{
    const char *fail = getenv("FAKE_HIP_FAIL");
    return fail && strcmp(fail, function) == 0 ? INVALID : 0;
}

#define HIP(name, arguments) EXPORT int name arguments;
BW_HIP_FUNCTIONS
BW_HIP_OPTIONAL_FUNCTIONS
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
    const char *hang = getenv("FAKE_HIP_HANG_MS");
    for (int ms = hang ? atoi(hang) : 0; ms > 0; ms -= 10)
        usleep(10000);
    return result("hipInit");
}

/* How many cards there are; memory, integrated and target of card `device` when it is one of them. */
static int cards(int device, size_t *memory, int *integrated, char arch[32])
{
    const char *text = getenv("FAKE_HIP_CARDS"), *all = getenv("FAKE_HIP_ARCH");
    *memory = (size_t)64 << 30;
    *integrated = 0;
    snprintf(arch, 32, "%s", all ? all : "gfx90a:sramecc+:xnack-");
    if (!text)
        return N_DEVICES;
    size_t gib;
    char one[32];
    int n = 0, flag, length;
    for (; sscanf(text, "%zu,%d,%31[^ ]%n", &gib, &flag, one, &length) == 3; n++) {
        text += length;
        if (n != device)
            continue;
        *memory = gib << 30;
        *integrated = flag;
        memcpy(arch, one, 32);
    }
    return n;
}

EXPORT int hipRuntimeGetVersion(int *version);
EXPORT int hipDriverGetVersion(int *version);

int hipRuntimeGetVersion(int *version)
{
    *version = 60032831;
    return 0;
}

int hipDriverGetVersion(int *version)
{
    *version = 60032830;
    return result("hipDriverGetVersion");
}

int hipGetDeviceCount(int *count)
{
    size_t memory;
    int integrated;
    char arch[32];
    *count = cards(0, &memory, &integrated, arch);
    return result("hipGetDeviceCount");
}

int hipSetDevice(int device)
{
    return device < 0 || device >= N_DEVICES ? INVALID : result("hipSetDevice");
}

int hipGetDevicePropertiesR0600(void *properties, int device)
{
    char *p = properties, arch[32];
    size_t memory;
    int integrated;
    cards(device, &memory, &integrated, arch);
    strcpy(p, "Fake Instinct");
    memcpy(p + BW_HIP_R0600_MEMORY, &memory, sizeof memory);
    memcpy(p + BW_HIP_R0600_INTEGRATED, &integrated, sizeof integrated);
    memcpy(p + BW_HIP_R0600_SHARED, &(size_t){65536}, sizeof(size_t));
    memcpy(p + BW_HIP_R0600_WAVE, &(int){64}, sizeof(int));
    memcpy(p + BW_HIP_R0600_UNITS, &(int){104}, sizeof(int));
    strcpy(p + BW_HIP_R0600_ARCH, arch);
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
    int error = result("hipMalloc");
    return error ? error : make(address, n_bytes);
}

int hipFree(void *address)
{
    int i = fake_hip_live - 1;
    while (i >= 0 && lives[i] != address)
        i--;
    if (i < 0)
        return INVALID;
    lives[i] = lives[--fake_hip_live];
    free(address);
    return 0;
}

/* As the real one, memory of its own kind: fake_hip_ordered counts what is alive. What is freed stays with the card
 * until its stream is waited for. */
enum { MOST_WAITING = 64 };
EXPORT int fake_hip_ordered;
static void *waiting[MOST_WAITING];
static int n_waiting;
int hipMallocAsync(void **address, size_t n_bytes, void *stream)
{
    int error = stream == &stream_token ? result("hipMallocAsync") : INVALID;
    if (!error)
        error = make(address, n_bytes);
    fake_hip_ordered += !error;
    return error;
}

int hipFreeAsync(void *address, void *stream)
{
    int error = stream == &stream_token ? result("hipFreeAsync") : INVALID;
    fake_hip_ordered -= !error;
    if (error || n_waiting == MOST_WAITING)
        return error ? error : hipFree(address);
    waiting[n_waiting++] = address;
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
    return flags != 0 || result("hipHostMalloc") ? INVALID : make(address, n_bytes);
}

int hipHostFree(void *address)
{
    return hipFree(address);
}

int hipEventCreateWithFlags(void **event, unsigned flags)
{
    return flags != 0 || result("hipEventCreateWithFlags") ? INVALID : make(event, 1);
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
    int error = make(graph, sizeof(int));
    if (!error)
        *(int *)*graph = recorded;
    return error;
}

int hipGraphInstantiateWithFlags(void **exec, void *graph, unsigned long long flags)
{
    if (flags != 0 || result("hipGraphInstantiateWithFlags"))
        return INVALID;
    int error = make(exec, sizeof(int));
    if (!error)
        *(int *)*exec = *(int *)graph;
    return error;
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
    int error = stream == &stream_token ? result("hipStreamSynchronize") : INVALID;
    while (!error && n_waiting > 0)
        hipFree(waiting[--n_waiting]);
    return error;
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
    return strncmp(name, "known", 5) == 0 || getenv("FAKE_HIP_KERNELS") ? result("hipModuleGetFunction")
                                                                        : BW_HIP_NOT_FOUND;
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
