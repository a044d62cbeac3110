/* Our declarations of HIP's functions, constants and structure against a real header (Debian's libamdhip64-dev 5.2.3),
 * at compile time, and each name against the real library. */
#define __HIP_PLATFORM_AMD__ 1
#include <hip/hip_runtime_api.h>

#include "../bw_test.h"

#include <assert.h>
#include <dlfcn.h>
#include <stddef.h>
#include <unistd.h>

/* HIP's own types in place of ours: each of driver_hip.h's rows must then be the header's declaration, argument by
 * argument. */
#define BW_HIP_HAS_TYPES
typedef hipError_t bw_hip_error;
typedef enum hipMemcpyKind bw_hip_copy_kind;
typedef hipDeviceProp_t bw_hip_properties;
typedef hipStream_t bw_hip_stream;
typedef hipModule_t bw_hip_module;
typedef hipFunction_t bw_hip_function;
typedef hipEvent_t bw_hip_event;
typedef hipGraph_t bw_hip_graph;
typedef hipGraphExec_t bw_hip_graph_exec;
typedef hipStreamCaptureMode bw_hip_capture_mode;
#include "driver_hip.h"

#define HIP(name, arguments) static_assert(_Generic(&name, bw_hip_error(*) arguments : 1, default : 0), #name);
BW_HIP_FUNCTIONS
BW_HIP_OPTIONAL_FUNCTIONS
#undef HIP
static_assert(_Generic(&hipGetErrorString, const char *(*)(hipError_t) : 1, default : 0), "");
/* and what we have instead of those types passes as they do */
static_assert(sizeof(hipError_t) == sizeof(int) && sizeof(enum hipMemcpyKind) == sizeof(int), "");
static_assert(sizeof(hipStream_t) == sizeof(void *) && sizeof(hipModule_t) == sizeof(void *) &&
                  sizeof(hipFunction_t) == sizeof(void *),
              "");

static_assert(hipErrorOutOfMemory == (hipError_t)BW_HIP_OUT_OF_MEMORY, "");
static_assert(hipErrorNotSupported == (hipError_t)BW_HIP_NOT_SUPPORTED, "");
static_assert(hipErrorNotFound == (hipError_t)BW_HIP_NOT_FOUND, "");
static_assert(hipMemcpyHostToDevice == (enum hipMemcpyKind)BW_HIP_HOST_TO_DEVICE, "");
static_assert(hipMemcpyDeviceToHost == (enum hipMemcpyKind)BW_HIP_DEVICE_TO_HOST, "");
static_assert(hipMemcpyDeviceToDevice == (enum hipMemcpyKind)BW_HIP_DEVICE_TO_DEVICE, "");
static_assert(hipStreamCaptureModeThreadLocal == (hipStreamCaptureMode)BW_HIP_CAPTURE_THREAD_LOCAL, "");
static_assert(hipErrorECCNotCorrectable == (hipError_t)BW_HIP_ECC, "");
static_assert(hipErrorIllegalAddress == (hipError_t)BW_HIP_ILLEGAL_ADDRESS, "");
static_assert(hipErrorLaunchTimeOut == (hipError_t)BW_HIP_LAUNCH_TIMEOUT, "");
static_assert(hipErrorContextIsDestroyed == (hipError_t)BW_HIP_CONTEXT_IS_DESTROYED, "");
static_assert(hipErrorAssert == (hipError_t)BW_HIP_ASSERT, "");
static_assert(hipErrorLaunchFailure == (hipError_t)BW_HIP_LAUNCH_FAILURE, "");
static_assert(hipStreamNonBlocking == BW_HIP_STREAM_NON_BLOCKING, "");
#if HIP_VERSION_MAJOR < 6
static_assert(offsetof(hipDeviceProp_t, sharedMemPerBlock) == BW_HIP_R0000_SHARED, "");
static_assert(offsetof(hipDeviceProp_t, totalGlobalMem) == BW_HIP_R0000_MEMORY, "");
static_assert(offsetof(hipDeviceProp_t, integrated) == BW_HIP_R0000_INTEGRATED, "");
static_assert(offsetof(hipDeviceProp_t, warpSize) == BW_HIP_R0000_WAVE, "");
static_assert(offsetof(hipDeviceProp_t, multiProcessorCount) == BW_HIP_R0000_UNITS, "");
static_assert(offsetof(hipDeviceProp_t, gcnArchName) == BW_HIP_R0000_ARCH, "");
#endif

