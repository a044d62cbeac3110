/* Our declarations of HIP's functions, constants and structure against a real header (Debian's libamdhip64-dev 5.2.3),
 * at compile time, and each name against the real library. */
#define __HIP_PLATFORM_AMD__ 1
#include <hip/hip_runtime_api.h>

#include "../bw_test.h"

#include <assert.h>
#include <dlfcn.h>
#include <stddef.h>

#include "driver_hip.h"

static_assert(hipErrorOutOfMemory == (hipError_t)BW_HIP_OUT_OF_MEMORY, "");
static_assert(hipErrorNotFound == (hipError_t)BW_HIP_NOT_FOUND, "");
static_assert(hipMemcpyHostToDevice == (enum hipMemcpyKind)BW_HIP_HOST_TO_DEVICE, "");
static_assert(hipMemcpyDeviceToHost == (enum hipMemcpyKind)BW_HIP_DEVICE_TO_HOST, "");
static_assert(hipMemcpyDeviceToDevice == (enum hipMemcpyKind)BW_HIP_DEVICE_TO_DEVICE, "");
static_assert(hipStreamNonBlocking == BW_HIP_STREAM_NON_BLOCKING, "");
static_assert(offsetof(hipDeviceProp_t, sharedMemPerBlock) == BW_HIP_R0000_SHARED, "");
static_assert(offsetof(hipDeviceProp_t, warpSize) == BW_HIP_R0000_WAVE, "");
static_assert(offsetof(hipDeviceProp_t, multiProcessorCount) == BW_HIP_R0000_UNITS, "");
static_assert(offsetof(hipDeviceProp_t, gcnArchName) == BW_HIP_R0000_ARCH, "");
static_assert(sizeof(hipError_t) == sizeof(int) && sizeof(enum hipMemcpyKind) == sizeof(int), "");

/* Each function once with the header's own types: what we pass must convert to them without a cast but for handles,
 * which are pointers on both sides. */
static_assert(_Generic(&hipInit, hipError_t (*)(unsigned) : 1, default : 0), "");
static_assert(_Generic(&hipGetDeviceCount, hipError_t (*)(int *) : 1, default : 0), "");
static_assert(_Generic(&hipSetDevice, hipError_t (*)(int) : 1, default : 0), "");
static_assert(_Generic(&hipGetDeviceProperties, hipError_t (*)(hipDeviceProp_t *, int) : 1, default : 0), "");
static_assert(_Generic(&hipMalloc, hipError_t (*)(void **, size_t) : 1, default : 0), "");
static_assert(_Generic(&hipFree, hipError_t (*)(void *) : 1, default : 0), "");
static_assert(_Generic(&hipMemGetInfo, hipError_t (*)(size_t *, size_t *) : 1, default : 0), "");
static_assert(_Generic(&hipMemcpyAsync, hipError_t (*)(void *, const void *, size_t, hipMemcpyKind, hipStream_t) : 1,
                       default : 0),
              "");
static_assert(_Generic(&hipStreamCreateWithFlags, hipError_t (*)(hipStream_t *, unsigned) : 1, default : 0), "");
static_assert(_Generic(&hipStreamDestroy, hipError_t (*)(hipStream_t) : 1, default : 0), "");
static_assert(_Generic(&hipStreamSynchronize, hipError_t (*)(hipStream_t) : 1, default : 0), "");
static_assert(_Generic(&hipModuleLoadData, hipError_t (*)(hipModule_t *, const void *) : 1, default : 0), "");
static_assert(_Generic(&hipModuleUnload, hipError_t (*)(hipModule_t) : 1, default : 0), "");
static_assert(_Generic(&hipModuleGetFunction, hipError_t (*)(hipFunction_t *, hipModule_t, const char *) : 1,
                       default : 0),
              "");
static_assert(_Generic(&hipModuleLaunchKernel,
                       hipError_t (*)(hipFunction_t, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                                      unsigned, hipStream_t, void **, void **) : 1,
                       default : 0),
              "");

static void test_names(void **state)
{
    (void)state;
    void *library = dlopen("libamdhip64.so.5", RTLD_LAZY | RTLD_LOCAL);
    if (!library) {
        printf("SKIPPED: libamdhip64.so.5 is not installed\n");
        return;
    }
#define HIP(name, arguments) assert_non_null(dlsym(library, #name));
    BW_HIP_FUNCTIONS
#undef HIP
    assert_non_null(dlsym(library, "hipGetErrorString"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_names)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
