/* The HIP module API behind the GPU table, by dlopen: nothing of ROCm's is needed to build or to start. BW_HIP_LIBRARY
 * names another library in place of libamdhip64.so.7, .6 or .5 (tests use it). Signatures and constants: Debian's
 * libamdhip64-dev 5.2.3 (hip/hip_runtime_api.h; tests/device/hip_abi_test.c holds them against it) and, for
 * hipGetDevicePropertiesR0600, the same header of HIP 6.
 *
 * Nothing here has run on an AMD card yet. */
#include "gpu_driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver_hip.h"
#include "rocm_folders.h"

static struct {
#define HIP(name, arguments) int(*name) arguments;
    BW_HIP_FUNCTIONS
    BW_HIP_OPTIONAL_FUNCTIONS
#undef HIP
    const char *(*hipGetErrorString)(int error);
    int (*hipGetDevicePropertiesR0600)(void *properties, int device); /* HIP 6 and later */
    int (*hipRuntimeGetVersion)(int *version);                        /* in every version; only shown to people */
    int (*hipDriverGetVersion)(int *version);
} hip;
static char library_name[BW_ROCM_PATH]; /* the one that was loaded */

/* Leaks of the real library's own, for builds that look for leaks. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define LOOKS_FOR_LEAKS
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(LOOKS_FOR_LEAKS)
const char *__lsan_default_suppressions(void); /* NOLINT: the sanitizer's name */
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void)
{
    return "leak:libamdhip64\nleak:libhsa-runtime64\n";
}
#endif

static pthread_once_t once = PTHREAD_ONCE_INIT;
static bw_err load_error;

/* path: what was opened, else a name for the sentence that says so. */
static void *open_library(char path[BW_ROCM_PATH])
{
    static const char *const names[] = {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5"};
    const char *wish = getenv("BW_HIP_LIBRARY");
    if (wish && *wish) {
        snprintf(path, BW_ROCM_PATH, "%s", wish);
        return dlopen(wish, RTLD_NOW | RTLD_LOCAL);
    }
    void *library = NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names && !library; i++)
        library = bw_rocm_open("", names[i], RTLD_NOW | RTLD_LOCAL, path);
    if (!library)
        snprintf(path, BW_ROCM_PATH, "libamdhip64");
    return library;
}

