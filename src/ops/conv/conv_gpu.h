/* What the host files of the conv family's GPU kernels share. */
#ifndef BW_CONV_GPU_H
#define BW_CONV_GPU_H

#include "bw_op_gpu.h"
#include "conv/conv.h"

/* A part of a call's batch. x, w, y: its first elements. */
typedef struct bw_conv_job {
    const bw_op_call *call;
    bw_device *device;
    const bw_conv *c;
    void *x, *w, *y;
} bw_conv_job;
typedef bw_status bw_conv_run_fn(const bw_conv_job *j, bw_err *err);

/* conv_library_gpu.c: by the vendor's library where that is faster, else by own. */
bw_status bw_conv_run_best(const bw_conv_job *j, bw_conv_run_fn *own, bw_err *err);

/* conv_gemm_gpu.c: the kernels of conv_gemm.hip. Whether they can run a part of a call, and then the run. */
bool bw_conv_gemm_init(const bw_op_call *call, const bw_conv *c, bw_conv_gemm *p);
bw_status bw_conv_gemm_run(const bw_conv_job *j, const bw_conv_gemm *p, bw_err *err);
/* Bytes: results in parts of k. A size_t function of a call, for variants.def. */
size_t bw_conv_gpu_scratch(const bw_op_call *call);

#endif
