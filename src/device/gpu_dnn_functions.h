/* What gpu_dnn.c takes from cuDNN (cudnn_ops.h, cudnn_cnn.h, cudnn_graph.h of cuDNN 9.19; the same since cuDNN 8) and
 * from MIOpen (miopen/miopen.h of ROCm 6.2; the same since ROCm 5), on its own so that tests can hold it against the
 * real headers, and that stand-ins of the libraries in tests define the very functions. */
#ifndef BW_GPU_DNN_FUNCTIONS_H
#define BW_GPU_DNN_FUNCTIONS_H

#include <stddef.h>
#include <stdint.h>

/* What the libraries' own types are to us: handles are pointers, enums are int. A test that has a header puts its types
 * here. */
#if !defined(BW_CUDNN_HAS_TYPES)
typedef int bw_cudnn_status, bw_cudnn_type, bw_cudnn_format, bw_cudnn_math, bw_cudnn_mode, bw_cudnn_algorithm;
typedef void *bw_cudnn_handle, *bw_cudnn_tensor, *bw_cudnn_filter, *bw_cudnn_conv, *bw_cudnn_stream;
typedef struct bw_cudnn_perf {
    int algorithm, status;
    float time;
    size_t memory;
    int determinism, math;
    int reserved[3];
} bw_cudnn_perf;
#endif
enum {
    BW_CUDNN_FLOAT = 0,
    BW_CUDNN_HALF = 2,
    BW_CUDNN_BFLOAT16 = 9,
    BW_CUDNN_NCHW = 0,
    BW_CUDNN_TENSOR_OP_MATH = 1,
    BW_CUDNN_FMA_MATH = 3,
    BW_CUDNN_CROSS_CORRELATION = 1,
    BW_CUDNN_IMPLICIT_GEMM = 0,
    BW_CUDNN_IMPLICIT_PRECOMP_GEMM = 1,
    BW_CUDNN_GEMM = 2,
    BW_CUDNN_N_ALGORITHMS = 8
};

/* DNN(name, arguments): all return cudnnStatus_t. */
#define BW_CUDNN_FUNCTIONS                                                                                             \
    DNN(cudnnCreate, (bw_cudnn_handle * handle))                                                                       \
    DNN(cudnnDestroy, (bw_cudnn_handle handle))                                                                        \
    DNN(cudnnSetStream, (bw_cudnn_handle handle, bw_cudnn_stream stream))                                              \
    DNN(cudnnCreateTensorDescriptor, (bw_cudnn_tensor * tensor))                                                       \
    DNN(cudnnSetTensor4dDescriptorEx, (bw_cudnn_tensor tensor, bw_cudnn_type type, int n, int c, int h, int w,         \
                                       int n_stride, int c_stride, int h_stride, int w_stride))                        \
    DNN(cudnnDestroyTensorDescriptor, (bw_cudnn_tensor tensor))                                                        \
    DNN(cudnnCreateFilterDescriptor, (bw_cudnn_filter * filter))                                                       \
    DNN(cudnnSetFilter4dDescriptor,                                                                                    \
        (bw_cudnn_filter filter, bw_cudnn_type type, bw_cudnn_format format, int k, int c, int h, int w))              \
    DNN(cudnnDestroyFilterDescriptor, (bw_cudnn_filter filter))                                                        \
    DNN(cudnnCreateConvolutionDescriptor, (bw_cudnn_conv * conv))                                                      \
    DNN(cudnnSetConvolution2dDescriptor,                                                                               \
        (bw_cudnn_conv conv, int pad_h, int pad_w, int stride_h, int stride_w, int dilation_h, int dilation_w,         \
         bw_cudnn_mode mode, bw_cudnn_type compute_type))                                                              \
    DNN(cudnnSetConvolutionGroupCount, (bw_cudnn_conv conv, int groups))                                               \
    DNN(cudnnSetConvolutionMathType, (bw_cudnn_conv conv, bw_cudnn_math math))                                         \
    DNN(cudnnDestroyConvolutionDescriptor, (bw_cudnn_conv conv))                                                       \
    DNN(cudnnGetConvolutionForwardAlgorithm_v7,                                                                        \
        (bw_cudnn_handle handle, bw_cudnn_tensor x, bw_cudnn_filter w, bw_cudnn_conv conv, bw_cudnn_tensor y,          \
         int n_wanted, int *n_found, bw_cudnn_perf *results))                                                          \
    DNN(cudnnGetConvolutionForwardWorkspaceSize,                                                                       \
        (bw_cudnn_handle handle, bw_cudnn_tensor x, bw_cudnn_filter w, bw_cudnn_conv conv, bw_cudnn_tensor y,          \
         bw_cudnn_algorithm algorithm, size_t * n_bytes))                                                              \
    DNN(cudnnConvolutionForward,                                                                                       \
        (bw_cudnn_handle handle, const void *alpha, bw_cudnn_tensor x_desc, const void *x, bw_cudnn_filter w_desc,     \
         const void *w, bw_cudnn_conv conv, bw_cudnn_algorithm algorithm, void *workspace, size_t workspace_bytes,     \
         const void *beta, bw_cudnn_tensor y_desc, void *y))