static void load_once(void)
{
    char name[BW_ROCM_PATH];
    const char *missing = NULL;
    void *library = open_library(name);
    if (!library) {
        const char *why = dlerror(), *wish = getenv("BW_HIP_LIBRARY");
        char places[192];
        bw_rocm_places(places, sizeof places);
        bw_fail(&load_error, BW_E_DEVICE,
                "%.120s cannot be loaded (%.160s)%s%s: install the HIP runtime, such as Debian's libamdhip64-5 or "
                "ROCm's hip-runtime-amd",
                name, why ? why : "not found", wish && *wish ? "" : ", looked for in ", wish && *wish ? "" : places);
        return;
    }
    snprintf(library_name, sizeof library_name, "%s", name);
#define HIP(function, arguments)                                                                                       \
    *(void **)&hip.function = dlsym(library, #function);                                                               \
    if (!hip.function)                                                                                                 \
        missing = #function;
    BW_HIP_FUNCTIONS
#undef HIP
#define HIP(function, arguments) *(void **)&hip.function = dlsym(library, #function);
    BW_HIP_OPTIONAL_FUNCTIONS
#undef HIP
    *(void **)&hip.hipGetErrorString = dlsym(library, "hipGetErrorString");
    *(void **)&hip.hipGetDevicePropertiesR0600 = dlsym(library, "hipGetDevicePropertiesR0600");
    *(void **)&hip.hipRuntimeGetVersion = dlsym(library, "hipRuntimeGetVersion");
    *(void **)&hip.hipDriverGetVersion = dlsym(library, "hipDriverGetVersion");
    if (missing || !hip.hipGetErrorString) {
        bw_fail(&load_error, BW_E_DEVICE, "%s lacks %s: it is no HIP runtime, or older than 5", name,
                missing ? missing : "hipGetErrorString");
        return;
    }
    int error = hip.hipInit(0);
    if (error)
        bw_fail(
            &load_error, BW_E_DEVICE,
            "the HIP runtime (%s) finds no usable AMD GPU: %s; the kernel driver amdgpu must be loaded and /dev/kfd "
            "be readable and writable for this user",
            name, hip.hipGetErrorString(error));
}

static bw_status hip_load(bw_err *err)
{
    pthread_once(&once, load_once);
    if (load_error.status != BW_OK && err)
        *err = load_error;
    return load_error.status;
}

static int hip_count(int *n)
{
    return hip.hipGetDeviceCount(n);
}

/* "gfx90a:sramecc+:xnack-" to "gfx90a". */
static void copy_target(char *target, size_t size, const char *arch)
{
    size_t n = strcspn(arch, ":");
    snprintf(target, size, "%.*s", (int)(n < size ? n : size - 1), arch);
}

static const char *hip_library(void)
{
    return library_name;
}

/* 50221153 is 5.2.21153. */
static void format_version(int (*get)(int *version), char *out, size_t size)
{
    int v = 0;
    if (get && get(&v) == 0 && v > 0)
        snprintf(out, size, "%d.%d.%d", v / 10000000, v / 100000 % 100, v % 100000);
}

static void hip_versions(char runtime[32], char driver[32])
{
    format_version(hip.hipRuntimeGetVersion, runtime, 32);
    format_version(hip.hipDriverGetVersion, driver, 32);
}

static int hip_describe(int index, bw_gpu_info *info)
{
    /* room for either version's structure and whatever a later one adds */
    static const size_t room = 16384;
    char *properties = calloc(1, room);
    if (!properties)
        return BW_HIP_OUT_OF_MEMORY;
    bool is_new = hip.hipGetDevicePropertiesR0600 != NULL;
    int error =
        is_new ? hip.hipGetDevicePropertiesR0600(properties, index) : hip.hipGetDeviceProperties(properties, index);
    if (!error) {
        uint64_t shared, memory;
        int32_t units, wave, integrated;
        memcpy(&memory, properties + (is_new ? BW_HIP_R0600_MEMORY : BW_HIP_R0000_MEMORY), sizeof memory);
        memcpy(&shared, properties + (is_new ? BW_HIP_R0600_SHARED : BW_HIP_R0000_SHARED), sizeof shared);
        memcpy(&units, properties + (is_new ? BW_HIP_R0600_UNITS : BW_HIP_R0000_UNITS), sizeof units);
        memcpy(&wave, properties + (is_new ? BW_HIP_R0600_WAVE : BW_HIP_R0000_WAVE), sizeof wave);
        memcpy(&integrated, properties + (is_new ? BW_HIP_R0600_INTEGRATED : BW_HIP_R0000_INTEGRATED),
               sizeof integrated);
        snprintf(info->name, sizeof info->name, "%.79s", properties);
        copy_target(info->target, sizeof info->target, properties + (is_new ? BW_HIP_R0600_ARCH : BW_HIP_R0000_ARCH));
        info->memory_bytes = (int64_t)memory;
        info->shared_bytes_per_block = (int64_t)shared;
        info->units = units > 0 ? units : 1;
        info->wave = wave;
        info->integrated = integrated != 0;
    }
    free(properties);
    return error;
}

/* Contexts are the devices themselves: HIP's current device belongs to the thread. The number is kept beside 1, so that
 * device 0 is no NULL. */
static int hip_open(int index, void **context, bw_gpu_info *info)
{
    int error = hip_describe(index, info);
    if (!error)
        *context = (void *)((uintptr_t)index + 1);
    return error ? error : hip.hipSetDevice(index);
}

static void hip_close(int index, void *context)
{
    (void)index;
    (void)context;
}

static int hip_make_current(void *context)
{
    return hip.hipSetDevice((int)((uintptr_t)context - 1));
}

static int hip_alloc(size_t n_bytes, void **address)
{
    return hip.hipMalloc(address, n_bytes);
}

static int hip_release(void *address)
{
    return hip.hipFree(address);
}

static int hip_alloc_later(size_t n_bytes, void **address, void *stream)
{
    return hip.hipMallocAsync && hip.hipFreeAsync ? hip.hipMallocAsync(address, n_bytes, stream) : BW_HIP_NOT_SUPPORTED;
}

static int hip_release_later(void *address, void *stream)
{
    return hip.hipFreeAsync(address, stream);
}

static int hip_upload(void *dst, const void *host_src, size_t n_bytes, void *stream)
{
    /* Unlike CUDA's, this may still read pageable memory after it has returned. */
    int error = hip.hipMemcpyAsync(dst, host_src, n_bytes, BW_HIP_HOST_TO_DEVICE, stream);
    return error ? error : hip.hipStreamSynchronize(stream);
}

static int hip_download(void *host_dst, const void *src, size_t n_bytes, void *stream)
{
    int error = hip.hipMemcpyAsync(host_dst, src, n_bytes, BW_HIP_DEVICE_TO_HOST, stream);
    return error ? error : hip.hipStreamSynchronize(stream);
}

static int hip_copy(void *dst, const void *src, size_t n_bytes, void *stream)
{
    return hip.hipMemcpyAsync(dst, src, n_bytes, BW_HIP_DEVICE_TO_DEVICE, stream);
}

static int hip_copy_peer(void *dst, int dst_index, void *dst_context, const void *src, int src_index, void *src_context,
                         size_t n_bytes, void *stream)
{
    (void)dst_context;
    (void)src_context;
    return hip.hipMemcpyPeerAsync(dst, dst_index, src, src_index, n_bytes, stream);
}

static int hip_fill(void *dst, int byte, size_t n_bytes, void *stream)
{
    return hip.hipMemsetAsync(dst, byte, n_bytes, stream);
}

static int hip_host_alloc(size_t n_bytes, void **address)
{
    return hip.hipHostMalloc(address, n_bytes, 0);
}

static int hip_host_release(void *address)
{
    return hip.hipHostFree(address);
}

static int hip_upload_later(void *dst, const void *host_src, size_t n_bytes, void *stream)
{
    return hip.hipMemcpyAsync(dst, host_src, n_bytes, BW_HIP_HOST_TO_DEVICE, stream);
}

static int hip_download_later(void *host_dst, const void *src, size_t n_bytes, void *stream)
{
    return hip.hipMemcpyAsync(host_dst, src, n_bytes, BW_HIP_DEVICE_TO_HOST, stream);
}

static int hip_event_new(void **event)
{
    return hip.hipEventCreateWithFlags(event, 0);
}

static void hip_event_free(void *event)
{
    hip.hipEventDestroy(event);
}

static int hip_event_record(void *event, void *stream)
{
    return hip.hipEventRecord(event, stream);
}

static int hip_event_wait(void *event)
{
    return hip.hipEventSynchronize(event);
}

static int hip_event_elapsed(float *ms, void *begin, void *end)
{
    return hip.hipEventElapsedTime(ms, begin, end);
}

static int hip_capture_begin(void *stream)
{
    return hip.hipStreamBeginCapture(stream, BW_HIP_CAPTURE_THREAD_LOCAL);
}

static int hip_capture_end(void *stream, void **graph)
{
    void *recorded = NULL;
    *graph = NULL;
    int error = hip.hipStreamEndCapture(stream, &recorded);
    if (!error)
        error = hip.hipGraphInstantiateWithFlags(graph, recorded, 0);
    if (recorded)
        hip.hipGraphDestroy(recorded);
    return error;
}

static int hip_graph_launch(void *graph, void *stream)
{
    return hip.hipGraphLaunch(graph, stream);
}

static void hip_graph_free(void *graph)
{
    hip.hipGraphExecDestroy(graph);
}

static int hip_memory_info(size_t *free_bytes, size_t *total_bytes)
{
    return hip.hipMemGetInfo(free_bytes, total_bytes);
}

static int hip_stream_new(void **stream)
{
    return hip.hipStreamCreateWithFlags(stream, BW_HIP_STREAM_NON_BLOCKING);
}

static void hip_stream_free(void *stream)
{
    hip.hipStreamDestroy(stream);
}

static int hip_synchronise(void *stream)
{
    return hip.hipStreamSynchronize(stream);
}

static int hip_module_load(const void *image, void **module)
{
    return hip.hipModuleLoadData(module, image);
}

static void hip_module_free(void *module)
{
    hip.hipModuleUnload(module);
}

static int hip_find(void *module, const char *name, void **function)
{
    int error = hip.hipModuleGetFunction(function, module, name);
    return error == BW_HIP_NOT_FOUND ? BW_GPU_NOT_FOUND : error;
}

static int hip_launch(void *function, const bw_gpu_grid *grid, void *stream, void **args)
{
    return hip.hipModuleLaunchKernel(function, grid->blocks[0], grid->blocks[1], grid->blocks[2], grid->threads, 1, 1,
                                     grid->shared_bytes, stream, args, NULL);
}

static const char *hip_error_text(int error)
{
    const char *text = hip.hipGetErrorString(error);
    return text ? text : "unknown error";
}

static bool hip_is_out_of_memory(int error)
{
    return error == BW_HIP_OUT_OF_MEMORY;
}

static bool hip_is_lost(int error)
{
    return error == BW_HIP_ECC || error == BW_HIP_ILLEGAL_ADDRESS || error == BW_HIP_LAUNCH_TIMEOUT ||
           error == BW_HIP_CONTEXT_IS_DESTROYED || error == BW_HIP_ASSERT || error == BW_HIP_LAUNCH_FAILURE;
}

const bw_gpu_driver bw_gpu_driver_hip = {
    .kind_name = "rocm",
    .kind = BW_DEVICE_ROCM,
    .load = hip_load,
    .count = hip_count,
    .library = hip_library,
    .versions = hip_versions,
    .describe = hip_describe,
    .open = hip_open,
    .close = hip_close,
    .make_current = hip_make_current,
    .alloc = hip_alloc,
    .release = hip_release,
    .alloc_later = hip_alloc_later,
    .release_later = hip_release_later,
    .upload = hip_upload,
    .download = hip_download,
    .copy = hip_copy,
    .copy_peer = hip_copy_peer,
    .fill = hip_fill,
    .host_alloc = hip_host_alloc,
    .host_release = hip_host_release,
    .upload_later = hip_upload_later,
    .download_later = hip_download_later,
    .event_new = hip_event_new,
    .event_free = hip_event_free,
    .event_record = hip_event_record,
    .event_wait = hip_event_wait,
    .event_elapsed = hip_event_elapsed,
    .capture_begin = hip_capture_begin,
    .capture_end = hip_capture_end,
    .graph_launch = hip_graph_launch,
    .graph_free = hip_graph_free,
    .memory_info = hip_memory_info,
    .stream_new = hip_stream_new,
    .stream_free = hip_stream_free,
    .synchronise = hip_synchronise,
    .module_load = hip_module_load,
    .module_free = hip_module_free,
    .find = hip_find,
    .launch = hip_launch,
    .error_text = hip_error_text,
    .is_out_of_memory = hip_is_out_of_memory,
    .is_lost = hip_is_lost,
};
