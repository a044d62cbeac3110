/* What the ops' GPU host sides share. */
#ifndef BW_OP_GPU_H
#define BW_OP_GPU_H

#include "bw_gpu.h"
#include "bw_op_check.h"

enum { BW_GPU_MAX_EXTRA = 4 };

/* An elementwise kernel, named as the call's entry point, over the inputs [0, n_in) and then the output, everything
 * broadcast to the output's shape. Its arguments: the loop, one pointer per tensor in that order, then
 * extra[0..n_extra). Loops of 2^32 elements or more that are not dense are cut along their first dimension: kernels
 * divide in 32 bits. */
bw_status bw_gpu_each(const bw_op_call *call, bw_device *device, int n_in, void *const *extra, int n_extra,
                      bw_err *err);
/* The same for kernels over bw_for_each_once. */
bw_status bw_gpu_each_once(const bw_op_call *call, bw_device *device, int n_in, void *const *extra, int n_extra,
                           bw_err *err);
/* The full name of a call's entry point. */
void bw_gpu_entry_name(const bw_op_call *call, char name[64]);

/* Whether a vendor's matrix products and convolutions of a type keep its subnormal numbers, as ours do everywhere: not
 * those of f16 on gfx90a, whose matrix units take them for 0. */
bool bw_gpu_library_keeps_subnormal(const bw_device *device, bw_dtype dtype);

/* Two ways of computing the same, and what a trial found: milliseconds of a run, 0 where none was made now. */
typedef bw_status bw_gpu_trial_fn(const void *what, bw_err *err);
typedef struct bw_gpu_trial {
    bw_gpu_trial_fn *own, *library;
    const void *what; /* both functions' argument */
    float own_ms, library_ms;
} bw_gpu_trial;
/* Whether the library's way is the faster one for a shape (bw_gpu_choose), by a trial where none was made before: the
 * mean of three runs of each after a first. A trial computes the call's result several times, so it can be made at any
 * call, only not while a graph is recorded: then the answer is false where nothing is known. It is false too where a
 * run fails, and the log says why. */
bool bw_gpu_is_library_faster(bw_device *device, uint64_t shape, bw_gpu_trial *trial);
/* Run the call by the library if that is wanted, else by our own kernel, and so too where the library refuses it: what
 * is known of a shape may hold for many calls, of which it takes only some. */
bw_status bw_gpu_run_either(const bw_gpu_trial *ways, bool wants_library, bw_err *err);

/* Launchers of ops that need nothing else. */
bw_op_gpu_kernel bw_gpu_each_1, bw_gpu_each_2, bw_gpu_each_3; /* by number of inputs */

#endif