#if !defined(BW_MIOPEN_HAS_TYPES)
typedef int bw_miopen_status, bw_miopen_type, bw_miopen_mode;
typedef void *bw_miopen_handle, *bw_miopen_tensor, *bw_miopen_conv, *bw_miopen_stream;
typedef struct bw_miopen_solution {
    float time;
    size_t workspace_bytes;
    uint64_t id;
    int algorithm;
} bw_miopen_solution;
#endif
enum {
    BW_MIOPEN_HALF = 0,
    BW_MIOPEN_FLOAT = 1,
    BW_MIOPEN_BFLOAT16 = 5,
    BW_MIOPEN_CONVOLUTION = 0,
    BW_MIOPEN_GEMM = 0,
    BW_MIOPEN_DIRECT = 1,
    BW_MIOPEN_IMPLICIT_GEMM = 5
};

/* DNN(name, arguments): all return miopenStatus_t. */
#define BW_MIOPEN_FUNCTIONS                                                                                            \
    DNN(miopenCreateWithStream, (bw_miopen_handle * handle, bw_miopen_stream stream))                                  \
    DNN(miopenDestroy, (bw_miopen_handle handle))                                                                      \
    DNN(miopenCreateTensorDescriptor, (bw_miopen_tensor * tensor))                                                     \
    DNN(miopenSet4dTensorDescriptor, (bw_miopen_tensor tensor, bw_miopen_type type, int n, int c, int h, int w))       \
    DNN(miopenDestroyTensorDescriptor, (bw_miopen_tensor tensor))                                                      \
    DNN(miopenCreateConvolutionDescriptor, (bw_miopen_conv * conv))                                                    \
    DNN(miopenInitConvolutionDescriptor, (bw_miopen_conv conv, bw_miopen_mode mode, int pad_h, int pad_w,              \
                                          int stride_h, int stride_w, int dilation_h, int dilation_w))                 \
    DNN(miopenSetConvolutionGroupCount, (bw_miopen_conv conv, int groups))                                             \
    DNN(miopenDestroyConvolutionDescriptor, (bw_miopen_conv conv))                                                     \
    DNN(miopenConvolutionForwardGetSolutionCount, (bw_miopen_handle handle, bw_miopen_tensor w, bw_miopen_tensor x,    \
                                                   bw_miopen_conv conv, bw_miopen_tensor y, size_t * n))               \
    DNN(miopenConvolutionForwardGetSolution,                                                                           \
        (bw_miopen_handle handle, bw_miopen_tensor w, bw_miopen_tensor x, bw_miopen_conv conv, bw_miopen_tensor y,     \
         size_t n_wanted, size_t * n_found, bw_miopen_solution * solutions))                                           \
    DNN(miopenConvolutionForwardGetSolutionWorkspaceSize,                                                              \
        (bw_miopen_handle handle, bw_miopen_tensor w, bw_miopen_tensor x, bw_miopen_conv conv, bw_miopen_tensor y,     \
         uint64_t solution, size_t * n_bytes))                                                                         \
    DNN(miopenConvolutionForwardCompileSolution, (bw_miopen_handle handle, bw_miopen_tensor w, bw_miopen_tensor x,     \
                                                  bw_miopen_conv conv, bw_miopen_tensor y, uint64_t solution))         \
    DNN(miopenConvolutionForwardImmediate,                                                                             \
        (bw_miopen_handle handle, bw_miopen_tensor w_desc, const void *w, bw_miopen_tensor x_desc, const void *x,      \
         bw_miopen_conv conv, bw_miopen_tensor y_desc, void *y, void *workspace, size_t workspace_bytes,               \
         uint64_t solution))

#endif
