/* Convolutions by the vendor's library: cuDNN, or MIOpen in its immediate mode, each loaded at run time where it is
 * there. None is needed: the caller has its own kernels. Only algorithms that multiply and add as the definition says
 * (GEMM, implicit GEMM, direct) are taken, not Winograd's or Fourier's, whose rounding errors are larger.
 *
 * In the environment: BW_GPU_LIBRARIES=0 hides them, BW_GPU_LIBRARIES=always takes them without a trial wherever they
 * can; BW_DNN_LIBRARY names the file to load. */
#ifndef BW_GPU_DNN_H
#define BW_GPU_DNN_H

#include "bw_device.h"

/* y [n, k, out_h, out_w] of x [n, c, h, w] and weights [k, c / groups, kernel_h, kernel_w], all contiguous, of one
 * type; sums in f32 (for f32 without TF32). Every number is at least 1 (paddings 0) and below 2^31. */
typedef enum bw_gpu_conv_type { BW_GPU_CONV_F32, BW_GPU_CONV_F16, BW_GPU_CONV_BF16 } bw_gpu_conv_type;
typedef struct bw_gpu_conv {
    int type; /* a bw_gpu_conv_type */
    int n, c, h, w, k, groups, kernel_h, kernel_w, out_h, out_w;
    int padding_h, padding_w, stride_h, stride_w, dilation_h, dilation_w;
} bw_gpu_conv;

/* "cudnn", "miopen", or NULL where there is none for this device. Loads it at the first call. */
const char *bw_gpu_dnn(bw_device *device);
/* A number that changes with the library's version; 0 where that is unknown. */
uint64_t bw_gpu_dnn_version(bw_device *device);
/* Whether the library is to be used wherever it can. */
bool bw_gpu_dnn_is_forced(void);
/* Enqueue on the device's stream; cuDNN may be recorded into a graph where the same shape has run before. Fails where
 * the library has no such convolution, or wants more than 256 MiB of workspace, or while recording something new. Taps
 * outside of x count as zeros: weights that are not finite make NaN of them. */
bw_status bw_gpu_dnn_conv(bw_device *device, const bw_gpu_conv *conv, const void *x, const void *w, void *y,
                          bw_err *err);

#endif
