/* Our declarations of cuBLASLt's functions and constants against cublasLt.h, at compile time, and each name against the
 * real library where it is installed. */
#include <cublasLt.h>

#include "../bw_test.h"

#include <assert.h>
#include <dlfcn.h>
#include <stddef.h>

/* cuBLASLt's own types in place of ours: each row must then be the header's declaration, argument by argument. */
#define BW_LT_HAS_TYPES
typedef cublasStatus_t bw_lt_status;
typedef cublasComputeType_t bw_lt_compute;
typedef cudaDataType_t bw_lt_type;
typedef cublasLtMatmulDescAttributes_t bw_lt_desc_key;
typedef cublasLtMatrixLayoutAttribute_t bw_lt_layout_key;
typedef cublasLtMatmulPreferenceAttributes_t bw_lt_wish_key;
typedef cublasLtHandle_t bw_lt_handle;
typedef cublasLtMatmulDesc_t bw_lt_desc;
typedef cublasLtMatrixLayout_t bw_lt_layout;
typedef cublasLtMatmulPreference_t bw_lt_wish;
typedef cudaStream_t bw_lt_stream;
typedef cublasLtMatmulAlgo_t bw_lt_algorithm;
typedef cublasLtMatmulHeuristicResult_t bw_lt_result;
#include "gpu_library_functions.h"

#define LT(member, name, arguments)                                                                                    \
    static_assert(_Generic(&cublasLt##name, bw_lt_status(*) arguments : 1, default : 0), #name);
BW_LT_FUNCTIONS(LT)
#undef LT
/* and what we have instead of those types passes as they do */
static_assert(sizeof(cublasStatus_t) == sizeof(int) && sizeof(cublasComputeType_t) == sizeof(int), "");
static_assert(sizeof(cudaDataType_t) == sizeof(int) && sizeof(cublasLtMatmulDescAttributes_t) == sizeof(int), "");
static_assert(sizeof(cublasLtHandle_t) == sizeof(void *) && sizeof(cublasLtMatmulDesc_t) == sizeof(void *), "");
/* a result begins with its algorithm, and there is room for one */
static_assert(offsetof(cublasLtMatmulHeuristicResult_t, algo) == 0, "");
static_assert(sizeof(cublasLtMatmulHeuristicResult_t) <= BW_LT_ALGORITHM_BYTES, "");

static_assert(CUBLAS_STATUS_SUCCESS == 0 && BW_CUBLAS_LT_NO_MEMORY == (int)CUBLAS_STATUS_ALLOC_FAILED, "");
static_assert(BW_LT_32F == (int)CUDA_R_32F && BW_LT_16F == (int)CUDA_R_16F && BW_LT_16BF == (int)CUDA_R_16BF, "");
static_assert(BW_CUBLAS_LT_COMPUTE_32F == (int)CUBLAS_COMPUTE_32F, "");
static_assert(BW_CUBLAS_LT_NONE == (int)CUBLAS_OP_N && BW_CUBLAS_LT_TRANSPOSED == (int)CUBLAS_OP_T, "");
static_assert(BW_CUBLAS_LT_DESC_OP_A == (int)CUBLASLT_MATMUL_DESC_TRANSA, "");
static_assert(BW_CUBLAS_LT_DESC_OP_B == (int)CUBLASLT_MATMUL_DESC_TRANSB, "");
static_assert(BW_CUBLAS_LT_LAYOUT_N_BATCH == (int)CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, "");
static_assert(BW_CUBLAS_LT_LAYOUT_BATCH == (int)CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, "");
static_assert(BW_CUBLAS_LT_WISH_WORKSPACE == (int)CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, "");
static_assert(BW_CUBLAS_LT_WISH_REDUCTION == (int)CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, "");
static_assert(BW_CUBLAS_LT_WISH_ALIGN_A == (int)CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, "");
static_assert(BW_CUBLAS_LT_WISH_ALIGN_A + 3 == (int)CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, "");
static_assert(BW_LT_REDUCTION_IN_F32 == (int)CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE, "");

static void test_names(void **state)
{
    (void)state;
    static const char *const files[] = {"libcublasLt.so.13", "libcublasLt.so.12"};
    void *library = NULL;
    for (size_t i = 0; i < sizeof files / sizeof *files && !library; i++)
        library = dlopen(files[i], RTLD_LAZY | RTLD_LOCAL);
    if (!library) {
        printf("SKIPPED: the names in libcublasLt.so.13 or .12: neither is installed\n");
        return;
    }
#define LT(member, name, arguments) assert_non_null(dlsym(library, "cublasLt" #name));
    BW_LT_FUNCTIONS(LT)
#undef LT
    assert_non_null(dlsym(library, "cublasLtGetVersion"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_names)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