/* hipDeviceProp_t of HIP 6 and 7 as far as gcnArchName: how many of which type, in order. */
typedef struct properties_r0600 {
    char name[256], uuid[16], luid[8];
    unsigned luid_device_node_mask;
    size_t total_global_memory, shared_memory_per_block;
    int registers_per_block, warp_size;
    size_t memory_pitch;
    int max_threads_per_block, max_threads_dimension[3], max_grid_size[3], clock_rate;
    size_t total_constant_memory;
    int major, minor;
    size_t texture_alignment, texture_pitch_alignment;
    int device_overlap, multi_processor_count;
    int kernel_timeout, integrated, maps_host_memory, compute_mode;
    int textures_1d[3], textures_2d[2 + 2 + 3 + 2], textures_3d[3 + 3], texture_cube_map, textures_layered[2 + 3 + 2];
    int surfaces[1 + 2 + 3], surfaces_layered[2 + 3], surface_cube_maps[1 + 2];
    size_t surface_alignment;
    int concurrent_kernels, ecc, pci[3], tcc_driver, async_engines, unified_addressing, memory_clock_rate;
    int memory_bus_width, l2_cache_size, persisting_l2_cache_size, max_threads_per_multi_processor;
    int stream_priorities, global_l1_cache, local_l1_cache;
    size_t shared_memory_per_multi_processor;
    int registers_per_multi_processor, managed_memory, is_multi_gpu_board, multi_gpu_board_group;
    int host_native_atomic, single_to_double_ratio, pageable_memory_access, concurrent_managed_access;
    int compute_preemption, can_use_host_pointer, cooperative_launch, cooperative_multi_device_launch;
    size_t shared_memory_per_block_opt_in;
    int pageable_uses_host_page_tables, direct_managed_access, max_blocks_per_multi_processor, access_policy_window;
    size_t reserved_shared_memory_per_block;
    int host_register, sparse_array, host_register_read_only, timeline_semaphore, memory_pools, gpu_direct_rdma;
    unsigned gpu_direct_rdma_flush_writes;
    int gpu_direct_rdma_writes_ordering;
    unsigned memory_pool_handle_types;
    int deferred_mapping_array, ipc_event, cluster_launch, unified_function_pointers;
    int reserved[63], hip_reserved[32];
    char gcn_arch_name[256];
} properties_r0600;
static_assert(offsetof(properties_r0600, shared_memory_per_block) == BW_HIP_R0600_SHARED, "");
static_assert(offsetof(properties_r0600, total_global_memory) == BW_HIP_R0600_MEMORY, "");
static_assert(offsetof(properties_r0600, integrated) == BW_HIP_R0600_INTEGRATED, "");
static_assert(offsetof(properties_r0600, warp_size) == BW_HIP_R0600_WAVE, "");
static_assert(offsetof(properties_r0600, multi_processor_count) == BW_HIP_R0600_UNITS, "");
static_assert(offsetof(properties_r0600, gcn_arch_name) == BW_HIP_R0600_ARCH, "");
#if defined(hipGetDeviceProperties) /* HIP 6 and later: the header has it, under either name */
static_assert(offsetof(hipDeviceProp_tR0600, gcnArchName) == BW_HIP_R0600_ARCH, "");
#endif

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
    assert_non_null(dlsym(library, "hipRuntimeGetVersion"));
    assert_non_null(dlsym(library, "hipDriverGetVersion"));
}

/* The real library on a machine without an AMD GPU: one sentence that says what is missing, and what to look at. */
static void test_no_card(void **state)
{
    (void)state;
    bw_err err = {0};
    bw_device *device = NULL;
    if (access("/dev/kfd", F_OK) == 0) {
        printf("SKIPPED: this machine has /dev/kfd\n");
        return;
    }
    assert_int_equal(bw_device_open("rocm:0", 0, &device, &err), BW_E_DEVICE);
    assert_null(device);
    assert_null(strchr(err.text, '\n'));
    if (!strstr(err.text, "finds no usable AMD GPU") && !strstr(err.text, "cannot be loaded"))
        fail_msg("\"%s\"", err.text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_names), cmocka_unit_test(test_no_card)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
