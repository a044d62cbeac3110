/* Our declarations of cuDNN's functions and constants against the real headers, at compile time, and each name against
 * the real library where it is installed. */
#include <cudnn.h>

#include "../bw_test.h"

#include <assert.h>
#include <dlfcn.h>
#include <stddef.h>

/* cuDNN's own types in place of ours: each row must then be the header's declaration, argument by argument. */
#define BW_CUDNN_HAS_TYPES
typedef cudnnStatus_t bw_cudnn_status;
typedef cudnnDataType_t bw_cudnn_type;
typedef cudnnTensorFormat_t bw_cudnn_format;
typedef cudnnMathType_t bw_cudnn_math;
typedef cudnnConvolutionMode_t bw_cudnn_mode;
typedef cudnnConvolutionFwdAlgo_t bw_cudnn_algorithm;
typedef cudnnHandle_t bw_cudnn_handle;
typedef cudnnTensorDescriptor_t bw_cudnn_tensor;
typedef cudnnFilterDescriptor_t bw_cudnn_filter;
typedef cudnnConvolutionDescriptor_t bw_cudnn_conv;
typedef cudaStream_t bw_cudnn_stream;
typedef cudnnConvolutionFwdAlgoPerf_t bw_cudnn_perf;
#include "gpu_dnn_functions.h"

#define DNN(name, arguments) static_assert(_Generic(&name, bw_cudnn_status(*) arguments : 1, default : 0), #name);
BW_CUDNN_FUNCTIONS
#undef DNN
/* and what we have instead of those types passes as they do */
static_assert(sizeof(cudnnStatus_t) == sizeof(int) && sizeof(cudnnDataType_t) == sizeof(int), "");
static_assert(sizeof(cudnnMathType_t) == sizeof(int) && sizeof(cudnnConvolutionFwdAlgo_t) == sizeof(int), "");
static_assert(sizeof(cudnnTensorFormat_t) == sizeof(int) && sizeof(cudnnConvolutionMode_t) == sizeof(int), "");
static_assert(sizeof(cudnnHandle_t) == sizeof(void *) && sizeof(cudnnTensorDescriptor_t) == sizeof(void *), "");
struct ours {
    int algorithm, status;
    float time;
    size_t memory;
    int determinism, math;
    int reserved[3];
};
static_assert(sizeof(struct ours) == sizeof(cudnnConvolutionFwdAlgoPerf_t), "");
static_assert(offsetof(struct ours, status) == offsetof(cudnnConvolutionFwdAlgoPerf_t, status), "");
static_assert(offsetof(struct ours, memory) == offsetof(cudnnConvolutionFwdAlgoPerf_t, memory), "");
static_assert(offsetof(struct ours, math) == offsetof(cudnnConvolutionFwdAlgoPerf_t, mathType), "");

static_assert(CUDNN_STATUS_SUCCESS == 0, "");
#if CUDNN_MAJOR >= 9 /* what gpu_dnn.c takes for a lack of memory */
static_assert(CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED == 4003, "");
static_assert(CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED == 4004, "");
#else
static_assert(CUDNN_STATUS_ALLOC_FAILED == 2, "");
#endif
static_assert(BW_CUDNN_FLOAT == (int)CUDNN_DATA_FLOAT && BW_CUDNN_HALF == (int)CUDNN_DATA_HALF, "");
static_assert(BW_CUDNN_BFLOAT16 == (int)CUDNN_DATA_BFLOAT16 && BW_CUDNN_NCHW == (int)CUDNN_TENSOR_NCHW, "");
static_assert(BW_CUDNN_TENSOR_OP_MATH == (int)CUDNN_TENSOR_OP_MATH, "");
static_assert(BW_CUDNN_FMA_MATH == (int)CUDNN_FMA_MATH, "");
static_assert(BW_CUDNN_CROSS_CORRELATION == (int)CUDNN_CROSS_CORRELATION, "");
static_assert(BW_CUDNN_IMPLICIT_GEMM == (int)CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, "");
static_assert(BW_CUDNN_IMPLICIT_PRECOMP_GEMM == (int)CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM, "");
static_assert(BW_CUDNN_GEMM == (int)CUDNN_CONVOLUTION_FWD_ALGO_GEMM, "");
static_assert(BW_CUDNN_N_ALGORITHMS == (int)CUDNN_CONVOLUTION_FWD_ALGO_COUNT, "");

static void test_names(void **state)
{
    (void)state;
    void *library = dlopen("libcudnn.so.9", RTLD_LAZY | RTLD_LOCAL);
    if (!library) {
        printf("SKIPPED: the names in libcudnn.so.9: it is not installed\n");
        return;
    }
#define DNN(name, arguments) assert_non_null(dlsym(library, #name));
    BW_CUDNN_FUNCTIONS
#undef DNN
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_names)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
