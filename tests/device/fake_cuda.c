/* libcuda as far as driver_cuda.c knows it: the same host memory, counts and failures as fake_hip.c, under CUDA's names
 * (FAKE_HIP_FAIL names HIP's functions, or one of CUDA's that HIP lacks). Two cards "Fake Hopper", sm_90. A launch with
 * more than 48 KiB of shared memory fails unless that was announced. */
#include "fake_hip.c"

#include "../../src/device/driver_cuda.h"

#define CU(name, arguments) EXPORT int name arguments;
BW_CU_FUNCTIONS
BW_CU_OPTIONAL_FUNCTIONS
#undef CU
EXPORT int fake_cuda_announced, fake_cuda_contexts, fake_cuda_limits;
static int context_token, announced_bytes;

int cuInit(unsigned flags)
{
    return hipInit(flags);
}

int cuDeviceGetCount(int *count)
{
    *count = N_DEVICES;
    return result("hipGetDeviceCount");
}

int cuDeviceGet(int *device, int index)
{
    *device = index;
    return index < 0 || index >= N_DEVICES ? INVALID : result("cuDeviceGet");
}

int cuDeviceTotalMem_v2(size_t *n_bytes, int device)
{
    (void)device;
    *n_bytes = (size_t)80 << 30;
    return result("cuDeviceTotalMem_v2");
}

int cuDriverGetVersion(int *version)
{
    *version = 13020;
    return result("cuDriverGetVersion");
}

int cuDeviceGetName(char *name, int n, int device)
{
    (void)device;
    snprintf(name, (size_t)n, "Fake Hopper");
    return result("cuDeviceGetName");
}

int cuDeviceGetAttribute(int *value, int attribute, int device)
{
    (void)device;
    char name[40];
    *value = attribute == BW_CU_MAJOR              ? 9
             : attribute == BW_CU_MINOR            ? 0
             : attribute == BW_CU_MULTIPROCESSORS  ? 132
             : attribute == BW_CU_MAX_SHARED_OPTIN ? 227 << 10
             : attribute == BW_CU_INTEGRATED       ? 0
                                                   : -1;
    snprintf(name, sizeof name, "cuDeviceGetAttribute %d", attribute);
    return *value < 0 ? INVALID : result(name);
}

int cuDevicePrimaryCtxRetain(void **context, int device)
{
    (void)device;
    if (result("cuDevicePrimaryCtxRetain"))
        return INVALID;
    *context = &context_token;
    fake_cuda_contexts++;
    return 0;
}

int cuDevicePrimaryCtxRelease_v2(int device)
{
    fake_cuda_contexts--;
    return device < 0 ? INVALID : 0;
}

int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active)
{
    (void)device;
    *flags = 0;
    *active = fake_cuda_contexts > 0;
    return result("cuDevicePrimaryCtxGetState");
}

int cuCtxSetLimit(int limit, size_t value)
{
    if (limit != BW_CU_LIMIT_STACK_SIZE || value != 0)
        return INVALID;
    fake_cuda_limits++;
    return result("cuCtxSetLimit");
}

int cuCtxSetCurrent(void *context)
{
    return context == &context_token ? result("cuCtxSetCurrent") : INVALID;
}

int cuMemAlloc_v2(unsigned long long *address, size_t n_bytes)
{
    void *memory = NULL;
    int error = hipMalloc(&memory, n_bytes);
    *address = (uintptr_t)memory;
    return error;
}

int cuMemFree_v2(unsigned long long address)
{
    return hipFree((void *)(uintptr_t)address);
}

int cuMemAllocAsync(unsigned long long *address, size_t n_bytes, void *stream)
{
    void *memory = NULL;
    int error = hipMallocAsync(&memory, n_bytes, stream);
    *address = (uintptr_t)memory;
    return error;
}

int cuMemFreeAsync(unsigned long long address, void *stream)
{
    return hipFreeAsync((void *)(uintptr_t)address, stream);
}

int cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes)
{
    return hipMemGetInfo(free_bytes, total_bytes);
}

int cuMemcpyHtoDAsync_v2(unsigned long long dst, const void *src, size_t n_bytes, void *stream)
{
    return hipMemcpyAsync((void *)(uintptr_t)dst, src, n_bytes, BW_HIP_HOST_TO_DEVICE, stream);
}

