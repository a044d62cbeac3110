/* Matrix products by the vendor's library: cuBLASLt, hipBLASLt, rocBLAS, each loaded at run time where it is there.
 * None is needed: every caller has its own kernel, and asks here only whether the library is faster. BW_GPU_LIBRARIES=0
 * in the environment hides them; =always takes them without a trial for MATMUL and
 * convolutions, for tests. */
#ifndef BW_GPU_LIBRARY_H
#define BW_GPU_LIBRARY_H

#include "bw_device.h"

/* y[t][n] = sum over k of x[t][k] * w[n][k]; w and x both f16, both bf16 or both f32, y the same or f32, sums in f32
 * and rounded once. Rows are w_row, x_row and y_row elements apart, a batch's matrices w_batch, x_batch (0: all share
 * one) and y_batch. */
typedef struct bw_gpu_product {
    bw_dtype in, out;
    int64_t n, k, t, w_row, x_row, y_row;
    bool w_by_n, x_by_t;                        /* w lies as [k][n], x as [k][t] */
    int64_t n_batch, w_batch, x_batch, y_batch; /* n_batch 0: one product */
    const void *w, *x;
    void *y;
    void *workspace; /* aligned to 256 bytes */
    size_t workspace_bytes;
} bw_gpu_product;

/* "cublasLt", or NULL where there is none for this device. Loads it at the first call that is not recorded into a
 * graph; until then NULL. */
const char *bw_gpu_library(bw_device *device);
/* Whether it is to be used wherever it has a kernel, BW_GPU_LIBRARIES=always, however small the product. */
bool bw_gpu_library_is_forced(bw_device *device);
/* Enqueue on the device's stream; may be recorded into a graph. Fails where the library has no kernel for it, with
 * BW_E_MEMORY where it lacks memory. */
bw_status bw_gpu_library_product(bw_device *device, const bw_gpu_product *product, bw_err *err);

/* What a timed trial found for a shape: a number from 1 to 255, or 0 when none was made. Kept for other processes too
 * (gpu_choices.h), for the same card, driver, build of beeswax and matrix library; on whatever else the result depends,
 * such as another library's version, must be in `shape`, and so must the op: any 64 bits that few others share. A
 * caller takes a number that it does not know as its own kernel. is_passing: found while memory was short, say, and
 * forgotten with the device. */
int bw_gpu_choice(bw_device *device, uint64_t shape);
void bw_gpu_choose(bw_device *device, uint64_t shape, int choice, bool is_passing);

#endif
