/* Our declarations of CUDA's driver functions and constants against a real cuda.h, at compile time, and each name
 * against the real library where a driver is installed. */
#include <cuda.h>

#include "../bw_test.h"

#include <assert.h>
#include <dlfcn.h>

/* CUDA's own types in place of ours: each of driver_cuda.h's rows must then be the header's declaration, argument by
 * argument. */
#define BW_CU_HAS_TYPES
typedef CUresult bw_cu_result;
typedef CUdevice bw_cu_device;
typedef CUdevice_attribute bw_cu_attribute;
typedef CUfunction_attribute bw_cu_function_attribute;
typedef CUstreamCaptureMode bw_cu_capture_mode;
typedef CUlimit bw_cu_limit;
typedef CUdeviceptr bw_cu_address;
typedef CUcontext bw_cu_context;
typedef CUstream bw_cu_stream;
typedef CUevent bw_cu_event;
typedef CUgraph bw_cu_graph;
typedef CUgraphExec bw_cu_graph_exec;
typedef CUmodule bw_cu_module;
typedef CUfunction bw_cu_function;
#include "driver_cuda.h"

#define CU(name, arguments) static_assert(_Generic(&name, bw_cu_result(*) arguments : 1, default : 0), #name);
BW_CU_FUNCTIONS
BW_CU_OPTIONAL_FUNCTIONS
#undef CU
/* and what we have instead of those types passes as they do */
static_assert(sizeof(CUresult) == sizeof(int) && sizeof(CUdevice) == sizeof(int), "");
static_assert(sizeof(CUdevice_attribute) == sizeof(int) && sizeof(CUfunction_attribute) == sizeof(int), "");
static_assert(sizeof(CUdeviceptr) == sizeof(unsigned long long) && sizeof(CUstreamCaptureMode) == sizeof(int), "");
static_assert(sizeof(CUcontext) == sizeof(void *) && sizeof(CUgraphExec) == sizeof(void *), "");

static_assert(BW_CU_SUCCESS == (int)CUDA_SUCCESS, "");
static_assert(sizeof(CUlimit) == sizeof(int) && BW_CU_LIMIT_STACK_SIZE == (int)CU_LIMIT_STACK_SIZE, "");
static_assert(BW_CU_OUT_OF_MEMORY == (int)CUDA_ERROR_OUT_OF_MEMORY, "");
static_assert(BW_CU_NOT_SUPPORTED == (int)CUDA_ERROR_NOT_SUPPORTED, "");
static_assert(BW_CU_NOT_FOUND == (int)CUDA_ERROR_NOT_FOUND, "");
static_assert(BW_CU_DEVICE_UNAVAILABLE == (int)CUDA_ERROR_DEVICE_UNAVAILABLE, "");
static_assert(BW_CU_ECC_UNCORRECTABLE == (int)CUDA_ERROR_ECC_UNCORRECTABLE, "");
static_assert(BW_CU_NVLINK_UNCORRECTABLE == (int)CUDA_ERROR_NVLINK_UNCORRECTABLE, "");
static_assert(BW_CU_ILLEGAL_ADDRESS == (int)CUDA_ERROR_ILLEGAL_ADDRESS, "");
static_assert(BW_CU_LAUNCH_TIMEOUT == (int)CUDA_ERROR_LAUNCH_TIMEOUT, "");
static_assert(BW_CU_CONTEXT_IS_DESTROYED == (int)CUDA_ERROR_CONTEXT_IS_DESTROYED, "");
static_assert(BW_CU_ASSERT == (int)CUDA_ERROR_ASSERT, "");
static_assert(BW_CU_HARDWARE_STACK_ERROR == (int)CUDA_ERROR_HARDWARE_STACK_ERROR, "");
static_assert(BW_CU_LAUNCH_FAILED == (int)CUDA_ERROR_LAUNCH_FAILED, "");
static_assert(BW_CU_CAPTURE_THREAD_LOCAL == (int)CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, "");
static_assert(BW_CU_MAX_SHARED_OPTIN == (int)CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, "");
static_assert(BW_CU_MULTIPROCESSORS == (int)CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, "");
static_assert(BW_CU_INTEGRATED == (int)CU_DEVICE_ATTRIBUTE_INTEGRATED, "");
static_assert(BW_CU_MAJOR == (int)CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, "");
static_assert(BW_CU_MINOR == (int)CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, "");
static_assert(BW_CU_MAX_DYNAMIC_SHARED == (int)CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, "");

static void test_names(void **state)
{
    (void)state;
    void *library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
    if (!library) {
        printf("SKIPPED: the names in libcuda.so.1: no NVIDIA driver is installed\n");
        return;
    }
#define CU(name, arguments) assert_non_null(dlsym(library, #name));
    BW_CU_FUNCTIONS
#undef CU
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_names)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
