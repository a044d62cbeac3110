/* What driver_hip.c takes from HIP's headers, on its own so that a test can hold it against the real ones. */
#ifndef BW_DRIVER_HIP_H
#define BW_DRIVER_HIP_H

#include <stddef.h>

/* What HIP's own types are to us: handles are pointers, enums are int. A test that has HIP's headers puts those types
 * here, and the functions below against their declarations. */
#if !defined(BW_HIP_HAS_TYPES)
typedef int bw_hip_error, bw_hip_copy_kind;
typedef int bw_hip_capture_mode;
typedef void bw_hip_properties, *bw_hip_stream, *bw_hip_module, *bw_hip_function, *bw_hip_event, *bw_hip_graph;
typedef void *bw_hip_graph_exec;
#endif

/* HIP(name, arguments): functions of HIP 5 that are still there under this name in HIP 7; all return hipError_t. */
#define BW_HIP_FUNCTIONS                                                                                               \
    HIP(hipInit, (unsigned flags))                                                                                     \
    HIP(hipGetDeviceCount, (int *count))                                                                               \
    HIP(hipSetDevice, (int device))                                                                                    \
    HIP(hipGetDeviceProperties, (bw_hip_properties * properties, int device))                                          \
    HIP(hipMalloc, (void **address, size_t n_bytes))                                                                   \
    HIP(hipFree, (void *address))                                                                                      \
    HIP(hipMemGetInfo, (size_t * free_bytes, size_t * total_bytes))                                                    \
    HIP(hipMemcpyAsync, (void *dst, const void *src, size_t n_bytes, bw_hip_copy_kind kind, bw_hip_stream stream))     \
    HIP(hipMemcpyPeerAsync,                                                                                            \
        (void *dst, int dst_device, const void *src, int src_device, size_t n_bytes, bw_hip_stream stream))            \
    HIP(hipMemsetAsync, (void *dst, int value, size_t n_bytes, bw_hip_stream stream))                                  \
    HIP(hipHostMalloc, (void **address, size_t n_bytes, unsigned flags))                                               \
    HIP(hipHostFree, (void *address))                                                                                  \
    HIP(hipEventCreateWithFlags, (bw_hip_event * event, unsigned flags))                                               \
    HIP(hipEventRecord, (bw_hip_event event, bw_hip_stream stream))                                                    \
    HIP(hipEventSynchronize, (bw_hip_event event))                                                                     \
    HIP(hipEventElapsedTime, (float *ms, bw_hip_event begin, bw_hip_event end))                                        \
    HIP(hipEventDestroy, (bw_hip_event event))                                                                         \
    HIP(hipStreamBeginCapture, (bw_hip_stream stream, bw_hip_capture_mode mode))                                       \
    HIP(hipStreamEndCapture, (bw_hip_stream stream, bw_hip_graph * graph))                                             \
    HIP(hipGraphInstantiateWithFlags, (bw_hip_graph_exec * exec, bw_hip_graph graph, unsigned long long flags))        \
    HIP(hipGraphLaunch, (bw_hip_graph_exec exec, bw_hip_stream stream))                                                \
    HIP(hipGraphExecDestroy, (bw_hip_graph_exec exec))                                                                 \
    HIP(hipGraphDestroy, (bw_hip_graph graph))                                                                         \
    HIP(hipStreamCreateWithFlags, (bw_hip_stream * stream, unsigned flags))                                            \
    HIP(hipStreamDestroy, (bw_hip_stream stream))                                                                      \
    HIP(hipStreamSynchronize, (bw_hip_stream stream))                                                                  \
    HIP(hipModuleLoadData, (bw_hip_module * module, const void *image))                                                \
    HIP(hipModuleUnload, (bw_hip_module module))                                                                       \
    HIP(hipModuleGetFunction, (bw_hip_function * function, bw_hip_module module, const char *name))                    \
    HIP(hipModuleLaunchKernel,                                                                                         \
        (bw_hip_function function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,                \
         unsigned block_y, unsigned block_z, unsigned shared_bytes, bw_hip_stream stream, void **args, void **extra))

/* What not every libamdhip64.so.5 has: hip/hip_runtime_api.h of HIP 5.1. */
#define BW_HIP_OPTIONAL_FUNCTIONS                                                                                      \
    HIP(hipMallocAsync, (void **address, size_t n_bytes, bw_hip_stream stream))                                        \
    HIP(hipFreeAsync, (void *address, bw_hip_stream stream))

enum {
    BW_HIP_OUT_OF_MEMORY = 2,
    BW_HIP_NOT_FOUND = 500,
    BW_HIP_NOT_SUPPORTED = 801,
    BW_HIP_HOST_TO_DEVICE = 1,
    BW_HIP_DEVICE_TO_HOST = 2,
    BW_HIP_DEVICE_TO_DEVICE = 3,
    BW_HIP_STREAM_NON_BLOCKING = 1,
    BW_HIP_CAPTURE_THREAD_LOCAL = 1, /* hipStreamCaptureModeThreadLocal */
    /* after these nothing works any more in this process: the card's state is lost */
    BW_HIP_ECC = 214,
    BW_HIP_ILLEGAL_ADDRESS = 700,
    BW_HIP_LAUNCH_TIMEOUT = 702,
    BW_HIP_CONTEXT_IS_DESTROYED = 709,
    BW_HIP_ASSERT = 710,
    BW_HIP_LAUNCH_FAILURE = 719
};

/* Byte offsets in hipDeviceProp_t: HIP 5's, and that of HIP 6 and 7 (the R0600 form). */
enum {
    BW_HIP_R0000_MEMORY = 256,     /* size_t totalGlobalMem */
    BW_HIP_R0000_SHARED = 264,     /* size_t sharedMemPerBlock */
    BW_HIP_R0000_WAVE = 276,       /* int warpSize */
    BW_HIP_R0000_UNITS = 336,      /* int multiProcessorCount */
    BW_HIP_R0000_ARCH = 396,       /* char gcnArchName[256] */
    BW_HIP_R0000_INTEGRATED = 652, /* int integrated */
    BW_HIP_R0600_MEMORY = 288,
    BW_HIP_R0600_SHARED = 296,
    BW_HIP_R0600_WAVE = 308,
    BW_HIP_R0600_UNITS = 388,
    BW_HIP_R0600_INTEGRATED = 396,
    BW_HIP_R0600_ARCH = 1160
};

#endif
