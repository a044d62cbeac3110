/* What gpu_library.c calls of cuBLASLt, whose functions hipBLASLt has under its own prefix, and the numbers it passes.
 * tests/device/cublas_lt_abi_test.c puts cuBLASLt's types in place of ours and holds each row against cublasLt.h. */
#ifndef BW_GPU_LIBRARY_FUNCTIONS_H
#define BW_GPU_LIBRARY_FUNCTIONS_H

#include <stddef.h>
#include <stdint.h>

#ifndef BW_LT_HAS_TYPES
typedef int bw_lt_status, bw_lt_compute, bw_lt_type, bw_lt_desc_key, bw_lt_layout_key, bw_lt_wish_key;
typedef void *bw_lt_handle, *bw_lt_desc, *bw_lt_layout, *bw_lt_wish, *bw_lt_stream;
typedef void bw_lt_algorithm, bw_lt_result;
#endif

/* FUNCTION(member, name behind the prefix, arguments) */
#define BW_LT_FUNCTIONS(FUNCTION)                                                                                      \
    FUNCTION(create, Create, (bw_lt_handle * handle))                                                                  \
    FUNCTION(destroy, Destroy, (bw_lt_handle handle))                                                                  \
    FUNCTION(desc_create, MatmulDescCreate, (bw_lt_desc * desc, bw_lt_compute compute, bw_lt_type scale_type))         \
    FUNCTION(desc_set, MatmulDescSetAttribute,                                                                         \
             (bw_lt_desc desc, bw_lt_desc_key attribute, const void *value, size_t n_bytes))                           \
    FUNCTION(desc_destroy, MatmulDescDestroy, (bw_lt_desc desc))                                                       \
    FUNCTION(layout_create, MatrixLayoutCreate,                                                                        \
             (bw_lt_layout * layout, bw_lt_type type, uint64_t rows, uint64_t columns, int64_t stride))                \
    FUNCTION(layout_set, MatrixLayoutSetAttribute,                                                                     \
             (bw_lt_layout layout, bw_lt_layout_key attribute, const void *value, size_t n_bytes))                     \
    FUNCTION(layout_destroy, MatrixLayoutDestroy, (bw_lt_layout layout))                                               \
    FUNCTION(wish_create, MatmulPreferenceCreate, (bw_lt_wish * wish))                                                 \
    FUNCTION(wish_set, MatmulPreferenceSetAttribute,                                                                   \
             (bw_lt_wish wish, bw_lt_wish_key attribute, const void *value, size_t n_bytes))                           \
    FUNCTION(wish_destroy, MatmulPreferenceDestroy, (bw_lt_wish wish))                                                 \
    FUNCTION(heuristic, MatmulAlgoGetHeuristic,                                                                        \
             (bw_lt_handle handle, bw_lt_desc desc, bw_lt_layout a, bw_lt_layout b, bw_lt_layout c, bw_lt_layout d,    \
              bw_lt_wish wish, int n_wanted, bw_lt_result *results, int *n_found))                                     \
    FUNCTION(matmul, Matmul,                                                                                           \
             (bw_lt_handle handle, bw_lt_desc desc, const void *alpha, const void *a, bw_lt_layout a_layout,           \
              const void *b, bw_lt_layout b_layout, const void *beta, const void *c, bw_lt_layout c_layout, void *d,   \
              bw_lt_layout d_layout, const bw_lt_algorithm *algorithm, void *workspace, size_t workspace_bytes,        \
              bw_lt_stream stream))

enum { BW_LT_32F = 0, BW_LT_16F = 2, BW_LT_16BF = 14 }; /* cudaDataType, hipDataType */
enum {
    BW_LT_ALGORITHM_BYTES = 256,
    BW_LT_REDUCTION_IN_F32 = 2
}; /* room for a result, which begins with its algorithm */

/* cuBLASLt's numbers: status, types of sums, operations, attributes of a product, of a layout and of a wish. */
enum {
    BW_CUBLAS_LT_NO_MEMORY = 3,
    BW_CUBLAS_LT_COMPUTE_32F = 68,
    BW_CUBLAS_LT_NONE = 0,
    BW_CUBLAS_LT_TRANSPOSED = 1,
    BW_CUBLAS_LT_DESC_OP_A = 3,
    BW_CUBLAS_LT_DESC_OP_B = 4,
    BW_CUBLAS_LT_LAYOUT_N_BATCH = 5,
    BW_CUBLAS_LT_LAYOUT_BATCH = 6,
    BW_CUBLAS_LT_WISH_WORKSPACE = 1,
    BW_CUBLAS_LT_WISH_REDUCTION = 3,
    BW_CUBLAS_LT_WISH_ALIGN_A = 5 /* B, C and D follow */
};

#endif
