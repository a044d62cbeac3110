/* A convolution library that is not one: cuDNN's functions, or with FAKE_MIOPEN MIOpen's, computing plainly on the
 * simulated card's memory (which is the host's). It is strict: a handle, descriptor or argument that the real library
 * would not take, an algorithm that was not offered, a workspace that is missing ends the program. Taps outside of x
 * are multiplied as zeros, as the real ones do. BW_FAKE_DNN_FAILS in the environment: the function that fails at every
 * call (one that frees, frees nevertheless). BW_FAKE_DNN_LOG: a file to which the names of the called functions are
 * appended. */
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bw_element.h"
#include "gpu_dnn_functions.h"

#define EXPORT __attribute__((visibility("default")))

static void fault(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
static void fault(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fprintf(stderr, "fake_dnn: ");
    vfprintf(stderr, format, args);
    fprintf(stderr, "\n");
    va_end(args);
    abort();
}

static bool fails(const char *name)
{
    const char *log = getenv("BW_FAKE_DNN_LOG"), *wish = getenv("BW_FAKE_DNN_FAILS");
    FILE *f = log ? fopen(log, "a") : NULL;
    if (f) {
        fprintf(f, "%s\n", name);
        fclose(f);
    }
    return wish && strcmp(wish, name) == 0;
}
enum { FAILED = 7 };
#define BEGIN()                                                                                                        \
    if (fails(__func__))                                                                                               \
    return FAILED

/* Every object begins with what it is, and with dims that are 0 until they are set. */
enum { HANDLE = 0x68, TENSOR, FILTER, CONV };
typedef struct object {
    int kind, type, dims[4], strides[4];
    int padding[2], stride[2], dilation[2], groups, math, compute;
    void *stream;
} object;

static int n_objects; /* alive */

static object *check(void *p, int kind, const char *function)
{
    object *o = p;
    if (!o || o->kind != kind)
        fault("%s: not an object of kind %d", function, kind);
    return o;
}
#define OBJECT(p, kind) check(p, kind, __func__)

static void *make(int kind)
{
    object *o = calloc(1, sizeof *o);
    if (!o)
        abort();
    o->kind = kind;
    o->type = -1;
    o->math = -1;
    o->groups = 1;
    n_objects++;
    return o;
}

static void drop(object *o)
{
    o->kind = 0;
    n_objects--;
    free(o);
}

static void set_dims(object *o, int type, int n, int c, int h, int w)
{
    if (n < 1 || c < 1 || h < 1 || w < 1)
        fault("a dimension of %d x %d x %d x %d", n, c, h, w);
    o->type = type;
    memcpy(o->dims, (int[]){n, c, h, w}, sizeof o->dims);
    memcpy(o->strides, (int[]){c * h * w, h * w, w, 1}, sizeof o->strides);
}

static void set_conv(object *o, int pad_h, int pad_w, int stride_h, int stride_w, int dilation_h, int dilation_w)
{
    if (pad_h < 0 || pad_w < 0 || stride_h < 1 || stride_w < 1 || dilation_h < 1 || dilation_w < 1)
        fault("a convolution with padding %d, %d, stride %d, %d, dilation %d, %d", pad_h, pad_w, stride_h, stride_w,
              dilation_h, dilation_w);
    memcpy(o->padding, (int[]){pad_h, pad_w}, sizeof o->padding);
    memcpy(o->stride, (int[]){stride_h, stride_w}, sizeof o->stride);
    memcpy(o->dilation, (int[]){dilation_h, dilation_w}, sizeof o->dilation);
}

/* Whether the five belong together, as the real libraries check (BAD_PARM). */
static void check_all(const object *x, const object *w, const object *conv, const object *y)
{
    if (x->type < 0 || x->type != w->type || x->type != y->type)
        fault("types %d, %d, %d", x->type, w->type, y->type);
    if (conv->stride[0] < 1)
        fault("a convolution that was not described");
    if (x->dims[0] != y->dims[0] || w->dims[0] != y->dims[1] || w->dims[1] * conv->groups != x->dims[1] ||
        y->dims[1] % conv->groups)
        fault("channels %d to %d, groups %d, weights %d x %d", x->dims[1], y->dims[1], conv->groups, w->dims[0],
              w->dims[1]);
    for (int i = 0; i < 2; i++) {
        int reach = conv->dilation[i] * (w->dims[2 + i] - 1) + 1;
        if ((x->dims[2 + i] + 2 * conv->padding[i] - reach) / conv->stride[i] + 1 != y->dims[2 + i])
            fault("%d positions of output from %d", y->dims[2 + i], x->dims[2 + i]);
    }
}

static bw_dtype dtype_of(int type);

static double one_result(const object *x, const object *w, const object *conv, const object *y, const void *x_data,
                         const void *w_data, int n, int k, int oy, int ox)
{
    const int group = k / (y->dims[1] / conv->groups);
    const bw_dtype dtype = dtype_of(x->type);
    double sum = 0;
    for (int c = 0; c < w->dims[1]; c++)
        for (int r = 0; r < w->dims[2]; r++)
            for (int s = 0; s < w->dims[3]; s++) {
                int iy = oy * conv->stride[0] + r * conv->dilation[0] - conv->padding[0];
                int ix = ox * conv->stride[1] + s * conv->dilation[1] - conv->padding[1];
                bool is_inside = iy >= 0 && iy < x->dims[2] && ix >= 0 && ix < x->dims[3];
                int64_t at = (int64_t)n * x->strides[0] + (int64_t)(group * w->dims[1] + c) * x->strides[1] +
                             (int64_t)iy * x->strides[2] + (int64_t)ix * x->strides[3];
                int64_t w_at = (((int64_t)k * w->dims[1] + c) * w->dims[2] + r) * w->dims[3] + s;
                sum += (is_inside ? bw_element_f64(dtype, x_data, at) : 0) * bw_element_f64(dtype, w_data, w_at);
            }
    return sum;
}

static size_t workspace_of(const object *x, const object *y)
{
    return (size_t)x->dims[0] * 256 + (size_t)y->dims[1] * 64;
}

static int compute(const object *x, const void *x_data, const object *w, const void *w_data, const object *conv,
                   const object *y, void *y_data, void *workspace, size_t workspace_bytes)
{
    check_all(x, w, conv, y);
    if (!x_data || !w_data || !y_data || !workspace || workspace_bytes < workspace_of(x, y))
        fault("no data, or %zu bytes of workspace, not %zu", workspace_bytes, workspace_of(x, y));
    memset(workspace, 0xa5, workspace_bytes);
    for (int n = 0; n < y->dims[0]; n++)
        for (int k = 0; k < y->dims[1]; k++)
            for (int oy = 0; oy < y->dims[2]; oy++)
                for (int ox = 0; ox < y->dims[3]; ox++) {
                    int64_t at = (int64_t)n * y->strides[0] + (int64_t)k * y->strides[1] + (int64_t)oy * y->strides[2] +
                                 (int64_t)ox * y->strides[3];
                    bw_element_set_f64(dtype_of(y->type), y_data, at,
                                       one_result(x, w, conv, y, x_data, w_data, n, k, oy, ox));
                }
    return 0;
}

#if defined(FAKE_MIOPEN)

static bw_dtype dtype_of(int type)
{
    return type == BW_MIOPEN_FLOAT ? BW_F32 : type == BW_MIOPEN_HALF ? BW_F16 : BW_BF16;
}

#define DNN(name, arguments) EXPORT bw_miopen_status name arguments;
BW_MIOPEN_FUNCTIONS
#undef DNN

int miopenCreateWithStream(bw_miopen_handle *handle, bw_miopen_stream stream)
{
    BEGIN();
    if (!stream)
        fault("a handle without a stream");
    object *o = make(HANDLE);
    o->stream = stream;
    *handle = o;
    return 0;
}

int miopenDestroy(bw_miopen_handle handle)
{
    const bool has_failed = fails(__func__);
    drop(OBJECT(handle, HANDLE));
    if (n_objects)
        fault("%d descriptors outlive their handle", n_objects);
    return has_failed ? FAILED : 0;
}

int miopenCreateTensorDescriptor(bw_miopen_tensor *tensor)
{
    BEGIN();
    *tensor = make(TENSOR);
    return 0;
}

int miopenSet4dTensorDescriptor(bw_miopen_tensor tensor, bw_miopen_type type, int n, int c, int h, int w)
{
    BEGIN();
    if (type != BW_MIOPEN_FLOAT && type != BW_MIOPEN_HALF && type != BW_MIOPEN_BFLOAT16)
        fault("type %d", type);
    set_dims(OBJECT(tensor, TENSOR), type, n, c, h, w);
    return 0;
}

int miopenDestroyTensorDescriptor(bw_miopen_tensor tensor)
{
    const bool has_failed = fails(__func__);
    drop(OBJECT(tensor, TENSOR));
    return has_failed ? FAILED : 0;
}

int miopenCreateConvolutionDescriptor(bw_miopen_conv *conv)
{
    BEGIN();
    *conv = make(CONV);
    return 0;
}

int miopenInitConvolutionDescriptor(bw_miopen_conv conv, bw_miopen_mode mode, int pad_h, int pad_w, int stride_h,
                                    int stride_w, int dilation_h, int dilation_w)
{
    BEGIN();
    if (mode != BW_MIOPEN_CONVOLUTION)
        fault("mode %d", mode);
    set_conv(OBJECT(conv, CONV), pad_h, pad_w, stride_h, stride_w, dilation_h, dilation_w);
    return 0;
}

int miopenSetConvolutionGroupCount(bw_miopen_conv conv, int groups)
{
    BEGIN();
    OBJECT(conv, CONV)->groups = groups;
    return 0;
}

int miopenDestroyConvolutionDescriptor(bw_miopen_conv conv)
{
    const bool has_failed = fails(__func__);
    drop(OBJECT(conv, CONV));
    return has_failed ? FAILED : 0;
}

/* What is offered: the fastest rounds otherwise than the definition, the next wants too much, the third is right. */
enum { N_OFFERED = 3 };
static const bw_miopen_solution offered[N_OFFERED] = {
    {0.1f, 0, 91, 3}, {0.2f, (size_t)1 << 40, 92, BW_MIOPEN_IMPLICIT_GEMM}, {0.3f, 0, 93, BW_MIOPEN_GEMM}};
static bool is_compiled;

int miopenConvolutionForwardGetSolutionCount(bw_miopen_handle handle, bw_miopen_tensor w, bw_miopen_tensor x,
                                             bw_miopen_conv conv, bw_miopen_tensor y, size_t *n)
{
    BEGIN();
    OBJECT(handle, HANDLE);
    check_all(OBJECT(x, TENSOR), OBJECT(w, TENSOR), OBJECT(conv, CONV), OBJECT(y, TENSOR));
    *n = N_OFFERED;
    return 0;
}

int miopenConvolutionForwardGetSolution(bw_miopen_handle handle, bw_miopen_tensor w, bw_miopen_tensor x,
                                        bw_miopen_conv conv, bw_miopen_tensor y, size_t n_wanted, size_t *n_found,
                                        bw_miopen_solution *solutions)
{
    BEGIN();
    OBJECT(handle, HANDLE);
    check_all(OBJECT(x, TENSOR), OBJECT(w, TENSOR), OBJECT(conv, CONV), OBJECT(y, TENSOR));
    *n_found = n_wanted < N_OFFERED ? n_wanted : N_OFFERED;
    memcpy(solutions, offered, *n_found * sizeof *solutions);
    return 0;
}

int miopenConvolutionForwardGetSolutionWorkspaceSize(bw_miopen_handle handle, bw_miopen_tensor w, bw_miopen_tensor x,
                                                     bw_miopen_conv conv, bw_miopen_tensor y, uint64_t solution,
                                                     size_t *n_bytes)
{
    BEGIN();
    OBJECT(handle, HANDLE);
    check_all(OBJECT(x, TENSOR), OBJECT(w, TENSOR), OBJECT(conv, CONV), OBJECT(y, TENSOR));
    if (solution != 93)
        fault("solution %d is not one to ask for", (int)solution);
    *n_bytes = workspace_of(x, y);
    return 0;
}

int miopenConvolutionForwardCompileSolution(bw_miopen_handle handle, bw_miopen_tensor w, bw_miopen_tensor x,
                                            bw_miopen_conv conv, bw_miopen_tensor y, uint64_t solution)
{
    BEGIN();
    OBJECT(handle, HANDLE);
    check_all(OBJECT(x, TENSOR), OBJECT(w, TENSOR), OBJECT(conv, CONV), OBJECT(y, TENSOR));
    is_compiled = solution == 93;
    return 0;
}

int miopenConvolutionForwardImmediate(bw_miopen_handle handle, bw_miopen_tensor w_desc, const void *w,
                                      bw_miopen_tensor x_desc, const void *x, bw_miopen_conv conv,
                                      bw_miopen_tensor y_desc, void *y, void *workspace, size_t workspace_bytes,
                                      uint64_t solution)
{
    BEGIN();
    OBJECT(handle, HANDLE);
    if (solution != 93 || !is_compiled)
        fault("solution %d was not compiled", (int)solution);
    return compute(OBJECT(x_desc, TENSOR), x, OBJECT(w_desc, TENSOR), w, OBJECT(conv, CONV), OBJECT(y_desc, TENSOR), y,
                   workspace, workspace_bytes);
}

#else

static bw_dtype dtype_of(int type)
{
    return type == BW_CUDNN_FLOAT ? BW_F32 : type == BW_CUDNN_HALF ? BW_F16 : BW_BF16;
}

#define DNN(name, arguments) EXPORT bw_cudnn_status name arguments;
BW_CUDNN_FUNCTIONS
#undef DNN

int cudnnCreate(bw_cudnn_handle *handle)
{
    BEGIN();
    *handle = make(HANDLE);
    return 0;
}

int cudnnDestroy(bw_cudnn_handle handle)
{
    const bool has_failed = fails(__func__);
    drop(OBJECT(handle, HANDLE));
    if (n_objects)
        fault("%d descriptors outlive their handle", n_objects);
    return has_failed ? FAILED : 0;
}

int cudnnSetStream(bw_cudnn_handle handle, bw_cudnn_stream stream)
{
    BEGIN();
    if (!stream)
        fault("no stream");
    OBJECT(handle, HANDLE)->stream = stream;
    return 0;
}

int cudnnCreateTensorDescriptor(bw_cudnn_tensor *tensor)
{
    BEGIN();
    *tensor = make(TENSOR);
    return 0;
}

int cudnnSetTensor4dDescriptorEx(bw_cudnn_tensor tensor, bw_cudnn_type type, int n, int c, int h, int w, int n_stride,
                                 int c_stride, int h_stride, int w_stride)
{
    BEGIN();
    if (type != BW_CUDNN_FLOAT && type != BW_CUDNN_HALF && type != BW_CUDNN_BFLOAT16)
        fault("type %d", type);
    object *o = OBJECT(tensor, TENSOR);
    set_dims(o, type, n, c, h, w);
    memcpy(o->strides, (int[]){n_stride, c_stride, h_stride, w_stride}, sizeof o->strides);
    return 0;
}

int cudnnDestroyTensorDescriptor(bw_cudnn_tensor tensor)
{
    const bool has_failed = fails(__func__);
    drop(OBJECT(tensor, TENSOR));
    return has_failed ? FAILED : 0;
}

int cudnnCreateFilterDescriptor(bw_cudnn_filter *filter)
{
    BEGIN();
    *filter = make(FILTER);
    return 0;
}

int cudnnSetFilter4dDescriptor(bw_cudnn_filter filter, bw_cudnn_type type, bw_cudnn_format format, int k, int c, int h,
                               int w)
{
    BEGIN();
    if (format != BW_CUDNN_NCHW)
        fault("format %d", format);
    set_dims(OBJECT(filter, FILTER), type, k, c, h, w);
    return 0;
}

int cudnnDestroyFilterDescriptor(bw_cudnn_filter filter)
{
    const bool has_failed = fails(__func__);
    drop(OBJECT(filter, FILTER));
    return has_failed ? FAILED : 0;
}

int cudnnCreateConvolutionDescriptor(bw_cudnn_conv *conv)
{
    BEGIN();
    *conv = make(CONV);
    return 0;
}

int cudnnSetConvolution2dDescriptor(bw_cudnn_conv conv, int pad_h, int pad_w, int stride_h, int stride_w,
                                    int dilation_h, int dilation_w, bw_cudnn_mode mode, bw_cudnn_type compute_type)
{
    BEGIN();
    if (mode != BW_CUDNN_CROSS_CORRELATION || compute_type != BW_CUDNN_FLOAT)
        fault("mode %d, sums of type %d", mode, compute_type);
    set_conv(OBJECT(conv, CONV), pad_h, pad_w, stride_h, stride_w, dilation_h, dilation_w);
    return 0;
}

int cudnnSetConvolutionGroupCount(bw_cudnn_conv conv, int groups)
{
    BEGIN();
    OBJECT(conv, CONV)->groups = groups;
    return 0;
}

int cudnnSetConvolutionMathType(bw_cudnn_conv conv, bw_cudnn_math math)
{
    BEGIN();
    OBJECT(conv, CONV)->math = math;
    return 0;
}

int cudnnDestroyConvolutionDescriptor(bw_cudnn_conv conv)
{
    const bool has_failed = fails(__func__);
    drop(OBJECT(conv, CONV));
    return has_failed ? FAILED : 0;
}

/* What is offered: the fastest rounds otherwise than the definition, the next does not work, the third is right. */
int cudnnGetConvolutionForwardAlgorithm_v7(bw_cudnn_handle handle, bw_cudnn_tensor x, bw_cudnn_filter w,
                                           bw_cudnn_conv conv, bw_cudnn_tensor y, int n_wanted, int *n_found,
                                           bw_cudnn_perf *results)
{
    BEGIN();
    OBJECT(handle, HANDLE);
    object *o = OBJECT(conv, CONV);
    check_all(OBJECT(x, TENSOR), OBJECT(w, FILTER), o, OBJECT(y, TENSOR));
    const int math = dtype_of(((object *)x)->type) == BW_F32 ? BW_CUDNN_FMA_MATH : BW_CUDNN_TENSOR_OP_MATH;
    if (n_wanted < 3 || o->math != math)
        fault("%d results, arithmetic %d", n_wanted, o->math);
    results[0] = (bw_cudnn_perf){.algorithm = 6, .math = math};
    results[1] = (bw_cudnn_perf){.algorithm = BW_CUDNN_IMPLICIT_GEMM, .status = FAILED, .math = math};
    results[2] = (bw_cudnn_perf){.algorithm = BW_CUDNN_IMPLICIT_PRECOMP_GEMM, .math = math};
    *n_found = 3;
    return 0;
}

int cudnnGetConvolutionForwardWorkspaceSize(bw_cudnn_handle handle, bw_cudnn_tensor x, bw_cudnn_filter w,
                                            bw_cudnn_conv conv, bw_cudnn_tensor y, bw_cudnn_algorithm algorithm,
                                            size_t *n_bytes)
{
    BEGIN();
    OBJECT(handle, HANDLE);
    check_all(OBJECT(x, TENSOR), OBJECT(w, FILTER), OBJECT(conv, CONV), OBJECT(y, TENSOR));
    if (algorithm != BW_CUDNN_IMPLICIT_PRECOMP_GEMM)
        fault("algorithm %d is not one to ask for", algorithm);
    *n_bytes = workspace_of(x, y);
    return 0;
}

int cudnnConvolutionForward(bw_cudnn_handle handle, const void *alpha, bw_cudnn_tensor x_desc, const void *x,
                            bw_cudnn_filter w_desc, const void *w, bw_cudnn_conv conv, bw_cudnn_algorithm algorithm,
                            void *workspace, size_t workspace_bytes, const void *beta, bw_cudnn_tensor y_desc, void *y)
{
    BEGIN();
    if (algorithm != BW_CUDNN_IMPLICIT_PRECOMP_GEMM || !OBJECT(handle, HANDLE)->stream)
        fault("algorithm %d", algorithm);
    if (*(const float *)alpha != 1 || *(const float *)beta != 0)
        fault("alpha and beta");
    return compute(OBJECT(x_desc, TENSOR), x, OBJECT(w_desc, FILTER), w, OBJECT(conv, CONV), OBJECT(y_desc, TENSOR), y,
                   workspace, workspace_bytes);
}

#endif