int cuMemcpyDtoHAsync_v2(void *dst, unsigned long long src, size_t n_bytes, void *stream)
{
    return hipMemcpyAsync(dst, (void *)(uintptr_t)src, n_bytes, BW_HIP_DEVICE_TO_HOST, stream);
}

int cuMemcpyDtoDAsync_v2(unsigned long long dst, unsigned long long src, size_t n_bytes, void *stream)
{
    return hipMemcpyAsync((void *)(uintptr_t)dst, (void *)(uintptr_t)src, n_bytes, BW_HIP_DEVICE_TO_DEVICE, stream);
}

int cuMemcpyPeerAsync(unsigned long long dst, void *dst_context, unsigned long long src, void *src_context,
                      size_t n_bytes, void *stream)
{
    if (dst_context != &context_token || src_context != &context_token)
        return INVALID;
    return hipMemcpyPeerAsync((void *)(uintptr_t)dst, 0, (void *)(uintptr_t)src, 1, n_bytes, stream);
}

int cuMemsetD8Async(unsigned long long dst, unsigned char byte, size_t n_bytes, void *stream)
{
    return hipMemsetAsync((void *)(uintptr_t)dst, byte, n_bytes, stream);
}

int cuMemHostAlloc(void **address, size_t n_bytes, unsigned flags)
{
    return hipHostMalloc(address, n_bytes, flags);
}

int cuMemFreeHost(void *address)
{
    return hipHostFree(address);
}

int cuEventCreate(void **event, unsigned flags)
{
    return hipEventCreateWithFlags(event, flags);
}

int cuEventRecord(void *event, void *stream)
{
    return hipEventRecord(event, stream);
}

int cuEventSynchronize(void *event)
{
    return hipEventSynchronize(event);
}

int cuEventElapsedTime(float *ms, void *begin, void *end)
{
    return hipEventElapsedTime(ms, begin, end);
}

int cuEventDestroy_v2(void *event)
{
    return hipEventDestroy(event);
}

int cuStreamBeginCapture_v2(void *stream, int mode)
{
    return hipStreamBeginCapture(stream, mode == BW_CU_CAPTURE_THREAD_LOCAL ? BW_HIP_CAPTURE_THREAD_LOCAL : -1);
}

int cuStreamEndCapture(void *stream, void **graph)
{
    return hipStreamEndCapture(stream, graph);
}

int cuGraphInstantiateWithFlags(void **exec, void *graph, unsigned long long flags)
{
    return hipGraphInstantiateWithFlags(exec, graph, flags);
}

int cuGraphLaunch(void *exec, void *stream)
{
    return hipGraphLaunch(exec, stream);
}

int cuGraphExecDestroy(void *exec)
{
    return hipGraphExecDestroy(exec);
}

int cuGraphDestroy(void *graph)
{
    return hipGraphDestroy(graph);
}

int cuStreamCreate(void **stream, unsigned flags)
{
    return hipStreamCreateWithFlags(stream, flags == 1 ? BW_HIP_STREAM_NON_BLOCKING : 99);
}

int cuStreamDestroy_v2(void *stream)
{
    return hipStreamDestroy(stream);
}

int cuStreamSynchronize(void *stream)
{
    return hipStreamSynchronize(stream);
}

int cuModuleLoadData(void **module, const void *image)
{
    return hipModuleLoadData(module, image);
}

int cuModuleUnload(void *module)
{
    return hipModuleUnload(module);
}

int cuModuleGetFunction(void **function, void *module, const char *name)
{
    return hipModuleGetFunction(function, module, name);
}

int cuFuncSetAttribute(void *function, int attribute, int value)
{
    if (function != &function_token || attribute != BW_CU_MAX_DYNAMIC_SHARED || value > 227 << 10)
        return INVALID;
    fake_cuda_announced++;
    announced_bytes = value;
    return result("cuFuncSetAttribute");
}

int cuLaunchKernel(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                   unsigned block_y, unsigned block_z, unsigned shared_bytes, void *stream, void **args, void **extra)
{
    if (shared_bytes > 48 << 10 && (int)shared_bytes > announced_bytes)
        return INVALID;
    return hipModuleLaunchKernel(function, grid_x, grid_y, grid_z, block_x, block_y, block_z,
                                 shared_bytes > 48 << 10 ? 0 : shared_bytes, stream, args, extra);
}

int cuGetErrorString(int error, const char **text)
{
    *text = error == 1000 ? NULL : hipGetErrorString(error);
    return 0;
}
