/* What driver_cuda.c takes from cuda.h (CUDA 13.0), on its own so that a test can hold it against the real one. */
#ifndef BW_DRIVER_CUDA_H
#define BW_DRIVER_CUDA_H

#include <stddef.h>

/* What CUDA's own types are to us: handles are pointers, enums are int. A test that has cuda.h puts those types here.
 */
#if !defined(BW_CU_HAS_TYPES)
typedef int bw_cu_result, bw_cu_device, bw_cu_attribute, bw_cu_function_attribute, bw_cu_capture_mode, bw_cu_limit;
typedef unsigned long long bw_cu_address;
typedef void *bw_cu_context, *bw_cu_stream, *bw_cu_event, *bw_cu_graph, *bw_cu_graph_exec, *bw_cu_module,
    *bw_cu_function;
#endif

/* CU(name, arguments): all return CUresult. */
#define BW_CU_FUNCTIONS                                                                                                \
    CU(cuInit, (unsigned flags))                                                                                       \
    CU(cuDeviceGetCount, (int *count))                                                                                 \
    CU(cuDeviceGet, (bw_cu_device * device, int index))                                                                \
    CU(cuDeviceTotalMem_v2, (size_t * n_bytes, bw_cu_device device))                                                   \
    CU(cuDriverGetVersion, (int *version))                                                                             \
    CU(cuDeviceGetName, (char *name, int n, bw_cu_device device))                                                      \
    CU(cuDeviceGetAttribute, (int *value, bw_cu_attribute attribute, bw_cu_device device))                             \
    CU(cuDevicePrimaryCtxRetain, (bw_cu_context * context, bw_cu_device device))                                       \
    CU(cuDevicePrimaryCtxRelease_v2, (bw_cu_device device))                                                            \
    CU(cuDevicePrimaryCtxGetState, (bw_cu_device device, unsigned *flags, int *active))                                \
    CU(cuCtxSetLimit, (bw_cu_limit limit, size_t value))                                                               \
    CU(cuCtxSetCurrent, (bw_cu_context context))                                                                       \
    CU(cuMemAlloc_v2, (bw_cu_address * address, size_t n_bytes))                                                       \
    CU(cuMemFree_v2, (bw_cu_address address))                                                                          \
    CU(cuMemGetInfo_v2, (size_t * free_bytes, size_t * total_bytes))                                                   \
    CU(cuMemcpyHtoDAsync_v2, (bw_cu_address dst, const void *src, size_t n_bytes, bw_cu_stream stream))                \
    CU(cuMemcpyDtoHAsync_v2, (void *dst, bw_cu_address src, size_t n_bytes, bw_cu_stream stream))                      \
    CU(cuMemcpyDtoDAsync_v2, (bw_cu_address dst, bw_cu_address src, size_t n_bytes, bw_cu_stream stream))              \
    CU(cuMemcpyPeerAsync, (bw_cu_address dst, bw_cu_context dst_context, bw_cu_address src, bw_cu_context src_context, \
                           size_t n_bytes, bw_cu_stream stream))                                                       \
    CU(cuMemsetD8Async, (bw_cu_address dst, unsigned char byte, size_t n_bytes, bw_cu_stream stream))                  \
    CU(cuMemHostAlloc, (void **address, size_t n_bytes, unsigned flags))                                               \
    CU(cuMemFreeHost, (void *address))                                                                                 \
    CU(cuEventCreate, (bw_cu_event * event, unsigned flags))                                                           \
    CU(cuEventRecord, (bw_cu_event event, bw_cu_stream stream))                                                        \
    CU(cuEventSynchronize, (bw_cu_event event))                                                                        \
    CU(cuEventElapsedTime, (float *ms, bw_cu_event begin, bw_cu_event end))                                            \
    CU(cuEventDestroy_v2, (bw_cu_event event))                                                                         \
    CU(cuStreamBeginCapture_v2, (bw_cu_stream stream, bw_cu_capture_mode mode))                                        \
    CU(cuStreamEndCapture, (bw_cu_stream stream, bw_cu_graph * graph))                                                 \
    CU(cuGraphInstantiateWithFlags, (bw_cu_graph_exec * exec, bw_cu_graph graph, unsigned long long flags))            \
    CU(cuGraphLaunch, (bw_cu_graph_exec exec, bw_cu_stream stream))                                                    \
    CU(cuGraphExecDestroy, (bw_cu_graph_exec exec))                                                                    \
    CU(cuGraphDestroy, (bw_cu_graph graph))                                                                            \
    CU(cuStreamCreate, (bw_cu_stream * stream, unsigned flags))                                                        \
    CU(cuStreamDestroy_v2, (bw_cu_stream stream))                                                                      \
    CU(cuStreamSynchronize, (bw_cu_stream stream))                                                                     \
    CU(cuModuleLoadData, (bw_cu_module * module, const void *image))                                                   \
    CU(cuModuleUnload, (bw_cu_module module))                                                                          \
    CU(cuModuleGetFunction, (bw_cu_function * function, bw_cu_module module, const char *name))                        \
    CU(cuFuncSetAttribute, (bw_cu_function function, bw_cu_function_attribute attribute, int value))                   \
    CU(cuLaunchKernel,                                                                                                 \
       (bw_cu_function function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,                  \
        unsigned block_y, unsigned block_z, unsigned shared_bytes, bw_cu_stream stream, void **args, void **extra))    \
    CU(cuGetErrorString, (bw_cu_result error, const char **text))

/* What drivers before CUDA 11.2 lack. */
#define BW_CU_OPTIONAL_FUNCTIONS                                                                                       \
    CU(cuMemAllocAsync, (bw_cu_address * address, size_t n_bytes, bw_cu_stream stream))                                \
    CU(cuMemFreeAsync, (bw_cu_address address, bw_cu_stream stream))

enum {
    BW_CU_SUCCESS = 0,
    BW_CU_LIMIT_STACK_SIZE = 0,
    BW_CU_OUT_OF_MEMORY = 2,
    BW_CU_NOT_FOUND = 500,
    BW_CU_NOT_SUPPORTED = 801,
    /* after these nothing works any more in this process: the context is lost */
    BW_CU_DEVICE_UNAVAILABLE = 46,
    BW_CU_ECC_UNCORRECTABLE = 214,
    BW_CU_NVLINK_UNCORRECTABLE = 220,
    BW_CU_ILLEGAL_ADDRESS = 700,
    BW_CU_LAUNCH_TIMEOUT = 702,
    BW_CU_CONTEXT_IS_DESTROYED = 709,
    BW_CU_ASSERT = 710,
    BW_CU_HARDWARE_STACK_ERROR = 714, /* and 715 to 718: illegal instruction, misaligned address, ... */
    BW_CU_LAUNCH_FAILED = 719
};
enum { BW_CU_CAPTURE_THREAD_LOCAL = 1 };
enum { /* CUdevice_attribute */
       BW_CU_MAX_SHARED_OPTIN = 97,
       BW_CU_MULTIPROCESSORS = 16,
       BW_CU_INTEGRATED = 18,
       BW_CU_MAJOR = 75,
       BW_CU_MINOR = 76,
       BW_CU_MAX_DYNAMIC_SHARED = 8
};

#endif
