/* Our declarations of MIOpen's functions and constants against a real miopen.h, at compile time, and each name against
 * the real library where ROCm is installed. */
typedef struct miopenTensorArgument_t miopenTensorArgument_t; /* which the header's C needs */
#include <miopen/miopen.h>

#include "../bw_test.h"

#include <assert.h>
#include <dlfcn.h>
#include <stddef.h>

/* MIOpen's own types in place of ours: each row must then be the header's declaration, argument by argument. */
#define BW_MIOPEN_HAS_TYPES
typedef miopenStatus_t bw_miopen_status;
typedef miopenDataType_t bw_miopen_type;
typedef miopenConvolutionMode_t bw_miopen_mode;
typedef miopenHandle_t bw_miopen_handle;
typedef miopenTensorDescriptor_t bw_miopen_tensor;
typedef miopenConvolutionDescriptor_t bw_miopen_conv;
typedef miopenAcceleratorQueue_t bw_miopen_stream;
typedef miopenConvSolution_t bw_miopen_solution;
#include "gpu_dnn_functions.h"

#define DNN(name, arguments) static_assert(_Generic(&name, bw_miopen_status(*) arguments : 1, default : 0), #name);
BW_MIOPEN_FUNCTIONS
#undef DNN
/* and what we have instead of those types passes as they do */
static_assert(sizeof(miopenStatus_t) == sizeof(int) && sizeof(miopenDataType_t) == sizeof(int), "");
static_assert(sizeof(miopenConvolutionMode_t) == sizeof(int), "");
static_assert(sizeof(miopenHandle_t) == sizeof(void *) && sizeof(miopenTensorDescriptor_t) == sizeof(void *), "");
struct ours {
    float time;
    size_t workspace_bytes;
    uint64_t id;
    int algorithm;
};
static_assert(sizeof(struct ours) == sizeof(miopenConvSolution_t), "");
static_assert(offsetof(struct ours, workspace_bytes) == offsetof(miopenConvSolution_t, workspace_size), "");
static_assert(offsetof(struct ours, id) == offsetof(miopenConvSolution_t, solution_id), "");
static_assert(offsetof(struct ours, algorithm) == offsetof(miopenConvSolution_t, algorithm), "");

static_assert(miopenStatusSuccess == 0 && miopenStatusAllocFailed == 4, "");
static_assert(BW_MIOPEN_HALF == (int)miopenHalf && BW_MIOPEN_FLOAT == (int)miopenFloat, "");
static_assert(BW_MIOPEN_BFLOAT16 == (int)miopenBFloat16, "");
static_assert(BW_MIOPEN_CONVOLUTION == (int)miopenConvolution, "");
static_assert(BW_MIOPEN_GEMM == (int)miopenConvolutionAlgoGEMM, "");
static_assert(BW_MIOPEN_DIRECT == (int)miopenConvolutionAlgoDirect, "");
static_assert(BW_MIOPEN_IMPLICIT_GEMM == (int)miopenConvolutionAlgoImplicitGEMM, "");

static void test_names(void **state)
{
    (void)state;
    void *library = dlopen("libMIOpen.so.1", RTLD_LAZY | RTLD_LOCAL);
    if (!library) {
        printf("SKIPPED: the names in libMIOpen.so.1: it is not installed\n");
        return;
    }
#define DNN(name, arguments) assert_non_null(dlsym(library, #name));
    BW_MIOPEN_FUNCTIONS
#undef DNN
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_names)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
