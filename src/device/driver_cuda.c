/* The CUDA driver API behind the GPU table, by dlopen: nothing of NVIDIA's is needed to build or to start.
 * BW_CUDA_LIBRARY names another library in place of libcuda.so.1 (tests use it). Signatures
 * and constants: cuda.h of CUDA 13.0; the graph functions are those of CUDA 11.4, the others exist since CUDA 4
 * or earlier under the names given here. */
#include "gpu_driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "driver_cuda.h"

static struct {
#define CU(name, arguments) int(*name) arguments;
    BW_CU_FUNCTIONS
    BW_CU_OPTIONAL_FUNCTIONS
#undef CU
} cu;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static bw_err load_error;
static char library_name[128]; /* the one that was loaded */

static void load_once(void)
{
    const char *name = getenv("BW_CUDA_LIBRARY");
    if (!name || !*name)
        name = "libcuda.so.1";
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        bw_fail(&load_error, BW_E_DEVICE,
                "%s cannot be loaded: no NVIDIA driver is installed here, or the container was not given it", name);
        return;
    }
    snprintf(library_name, sizeof library_name, "%s", name);
    const char *missing = NULL;
#define CU(name, arguments)                                                                                            \
    *(void **)&cu.name = dlsym(library, #name);                                                                        \
    if (!cu.name)                                                                                                      \
        missing = #name;
    BW_CU_FUNCTIONS
#undef CU
#define CU(name, arguments) *(void **)&cu.name = dlsym(library, #name);
    BW_CU_OPTIONAL_FUNCTIONS
#undef CU
    if (missing) {
        bw_fail(&load_error, BW_E_DEVICE, "%s lacks %s: its driver is too old; install a newer one", name, missing);
        return;
    }
    int error = cu.cuInit(0);
    const char *text = NULL;
    if (error) {
        cu.cuGetErrorString(error, &text);
        bw_fail(&load_error, BW_E_DEVICE, "the NVIDIA driver does not start: %s", text ? text : "unknown error");
    }
}

static bw_status cuda_load(bw_err *err)
{
    pthread_once(&once, load_once);
    if (load_error.status != BW_OK && err)
        *err = load_error;
    return load_error.status;
}

static bw_cu_address address_of(const void *p)
{
    return (bw_cu_address)(uintptr_t)p;
}

static int cuda_count(int *n)
{
    return cu.cuDeviceGetCount(n);
}

static const char *cuda_library(void)
{
    return library_name;
}

/* 13000 is 13.0: the newest CUDA that the driver serves. The driver's own version stands in /proc (probe.c). */
static void cuda_versions(char runtime[32], char driver[32])
{
    int v = 0;
    (void)driver;
    if (cu.cuDriverGetVersion && cu.cuDriverGetVersion(&v) == 0 && v > 0)
        snprintf(runtime, 32, "%d.%d", v / 1000, v % 1000 / 10);
}

static int cuda_describe(int index, bw_gpu_info *info)
{
    int device, major = 0, minor = 0, shared = 0, integrated = 0;
    size_t memory = 0;
    int error = cu.cuDeviceGet(&device, index);
    if (!error)
        error = cu.cuDeviceGetName(info->name, sizeof info->name, device);
    if (!error)
        error = cu.cuDeviceTotalMem_v2(&memory, device);
    if (!error)
        error = cu.cuDeviceGetAttribute(&major, BW_CU_MAJOR, device);
    if (!error)
        error = cu.cuDeviceGetAttribute(&minor, BW_CU_MINOR, device);
    if (!error)
        error = cu.cuDeviceGetAttribute(&info->units, BW_CU_MULTIPROCESSORS, device);
    if (!error)
        error = cu.cuDeviceGetAttribute(&shared, BW_CU_MAX_SHARED_OPTIN, device);
    if (!error)
        error = cu.cuDeviceGetAttribute(&integrated, BW_CU_INTEGRATED, device);
    info->memory_bytes = (int64_t)memory;
    info->integrated = integrated != 0;
    info->shared_bytes_per_block = shared;
    info->wave = 32;
    snprintf(info->target, sizeof info->target, "sm_%d%d", major, minor);
    return error;
}

/* No kernel of ours has a stack, and for those that have one of known size the driver makes room when they are
 * launched. What it sets aside without being asked is 1 KiB for each thread that fits on the card: 264 MiB on an H100.
 * Where somebody else in this process uses the card already, it is theirs and stays. */
static int cuda_open(int index, void **context, bw_gpu_info *info)
{
    unsigned flags;
    int device, is_in_use = 1, error = cuda_describe(index, info);
    if (!error)
        error = cu.cuDeviceGet(&device, index);
    if (!error)
        error = cu.cuDevicePrimaryCtxGetState(device, &flags, &is_in_use);
    if (!error)
        error = cu.cuDevicePrimaryCtxRetain(context, device);
    if (!error && !is_in_use && cu.cuCtxSetCurrent(*context) == BW_CU_SUCCESS)
        cu.cuCtxSetLimit(BW_CU_LIMIT_STACK_SIZE, 0); /* it works as well with more */
    return error;
}

static void cuda_close(int index, void *context)
{
    (void)context;
    int device;
    if (cu.cuDeviceGet(&device, index) == BW_CU_SUCCESS)
        cu.cuDevicePrimaryCtxRelease_v2(device);
}

static int cuda_make_current(void *context)
{
    return cu.cuCtxSetCurrent(context);
}

static int cuda_alloc(size_t n_bytes, void **address)
{
    bw_cu_address a = 0;
    int error = cu.cuMemAlloc_v2(&a, n_bytes);
    *address = (void *)(uintptr_t)a;
    return error;
}

static int cuda_release(void *address)
{
    return cu.cuMemFree_v2(address_of(address));
}

static int cuda_alloc_later(size_t n_bytes, void **address, void *stream)
{
    bw_cu_address a = 0;
    int error = BW_CU_NOT_SUPPORTED;
    if (cu.cuMemAllocAsync && cu.cuMemFreeAsync)
        error = cu.cuMemAllocAsync(&a, n_bytes, stream);
    *address = (void *)(uintptr_t)a;
    return error;
}

static int cuda_release_later(void *address, void *stream)
{
    return cu.cuMemFreeAsync(address_of(address), stream);
}

static int cuda_upload(void *dst, const void *host_src, size_t n_bytes, void *stream)
{
    /* From pageable memory the copy alone returns when the source has been read, from pinned memory it does not. */
    int error = cu.cuMemcpyHtoDAsync_v2(address_of(dst), host_src, n_bytes, stream);
    return error ? error : cu.cuStreamSynchronize(stream);
}

static int cuda_download(void *host_dst, const void *src, size_t n_bytes, void *stream)
{
    int error = cu.cuMemcpyDtoHAsync_v2(host_dst, address_of(src), n_bytes, stream);
    return error ? error : cu.cuStreamSynchronize(stream);
}

static int cuda_copy(void *dst, const void *src, size_t n_bytes, void *stream)
{
    return cu.cuMemcpyDtoDAsync_v2(address_of(dst), address_of(src), n_bytes, stream);
}

static int cuda_copy_peer(void *dst, int dst_index, void *dst_context, const void *src, int src_index,
                          void *src_context, size_t n_bytes, void *stream)
{
    (void)dst_index;
    (void)src_index;
    return cu.cuMemcpyPeerAsync(address_of(dst), dst_context, address_of(src), src_context, n_bytes, stream);
}

static int cuda_fill(void *dst, int byte, size_t n_bytes, void *stream)
{
    return cu.cuMemsetD8Async(address_of(dst), (unsigned char)byte, n_bytes, stream);
}

static int cuda_host_alloc(size_t n_bytes, void **address)
{
    return cu.cuMemHostAlloc(address, n_bytes, 0);
}

static int cuda_host_release(void *address)
{
    return cu.cuMemFreeHost(address);
}

static int cuda_upload_later(void *dst, const void *host_src, size_t n_bytes, void *stream)
{
    return cu.cuMemcpyHtoDAsync_v2(address_of(dst), host_src, n_bytes, stream);
}

static int cuda_download_later(void *host_dst, const void *src, size_t n_bytes, void *stream)
{
    return cu.cuMemcpyDtoHAsync_v2(host_dst, address_of(src), n_bytes, stream);
}

static int cuda_event_new(void **event)
{
    return cu.cuEventCreate(event, 0);
}

static void cuda_event_free(void *event)
{
    cu.cuEventDestroy_v2(event);
}

static int cuda_event_record(void *event, void *stream)
{
    return cu.cuEventRecord(event, stream);
}

static int cuda_event_wait(void *event)
{
    return cu.cuEventSynchronize(event);
}

static int cuda_event_elapsed(float *ms, void *begin, void *end)
{
    return cu.cuEventElapsedTime(ms, begin, end);
}

static int cuda_capture_begin(void *stream)
{
    return cu.cuStreamBeginCapture_v2(stream, BW_CU_CAPTURE_THREAD_LOCAL);
}

static int cuda_capture_end(void *stream, void **graph)
{
    void *recorded = NULL;
    *graph = NULL;
    int error = cu.cuStreamEndCapture(stream, &recorded);
    if (!error)
        error = cu.cuGraphInstantiateWithFlags(graph, recorded, 0);
    if (recorded)
        cu.cuGraphDestroy(recorded);
    return error;
}

static int cuda_graph_launch(void *graph, void *stream)
{
    return cu.cuGraphLaunch(graph, stream);
}

static void cuda_graph_free(void *graph)
{
    cu.cuGraphExecDestroy(graph);
}

static int cuda_memory_info(size_t *free_bytes, size_t *total_bytes)
{
    return cu.cuMemGetInfo_v2(free_bytes, total_bytes);
}

static int cuda_stream_new(void **stream)
{
    return cu.cuStreamCreate(stream, 1 /* does not wait for the legacy default stream */);
}

static void cuda_stream_free(void *stream)
{
    cu.cuStreamDestroy_v2(stream);
}

static int cuda_synchronise(void *stream)
{
    return cu.cuStreamSynchronize(stream);
}

static int cuda_module_load(const void *image, void **module)
{
    return cu.cuModuleLoadData(module, image);
}

static void cuda_module_free(void *module)
{
    cu.cuModuleUnload(module);
}

static int cuda_find(void *module, const char *name, void **function)
{
    int error = cu.cuModuleGetFunction(function, module, name);
    return error == BW_CU_NOT_FOUND ? BW_GPU_NOT_FOUND : error;
}

static int cuda_allow_shared(void *function, uint32_t n_bytes)
{
    return cu.cuFuncSetAttribute(function, BW_CU_MAX_DYNAMIC_SHARED, (int)n_bytes);
}

static int cuda_launch(void *function, const bw_gpu_grid *grid, void *stream, void **args)
{
    return cu.cuLaunchKernel(function, grid->blocks[0], grid->blocks[1], grid->blocks[2], grid->threads, 1, 1,
                             grid->shared_bytes, stream, args, NULL);
}

static const char *cuda_error_text(int error)
{
    const char *text = NULL;
    cu.cuGetErrorString(error, &text);
    return text ? text : "unknown error";
}

static bool cuda_is_out_of_memory(int error)
{
    return error == BW_CU_OUT_OF_MEMORY;
}

static bool cuda_is_lost(int error)
{
    return error == BW_CU_DEVICE_UNAVAILABLE || error == BW_CU_ECC_UNCORRECTABLE ||
           error == BW_CU_NVLINK_UNCORRECTABLE || error == BW_CU_ILLEGAL_ADDRESS || error == BW_CU_LAUNCH_TIMEOUT ||
           error == BW_CU_CONTEXT_IS_DESTROYED || error == BW_CU_ASSERT ||
           (error >= BW_CU_HARDWARE_STACK_ERROR && error <= BW_CU_LAUNCH_FAILED);
}

const bw_gpu_driver bw_gpu_driver_cuda = {
    .kind_name = "cuda",
    .kind = BW_DEVICE_CUDA,
    .load = cuda_load,
    .count = cuda_count,
    .library = cuda_library,
    .versions = cuda_versions,
    .describe = cuda_describe,
    .open = cuda_open,
    .close = cuda_close,
    .make_current = cuda_make_current,
    .alloc = cuda_alloc,
    .release = cuda_release,
    .alloc_later = cuda_alloc_later,
    .release_later = cuda_release_later,
    .upload = cuda_upload,
    .download = cuda_download,
    .copy = cuda_copy,
    .copy_peer = cuda_copy_peer,
    .fill = cuda_fill,
    .host_alloc = cuda_host_alloc,
    .host_release = cuda_host_release,
    .upload_later = cuda_upload_later,
    .download_later = cuda_download_later,
    .event_new = cuda_event_new,
    .event_free = cuda_event_free,
    .event_record = cuda_event_record,
    .event_wait = cuda_event_wait,
    .event_elapsed = cuda_event_elapsed,
    .capture_begin = cuda_capture_begin,
    .capture_end = cuda_capture_end,
    .graph_launch = cuda_graph_launch,
    .graph_free = cuda_graph_free,
    .memory_info = cuda_memory_info,
    .stream_new = cuda_stream_new,
    .stream_free = cuda_stream_free,
    .synchronise = cuda_synchronise,
    .module_load = cuda_module_load,
    .module_free = cuda_module_free,
    .find = cuda_find,
    .allow_shared = cuda_allow_shared,
    .launch = cuda_launch,
    .error_text = cuda_error_text,
    .is_out_of_memory = cuda_is_out_of_memory,
    .is_lost = cuda_is_lost,
};
